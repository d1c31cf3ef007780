"""The drawing of an ensemble's graph: names that would be read as Mermaid or HTML."""

from naiad.config.model_config import EnsembleStep
from naiad.engine.api import EnsembleGraph
from naiad.metrics.statistics import StepTimes
from naiad.protocol.http.admin.graph import graph


def test_names_in_the_drawing_are_text_whatever_they_hold() -> None:
    tensor = 'a"]; <b>&#`x\ny'
    step = EnsembleStep(
        model='m"<i>', version=-1, namespace="", inputs={"X": tensor}, outputs={"Y": "y"}
    )
    found = graph(
        EnsembleGraph(
            name="e",
            version=1,
            inputs=(tensor,),
            outputs=("y",),
            steps=(step,),
            times=[StepTimes()],
        )
    )
    assert found["steps"][0]["input_map"] == {"X": tensor}
    assert found["mermaid"].splitlines()[3:] == [
        '  s0["m#quot;#lt;i#gt;"]',
        '  request -- "a#quot;]; #lt;b#gt;#amp;#35;#96;x y" --> s0',
        '  s0 -- "y" --> response',
    ]

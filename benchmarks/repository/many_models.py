"""How long a server with many small models takes to start: `--model-load-thread-count=4`, the default, beside one by one.

The models are copies of the tiny ONNX model. Starts with one and with four threads take turns; a start without models is measured as well, because
no thread count changes that part.
"""

import dataclasses
import pathlib
import tempfile

from benchmarks import models
from benchmarks.repository.starts import Start, median, program, start

MODELS = 500
THREADS = 4


@dataclasses.dataclass(frozen=True, slots=True)
class Starts:
    """Medians.

    Attributes:
        count: models.
        empty: without models.
        one_by_one: with one thread.
        parallel: with several.
    """

    count: int
    empty: Start
    one_by_one: Start
    parallel: Start


def measure(*, starts: int, count: int = MODELS) -> Starts:
    """Start each kind so many times.

    Raises:
        LoadError: a server is not ready in time.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        models.tiny_copies(folder / "models", count)
        (folder / "none").mkdir()
        kinds = {
            "empty": (folder / "none", THREADS),
            "one_by_one": (folder / "models", 1),
            "parallel": (folder / "models", THREADS),
        }
        naiad = program(folder)
        start(naiad, [f"--model-repository={folder / 'none'}"], folder)  # writes the bytecode
        rounds = [
            {
                kind: start(
                    naiad,
                    [f"--model-repository={repository}", f"--model-load-thread-count={threads}"],
                    folder,
                )
                for kind, (repository, threads) in kinds.items()
            }
            for _ in range(starts)
        ]
    medians = {kind: median(times[kind] for times in rounds) for kind in kinds}
    return Starts(count=count, **medians)


def table(starts: Starts) -> str:
    """As Markdown."""
    rows = [
        ("no models", starts.empty),
        (f"{starts.count} models, one by one", starts.one_by_one),
        (f"{starts.count} models, {THREADS} threads", starts.parallel),
    ]
    lines = [
        f"| {what} | {start.seconds:.2f} s | {start.processor_s:.2f} s | {starts.one_by_one.seconds / start.seconds:.2f} |"
        for what, start in rows[1:]
    ]
    what, empty = rows[0]
    return "\n".join(
        (
            "| start | until every model is READY | processor time by then | one by one, divided by this |",
            "|---|---|---|---|",
            f"| {what} | {empty.seconds:.2f} s | {empty.processor_s:.2f} s | |",
            *lines,
        )
    )

"""The JSON of an ensemble's graph: its steps, their tensors and mean times, and the same as a Mermaid drawing (`GET …/graph`). Pure."""

import typing

from naiad.config.model_config import EnsembleStep
from naiad.engine.api import EnsembleGraph
from naiad.metrics.statistics import StepTimes

_NS_PER_MS = 1e6
_DIGITS = 3

_ENTITIES = str.maketrans(
    {'"': "#quot;", "#": "#35;", "<": "#lt;", ">": "#gt;", "&": "#amp;", "`": "#96;", "\n": " "}
)
"""What has a meaning in a text of Mermaid's, as its entities: names in a config are any text."""


def graph(found: EnsembleGraph) -> dict[str, typing.Any]:
    """The steps in the order of the config; times are means in milliseconds, absent before the first call."""
    return {
        "name": found.name,
        "version": str(found.version),
        "inputs": list(found.inputs),
        "outputs": list(found.outputs),
        "steps": [
            _step(index, step, times)
            for index, (step, times) in enumerate(zip(found.steps, found.times, strict=True))
        ],
        "mermaid": _mermaid(found),
    }


def _step(index: int, step: EnsembleStep, times: StepTimes) -> dict[str, typing.Any]:
    entry: dict[str, typing.Any] = {
        "step": index,
        "model": step.model,
        "version": step.version,
        "input_map": dict(step.inputs),
        "output_map": dict(step.outputs),
        "count": times.count,
        "failures": times.failures,
    }
    if times.count:
        entry["mean_ms"] = {
            "total": _mean(times.total_ns, times.count),
            "queue": _mean(times.queue_ns, times.count),
            "compute": _mean(times.compute_ns, times.count),
        }
    return entry


def _mean(total_ns: int, count: int) -> float:
    return round(total_ns / count / _NS_PER_MS, _DIGITS)


def _mermaid(found: EnsembleGraph) -> str:
    writers = {
        tensor: f"s{index}"
        for index, step in enumerate(found.steps)
        for tensor in step.outputs.values()
    }
    lines = ["flowchart LR", '  request(["request"])', '  response(["response"])']
    for index, (step, times) in enumerate(zip(found.steps, found.times, strict=True)):
        shown = f"<br/>{_mean(times.total_ns, times.count)} ms" if times.count else ""
        lines.append(f'  s{index}["{_text(step.model)}{shown}"]')
        lines += [
            f'  {writers.get(tensor, "request")} -- "{_text(tensor)}" --> s{index}'
            for tensor in dict.fromkeys(step.inputs.values())
        ]
    lines += [
        f'  {writers.get(tensor, "request")} -- "{_text(tensor)}" --> response'
        for tensor in found.outputs
    ]
    return "\n".join(lines)


def _text(name: str) -> str:
    return name.translate(_ENTITIES)

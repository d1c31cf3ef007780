"""What tracing and latency metrics cost a server: processor time per request of all its processes, 16 connections, a small request to a Python model.

One server for each variant, loaded in turn with one that has none of it, which goes first every other time. The aims: tracing each request to a file costs at most 10 %,
histograms of latencies at most 2 %. `python -m benchmarks.server.instruments [ROUNDS] [SECONDS]`; `--metrics` or `--traces` for one of the two.
"""

import contextlib
import pathlib
import statistics
import sys
import tempfile

from benchmarks import models
from benchmarks.load import require_tools
from benchmarks.pairs import Measured, loaded_by_wrk, ratio
from benchmarks.requests import small
from tests.reference.process import ServerProcess, naiad_program

_CONNECTIONS = 16
_TRACE = ("--trace-config=triton,file={folder}/{name}.json", "--trace-config=level=TIMESTAMPS")

_TRACES: dict[str, tuple[str, ...]] = {
    "traces, off": ("--trace-config=triton,file={folder}/{name}.json",),
    "traces, each 1000th request": (*_TRACE, "--trace-config=rate=1000"),
    "traces, each request": (*_TRACE, "--trace-config=rate=1"),
}
_METRICS: dict[str, tuple[str, ...]] = {
    "metrics, histograms": ("--metrics-config=histogram_latencies=true",),
    "metrics, summaries": ("--metrics-config=summary_latencies=true",),
    "metrics, both and exemplars": (
        "--metrics-config=histogram_latencies=true", "--metrics-config=summary_latencies=true", "--metrics-config=exemplars=true",
    ),
}  # fmt: skip


def measure(
    variants: dict[str, tuple[str, ...]], *, rounds: int, seconds: float
) -> dict[str, list[tuple[Measured, Measured]]]:
    """Of each variant pairs of a server without it and one with it."""
    found: dict[str, list[tuple[Measured, Measured]]] = {name: [] for name in variants}
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as servers:
        folder = pathlib.Path(name)
        (folder / "models").mkdir()
        models.python_model_in_a_thread(folder / "models")

        def started(number: int, options: tuple[str, ...]) -> ServerProcess:
            given = [each.format(folder=folder, name=number) for each in options]
            server = ServerProcess(
                naiad_program(), [folder / "models"], log=folder / f"{number}.log", options=given
            )
            return servers.enter_context(server)

        plain = started(0, ())
        others = {
            what: started(number, options)
            for number, (what, options) in enumerate(variants.items(), 1)
        }
        for turn in range(rounds):
            for what, server in others.items():
                pair = {}
                for each in (plain, server) if turn % 2 == 0 else (server, plain):
                    request = small("threaded").json(each.http)
                    pair[each] = loaded_by_wrk(each, request, _CONNECTIONS, seconds)
                found[what].append((pair[plain], pair[server]))
                print(f"round {turn + 1}  {what}  {pair[server].cpu_us:,.1f} µs", flush=True)
    return found


def table(found: dict[str, list[tuple[Measured, Measured]]]) -> str:
    """As Markdown."""
    lines = ["| with | µs of processor time per request without | with | ratio |", "|---|---|---|---|"]  # fmt: skip
    for what, pairs in found.items():
        without, more = zip(*((one.cpu_us, other.cpu_us) for one, other in pairs), strict=True)
        median = statistics.median(ratio(other, one) for one, other in zip(without, more, strict=True))  # fmt: skip
        lines.append(
            f"| {what} | {statistics.median(without):,.1f} | {statistics.median(more):,.1f} | **{median:.3f}** |"
        )
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    require_tools()
    numbers = [each for each in sys.argv[1:] if not each.startswith("--")]
    variants = {
        **({} if "--metrics" in sys.argv else _TRACES),
        **({} if "--traces" in sys.argv else _METRICS),
    }
    rounds = int(numbers[0]) if numbers else 8
    seconds = float(numbers[1]) if len(numbers) > 1 else 1.0
    print(table(measure(variants, rounds=rounds, seconds=seconds)))


if __name__ == "__main__":
    main()

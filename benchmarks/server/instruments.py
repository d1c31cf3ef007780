"""What tracing and latency metrics cost a server: requests per second and processor time per request of all its processes, 16 connections, a small request to a Python model.

The model is in a worker process, the default; with `--thread` in a thread of the server, where a request costs the least, and so what is added the most. One server for each
variant and one that has none of it, loaded in turn, in reversed order after every other start. Two servers of the same options differ by up to a tenth for as long as they run, so all are
started several times, and another one without anything says what is left of that. A first slice of each does not count: the process that writes traces starts in it. The aims: tracing each request to a file costs at most 10 % of the requests per
second, histograms of latencies at most 2 %. `python -m benchmarks.server.instruments [STARTS] [ROUNDS] [SECONDS]`; `--metrics` or `--traces` for one of the two.
"""

import contextlib
import pathlib
import sys
import tempfile

from benchmarks import models
from benchmarks.load import require_tools
from benchmarks.pairs import Measured, compared, loaded_by_wrk
from benchmarks.requests import small
from tests.reference.process import ServerProcess, naiad_program

_CONNECTIONS = 16
_USUAL = [6.0, 3.0, 1.0]
"""Starts, rounds of each, seconds of a slice."""
_IN_A_WORKER = "identity"
_TRACE = ("--trace-config=triton,file={folder}/{name}.json", "--trace-config=level=TIMESTAMPS")

_NOTHING: dict[str, tuple[str, ...]] = {"nothing": ()}
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
    variants: dict[str, tuple[str, ...]], *, model: str, rounds: int, seconds: float, start: int
) -> dict[str, list[tuple[Measured, Measured]]]:
    """Of each variant pairs of a server without it and one with it, of one start of them."""
    found = {name: list[tuple[Measured, Measured]]() for name in variants}
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as servers:
        folder = pathlib.Path(name)
        (folder / "models").mkdir()
        models.python_identity(folder / "models", _IN_A_WORKER)
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
        request = {each: small(model).json(each.http) for each in (plain, *others.values())}
        for each, its in request.items():  # the process that writes traces starts
            loaded_by_wrk(each, its, _CONNECTIONS, 1.0)
        # All rest equally long between two slices: a server that rests less than the others answers more, by a twentieth.
        order = list(request) if start % 2 else list(reversed(request))
        for turn in range(rounds):
            slices = {
                each: loaded_by_wrk(each, request[each], _CONNECTIONS, seconds) for each in order
            }
            for what, server in others.items():
                found[what].append((slices[plain], slices[server]))
                print(
                    f"start {start}, round {turn + 1}  {what}  {slices[server].per_second:,.0f}/s  {slices[server].cpu_us:,.1f} µs",
                    flush=True,
                )
    return found


def table(found: dict[str, list[tuple[Measured, Measured]]]) -> str:
    """As Markdown."""
    lines = [
        "| with | req/s without | with | ratio | µs of processor time without | with | ratio |",
        "|---|---|---|---|---|---|---|",
    ]
    for what, pairs in found.items():
        without, more = zip(*pairs, strict=True)
        both = compared(list(without), list(more))
        (rate, its_rate), (cost, its_cost) = both.rates, both.costs
        lines.append(
            f"| {what} | {rate:,.0f} | {its_rate:,.0f} | **{both.faster:.3f}** | {cost:,.1f} | {its_cost:,.1f} | {1 / both.cheaper:.3f} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    require_tools()
    numbers = [each for each in sys.argv[1:] if not each.startswith("--")]
    variants = {
        **_NOTHING,
        **({} if "--metrics" in sys.argv else _TRACES),
        **({} if "--traces" in sys.argv else _METRICS),
    }
    given = [*map(float, numbers)]
    starts, rounds, seconds = given + _USUAL[len(given) :]
    model = "threaded" if "--thread" in sys.argv else _IN_A_WORKER
    found: dict[str, list[tuple[Measured, Measured]]] = {name: [] for name in variants}
    for start in range(int(starts)):
        of_one = measure(
            variants, model=model, rounds=int(rounds), seconds=seconds, start=start + 1
        )
        for name, pairs in of_one.items():
            found[name] += pairs
    print(table(found))


if __name__ == "__main__":
    main()

"""Tensors in system shared memory beside Triton: requests per second and processor time per request over HTTP, input and output in one registered region.

The same Python model, which returns its input, on both servers. Rounds of both take turns; medians are shown, and of the ratios of each pair. The processor time is that of the server
and of all its processes. The requests are small, so that the generator costs little; all of them use the same two places of the region, as both servers allow.
`python -m benchmarks.server.shared_memory [ROUNDS] [SECONDS]`; with `CHECKOUT=DIR` another checkout of Naiad takes Triton's place.
"""

import collections
import contextlib
import dataclasses
import json
import os
import pathlib
import sys
import tempfile
import urllib.request

import numpy as np

from benchmarks import models
from benchmarks.load import HttpRequest, require_tools
from benchmarks.pairs import HEADINGS, Measured, Pairs, compared, loaded_by_wrk, other_program
from tests.reference.process import ServerProcess, naiad_program

_CELLS = ((1, 1), (1, 4), (1, 16), (16, 1))
"""Mebibytes and connections. More of the large ones form batches for which Triton's Python backend grows its own shared memory until it hardly answers."""

_OBJECTS = pathlib.Path("/dev/shm")  # noqa: S108 - where POSIX shared memory objects are on Linux


@dataclasses.dataclass(frozen=True, slots=True)
class Cell:
    """A size and a number of connections, on both servers."""

    mebibytes: int
    connections: int
    pairs: Pairs


def infer(server: ServerProcess, mebibytes: int) -> HttpRequest:
    """A request whose tensors are in the region `r<mebibytes>`."""
    size = mebibytes << 20
    place = {"shared_memory_region": f"r{mebibytes}", "shared_memory_byte_size": size}
    given = {"name": "x", "datatype": "FP32", "shape": [1, size // 4], "parameters": place}
    wanted = {"name": "y", "parameters": {**place, "shared_memory_offset": size}}
    body = json.dumps({"inputs": [given], "outputs": [wanted]}).encode()
    return HttpRequest(
        url=f"http://{server.http}/v2/models/wide/infer",
        body=body,
        headers=(("Content-Type", "application/json"),),
    )


def measure(*, rounds: int, seconds: float) -> list[Cell]:
    """Run both servers side by side, loaded in turn."""
    found: dict[tuple[int, int, str], list[Measured]] = collections.defaultdict(list)
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as undo:
        folder = pathlib.Path(name)
        models.python_models(folder / "models")
        shared = [folder / "models"]
        other = other_program()
        shm = ["--allow-client-shm=true"]
        theirs = shm if os.environ.get("CHECKOUT") else []  # Triton 2.51 has no such option
        servers = [
            ("other", undo.enter_context(ServerProcess(other, shared, log=folder / "other.log", options=theirs))),
            ("ours", undo.enter_context(ServerProcess(naiad_program(), shared, log=folder / "naiad.log", options=shm))),
        ]  # fmt: skip
        for mebibytes in sorted({size for size, _ in _CELLS}):
            key = f"naiad_benchmark_{os.getpid()}_{mebibytes}"
            undo.callback((_OBJECTS / key).unlink)
            (_OBJECTS / key).write_bytes(bytes(2 * mebibytes << 20))
            for _, server in servers:
                _register(server, f"r{mebibytes}", key, 2 * mebibytes << 20)
                _check(server, _OBJECTS / key, mebibytes)
        for turn in range(rounds):
            for mebibytes, connections in _CELLS:
                for which, server in servers if turn % 2 == 0 else servers[::-1]:
                    request = infer(server, mebibytes)
                    measured = loaded_by_wrk(server, request, connections, seconds)
                    found[mebibytes, connections, which].append(measured)
                    print(
                        f"round {turn + 1}  {mebibytes:>2} MB {connections:>2}  {which:<6} {measured.per_second:>9,.0f}/s {measured.cpu_us:>7,.0f} µs",
                        flush=True,
                    )
    return [
        Cell(
            each,
            connections,
            compared(found[each, connections, "other"], found[each, connections, "ours"]),
        )
        for each, connections in _CELLS
    ]


def _post(server: ServerProcess, path: str, body: bytes) -> None:
    request = urllib.request.Request(f"http://{server.http}/{path}", body)
    with urllib.request.urlopen(request, timeout=60) as reply:  # noqa: S310 - as above
        reply.read()


def _register(server: ServerProcess, region: str, key: str, size: int) -> None:
    body = json.dumps({"key": f"/{key}", "byte_size": size}).encode()
    _post(server, f"v2/systemsharedmemory/region/{region}/register", body)


def _check(server: ServerProcess, shared: pathlib.Path, mebibytes: int) -> None:
    """One request must have the right output."""
    region = np.memmap(shared, np.float32, "r+")
    half = region.size // 2
    region[:half] = np.arange(half)
    region[half:] = -1
    _post(server, "v2/models/wide/infer", infer(server, mebibytes).body)
    assert (region[half:] == region[:half]).all(), f"{server.program.name}: a wrong output"


def table(cells: list[Cell]) -> str:
    """As Markdown."""
    lines = [f"| tensor | connections {HEADINGS}", "|---|---|---|---|---|---|---|---|"]
    lines += [
        f"| {cell.mebibytes} MB | {cell.connections} {cell.pairs.columns()}" for cell in cells
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    require_tools()
    given = [float(each) for each in sys.argv[1:]]
    print(
        table(
            measure(
                rounds=int(given[0]) if given else 5, seconds=given[1] if len(given) > 1 else 2.0
            )
        )
    )

"""What an idle client costs in resident memory: HTTP connections that have had one response, and open streams of gRPC; with both engines of each.

The aims: 12 KB per HTTP connection (5,000 of them), 4 KB per stream (1,000 on each of 10 connections), with the native engines. Each row has a server of its own, whose memory
is read before and after, when it has had a second without work. What the kernel keeps for a socket is not resident memory of the server.
`python -m benchmarks.micro.idle_memory` prints the table.
"""

import argparse
import collections.abc
import contextlib
import dataclasses
import functools
import pathlib
import resource
import socket
import tempfile
import time

from benchmarks import models
from tests.reference.process import ServerProcess, naiad_program
from tests.wire.protocol.raw_grpc import RawConnection

_STREAM_INFER = "/inference.GRPCInferenceService/ModelStreamInfer"
_REQUEST = b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n"
_SPARE_FILES = 200
_WARM = 100
"""Connections or streams before the first reading: what is made once for all is not counted."""

_SETTLE_S = 1.0
_KIB = 1024


@dataclasses.dataclass(frozen=True, slots=True)
class Idle:
    """What one of many idle clients takes, in KiB."""

    what: str
    engine: str
    count: int
    kib: float


def measure(*, connections: int = 5_000, streams: int = 1_000) -> list[Idle]:
    """Rows for both engines of each wire; `streams` on each of ten connections."""
    files = connections + _SPARE_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, max(hard, files)))
    rows = []
    for engine in ("native", "uvicorn"):
        with _server(f"--http-engine={engine}") as server, contextlib.ExitStack() as clients:
            _connect(server, clients, _WARM)
            kib = (
                _growth(server, functools.partial(_connect, server, clients, connections))
                / connections
            )
        rows.append(Idle("HTTP connection", engine, connections, kib))
    for engine in ("native", "grpcio"):
        with _server(f"--grpc-engine={engine}") as server, contextlib.ExitStack() as clients:
            open_connections = [clients.enter_context(RawConnection(server.grpc)) for _ in range(10)]  # fmt: skip
            _open(open_connections, _WARM // 10)
            kib = _growth(server, functools.partial(_open, open_connections, streams)) / (
                10 * streams
            )
        rows.append(Idle("gRPC stream, ten connections", engine, 10 * streams, kib))
    return rows


def table(rows: list[Idle]) -> str:
    """As Markdown."""
    lines = ["| idle | engine | how many | KiB of the server for each |", "|---|---|---|---|"]
    lines += [f"| {row.what} | {row.engine} | {row.count:,} | **{row.kib:.1f}** |" for row in rows]
    return "\n".join(lines)


@contextlib.contextmanager
def _server(option: str) -> collections.abc.Iterator[ServerProcess]:
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        models.python_model_in_a_thread(folder / "models")
        options = (option, "--http-idle-timeout-secs=3600")
        with ServerProcess(naiad_program(), [folder / "models"], log=folder / "log", options=options) as server:  # fmt: skip
            yield server


def _connect(server: ServerProcess, clients: contextlib.ExitStack, count: int) -> None:
    """Connections that have had a response."""
    for _ in range(count):
        client = clients.enter_context(
            socket.create_connection(("127.0.0.1", server.ports.http), timeout=60)
        )
        client.sendall(_REQUEST)
        if not client.recv(_KIB).startswith(b"HTTP/1.1 200"):
            raise RuntimeError("a request was not answered")


def _open(connections: list[RawConnection], count: int) -> None:
    for connection in connections:
        for _ in range(count):
            connection.open(path=_STREAM_INFER)


def _growth(server: ServerProcess, work: collections.abc.Callable[[], None]) -> float:
    before = _resident_kib(server)
    work()
    return _resident_kib(server) - before


def _resident_kib(server: ServerProcess) -> int:
    """Of the server's process, once it has had nothing to do for a second."""
    assert server.process is not None
    folder = pathlib.Path(f"/proc/{server.process.pid}")
    used = -1
    while (now := _ticks(folder)) - used > 1:
        used = now
        time.sleep(_SETTLE_S)
    lines = (folder / "status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


def _ticks(folder: pathlib.Path) -> int:
    """Processor time, in ticks of the kernel."""
    fields = (folder / "stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.micro.idle_memory", description=__doc__
    )
    parser.add_argument("--connections", type=int, default=5_000)
    parser.add_argument("--streams", type=int, default=1_000, help="on each of ten connections")
    arguments = parser.parse_args()
    print(table(measure(connections=arguments.connections, streams=arguments.streams)))


if __name__ == "__main__":
    main()

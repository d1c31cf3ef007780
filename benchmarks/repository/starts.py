"""Starts a server, and says how long it took until every model was READY.

The bytecode of all modules is there, as in `benchmarks/server/startup.py`.
"""

import collections.abc
import dataclasses
import http
import pathlib
import statistics
import time
import urllib.request

from benchmarks import process_time
from benchmarks.load import LoadError
from tests.reference.process import Program, ServerProcess, naiad_program

_TIMEOUT_S = 300.0


@dataclasses.dataclass(frozen=True, slots=True)
class Start:
    """Seconds until every model was READY, and processor seconds of the server's processes by then."""

    seconds: float
    processor_s: float


def program(folder: pathlib.Path) -> Program:
    """Naiad, which writes bytecode into a folder with its first start."""
    plain = naiad_program()
    environ = {
        **plain.environ,
        "PYTHONPYCACHEPREFIX": str(folder / "bytecode"),
        "PYTHONDONTWRITEBYTECODE": "",  # as good as not set
    }
    return dataclasses.replace(plain, environ=environ)


def start(naiad: Program, options: list[str], folder: pathlib.Path) -> Start:
    """Start a server and stop it.

    Raises:
        LoadError: it is not ready in time.
    """
    server = ServerProcess(naiad, [], log=folder / "log", options=options)
    before = time.perf_counter()
    server.start()
    assert server.process is not None
    try:
        while not _is_ready(server):
            if server.process.poll() is not None or time.perf_counter() - before > _TIMEOUT_S:
                raise LoadError(f"not every model is READY: {server.tail()}")
            time.sleep(0.005)
        seconds = time.perf_counter() - before
        return Start(seconds, process_time.of_tree(server.process.pid))
    finally:
        server.stop()


def median(starts: collections.abc.Iterable[Start]) -> Start:
    """The medians of both times."""
    columns = zip(*map(dataclasses.astuple, starts), strict=True)
    return Start(*map(statistics.median, columns))


def _is_ready(server: ServerProcess) -> bool:
    try:
        url = f"http://{server.http}/v2/health/ready"
        with urllib.request.urlopen(url, timeout=5) as reply:
            return bool(reply.status == http.HTTPStatus.OK)
    except OSError:
        return False

"""How long a server takes from its start to its first answer, and how much memory it has then: a small ONNX model, several starts."""

import dataclasses
import pathlib
import statistics
import tempfile
import time
import urllib.error
import urllib.request

import psutil

from benchmarks import models
from benchmarks.requests import small
from tests.reference.process import ServerProcess, naiad_program

_MIB = 1024 * 1024
_PATIENCE_S = 30.0


@dataclasses.dataclass(frozen=True, slots=True)
class Startup:
    """Medians over all starts."""

    first_answer_s: float
    resident_mib: float


def measure(*, starts: int) -> Startup:
    """Start it so many times; the first answer is a JSON infer over HTTP."""
    with tempfile.TemporaryDirectory() as folder:
        repository = pathlib.Path(folder) / "models"
        models.tiny_onnx(repository)
        seen = [_once(repository, pathlib.Path(folder) / "log") for _ in range(starts)]
    return Startup(*(statistics.median(each) for each in zip(*seen, strict=True)))


def table(startup: Startup) -> str:
    """As Markdown."""
    return (
        "| from the start of the process to the first answer | resident memory after it |\n|---|---|\n"
        f"| {startup.first_answer_s:.2f} s | {startup.resident_mib:.0f} MiB |"
    )


def _once(repository: pathlib.Path, log: pathlib.Path) -> tuple[float, float]:
    server = ServerProcess(naiad_program(), [repository], log=log)
    request = small("tiny").json(server.http)
    before = time.perf_counter()
    server.start()
    try:
        assert server.process is not None
        while True:
            try:
                with urllib.request.urlopen(request.url, data=request.body, timeout=5) as reply:  # noqa: S310 - http on loopback
                    reply.read()
                break
            except (urllib.error.URLError, OSError):
                if time.perf_counter() - before > _PATIENCE_S:
                    raise
                time.sleep(0.002)
        seconds = time.perf_counter() - before
        return seconds, psutil.Process(server.process.pid).memory_info().rss / _MIB
    finally:
        server.stop()

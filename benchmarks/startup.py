"""How long a server takes from its start to its first answer, and how much memory it has then: a small ONNX model, several starts.

Twice: with the bytecode of all modules there, as `pip install` leaves them, and without any, as where Python may not write it.
"""

import collections.abc
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
from tests.reference.process import Program, ServerProcess, naiad_program

_MIB = 1024 * 1024
_PATIENCE_S = 30.0


@dataclasses.dataclass(frozen=True, slots=True)
class Startup:
    """Medians over all starts.

    Attributes:
        first_answer_s: from the start of the process.
        processor_s: processor time of the process by then; other work on the machine changes it less.
        resident_mib: after it.
    """

    first_answer_s: float
    processor_s: float
    resident_mib: float


@dataclasses.dataclass(frozen=True, slots=True)
class Startups:
    """With bytecode, and without."""

    compiled: Startup
    source: Startup


def measure(*, starts: int) -> Startups:
    """Start it so many times each way; the first answer is a JSON infer over HTTP."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        models.tiny_onnx(folder / "models")
        _once(_program(folder, compiled=True), folder)  # writes the bytecode
        return Startups(
            *(
                _median(_once(_program(folder, compiled=compiled), folder) for _ in range(starts))
                for compiled in (True, False)
            )
        )


def table(startups: Startups) -> str:
    """As Markdown."""
    rows = {
        "bytecode is there, as after `pip install`": startups.compiled,
        "no bytecode: every module is compiled anew": startups.source,
    }
    return "\n".join(
        [
            "| | from the start of the process to the first answer | processor time by then | resident memory after it |\n|---|---|---|---|",
            *(
                f"| {title} | {each.first_answer_s:.2f} s | {each.processor_s:.2f} s | {each.resident_mib:.0f} MiB |"
                for title, each in rows.items()
            ),
        ]
    )


def _program(folder: pathlib.Path, *, compiled: bool) -> Program:
    """Naiad with a cache of bytecode of its own, or with one that is empty and stays so."""
    plain = naiad_program()
    environ = {
        **plain.environ,
        "PYTHONPYCACHEPREFIX": str(folder / ("compiled" if compiled else "none")),
        "PYTHONDONTWRITEBYTECODE": "" if compiled else "1",  # empty is as good as not set
    }
    return dataclasses.replace(plain, environ=environ)


def _median(starts: collections.abc.Iterable[Startup]) -> Startup:
    columns = zip(*(dataclasses.astuple(start) for start in starts), strict=True)
    return Startup(*(statistics.median(column) for column in columns))


def _once(program: Program, folder: pathlib.Path) -> Startup:
    server = ServerProcess(program, [folder / "models"], log=folder / "log")
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
        process = psutil.Process(server.process.pid)
        used = process.cpu_times()
        return Startup(seconds, used.user + used.system, process.memory_info().rss / _MIB)
    finally:
        server.stop()

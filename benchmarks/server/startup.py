"""How long a server takes from its start to its first answer, and how much memory it has then: a small ONNX model, several starts.

The bytecode of all modules is there, as `pip install` leaves it, whatever the environment of the benchmark says about writing it: compiling
the packages again would take longer than everything else.
"""

import dataclasses
import pathlib
import statistics
import tempfile
import time
import urllib.error
import urllib.request

import psutil

from benchmarks import models
from benchmarks.load import LoadError
from benchmarks.requests import small
from tests.reference.process import Program, ServerProcess, naiad_program

_MIB = 1024 * 1024
_TIMEOUT_S = 180.0
"""The first start compiles all modules, which takes half a minute on a busy machine."""


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


def measure(*, starts: int) -> Startup:
    """Start it so many times; the first answer is a JSON infer over HTTP.

    Raises:
        LoadError: it did not answer in time.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        models.tiny_onnx(folder / "models")
        plain = naiad_program()
        environ = {
            **plain.environ,
            "PYTHONPYCACHEPREFIX": str(folder / "bytecode"),
            "PYTHONDONTWRITEBYTECODE": "",  # as good as not set
        }
        program = dataclasses.replace(plain, environ=environ)
        _once(program, folder)  # writes it
        seen = [dataclasses.astuple(_once(program, folder)) for _ in range(starts)]
    return Startup(*(statistics.median(each) for each in zip(*seen, strict=True)))


def table(startup: Startup) -> str:
    """As Markdown."""
    return (
        "| from the start of the process to the first answer | processor time by then | resident memory after it |\n|---|---|---|\n"
        f"| {startup.first_answer_s:.2f} s | {startup.processor_s:.2f} s | {startup.resident_mib:.0f} MiB |"
    )


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
            except (urllib.error.URLError, OSError) as error:
                if time.perf_counter() - before > _TIMEOUT_S:
                    raise LoadError(
                        f"no answer {_TIMEOUT_S:g} s after the start: {error}"
                    ) from error
                time.sleep(0.002)
        seconds = time.perf_counter() - before
        process = psutil.Process(server.process.pid)
        used = process.cpu_times()
        return Startup(seconds, used.user + used.system, process.memory_info().rss / _MIB)
    finally:
        server.stop()

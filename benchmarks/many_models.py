"""How long a server with many small models takes to start: `--model-load-thread-count=4`, the default, beside one by one.

The models are copies of the tiny ONNX model. Starts with one and with four threads take turns; a start without models is measured as well, because
no thread count changes that part.
"""

import dataclasses
import http
import pathlib
import shutil
import statistics
import tempfile
import time
import urllib.request

import psutil

from benchmarks import models
from benchmarks.load import LoadError
from tests.reference.process import ServerProcess, naiad_program

MODELS = 500
THREADS = 4

_TIMEOUT_S = 300.0


@dataclasses.dataclass(frozen=True, slots=True)
class Start:
    """One start: seconds until every model is READY, and processor seconds by then."""

    seconds: float
    processor_s: float


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
        models.tiny_onnx(folder / "source")
        (folder / "none").mkdir()
        for number in range(count):
            shutil.copytree(folder / "source" / "tiny", folder / "models" / f"tiny_{number:04}")
        kinds = {
            "empty": (folder / "none", THREADS),
            "one_by_one": (folder / "models", 1),
            "parallel": (folder / "models", THREADS),
        }
        rounds = [
            {kind: _start(folder, *parts) for kind, parts in kinds.items()} for _ in range(starts)
        ]
    medians = {
        kind: Start(
            *(
                statistics.median(values)
                for values in zip(
                    *(dataclasses.astuple(start[kind]) for start in rounds), strict=True
                )
            )
        )
        for kind in kinds
    }
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


def _start(folder: pathlib.Path, repository: pathlib.Path, threads: int) -> Start:
    server = ServerProcess(
        naiad_program(),
        [repository],
        log=folder / "log",
        options=[f"--model-load-thread-count={threads}"],
    )
    before = time.perf_counter()
    server.start()
    try:
        while not _is_ready(server):
            if time.perf_counter() - before > _TIMEOUT_S:
                raise LoadError(f"not every model is READY: {server.tail()}")
            time.sleep(0.005)
        seconds = time.perf_counter() - before
        assert server.process is not None
        used = psutil.Process(server.process.pid).cpu_times()
        return Start(seconds, used.user + used.system)
    finally:
        server.stop()


def _is_ready(server: ServerProcess) -> bool:
    try:
        url = f"http://{server.http}/v2/health/ready"
        with urllib.request.urlopen(url, timeout=5) as reply:
            return bool(reply.status == http.HTTPStatus.OK)
    except OSError:
        return False

"""What polling 500 models costs: processor time per poll, and how late it makes the event loop.

Processor time is that of the server and its store process, less that of an idle server that polls nothing. Then a timer of 1 ms, which only the
benchmark's server has (`timed_server.py`), measures how late the loop is while it polls. The polls follow each other faster than by default; the share of
a core is that of the default interval.
"""

import dataclasses
import json
import pathlib
import signal
import sys
import tempfile
import time

from benchmarks import models, process_time
from benchmarks.repository.bucket import bucket
from benchmarks.repository.starts import program
from tests.reference.process import Program, ServerProcess
from tests.support.waiting import wait_until
from tests.wire.plain_http import get

MODELS = 500

_INTERVAL_S = 2
_DEFAULT_INTERVAL_S = 15
"""Of `--repository-poll-secs`."""

_IDLE = 0.1
"""Of a core: less is idle. The threads of onnxruntime's sessions spin for seconds after the start."""

_IDLE_TIMEOUT_S = 120
_POLLS = 'naiad_repository_polls_total{result="success"}'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Polling:
    """What the polls of one repository cost.

    Attributes:
        text: where it is.
        poll_ms: processor time of a poll, of all processes.
        share: of a core, in per cent, at the default interval.
        lag_ms: how late the event loop was at most, less the time for which its thread waited for a processor.
        idle_lag_ms: the same of the server that polls nothing.
    """

    text: str
    poll_ms: float
    share: float
    lag_ms: float
    idle_lag_ms: float


@dataclasses.dataclass(frozen=True, slots=True)
class _Window:
    """Processor seconds per second, polls per second, and the lag."""

    busy: float
    polls: float
    lag_ms: float


def measure(*, seconds: float, count: int = MODELS) -> list[Polling]:
    """Measure a local folder and S3.

    Args:
        seconds: of each measurement: idle and polling, processor time and lag.
        count: models.

    Raises:
        ServerFailedError: a server is not ready in time.
    """
    polling = ("--model-control-mode=poll", f"--repository-poll-secs={_INTERVAL_S}")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        local = folder / "models"
        models.tiny_copies(local, count)
        with bucket(folder / "s3") as store:
            store.upload(local)
            naiad = program(folder)
            idle = _measure(naiad, folder, str(local), seconds=seconds)
            return [
                _polling(text, idle, _measure(naiad, folder, location, *polling, seconds=seconds))
                for text, location in (("local folder", str(local)), ("S3", store.address))
            ]


def table(rows: list[Polling]) -> str:
    """As Markdown."""
    lines = [
        "| repository | processor time of a poll, ms | share of a core | lag at most, ms | lag of an idle server, ms |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {row.text} | {row.poll_ms:.0f} | **{row.share:.2f} %** | **{row.lag_ms:.1f}** | {row.idle_lag_ms:.1f} |"
        for row in rows
    ]
    return "\n".join(lines)


def _polling(text: str, idle: _Window, window: _Window) -> Polling:
    poll_s = (window.busy - idle.busy) / window.polls
    return Polling(
        text=text,
        poll_ms=1e3 * poll_s,
        share=100 * poll_s / _DEFAULT_INTERVAL_S,
        lag_ms=window.lag_ms,
        idle_lag_ms=idle.lag_ms,
    )


def _measure(
    naiad: Program, folder: pathlib.Path, location: str, *options: str, seconds: float
) -> _Window:
    result = folder / "lag.json"
    result.unlink(missing_ok=True)
    command = (sys.executable, "-m", "benchmarks.repository.timed_server", str(result))
    naiad = dataclasses.replace(naiad, command=command)
    options = (f"--model-repository={location}", *options)
    with ServerProcess(naiad, [], log=folder / "log", options=options) as server:
        assert server.process is not None
        pid = server.process.pid
        wait_until(lambda: _is_idle(pid), seconds=_IDLE_TIMEOUT_S, what="the server is idle")
        polls = _polls(server)
        used, before = process_time.of_tree(pid), time.monotonic()
        time.sleep(seconds)
        used = process_time.of_tree(pid) - used
        duration = time.monotonic() - before
        polls = _polls(server) - polls
        server.process.send_signal(signal.SIGUSR1)
        time.sleep(seconds)
        server.process.send_signal(signal.SIGUSR2)
        wait_until(result.exists, what="the server writes the lag")
        return _Window(used / duration, polls / duration, json.loads(result.read_text())["max_ms"])


def _is_idle(pid: int) -> bool:
    """Looks for a second."""
    before = process_time.of_tree(pid)
    time.sleep(1)
    return process_time.of_tree(pid) - before < _IDLE


def _polls(server: ServerProcess) -> float:
    """How many there have been; 0 without polling."""
    page = get(server.metrics, "/metrics")[1].decode()
    return sum(
        float(line.rsplit(" ", 1)[1]) for line in page.splitlines() if line.startswith(_POLLS)
    )

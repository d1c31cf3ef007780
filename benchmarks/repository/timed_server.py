"""`naiad serve` with a timer of 1 ms on its event loop.

    python -m benchmarks.repository.timed_server FILE [option of naiad serve ...]

SIGUSR1 starts the timer, SIGUSR2 stops it and writes what it measured into FILE.
"""

import asyncio
import collections.abc
import json
import pathlib
import signal
import sys
import threading
import time
import typing
import unittest.mock

import uvloop

from naiad.__main__ import main
from naiad.serve.heartbeat.loop_lag import RunDelay

_INTERVAL_S = 0.001
_NS_PER_MS = 1e6


class LagTimer:
    """Measures how late the timer is, less the time for which the loop's thread waited for a processor; on that thread.

    Args:
        file: receives the result.
    """

    def __init__(self, file: pathlib.Path) -> None:
        self._file = file
        self._loop = asyncio.get_running_loop()
        self._run_delay = RunDelay(threading.get_native_id())
        self._timer: asyncio.TimerHandle | None = None
        self._lags_ms = list[float]()

    def start(self) -> None:
        """Begin to measure."""
        self._lags_ms = []
        self._wait()

    def stop(self) -> None:
        """Write the result: the ticks, and the largest and the 99.9th percentile of their lags in milliseconds."""
        assert self._timer is not None, "it was started"
        self._timer.cancel()
        lags = sorted(self._lags_ms)
        result = {"ticks": len(lags), "max_ms": lags[-1], "p999_ms": lags[len(lags) * 999 // 1000]}
        partial = self._file.with_suffix(".part")
        partial.write_text(json.dumps(result))
        partial.rename(self._file)

    def _wait(self) -> None:
        self._due_ns = time.monotonic_ns() + _INTERVAL_S * 1e9
        self._delayed_ns = self._run_delay.read_ns()
        self._timer = self._loop.call_later(_INTERVAL_S, self._tick)

    def _tick(self) -> None:
        late_ns = time.monotonic_ns() - self._due_ns
        self._lags_ms.append((late_ns - self._run_delay.read_ns() + self._delayed_ns) / _NS_PER_MS)
        self._wait()


def timed(
    run: collections.abc.Callable[..., typing.Any], file: pathlib.Path
) -> collections.abc.Callable[..., typing.Any]:
    """`uvloop.run`, with a timer that signals start and stop."""

    async def with_timer(serving: collections.abc.Awaitable[typing.Any]) -> typing.Any:
        timer, loop = LagTimer(file), asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGUSR1, timer.start)
        loop.add_signal_handler(signal.SIGUSR2, timer.stop)
        return await serving

    return lambda serving: run(with_timer(serving))


if __name__ == "__main__":
    _, name, *options = sys.argv
    sys.argv = ["naiad", "serve", *options]
    with unittest.mock.patch.object(uvloop, "run", timed(uvloop.run, pathlib.Path(name))):
        sys.exit(main())

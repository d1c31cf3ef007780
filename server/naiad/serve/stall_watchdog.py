"""Logs where the event loop is when it stalls: a thread watches the loop's heartbeat and samples the stack of the loop's thread.

A thread, because the loop cannot look at itself while it is busy. It wakes up about 16 times per second. What is a stall and when it
is reported is decided in `stalls.py`. The thread needs the interpreter lock: a call that holds it is seen as soon as it returns.
"""

import collections.abc
import contextlib
import logging
import os
import sys
import threading
import traceback

from naiad.core.clock import Clock
from naiad.serve.loop_lag import LoopLag
from naiad.serve.stalls import StallRule, Step

log = logging.getLogger("naiad.serve")

_NS_PER_MS = 1e6
_NS_PER_SECOND = 1e9
_INNERMOST_FRAMES = 30
_JOIN_SECONDS = 5.0


def stack_of(thread: int) -> list[str]:
    """Where a thread of this process is, outermost frame first, one text per frame; no reference to the frames is kept."""
    frame = sys._current_frames().get(thread)  # noqa: SLF001 - the documented way to look at another thread
    if frame is None:
        return []
    try:
        frames = traceback.extract_stack(frame, limit=_INNERMOST_FRAMES)
    finally:
        del frame
    return [text.rstrip("\n") for text in traceback.format_list(frames)]


class StallWatchdog:
    """The thread that watches one event loop.

    Args:
        lag: the loop's heartbeat.
        clock: the same clock that the heartbeat uses.
        sample: gives the stack of a thread.
    """

    def __init__(
        self,
        *,
        lag: LoopLag,
        clock: Clock,
        sample: collections.abc.Callable[[int], list[str]] = stack_of,
    ) -> None:
        self._lag = lag
        self._clock = clock
        self._sample = sample
        self._rule = StallRule()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._stack: list[str] = []

    def start(self) -> None:
        """Watch the loop that runs in the calling thread."""
        loop_thread = threading.current_thread()
        self._thread = threading.Thread(
            target=self._run,
            args=(loop_thread.ident, loop_thread.native_id),
            name="stall-watchdog",
            daemon=True,
        )
        self._thread.start()

    def stop(self) -> None:
        """End the thread. Idempotent."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(_JOIN_SECONDS)
            self._thread = None

    def _run(self, loop_thread: int, native_id: int) -> None:
        lag, rule, now = self._lag, self._rule, self._clock.monotonic_ns
        with contextlib.closing(RunDelay(native_id)) as run_delay:
            delay_before_ns = run_delay.read_ns()
            while True:
                wait_ns = rule.wait_ns(beat_ns=lag.beat_ns, now_ns=now())
                if self._stop.wait(wait_ns / _NS_PER_SECOND):
                    return
                match rule.look(beat_ns=lag.beat_ns, now_ns=now()):
                    case Step.SAMPLE:
                        self._stack = self._sample(loop_thread)
                    case Step.REPORT_ENDED | Step.REPORT_ONGOING as step:
                        delay_ns = run_delay.read_ns()
                        self._report(step, delay_ns - delay_before_ns)
                        delay_before_ns = delay_ns
                    case Step.WAIT if not self._stack:
                        delay_before_ns = run_delay.read_ns()
                    case _:
                        pass

    def _report(self, step: Step, run_delay_ns: int) -> None:
        stalled_ns = self._rule.stalled_ns
        stalled_ms = stalled_ns / _NS_PER_MS
        run_delay_ms = min(run_delay_ns, stalled_ns) / _NS_PER_MS
        log.warning(
            "the event loop %s %.0f ms, and no request was read or answered meanwhile%s; it was in:",
            "was blocked for" if step is Step.REPORT_ENDED else "has been blocked for",
            stalled_ms,
            _waiting(run_delay_ms, stalled_ms),
            extra={
                "stalled_ms": round(stalled_ms, 1),
                "run_delay_ms": round(run_delay_ms, 1),
                "stack": self._stack,
            },
        )
        self._stack = []


class RunDelay:
    """How long a thread of this process was ready to run and waited for a processor, since its start; 0 where the kernel does not count it.

    Args:
        native_id: the kernel's number of the thread.
    """

    def __init__(self, native_id: int) -> None:
        self._file = -1
        with contextlib.suppress(OSError):
            self._file = os.open(
                f"/proc/self/task/{native_id}/schedstat", os.O_RDONLY | os.O_CLOEXEC
            )

    def read_ns(self) -> int:
        """Nanoseconds."""
        if self._file < 0:
            return 0
        try:
            return int(os.pread(self._file, 64, 0).split()[1])
        except (OSError, IndexError, ValueError):
            return 0

    def close(self) -> None:
        """Close its file. Idempotent."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _waiting(run_delay_ms: float, stalled_ms: float) -> str:
    """What the report says where the machine, and not the server, is to blame for most of a stall."""
    if run_delay_ms * 2 < stalled_ms:
        return ""
    return (
        f" ({run_delay_ms:.0f} ms of it, it waited for a processor: the machine has too much to do, "
        "or the container's CPU limit is too low)"
    )

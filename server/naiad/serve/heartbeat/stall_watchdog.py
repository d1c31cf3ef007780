"""Logs where the event loop is when it stalls: a thread watches the loop's heartbeat and samples the stack of the loop's thread.

It is a thread because a busy loop cannot sample itself. It wakes up about 16 times per second, twice while the loop rests. `stalls.py` decides what a stall is and when it
is reported. The thread needs the interpreter lock too, so it is as late as the loop when one call holds the lock: such a stall is reported from
the heartbeat's own record, with the stack of the moment when the lock was free again, or without one.
"""

import collections
import collections.abc
import functools
import logging
import queue
import sys
import threading
import traceback

from naiad.core.clock import Clock
from naiad.serve.heartbeat.interval import INTERVAL_NS
from naiad.serve.heartbeat.loop_lag import STALL_NS, LoopLag, Stall
from naiad.serve.heartbeat.stalls import POLL_NS, StallRule, Step

log = logging.getLogger("naiad.serve")

_NS_PER_MS = 1e6
_NS_PER_SECOND = 1e9
_INNERMOST_FRAMES = 30
_JOIN_SECONDS = 5.0
_KEPT = 100

_LOCK_HELD = (
    "one call held the interpreter lock, so that no other thread ran (a long call into C of a model that runs in a thread of the server, "
    "for example)"
)
_NO_STACK = f"no stack could be taken, because {_LOCK_HELD}"
_LATE_STACK = f"{_LOCK_HELD}; when it let go, the loop was in:"
_OVER_TOO_SOON = "it was over before a stack could be taken"


_LOOP_FILES = (
    "/asyncio/runners.py",
    "/asyncio/base_events.py",
    "/asyncio/events.py",
    "/selectors.py",
)
_LOOP_ITSELF = (
    "  the event loop's own code, which looks for events or waits for the interpreter lock"
)


def stack_of(thread: int) -> list[str]:
    """The stack of a thread of this process, outermost frame first, one string per frame; no reference to the frames is kept.

    The frames from the start of the process to the loop are left out: they are the same each time.
    """
    frame = sys._current_frames().get(thread)  # noqa: SLF001 - the documented way to read another thread's stack
    if frame is None:
        return []
    try:
        frames = traceback.extract_stack(frame, limit=_INNERMOST_FRAMES)
    finally:
        del frame
    inside = [at for at, frame in enumerate(frames, 1) if frame.filename.endswith(_LOOP_FILES)]
    below = frames[inside[-1] :] if inside else frames
    return [text.rstrip("\n") for text in traceback.format_list(below)] or [_LOOP_ITSELF]


class StallWatchdog:
    """The thread that watches one event loop, by the clock of its heartbeat; `sample` gives the stack of a thread."""

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
        self._wakeups = queue.SimpleQueue[bool]()
        """True ends the thread; False: the next heartbeat is due earlier than it was."""
        self._thread: threading.Thread | None = None
        self._stacks: dict[int, list[str]] = {}
        """The stacks of stalls that are not reported yet, by the heartbeat before the stall; of many, the latest."""
        self._late = collections.deque[tuple[int, int]](maxlen=_KEPT)
        """From when to when the watchdog was late itself, the last times: it does next to nothing, so it waited for the interpreter lock or for a processor."""

    def start(self) -> None:
        """Watch the loop that runs in the calling thread."""
        self._lag.on_woken = functools.partial(self._wakeups.put, False)
        self._thread = threading.Thread(
            target=self._run, args=(threading.get_ident(),), name="stall-watchdog", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """End the thread, after a last report of stalls that were not reported yet. Idempotent."""
        self._wakeups.put(True)
        if self._thread is not None:
            self._thread.join(_JOIN_SECONDS)
            self._thread = None

    def _run(self, loop_thread: int) -> None:
        lag, rule, now = self._lag, self._rule, self._clock.monotonic_ns
        while True:
            planned_ns = now() + (wait_ns := rule.wait_ns(beat_ns=lag.beat_ns, now_ns=now()))
            if self._wait(wait_ns):
                break
            self._note_lateness(planned_ns, woken_ns := now())
            self.look(loop_thread)
            self._note_lateness(woken_ns, now())  # another thread may have taken the lock away
        rule.record(self._ended())
        self._report_ended()

    def _wait(self, wait_ns: int) -> bool:
        """Wait for so long, or until the heartbeat changes its pace; returns whether to stop."""
        try:
            return self._wakeups.get(timeout=wait_ns / _NS_PER_SECOND)
        except queue.Empty:
            return False

    def look(self, loop_thread: int) -> None:
        """Look at the heartbeat once, and do what the rule says."""
        lag, now = self._lag, self._clock.monotonic_ns()
        match self._rule.check(ended=self._ended(), beat_ns=lag.beat_ns, now_ns=now):
            case Step.SAMPLE:
                self._take_sample(loop_thread)
            case Step.REPORT_ENDED:
                self._report_ended()
            case Step.REPORT_ONGOING if lag.in_use:
                self._report(lag.stall_so_far(), "has been blocked for")
            case Step.REPORT_ONGOING | Step.WAIT:
                pass

    def _note_lateness(self, planned_ns: int, now_ns: int) -> None:
        if now_ns - planned_ns > POLL_NS:
            self._late.append((planned_ns, now_ns))

    def _take_sample(self, loop_thread: int) -> None:
        beat_ns = self._lag.beat_ns
        stack = self._sample(loop_thread)
        if self._lag.beat_ns != beat_ns:  # the stall has ended, and the stack shows later code
            return
        while len(self._stacks) >= _KEPT:
            del self._stacks[next(iter(self._stacks))]
        self._stacks[beat_ns] = stack

    def _ended(self) -> list[Stall]:
        """The stalls that ended since the last call. Call it before the heartbeat is read, or a stall that has just ended is sampled."""
        stalls = self._lag.stalls
        return [stalls.popleft() for _ in range(len(stalls))]

    def _report_ended(self) -> None:
        worst, count = self._rule.worst, self._rule.count
        if worst is not None:
            self._report(worst, "was blocked for", count=count, own_ns=self._rule.own_ns)
            self._rule.reported()

    def _report(self, stall: Stall, was: str, *, count: int = 1, own_ns: int = 0) -> None:
        own_ns = max(own_ns, stall.late_ns - stall.run_delay_ns)
        stalled_ms = stall.late_ns / _NS_PER_MS
        run_delay_ms = stall.run_delay_ns / _NS_PER_MS
        stack = self._stacks.get(stall.beat_ns, [])
        self._stacks.clear()
        longest = f" (the longest of {count} times since the last such line)" if count > 1 else ""
        fields = {
            "stalled_ms": round(stalled_ms, 1),
            "stalls": count,
            "run_delay_ms": round(run_delay_ms, 1),
            "own_ms": round(own_ns / _NS_PER_MS, 1),
            "stack": [] if stall.is_starved else stack,
        }
        if stall.is_starved:
            log.warning(
                "the event loop waited %.0f ms for a processor%s: the machine has too much to do, or the container's CPU limit is too low",
                run_delay_ms,
                longest,
                extra=fields,
            )
            return
        log.warning(
            "the event loop %s %.0f ms%s, and no request was read or answered meanwhile; %s",
            was,
            stalled_ms,
            longest,
            _where(stall, stack, late_ns=self._late_in(stall)),
            extra=fields,
        )

    def _late_in(self, stall: Stall) -> int:
        """For how long of a stall the watchdog was late itself, in nanoseconds."""
        end_ns = stall.beat_ns + INTERVAL_NS + stall.late_ns
        parts = (min(woken, end_ns) - max(planned, stall.beat_ns) for planned, woken in self._late)
        return sum(max(0, part) for part in parts)


def _where(stall: Stall, stack: list[str], *, late_ns: int) -> str:
    """The part of the report about the stack; `late_ns` is the part of the stall in which the watchdog could not run either."""
    if stack:
        return _LATE_STACK if 2 * late_ns > stall.late_ns else "it was in:"
    # The watchdog samples when a heartbeat is 50 ms late, if it gets the interpreter lock.
    return _OVER_TOO_SOON if stall.late_ns < 2 * STALL_NS else _NO_STACK

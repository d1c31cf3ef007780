"""One wake-up of an event loop at a time in nanoseconds.

A timer of uvloop has whole milliseconds: 300 µs fire at once, 600 µs after 1.1 ms (measured), and a batcher's delay is usually below
that. A timerfd wakes the loop as a socket does, some tens of microseconds late, and the loop sleeps until then. The standard library has timerfds
from Python 3.13 on, so the two calls are made by ctypes. Where the time is not the system's (tests in virtual time), or the process can open no more
files, the loop's own timer is used.
"""

import asyncio
import collections.abc
import ctypes
import os
import typing
import weakref

from naiad.core.clock import Clock, SystemClock

NEVER = 1 << 63
"""Later than any time."""

_CLOCK_MONOTONIC = 1
_ABSOLUTE = 1
_NONBLOCK_CLOEXEC = os.O_NONBLOCK | os.O_CLOEXEC
_NS_PER_S = 1_000_000_000
_NS_PER_US = 1_000
_US_PER_S = 1_000_000


class Wakeup(typing.Protocol):
    """Calls back once, at the time that was set last."""

    def set(self, at_ns: int) -> None:
        """Call back at this time (monotonic nanoseconds), and not at the one before; NEVER: not at all."""


def wakeup_on(
    loop: asyncio.AbstractEventLoop, clock: Clock, callback: collections.abc.Callable[[], None]
) -> Wakeup:
    """The most precise wake-up that a loop can have.

    Args:
        loop: calls `callback`.
        clock: whose time is set.
        callback: may be called a little early, and has to look at the clock.
    """
    if isinstance(clock, SystemClock):
        try:
            return TimerFd(loop, callback)
        except (OSError, AttributeError):  # no more descriptors; not Linux
            pass
    return LoopTimer(loop, clock, callback)


class LoopTimer:
    """Implements `Wakeup` with the loop's own timers."""

    __slots__ = ("_callback", "_loop", "_now", "_timer")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        callback: collections.abc.Callable[[], None],
    ) -> None:
        self._loop = loop
        self._now = clock.monotonic_ns
        self._callback = callback
        self._timer: asyncio.TimerHandle | None = None

    def set(self, at_ns: int) -> None:
        """See `Wakeup`."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if at_ns < NEVER:
            # Whole microseconds: a loop of a coarser resolution would call back too early, again and again.
            left_us = max(-(-(at_ns - self._now()) // _NS_PER_US), 0)
            self._timer = self._loop.call_later(left_us / _US_PER_S, self._callback)


class TimerFd:
    """Implements `Wakeup` with a timerfd, which is closed with this object.

    Raises:
        OSError: the process can open no more files.
        AttributeError: the system has no timerfds.
    """

    __slots__ = ("__weakref__", "_descriptor", "_set_time", "_time", "_time_at")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, callback: collections.abc.Callable[[], None]
    ) -> None:
        # PyDLL keeps the interpreter lock: another thread that takes it would keep it for milliseconds, and neither call blocks.
        libc = ctypes.PyDLL(None, use_errno=True)
        self._set_time = libc.timerfd_settime
        self._descriptor = libc.timerfd_create(_CLOCK_MONOTONIC, _NONBLOCK_CLOEXEC)
        if self._descriptor < 0:
            number = ctypes.get_errno()
            raise OSError(number, f"timerfd_create: {os.strerror(number)}")
        weakref.finalize(self, os.close, self._descriptor)
        self._time = (ctypes.c_long * 4)()  # struct itimerspec: the interval, then the time
        self._time_at = ctypes.addressof(self._time)
        loop.add_reader(self._descriptor, callback)

    def set(self, at_ns: int) -> None:
        """See `Wakeup`. To set the time also makes the descriptor unreadable again."""
        time = self._time
        time[2], time[3] = divmod(at_ns, _NS_PER_S) if at_ns < NEVER else (0, 0)
        self._set_time(self._descriptor, _ABSOLUTE, ctypes.c_void_p(self._time_at), None)

"""Keeps a thread that works in short bursts on the processor of the event loop, and lets it go when its work gets longer.

The loop and an instance's thread take turns on one interpreter lock. On two processors each turn is a wake-up across
processors and a cache that has to be filled again: with a small Python model that cost a third of all requests a second on two cores
(measured; docs/performance.md). Work that takes longer than a hand-over gains more from a processor of its own. The loop itself is
never bound: the kernel moves it as it likes, and the thread follows. `Colocation` is the pure decision, `Follower` carries it out.
"""

import collections.abc
import ctypes
import os

SHORT_NS = 60_000
"""Below this much a batch, on average, work that needs no interpreter stays with the loop: a hand-over to another processor
costs about as much."""

SHORT_WITH_INTERPRETER_NS = 1_000_000
"""The same for work that holds the interpreter lock: it could not run beside the loop anyway. Longer batches go all the same, for
they may compute in libraries that let the lock go."""

_HYSTERESIS = 2
"""A thread goes again when its batches take this many times as long."""

SETTLED_AFTER = 32
"""Batches looked at before anything is decided: the first ones load code and caches, and a model that starts threads of its own
in its first batches does so while it is free (threads inherit the binding of the one that starts them)."""

_WEIGHT = 8
"""A batch counts an eighth in the average."""


class Colocation:
    """Decides from how long batches take. Pure.

    Args:
        holds_interpreter: whether the work holds the interpreter lock.

    Attributes:
        together: whether the thread belongs on the loop's processor now.
    """

    __slots__ = ("_average_ns", "_long_ns", "_seen", "_short_ns", "together")

    def __init__(self, *, holds_interpreter: bool) -> None:
        self._short_ns = SHORT_WITH_INTERPRETER_NS if holds_interpreter else SHORT_NS
        self._long_ns = self._short_ns * _HYSTERESIS
        self._seen = 0
        self._average_ns = 0
        self.together = False

    def took(self, duration_ns: int) -> None:
        """A batch took so long."""
        self._seen += 1
        self._average_ns += (duration_ns - self._average_ns) // _WEIGHT
        if self._average_ns > self._long_ns:
            self.together = False
            self._seen = 0
        elif self._average_ns < self._short_ns and self._seen >= SETTLED_AFTER:
            self.together = True


class Follower:
    """Binds the calling thread to the loop's processor, or lets it go. All methods but `loop_is_on` belong to that thread.

    Args:
        bind: `os.sched_setaffinity` for the calling thread; a system that refuses it is not asked again.
    """

    __slots__ = ("_allowed", "_bind", "_bound_to", "_loop_on", "_works")

    def __init__(self, bind: collections.abc.Callable[[collections.abc.Set[int]], None]) -> None:
        self._bind = bind
        self._allowed: frozenset[int] = frozenset()
        self._bound_to = -1
        self._loop_on = -1
        self._works = True

    def loop_is_on(self, processor: int) -> None:
        """Where the loop was seen last; called by the loop."""
        self._loop_on = processor

    def settle(self, *, together: bool) -> None:
        """Be where the decision says; costs two comparisons when nothing changed."""
        target = self._loop_on if together else -1
        if target == self._bound_to or not self._works:
            return
        try:
            if not self._allowed:
                self._allowed = frozenset(os.sched_getaffinity(0))
            self._bind({target} if target in self._allowed else self._allowed)
            self._bound_to = target
        except OSError:
            self._works = False


def bind_this_thread(processors: collections.abc.Set[int]) -> None:
    """Let the calling thread run on these processors only."""
    os.sched_setaffinity(0, processors)


_libc = ctypes.CDLL(None, use_errno=True)


def current_processor() -> int:
    """The processor that the calling thread runs on; -1 where the system does not say."""
    try:
        processor: int = _libc.sched_getcpu()
    except AttributeError:
        return -1
    return processor

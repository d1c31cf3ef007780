"""Has the calls of a thread that calls a server alone run on one processor: the thread, the server's loop, and the instance beside them (`hosts.cpu_affinity`).

The three take turns. Where they run on two processors, each turn wakes one that sleeps, which takes tens of microseconds, most of all in a virtual machine: a call
of a small model took two to three times as long (docs/library.md). The kernel does not keep them together: it wakes a thread where an idle processor is.

The thread is bound *during the call* and has its own processors again when it ends, however it ends: the program's code before and after it runs where it may, as do the
threads and processes that it starts. The loop is bound as long as such calls follow each other, within `LOOK_S`; what it starts meanwhile begins by `inherited.be_free`. A thread with processors of its own choice is bound within them or not
at all. Calls that are in progress at the same time, of one server or of several, are bound by nothing.
"""

import collections.abc
import contextlib
import os
import time
import typing

from naiad.core.processes import inherited
from naiad.embed.calls import Calls
from naiad.embed.lone_policy import LoneCallPolicy
from naiad.hosts.cpu_affinity import INSTANCES, current_processor

Result = typing.TypeVar("Result")


class Processors(typing.Protocol):
    """The system's calls about threads and processors; thread 0 is the calling one."""

    def of(self, thread: int) -> collections.abc.Set[int]:
        """Where a thread may run. Raises OSError."""

    def bind(self, thread: int, processors: collections.abc.Set[int]) -> None:
        """Have a thread run there. Raises OSError."""

    def current(self) -> int:
        """Where the calling thread runs; -1 if the system does not say."""


class _System:
    """Implements `Processors`."""

    of = staticmethod(os.sched_getaffinity)
    bind = staticmethod(os.sched_setaffinity)
    current = staticmethod(current_processor)


_SYSTEM = _System()


class _Turn:
    """A call.

    Attributes:
        before: where its thread may run otherwise; None: it was not bound.
        alone: whether no other call was seen meanwhile.
        ended: whether it is over.
        began_ns: when.
    """

    __slots__ = ("alone", "before", "began_ns", "ended")

    def __init__(self) -> None:
        self.before: collections.abc.Set[int] | None = None
        self.alone = True
        self.ended = False
        self.began_ns = 0


_ONE = "turn"
_TURNS: dict[str, _Turn] = {}
"""The one call of this process that may be bound."""
os.register_at_fork(after_in_child=_TURNS.clear)

LOOK_S = 0.05
"""Without another call for this time, at most twice as long, the loop is free again: also if one takes longer."""


class LoneCaller:
    """The calls of one server.

    Args:
        loop: the system id of the thread that runs the server's loop.
        calls: in progress on it.
        later: has the loop make a call, `LOOK_S` later; in any thread.
        processors: the system's calls.
        now: a clock in nanoseconds.
    """

    def __init__(
        self,
        loop: int,
        calls: Calls,
        *,
        later: collections.abc.Callable[[collections.abc.Callable[[], None]], object],
        processors: Processors = _SYSTEM,
        now: collections.abc.Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self._loop = loop
        self._calls = calls
        self._later = later
        self._processors = processors
        self._now = now
        self._policy = LoneCallPolicy()
        self._trial = 0
        self._processor = -1
        self._one: frozenset[int] = frozenset()
        self._own: frozenset[int] = frozenset()
        self._is_lent = False
        self._is_loop_bound = False
        self._had_others = False
        self._is_watched = False
        self._bound = self._seen = 0
        self._works = True

    def run(self, call: collections.abc.Callable[[], Result]) -> Result:
        """Make a call, which sends a request and waits for its response."""
        if not self._works:
            return call()
        turn = _Turn()
        try:
            self._begin(turn)
            return call()
        finally:
            # First, and by a function of C: an interrupt of the thread is raised where a function of Python begins.
            if turn.before is not None:
                try:  # noqa: SIM105 - see above
                    self._processors.bind(0, turn.before)
                except OSError:  # none of them is there any more: the system has chosen others
                    pass
            turn.ended = True
            self._end(turn)

    def close(self) -> None:
        """The server has stopped, and its loop's thread ends."""
        self._works = False
        self._later = _nothing  # which refers to what has this
        inherited.end(self._loop)

    def _begin(self, turn: _Turn) -> None:
        holder = _TURNS.setdefault(_ONE, turn)
        if holder is not turn:
            holder.alone = False
            self._had_others = True
            self._free_loop()
            if holder.ended:  # an interrupt of its thread has come between
                _TURNS.pop(_ONE, None)
            return
        turn.began_ns = self._now()
        if self._calls.waiting:
            turn.alone = False
        elif self._policy.bound:
            try:
                self._bind(turn)
            except OSError:  # the system does not allow it, or the loop's thread has ended
                self._works = False

    def _bind(self, turn: _Turn) -> None:
        processors = self._processors
        own = processors.of(0)
        if own != self._one:
            if self._processor not in own:
                turn.alone = False
                return
            turn.before = own
            processors.bind(0, self._one)
        if not self._is_loop_bound:
            processors.bind(self._loop, self._one)
            self._is_loop_bound = True
        INSTANCES.called_alone()
        self._bound += 1
        if not self._is_watched:
            self._is_watched = True
            self._later(self._look)

    def _free_loop(self) -> None:
        if self._is_loop_bound:
            with contextlib.suppress(OSError):  # the processors are no longer there
                self._processors.bind(self._loop, self._own)
            self._is_loop_bound = (
                False  # afterwards: a call that comes between is not bound, and the next one is
            )

    def _look(self) -> None:
        """On the loop: whether no call came for a while, or one takes long."""
        if self._bound == self._seen or not self._is_loop_bound:
            self._free_loop()
            self._is_watched = False
        else:
            self._seen = self._bound
            self._later(self._look)

    def _end(self, turn: _Turn) -> None:
        if _TURNS.get(_ONE) is not turn:
            return
        try:
            policy = self._policy
            if turn.alone and not self._had_others:
                policy.record(self._now() - turn.began_ns)
            else:
                self._had_others = False
                policy.interrupt()
            if policy.bound is not self._is_lent:
                self._lend(lent=policy.bound)
        except OSError:  # see `_begin`
            self._works = False
        finally:
            _TURNS.pop(_ONE, None)

    def _lend(self, *, lent: bool) -> None:
        """Calls are bound from the next one on, or no more."""
        self._is_lent = lent
        self._free_loop()
        if not lent:
            inherited.end(self._loop)
            return
        if self._policy.trials != self._trial:
            self._trial = self._policy.trials
            self._processor = self._processors.current()
            self._one = frozenset((self._processor,))
        self._own = frozenset(self._processors.of(self._loop))
        if self._one < self._own:
            inherited.lend(self._loop, self._processor, self._own)
        else:
            self._is_lent = False
            self._policy.interrupt()


def _nothing(call: collections.abc.Callable[[], None]) -> None:
    """Of a loop that has ended."""

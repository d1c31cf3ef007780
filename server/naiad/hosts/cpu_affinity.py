"""Keeps an instance that works in short bursts on the processor of the event loop, and lets it go when its work gets longer.

The loop and an instance take turns. On two processors each turn is a wake-up across processors and a cache that has to be filled
again: with a small Python model that cost a third of all requests a second in a thread, and made a hand-over to a process and
back three times as long (measured; docs/performance.md). Work that takes longer than a hand-over gains more from a processor of its own. The loop itself
is never bound: the kernel moves it as it likes, and the instance follows. `AffinityPolicy` is the pure decision, `Follower` carries it
out, and `WorkerAffinity` does both for a worker process.

Limit: threads that a model starts while it is bound are bound with it until it is let go.
"""

import collections.abc
import contextlib
import ctypes
import os
import pathlib

SHORT_NS = 60_000
"""Below this much a batch, on average, work that needs no interpreter stays with the loop: a hand-over to another processor
costs about as much."""

SHORT_WITH_INTERPRETER_NS = 1_000_000
"""The same for work that holds the interpreter lock: it could not run beside the loop anyway. Longer batches go all the same, for
they may compute in libraries that let the lock go."""

SHORT_IN_A_PROCESS_NS = 150_000
"""The same for a worker process, which has an interpreter of its own: what crossing to another processor and back costs there."""

_FEW_PROCESSORS = 2
"""With more than so many, a worker under load has one for itself; with so many, everything else wants the other one."""

LOOKED_AT = 32
"""Of so many batches, one looks where the loop runs: it seldom moves."""

_HYSTERESIS = 2
"""A thread goes again when its batches take this many times as long."""

SETTLED_AFTER = 32
"""Batches looked at before anything is decided: the first ones load code and caches, and a model that starts threads of its own
in its first batches does so while it is free (threads inherit the binding of the one that starts them)."""

_WEIGHT = 8
"""A batch counts an eighth in the average."""

_SEVERAL_ASK = 4
"""A batch of several requests counts like one that takes this many times as long as a short one."""


class AffinityPolicy:
    """Decides from how long batches take. Pure.

    Args:
        short_ns: batches that take less belong to the loop.

    Attributes:
        together: whether the instance belongs on the loop's processor now.
    """

    __slots__ = ("_average_ns", "_long_ns", "_seen", "_short_ns", "together")

    def __init__(self, short_ns: int) -> None:
        self._short_ns = short_ns
        self._long_ns = short_ns * _HYSTERESIS
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


Bind = collections.abc.Callable[[int, collections.abc.Set[int]], None]
"""`os.sched_setaffinity`, or what does more than that."""


class Follower:
    """Binds a thread to the loop's processor, or lets it go.

    Args:
        thread: its system id; 0 for the thread that calls `settle`.
        bind: called with it and with where it may run; a system that refuses is not asked again.
    """

    __slots__ = ("_allowed", "_bind", "_bound_to", "_loop_on", "_thread", "_works")

    def __init__(self, thread: int = 0, bind: Bind = os.sched_setaffinity) -> None:
        self._thread = thread
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
                self._allowed = frozenset(os.sched_getaffinity(self._thread))
            self._bind(self._thread, {target} if target in self._allowed else self._allowed)
            self._bound_to = target
        except OSError:
            self._works = False


class WorkerAffinity:
    """Where a worker process runs. All of it is called by the loop.

    Args:
        pid: the process, newly started.
        processors: how many it may run on.
        bind: see `WorkerBinding`.
    """

    __slots__ = ("_affinity", "_batches", "_follower", "_scarce")

    def __init__(self, pid: int, *, processors: int, bind: Bind | None = None) -> None:
        self._affinity = AffinityPolicy(SHORT_IN_A_PROCESS_NS)
        self._follower = Follower(pid, bind or WorkerBinding())
        self._scarce = processors <= _FEW_PROCESSORS
        self._batches = 0

    def ran(self, computed_ns: int, requests: int) -> None:
        """A batch came back.

        Args:
            computed_ns: how long the model had it.
            requests: how many it held.
        """
        colocation = self._affinity
        if requests == 1 or self._scarce:
            colocation.took(computed_ns)
        else:
            # Several clients ask, so the loop is at work as well: both get on faster beside each other.
            colocation.took(SHORT_IN_A_PROCESS_NS * _SEVERAL_ASK)
        self._batches += 1
        if not self._batches % LOOKED_AT:
            if colocation.together:
                self._follower.loop_is_on(current_processor())
            self._follower.settle(together=colocation.together)


class WorkerBinding:
    """Binds a worker's main thread, which runs the batches; let go, so are the threads that were started bound. Implements `Bind`.

    What a model binds by itself, as OpenMP and others do, stays as it is: only threads that are where the main thread was put, and were
    not there before that, are let go, and a main thread that is not where it was put last is left alone from then on.
    """

    __slots__ = ("_last", "_not_ours", "_put")

    def __init__(self) -> None:
        self._last: collections.abc.Set[int] | None = None
        self._put: set[int] = set()
        self._not_ours: set[int] = set()

    def __call__(self, pid: int, processors: collections.abc.Set[int]) -> None:
        """Bind it to one processor, or let it go to several.

        Raises:
            OSError: it is gone, the system does not allow it, or the model has chosen for itself.
        """
        if self._last is not None and os.sched_getaffinity(pid) != self._last:
            raise PermissionError(f"process {pid} chose its processors by itself")
        if len(processors) == 1 and not processors <= self._put:
            alone = {each for each, where in _threads(pid) if where == processors}
            self._not_ours |= alone - {pid}
            self._put |= processors
        os.sched_setaffinity(pid, processors)
        self._last = processors
        if len(processors) == 1:
            return
        for thread, where in _threads(pid):
            if len(where) == 1 and where <= self._put and thread not in self._not_ours:
                with contextlib.suppress(ProcessLookupError):  # a thread that ended meanwhile
                    os.sched_setaffinity(thread, processors)
        self._put.clear()
        self._not_ours.clear()


def _threads(pid: int) -> collections.abc.Iterator[tuple[int, set[int]]]:
    """The threads of a process, each with the processors that it may run on."""
    for each in pathlib.Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(ProcessLookupError):  # a thread that ended meanwhile
            yield int(each.name), os.sched_getaffinity(int(each.name))


_libc = ctypes.CDLL(None, use_errno=True)


def current_processor() -> int:
    """The processor that the calling thread runs on; -1 where the system does not say."""
    try:
        processor: int = _libc.sched_getcpu()
    except AttributeError:
        return -1
    return processor

"""Binds the instance that works alone, on two processors, to the processor of the event loop while its batches are short.

The loop and an instance alternate. On two processors each alternation is a wake-up across processors and a cold cache: with a small
Python model that cost a third of all requests per second in a thread, and made a hand-over to a process and
back three times as long (measured; docs/performance.md). Batches that take longer than a hand-over gain more from a processor of their own. The loop itself
is not bound here: the kernel moves it, and the instance follows.

An instance works alone if it is the only one, or if the last `ALONE_AFTER` batches of the server were its own: of many models, one that gets all requests. Several that
work side by side use both processors, and with more processors each finds one of its own, so then none is bound, unless a thread of the program calls alone: it waits meanwhile, loop
and instance take turns with it on one processor (`embed.lone_caller`), and another one, which sleeps, would have to wake up. Nor are the workers of an ensemble's steps: keeping them with the loop
brought nothing beside what the kernel does, and keeping them on the other processor cost more (measured as well). `AffinityPolicy` is the pure
decision, `ThreadBinding` applies it, and `WorkerAffinity` does both for a worker process.

Threads that a model starts while it is bound, such as the pools of OpenMP and torch, are released at the next look, `SAMPLE_INTERVAL` batches later
at most.
"""

import collections.abc
import contextlib
import ctypes
import os
import pathlib
import typing

from naiad.core.processes.inherited import own_processors

SHORT_NS = 60_000
"""Batches without the interpreter lock that take less than this, on average, run on the loop's processor: a hand-over to another
processor costs about as much."""

SHORT_WITH_INTERPRETER_NS = 1_000_000
"""The limit for batches that hold the interpreter lock, which cannot run beside the loop anyway. Longer ones are released all the
same, because they may compute in libraries that release the lock."""

SHORT_IN_A_PROCESS_NS = 150_000
"""The limit for a worker process, which has its own interpreter: the cost of a hand-over to another processor and back."""

_PROCESSORS = 2
"""So many processors the server must have: with more, an instance gets one for itself, unless a thread of the program calls alone, and waits meanwhile."""

SAMPLE_INTERVAL = 32
"""Batches between two looks: which processor the loop runs on (it seldom moves), and which threads were started."""

_HYSTERESIS = 2
"""An instance is released when its batches take this many times as long."""

ALONE_AFTER = 64
"""More batches than this in a row make an instance one that works alone, whichever others there are; they are counted by `SAMPLE_INTERVAL`."""

WARM_UP_BATCHES = 32
"""Batches before the first decision: the first ones load code and caches, and a model that starts threads in them does so while it is
not bound (threads inherit the binding of the thread that starts them)."""

_CALLED_ALONE = 2 * SAMPLE_INTERVAL
"""So many batches after a lone call its instance still counts as one for such calls."""

_WEIGHT = 8
"""A batch has a weight of one eighth in the average."""


class Instances:
    """Counts the instances of this process that execute batches, in threads and in workers. All methods are called on the loop.

    Attributes:
        last: the instance that had the last batch.
    """

    __slots__ = ("_alone", "_called_alone", "_count", "_in_a_row", "_two", "last")

    def __init__(self) -> None:
        self._count = 0
        self._two = False
        self.last: object = None
        self._in_a_row = 0
        self._alone = False
        self._called_alone = 0

    @property
    def alone(self) -> bool:
        """Whether one works alone, on two processors or for a thread that calls alone: any thread may ask."""
        return self._alone and (self._two or self._called_alone > 0)

    def called_alone(self) -> None:
        """A thread of the program calls, alone and bound to the loop's processor (`embed.lone_caller`); in that thread."""
        self._called_alone = _CALLED_ALONE

    def add(self, count: int = 1) -> None:
        """So many more, or fewer."""
        self._count += count
        self._two = len(own_processors()) == _PROCESSORS
        self.last, self._in_a_row = None, 0
        self._alone = self._count == 1

    def works(self, instance: object) -> None:
        """An instance has a batch: called if it is not the `last` one, and for one of `SAMPLE_INTERVAL` batches if it is, to cost the others nothing.

        Args:
            instance: the same object each time; None for one of several in a process.
        """
        if self._called_alone:
            self._called_alone -= SAMPLE_INTERVAL
        if instance is self.last:
            self._in_a_row += SAMPLE_INTERVAL
            if self._in_a_row > ALONE_AFTER:
                self._alone = instance is not None
        else:
            self.last, self._in_a_row = instance, 0
            self._alone = self._count == 1

    @property
    def left(self) -> bool:
        """Whether there is any: after a stop, one whose model does not return."""
        return self._count > 0


INSTANCES = Instances()
"""Those of this process."""


class AffinityPolicy:
    """Decides from the durations of batches. Pure.

    Args:
        short_ns: batches that take less run on the loop's processor.

    Attributes:
        together: whether the instance belongs on the loop's processor.
    """

    __slots__ = ("_average_ns", "_long_ns", "_seen", "_short_ns", "together")

    def __init__(self, short_ns: int) -> None:
        self._short_ns = short_ns
        self._long_ns = short_ns * _HYSTERESIS
        self._seen = 0
        self._average_ns = 0
        self.together = False

    def record(self, duration_ns: int) -> None:
        """A batch took this long."""
        self._seen += 1
        self._average_ns += (duration_ns - self._average_ns) // _WEIGHT
        if self._average_ns > self._long_ns:
            self.together = False
            self._seen = 0
        elif self._average_ns < self._short_ns and self._seen >= WARM_UP_BATCHES:
            self.together = True


class Bind(typing.Protocol):
    """Binds threads; `Binder` is the real one."""

    def __call__(self, thread: int, processors: collections.abc.Set[int]) -> None:
        """Bind a thread, and those that work with it, to one processor, or release them to several.

        Raises:
            OSError: the thread has ended, the system does not allow it, or the model has set its own affinity.
        """
        ...

    def release_others(self, thread: int, processors: collections.abc.Set[int]) -> None:
        """Release the threads that were started bound."""
        ...


class ThreadBinding:
    """Binds a thread to the loop's processor, or releases it.

    Args:
        thread: its system id.
        bind: called with the id and the allowed processors; after a refusal it is not called again.
    """

    __slots__ = ("_allowed", "_bind", "_bound_to", "_kept", "_loop_on", "_thread", "_works")

    def __init__(self, thread: int, bind: Bind) -> None:
        self._thread = thread
        self._bind = bind
        self._allowed: frozenset[int] = frozenset()
        self._bound_to = -1
        self._loop_on = -1
        self._kept = 0
        self._works = True

    def loop_is_on(self, processor: int) -> None:
        """Note the processor of the loop; called by the loop."""
        self._loop_on = processor

    def apply(self, *, together: bool, batches: int = 1) -> None:
        """Bind or release the thread; costs two comparisons if nothing changed, but for a look at other threads now and then.

        Args:
            together: with the loop.
            batches: so many came back since the last call.
        """
        target = self._loop_on if together else -1
        if not self._works or (target == self._bound_to and target < 0):
            return
        try:
            if target == self._bound_to:
                self._kept += batches
                if self._kept >= SAMPLE_INTERVAL:
                    self._kept = 0
                    self._bind.release_others(self._thread, self._allowed)
                return
            if not self._allowed:
                self._allowed = frozenset(os.sched_getaffinity(self._thread))
            self._bind(self._thread, {target} if target in self._allowed else self._allowed)
            self._bound_to, self._kept = target, 0
        except OSError:
            self._works = False

    def close(self) -> None:
        """The thread ends: the system may give its id to another one."""
        _BOUND.discard(self._thread)


class WorkerAffinity:
    """The affinity of a worker process. All methods are called on the loop.

    Args:
        pid: the process, newly started.
        bind: see `Binder`.
    """

    __slots__ = ("_affinity", "_batches", "_binding", "_instances", "_threads")

    def __init__(self, pid: int, *, bind: Bind | None = None) -> None:
        self._affinity = AffinityPolicy(SHORT_IN_A_PROCESS_NS)
        self._threads = [pid]
        self._binding = ThreadBinding(pid, bind or Binder(self._threads))
        self._batches = 0
        self._instances = 1
        INSTANCES.add()

    def add(self, thread: int) -> None:
        """This thread executes the batches of another instance, besides the main thread."""
        self._threads.append(thread)
        self._instances += 1
        INSTANCES.add()

    def remove(self, thread: int) -> None:
        """This thread ends: the system may give its id to one of another process."""
        if thread in self._threads[1:]:
            self._threads.remove(thread)
            self._instances -= 1
            INSTANCES.add(-1)

    def close(self) -> None:
        """The process has ended."""
        self._binding.close()
        INSTANCES.add(-self._instances)
        self._instances = 0

    def ran(self, computed_ns: int) -> None:
        """A batch came back, which took so long in the model."""
        affinity = self._affinity
        affinity.record(computed_ns)
        instance = self if self._instances == 1 else None
        self._batches += 1
        is_sample = not self._batches % SAMPLE_INTERVAL
        if is_sample or INSTANCES.last is not instance:
            INSTANCES.works(instance)
        if is_sample:
            together = affinity.together and INSTANCES.alone
            if together:
                self._binding.loop_is_on(current_processor())
            self._binding.apply(together=together, batches=SAMPLE_INTERVAL)


_BOUND = set[int]()
"""Threads that binders have bound: no other binder releases them."""


class Binder:
    """Binds the threads that execute batches, and releases them with the threads that were started bound. Implements `Bind`.

    Threads that a model binds itself, as OpenMP does, stay as they are: only threads on the processor of the first thread that were not
    there before are released, and a first thread that was moved by the model is not touched again.

    Args:
        threads: those that execute batches, the main thread of a worker first; others may be added later.
    """

    __slots__ = ("_last", "_not_ours", "_put", "_threads")

    def __init__(self, threads: collections.abc.Sequence[int] = ()) -> None:
        self._threads = threads
        self._last: collections.abc.Set[int] | None = None
        self._put: set[int] = set()
        self._not_ours: set[int] = set()

    def __call__(self, thread: int, processors: collections.abc.Set[int]) -> None:
        """See `Bind`."""
        if self._last is not None and os.sched_getaffinity(thread) != self._last:
            raise PermissionError(f"thread {thread} has set its own affinity")
        if len(processors) == 1 and not processors <= self._put:
            # Those that are there already, and alone on it later, were bound by others.
            there = {
                each for each, where in _threads(thread) if not self._put or where == processors
            }
            self._not_ours |= there - {thread, *self._threads}
            self._put |= processors
        os.sched_setaffinity(thread, processors)
        for each in self._threads[1:]:
            os.sched_setaffinity(each, processors)
        self._last = processors
        if len(processors) == 1:
            _BOUND.add(thread)
        else:
            _BOUND.discard(thread)
            self.release_others(thread, processors)
            self._put.clear()
            self._not_ours.clear()

    def release_others(self, thread: int, processors: collections.abc.Set[int]) -> None:
        """See `Bind`."""
        kept = {thread, *self._threads, *self._not_ours, *_BOUND}
        for each, where in _threads(thread):
            if len(where) == 1 and where <= self._put and each not in kept:
                with contextlib.suppress(ProcessLookupError):  # a thread that ended meanwhile
                    os.sched_setaffinity(each, processors)


def _threads(thread: int) -> collections.abc.Iterator[tuple[int, set[int]]]:
    """The threads of a thread's process and the processors that each may run on."""
    for each in pathlib.Path(f"/proc/{thread}/task").iterdir():
        with contextlib.suppress(ProcessLookupError):  # a thread that ended meanwhile
            yield int(each.name), os.sched_getaffinity(int(each.name))


_libc = ctypes.CDLL(None, use_errno=True)


def current_processor() -> int:
    """The processor that the calling thread runs on; -1 if the system does not say."""
    try:
        processor: int = _libc.sched_getcpu()
    except AttributeError:
        return -1
    return processor

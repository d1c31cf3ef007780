"""Binds an instance with short batches to the processor of the event loop, and releases it when its batches get longer.

The loop and an instance alternate. On two processors each alternation is a wake-up across processors and a cold cache: with a small
Python model that cost a third of all requests per second in a thread, and made a hand-over to a process and
back three times as long (measured; docs/performance.md). Batches that take longer than a hand-over gain more from a processor of their own. The loop itself
is never bound: the kernel moves it, and the instance follows. `AffinityPolicy` is the pure decision, `ThreadBinding` applies
it, and `WorkerAffinity` does both for a worker process.

Limit: threads that a model starts while it is bound are bound with it until it is released.
"""

import collections.abc
import contextlib
import ctypes
import os
import pathlib

SHORT_NS = 60_000
"""Batches without the interpreter lock that take less than this, on average, run on the loop's processor: a hand-over to another
processor costs about as much."""

SHORT_WITH_INTERPRETER_NS = 1_000_000
"""The same for batches that hold the interpreter lock, which cannot run beside the loop anyway. Longer ones are released all the
same, because they may compute in libraries that release the lock."""

SHORT_IN_A_PROCESS_NS = 150_000
"""The same for a worker process, which has its own interpreter: the cost of a hand-over to another processor and back."""

_FEW_PROCESSORS = 2
"""With more processors than this, a worker under load gets one for itself; with this many, everything else needs the other one."""

SAMPLE_INTERVAL = 32
"""Batches between two checks of the processor that the loop runs on: it seldom moves."""

_HYSTERESIS = 2
"""An instance is released when its batches take this many times as long."""

WARM_UP_BATCHES = 32
"""Batches before the first decision: the first ones load code and caches, and a model that starts threads in them does so while it is
not bound (threads inherit the binding of the thread that starts them)."""

_WEIGHT = 8
"""A batch has a weight of one eighth in the average."""

_SEVERAL_CLIENTS = 4
"""A batch of several requests counts like one that takes this many times as long as a short one."""


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


Bind = collections.abc.Callable[[int, collections.abc.Set[int]], None]
"""`os.sched_setaffinity`, or `WorkerBinding`."""


class ThreadBinding:
    """Binds a thread to the loop's processor, or releases it.

    Args:
        thread: its system id; 0 for the thread that calls `apply`.
        bind: called with the id and the allowed processors; after a refusal it is not called again.
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
        """Note the processor of the loop; called by the loop."""
        self._loop_on = processor

    def apply(self, *, together: bool) -> None:
        """Bind or release the thread; costs two comparisons if nothing changed."""
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
    """The affinity of a worker process. All methods are called on the loop.

    Args:
        pid: the process, newly started.
        processors: the number of processors that it may run on.
        bind: see `WorkerBinding`.
    """

    __slots__ = ("_affinity", "_batches", "_binding", "_scarce", "_threads")

    def __init__(self, pid: int, *, processors: int, bind: Bind | None = None) -> None:
        self._affinity = AffinityPolicy(SHORT_IN_A_PROCESS_NS)
        self._threads = [pid]
        self._binding = ThreadBinding(pid, bind or WorkerBinding(self._threads))
        self._scarce = processors <= _FEW_PROCESSORS
        self._batches = 0

    def add(self, threads: collections.abc.Iterable[int]) -> None:
        """These threads execute batches besides the main thread."""
        self._threads.extend(threads)

    def remove(self, thread: int) -> None:
        """This thread ends: the system may give its id to one of another process."""
        if thread in self._threads[1:]:
            self._threads.remove(thread)

    def ran(self, computed_ns: int, requests: int) -> None:
        """A batch came back.

        Args:
            computed_ns: duration in the model.
            requests: its number of requests.
        """
        affinity = self._affinity
        if requests == 1 or self._scarce:
            affinity.record(computed_ns)
        else:
            # Several clients send requests, so the loop is busy as well: both are faster on their own processors.
            affinity.record(SHORT_IN_A_PROCESS_NS * _SEVERAL_CLIENTS)
        self._batches += 1
        if not self._batches % SAMPLE_INTERVAL:
            if affinity.together:
                self._binding.loop_is_on(current_processor())
            self._binding.apply(together=affinity.together)


class WorkerBinding:
    """Binds the threads of a worker that execute batches, and releases them with the threads that were started bound. Implements `Bind`.

    Threads that a model binds itself, as OpenMP does, stay as they are: only threads on the processor of the main thread that were not
    there before are released, and a main thread that was moved by the model is not touched again.

    Args:
        threads: those that execute batches, the main thread first; others may be added later.
    """

    __slots__ = ("_last", "_not_ours", "_put", "_threads")

    def __init__(self, threads: collections.abc.Sequence[int] = ()) -> None:
        self._threads = threads
        self._last: collections.abc.Set[int] | None = None
        self._put: set[int] = set()
        self._not_ours: set[int] = set()

    def __call__(self, pid: int, processors: collections.abc.Set[int]) -> None:
        """Bind the process to one processor, or release it to several.

        Raises:
            OSError: the process is gone, the system does not allow it, or the model has set its own affinity.
        """
        if self._last is not None and os.sched_getaffinity(pid) != self._last:
            raise PermissionError(f"process {pid} has set its own affinity")
        if len(processors) == 1 and not processors <= self._put:
            alone = {each for each, where in _threads(pid) if where == processors}
            self._not_ours |= alone - {pid, *self._threads}
            self._put |= processors
        os.sched_setaffinity(pid, processors)
        for thread in self._threads[1:]:
            os.sched_setaffinity(thread, processors)
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
    """The threads of a process and the processors that each may run on."""
    for each in pathlib.Path(f"/proc/{pid}/task").iterdir():
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

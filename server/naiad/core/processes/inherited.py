"""What new threads inherit of a thread that is bound to one processor for a moment: nothing, if they begin by `be_free`.

An event loop is bound while a thread of the program calls it alone (`embed/lone_caller.py`), and starts threads meanwhile: of instances, of executors, and the one that
starts worker processes. A thread inherits the processors of the one that starts it, and so does a process.
"""

import contextlib
import os

_BOUND: dict[int, tuple[int, frozenset[int]]] = {}
os.register_at_fork(after_in_child=_BOUND.clear)


def lend(thread: int, processor: int, own: frozenset[int]) -> None:
    """A thread is bound to a processor for moments, until `end`.

    Args:
        thread: its system id.
        processor: where it is bound.
        own: the processors that it has otherwise.
    """
    _BOUND[thread] = processor, own


def end(thread: int) -> None:
    """The thread is bound no more. Idempotent."""
    _BOUND.pop(thread, None)


def own_processors() -> frozenset[int]:
    """The processors that the calling thread may run on, apart from what it, or the thread that has started it, is bound to for a moment."""
    now = frozenset(os.sched_getaffinity(0))
    if _BOUND and len(now) == 1:
        for processor, own in tuple(_BOUND.values()):
            if processor in now:
                return own
    return now


def be_free() -> None:
    """The first that a thread does that may have been started by one that is bound for a moment."""
    if _BOUND:
        with contextlib.suppress(OSError):  # the system does not allow it
            os.sched_setaffinity(0, own_processors())

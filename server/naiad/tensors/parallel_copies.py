"""Many bytes, copied by several threads of a worker process: one processor copies slower than memory is.

The thread that asks copies as well, piece after piece, and the others take what is left: if they get no processor, it copies all, and waits for nothing but the piece
that another has begun. Limits: standard library and numpy, Python 3.8.
"""

import collections
import itertools
import os
import queue
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

PARALLEL_FROM = 1 << 22
"""Bytes of the smallest work for several threads: waking one up takes as long as copying half a megabyte."""

_PIECE = 1 << 19
_MOST_HELPERS = 3


class _Work:
    """Pieces that several threads copy; `pairs` as of `copy`."""

    def __init__(self, pairs: "Sequence[tuple[Any, Any]]") -> None:
        self._pieces = collections.deque(
            (into[at : at + _PIECE], source[at : at + _PIECE])
            for into, source in pairs
            for at in range(0, len(into), _PIECE)
        )
        self._last = len(self._pieces) - 1
        self._count = itertools.count()
        self._done = threading.Lock()
        self._done.acquire()

    def help(self) -> None:
        """Copy pieces until none is left; any thread."""
        pieces = self._pieces
        while pieces:
            try:
                into, source = pieces.popleft()
            except IndexError:  # another thread was faster
                return
            np.copyto(into, source)
            if next(self._count) == self._last:
                self._done.release()

    def wait(self) -> None:
        """Return once all pieces are copied."""
        self._done.acquire()


class _Helpers:
    """The threads beside the one that asks. They are started when they are needed first, and end with the process."""

    _threads: "list[threading.Thread]"
    _works: "queue.SimpleQueue[_Work]"

    def __init__(self) -> None:
        self.forget()

    def ask(self, work: _Work, count: int) -> None:
        """Have so many help, or fewer if the system has no more threads."""
        while len(self._threads) < count:
            thread = threading.Thread(target=self._run, name="naiad-copies", daemon=True)
            try:
                thread.start()
            except (RuntimeError, MemoryError):
                break
            self._threads.append(thread)
        for _ in self._threads[:count]:
            self._works.put(work)

    def forget(self) -> None:
        """There are none: also not in a child that was forked, which has no thread but one."""
        self._threads = []
        self._works = queue.SimpleQueue()

    def _run(self) -> None:
        while True:
            self._works.get().help()


_HELPERS = _Helpers()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_HELPERS.forget)


def copy(pairs: "Sequence[tuple[Any, Any]]") -> None:
    """Copy the second array of each pair to the first, both of uint8 and of the same length."""
    helpers = 0
    if sum([len(into) for into, _ in pairs]) >= PARALLEL_FROM:
        helpers = min(len(os.sched_getaffinity(0)) - 1, _MOST_HELPERS)
    if not helpers:
        for into, source in pairs:
            np.copyto(into, source)
        return
    work = _Work(pairs)
    _HELPERS.ask(work, helpers)
    work.help()
    work.wait()

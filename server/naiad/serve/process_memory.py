"""The resident memory of the server and its workers, and how an unload gives its part back."""

import collections.abc
import contextlib
import gc
import itertools
import pathlib
import resource
import threading

from naiad.core.processes.malloc import MALLOC

_PAGE = resource.getpagesize()


class ProcessMemory:
    """Implements the repository's `Memory`: this process and its worker processes.

    Args:
        workers: gives their ids.
    """

    def __init__(
        self, workers: collections.abc.Callable[[], collections.abc.Iterable[int]]
    ) -> None:
        self._workers = workers
        self._collecting = threading.Lock()
        self._requests = itertools.count(1)
        self._collected = 0
        """Requests for a collection with numbers up to this one are done."""

    def resident(self) -> int:
        """Bytes of resident memory; blocking, since it reads /proc. Memory that two processes share is counted twice.

        Looking for children among all processes of the machine would hold the interpreter lock, and hold up the event loop, for milliseconds.
        """
        pages = 0
        for process in ("self", *self._workers()):
            with contextlib.suppress(OSError):  # it may have ended
                pages += int(pathlib.Path(f"/proc/{process}/statm").read_text().split()[1])
        return pages * _PAGE

    def expect(self) -> None:
        """See `Memory`."""
        MALLOC.expect_frees()

    def give_back(self, *, collect: bool) -> None:
        """Return free pages to the system; blocking. `collect`: collect garbage before. Otherwise freed weights would still count as resident."""
        if collect:
            self._collect()
        MALLOC.give_back()

    def _collect(self) -> None:
        """Make a full collection. It holds the interpreter lock, so concurrent requests share one.

        What is exempt, 120,000 objects of imports, is not visited: with it a collection held the lock for 60 ms, and held up the event loop.
        """
        number = next(self._requests)
        with self._collecting:
            if number <= self._collected:
                return
            number = next(self._requests)
            gc.collect()
            self._collected = number

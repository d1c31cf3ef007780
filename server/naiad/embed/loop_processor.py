"""Brings the server's event loop to the processor of the thread that calls it, one request after the other.

Such a thread and the loop take turns. Where they run on two processors, each turn wakes one that sleeps, which takes tens of microseconds, most of all in a virtual machine:
a request of a small model took twice as long (docs/library.md). The kernel leaves each thread where it was, be it beside the other or not.

The loop is moved and not bound: the kernel may move it again at once, and threads and processes that it starts inherit nothing. The caller's thread is left alone.
Callers that have requests in progress at the same time are no reason to move.
"""

import collections.abc
import contextlib
import functools

from naiad.embed.calls import Calls, Post
from naiad.hosts.cpu_affinity import SAMPLE_INTERVAL, current_processor, move_to


class LoopProcessor:
    """Looks at one of `SAMPLE_INTERVAL` requests.

    Args:
        calls: on the loop.
        processor: says where the calling thread runs.
        move: moves the calling thread to a processor.
    """

    def __init__(
        self,
        calls: Calls,
        *,
        processor: collections.abc.Callable[[], int] = current_processor,
        move: collections.abc.Callable[[int], None] = move_to,
    ) -> None:
        self._calls = calls
        self._processor = processor
        self._move = move
        self._requests = 0

    def follow(self, post: Post) -> None:
        """The calling thread is about to send a request, for which it waits.

        Args:
            post: of the loop.
        """
        self._requests += 1  # threads may lose one to each other, which does not matter
        if not self._requests % SAMPLE_INTERVAL:
            post(functools.partial(self._come_to, self._processor()))

    def _come_to(self, processor: int) -> None:
        """On the loop."""
        if not self._calls.waiting and self._processor() != processor >= 0:
            with contextlib.suppress(OSError):  # the system does not allow it
                self._move(processor)

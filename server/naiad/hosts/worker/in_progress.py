"""The requests of a worker process whose responses may still be sent, where its server's cancellations and pauses find them.

Limits: standard library, Python 3.8.
"""

import threading
import weakref

from naiad.hosts.worker.requests import ReceivedRequest


class RequestsInProgress:
    """The requests whose responses may still be sent, by number: where a cancel finds them.

    Without a lock, which would cost every batch: each thread writes what the other one reads, and then reads what the other one
    writes, so that one of them sees both.

    Args:
        first: the number of the first request to come.
    """

    def __init__(self, first: int) -> None:
        self._batch: tuple[int, list[ReceivedRequest]] = (first, [])
        self._early: set[int] = set()
        self._paused: set[int] = set()
        self._pausing = threading.Lock()
        self._deferred: weakref.WeakValueDictionary[int, ReceivedRequest] = (
            weakref.WeakValueDictionary()
        )

    def begin(self, first: int, batch: "list[ReceivedRequest]") -> None:
        """A batch is about to run."""
        self._batch = (first, batch)
        later: set[int] = set()
        while self._early:
            # Its client left while it was on its way here: the control socket was faster.
            number = self._early.pop()
            if number >= first + len(batch):
                later.add(number)
            elif number >= first:
                batch[number - first].cancelled = True
        self._early |= later
        if self._paused:
            with self._pausing:
                self._paused = {n for n in self._paused if n >= first or n in self._deferred}
                for number in self._paused:
                    if first <= number < first + len(batch):
                        batch[number - first].pause(True)

    def defer(self, request: ReceivedRequest) -> None:
        """The responses of a request of the batch are deferred; it is known here for as long as a sender refers to it."""
        self._deferred[request.number] = request

    def ended(self) -> None:
        """The batch has ended."""
        first, batch = self._batch
        self._batch = (first + len(batch), [])

    def cancel(self, number: int) -> None:
        """The client has gone; called by the thread that listens."""
        first, batch = self._batch
        if number >= first + len(batch):
            self._early.add(number)
            first, batch = self._batch
            if number >= first + len(batch):
                return
        if number >= first:
            batch[number - first].cancel()
            return
        request = self._deferred.get(number)
        if request is not None:
            request.cancel()

    def pause(self, number: int, *, paused: bool) -> None:
        """Whether senders of its responses wait; called by the thread that listens, for a few requests of many."""
        with self._pausing:
            (self._paused.add if paused else self._paused.discard)(number)
            first, batch = self._batch
            in_batch = first <= number < first + len(batch)
            request = batch[number - first] if in_batch else self._deferred.get(number)
            if request is not None:
                request.pause(paused)

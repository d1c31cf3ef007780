"""The requests that an instance of a worker process has, by number: its batches, and those with deferred responses.

Plain state: `process` looks up the request of a message, and the requests that fail when the worker dies.
"""

from naiad.backends.instance import Execution
from naiad.core.inference import Inference
from naiad.core.response import InferResponse

_KEPT = 256


class InFlight:
    """The requests of one instance of a worker, by number.

    Requests are numbered in the order in which they are sent, so that a batch is a range and a message holds one number.

    Args:
        first: the number of the first request.

    Attributes:
        batch: the batch in execution; None if there is none.
        first: the number of its first request.
        prefetched: the batch that the worker executes next; None if there is none.
    """

    __slots__ = (
        "_answered_early", "_deferred", "_left", "_next", "_numbers", "_prefetched_first", "batch", "first", "prefetched",
    )  # fmt: skip

    def __init__(self, first: int) -> None:
        self.batch: list[Inference] | None = None
        self.prefetched: list[Inference] | None = None
        self.first = self._prefetched_first = self._next = first
        self._deferred: dict[int, Inference] = {}
        self._numbers: dict[Inference, int] = {}
        self._left: dict[tuple[int, int], list[Inference]] = {}
        self._answered_early: set[int] = set()

    def begin(self, batch: list[Inference]) -> int:
        """A batch is sent, the second one while another is in execution; returns the number of its first request."""
        first = self._next
        self._next = first + len(batch)
        if self.batch is None:
            self.batch, self.first = batch, first
        else:
            self.prefetched, self._prefetched_first = batch, first
        return first

    def end(self) -> None:
        """The batch in execution has ended; the prefetched one begins."""
        self.batch, self.first, self.prefetched = self.prefetched, self._prefetched_first, None
        if self._answered_early:
            self._answered_early.clear()

    def defer(self, execution: Execution[InferResponse]) -> None:
        """Keep the requests of the batch without a response: theirs are deferred, unless they came before the outcome."""
        batch = self.batch
        assert batch is not None
        again = {self.first + index for index in execution.rescheduled}
        for number, response in enumerate(execution.responses, self.first):
            if response is None and number not in self._answered_early and number not in again:
                inference = self._deferred[number] = batch[number - self.first]
                self._numbers[inference] = number
        self._left.clear()

    def waiting(self, number: int) -> Inference | None:
        """The request that a deferred response belongs to; None if it has its final one."""
        batch = self.batch
        if batch is not None and number not in self._answered_early:
            index = number - self.first
            if 0 <= index < len(batch):
                return batch[index]
        return self._deferred.get(number)

    def answered(self, number: int) -> None:
        """The final deferred response to this number came."""
        inference = self._deferred.pop(number, None)
        if inference is None:
            self._answered_early.add(number)
        else:
            self._numbers.pop(inference, None)
            self._left.clear()

    def number_of(self, inference: Inference) -> int | None:
        """The number of an inference; None if the worker no longer has it."""
        number = self._numbers.get(inference)
        if number is None and self.batch is not None and inference in self.batch:
            return self.first + self.batch.index(inference)
        return number

    def batch_at(self, first: int, count: int) -> list[Inference] | None:
        """The unfinished part of the batch with these numbers, perhaps one request of it; None if there is none.

        Of a whole batch, and of deferred requests, the list is the same object until the part changes.
        """
        if self.batch is not None and 0 <= (index := first - self.first) < len(self.batch):
            return self.batch[index : index + count] if index else self.batch
        key = first, count
        left = self._left.get(key)
        if left is None:
            apart = self._deferred
            # The worker gives the count: look for no more than there can be.
            numbers = range(first, first + count)
            those = numbers if count <= len(apart) else [each for each in apart if each in numbers]
            left = [apart[each] for each in those if each in apart]
            if left:
                if len(self._left) >= _KEPT:
                    self._left.clear()
                self._left[key] = left
        return left or None

    def owes_deferred(self) -> bool:
        """Whether a request waits for a deferred response."""
        return bool(self._deferred)

    def take_deferred(self) -> list[Inference]:
        """Remove and return the requests that wait for deferred responses: the worker is gone."""
        lost = list(self._deferred.values())
        self._deferred = {}
        self._numbers.clear()
        self._left.clear()
        return lost

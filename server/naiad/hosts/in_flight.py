"""The requests that a worker process has, by number: its batch, and those that are answered apart from theirs.

Requests are numbered in the order in which they were handed over, so that a batch is a range and a message needs to name one number.
Plain state, nothing waits here: `process` asks whom a message is about, and who is lost when the worker dies.
"""

from naiad.backends.backend import Execution
from naiad.core.inference import Inference

_KEPT = 256


class InFlight:
    """Who waits for what of a worker.

    Attributes:
        batch: the one that is out; None for none.
        first: the number of its first request.
    """

    __slots__ = ("_answered_early", "_apart", "_left", "_next", "_numbers", "batch", "first")

    def __init__(self) -> None:
        self.batch: list[Inference] | None = None
        self.first = 0
        self._next = 0
        self._apart: dict[int, Inference] = {}
        self._numbers: dict[Inference, int] = {}
        self._left: dict[tuple[int, int], list[Inference]] = {}
        self._answered_early: set[int] = set()

    def begin(self, batch: list[Inference]) -> int:
        """A batch goes out; gives back the number of its first request."""
        self.batch = batch
        self.first = first = self._next
        self._next = first + len(batch)
        return first

    def end(self) -> None:
        """The batch is over, whichever way."""
        self.batch = None
        if self._answered_early:
            self._answered_early.clear()

    def note_apart(self, execution: Execution) -> None:
        """What came of the batch leaves some without a response: they still wait for one apart, unless it came before."""
        batch = self.batch
        assert batch is not None
        for number, response in enumerate(execution.responses, self.first):
            if response is None and number not in self._answered_early:
                inference = self._apart[number] = batch[number - self.first]
                self._numbers[inference] = number
        self._left.clear()

    def waiting(self, number: int) -> Inference | None:
        """Who waits for a response apart of this number; None when it has its last one."""
        batch = self.batch
        if batch is not None and number not in self._answered_early:
            place = number - self.first
            if 0 <= place < len(batch):
                return batch[place]
        return self._apart.get(number)

    def answered(self, number: int) -> None:
        """The last response to this number came apart."""
        inference = self._apart.pop(number, None)
        if inference is None:
            self._answered_early.add(number)
        else:
            self._numbers.pop(inference, None)
            self._left.clear()

    def number_of(self, inference: Inference) -> int | None:
        """Under which number the worker has an inference; None when it has it no more."""
        number = self._numbers.get(inference)
        if number is None and self.batch is not None and inference in self.batch:
            return self.first + self.batch.index(inference)
        return number

    def batch_at(self, first: int, count: int) -> list[Inference] | None:
        """The batch of these numbers, or what is left of it; None when nothing is. The same list for as long as the same is left."""
        if self.batch is not None and first == self.first:
            return self.batch
        key = first, count
        left = self._left.get(key)
        if left is None:
            apart = self._apart
            # The worker says how many there are: no more are looked for than there can be.
            numbers = range(first, first + count)
            those = numbers if count <= len(apart) else [each for each in apart if each in numbers]
            left = [apart[each] for each in those if each in apart]
            if left:
                if len(self._left) >= _KEPT:
                    self._left.clear()
                self._left[key] = left
        return left or None

    def owes_apart(self) -> bool:
        """Whether anybody still waits for a response apart."""
        return bool(self._apart)

    def lose_apart(self) -> list[Inference]:
        """The worker is gone: who still waited for a response apart."""
        lost = list(self._apart.values())
        self._apart = {}
        self._numbers.clear()
        self._left.clear()
        return lost

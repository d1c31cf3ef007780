"""What a scheduler is: three methods that serve, and one that shows (roadmap 6/8 adds sequences and ensembles behind the same)."""

import collections.abc
import typing

from naiad.core.inference import Inference
from naiad.core.record import Record


class Occupancy(Record, frozen=True, gc=True):
    """What a scheduler's instances work on now.

    Attributes:
        instances: each one's name and its batch; None for one that is free.
        waits: whether an inference is in the queue.
        kept: batches that came back and may not leave before another one (row 12.9), each with that one.
    """

    instances: collections.abc.Sequence[tuple[str, list[Inference] | None]]
    waits: collections.abc.Callable[[Inference], bool]
    kept: collections.abc.Sequence[tuple[list[Inference], list[Inference]]] = ()


class Scheduler(typing.Protocol):
    """Decides which inference runs next, with whom and where. All methods belong to the event loop."""

    def enqueue(self, inference: Inference) -> None:
        """Take an inference; its `on_response` will be called exactly once more with a final response.

        From here on the scheduler owns it, on every way out: success, error, timeout, cancel, death, stop.

        Raises:
            InferenceError: it is refused (queue full, stopping); then it was not taken and nothing is called.
        """
        ...

    def inflight(self) -> int:
        """How many inferences it owns: queued ones and those in a batch."""
        ...

    def occupancy(self) -> Occupancy:
        """Who is where now. For those who ask seldom: it is put together on the spot."""
        ...

    async def stop(self) -> None:
        """Refuse new inferences, finish every one it owns, then close its hosts. Idempotent."""
        ...

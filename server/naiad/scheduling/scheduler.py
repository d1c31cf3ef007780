"""The scheduler interface: what the engine needs of a model version's scheduler."""

import collections.abc
import typing

from naiad.core.inference import Inference
from naiad.core.record import Record


class Occupancy(Record, frozen=True, gc=True):
    """What the instances of a scheduler execute now.

    Attributes:
        instances: the name and the batch of each; None for a free instance.
        waits: whether an inference is in the queue.
        kept: batches that came back and wait for another one to keep the order (row 12.9), each with that one.
    """

    instances: collections.abc.Sequence[tuple[str, list[Inference] | None]]
    waits: collections.abc.Callable[[Inference], bool]
    kept: collections.abc.Sequence[tuple[list[Inference], list[Inference]]] = ()


class Scheduler(typing.Protocol):
    """Decides when each inference runs, in which batch and on which instance. All methods belong to the event loop."""

    def enqueue(self, inference: Inference) -> None:
        """Take an inference; its `on_response` will be called exactly once more with a final response.

        The scheduler owns it until then, whatever happens: success, error, timeout, cancellation, death of a worker, stop.

        Raises:
            InferenceError: it is refused (queue full, stopping); nothing is called.
        """
        ...

    def inflight(self) -> int:
        """How many inferences it owns: queued ones and those in a batch."""
        ...

    def occupancy(self) -> Occupancy:
        """The batches of all instances. It is computed by each call, so call it rarely."""
        ...

    async def stop(self) -> None:
        """Refuse new inferences, finish every one it owns, then close its hosts. Idempotent."""
        ...

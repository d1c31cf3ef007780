"""The scheduler interface: what the engine needs of a model version's scheduler, whether the scheduler has instances or calls other models."""

import collections.abc
import typing

from naiad.core.inference import Inference
from naiad.core.record import Record
from naiad.metrics.statistics import ModelStatistics


class Occupancy(Record, frozen=True, gc=True):
    """What a scheduler executes now, for the detection of calls that wait for each other.

    Attributes:
        executions: the name of each instance with its batch; None for a free instance. A scheduler without instances has one entry per
            inference in progress.
        waits: whether an inference is in the queue for an instance.
        kept: batches that came back and wait for another one to keep the order (row 12.9), each with that one.
    """

    executions: collections.abc.Sequence[tuple[str, list[Inference] | None]]
    waits: collections.abc.Callable[[Inference], bool]
    kept: collections.abc.Sequence[tuple[list[Inference], list[Inference]]] = ()


class Scheduler(typing.Protocol):
    """Decides when and where each inference runs. All methods are called on the event loop.

    Attributes:
        statistics: the counters of the model version. The scheduler counts every inference that it accepted.
    """

    @property
    def statistics(self) -> ModelStatistics:
        """See above."""
        ...

    def submit(self, inference: Inference) -> None:
        """Accept an inference; its `on_response` will be called exactly once more with a final response.

        The scheduler owns it until then, whatever happens: success, error, timeout, cancellation, death of a worker, stop. It sets the
        inference's `on_cancel`.

        Raises:
            InferenceError: it is refused (queue full, stopping); nothing is called.
        """
        ...

    def inflight(self) -> int:
        """How many inferences it owns."""
        ...

    def occupancy(self) -> Occupancy:
        """What it executes. It is computed by each call, so call it rarely."""
        ...

    def ready_now(self) -> bool | None:
        """The result of `ready` if it is known without a call to an instance; None: call `ready`."""
        ...

    async def ready(self) -> bool:
        """Whether it could execute an inference now (rows 2.7, 2.12)."""
        ...

    async def stop(self) -> None:
        """Refuse new inferences, finish every one it owns, then close its instances. Idempotent."""
        ...

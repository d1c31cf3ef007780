"""The host of an instance: a thread of this process, or a worker process.

A host takes batches from the event loop and returns their outcomes, with one wake-up in each direction
(a hand-over costs as much as ten requests). It never calls a request's callback.
"""

import collections.abc
import typing

from naiad.backends.instance import Execution
from naiad.core.inference import Inference
from naiad.core.record import Record
from naiad.core.response import InferResponse
from naiad.errors import InferenceError


class BatchOutcome(Record, frozen=True):
    """A batch that came back.

    Attributes:
        batch: the inferences, as submitted.
        execution: the responses; None if the whole batch failed.
        error: why the whole batch failed; None if it did not.
        compute_start_ns: when the host got the batch (monotonic).
        compute_end_ns: when the backend was done with it (monotonic).
    """

    batch: list[Inference]
    execution: Execution[InferResponse] | None
    error: InferenceError | None
    compute_start_ns: int
    compute_end_ns: int


class DeferredResponse(Record, frozen=True, gc=True):
    """A response to an inference whose batch came back without one.

    Attributes:
        inference: the request.
        response: the last one is final.
        begun_ns: when its batch began to compute (monotonic).
        weight: bytes, as `Flow.sent` was called with; 0 if it was not.
    """

    inference: Inference
    response: InferResponse
    begun_ns: int
    weight: int = 0


OnOutcome = collections.abc.Callable[[BatchOutcome], None]
OnDeferred = collections.abc.Callable[[DeferredResponse], None]


class Host(typing.Protocol):
    """Runs one instance. All methods are called on the event loop, `submit` only while no batch is in execution.

    Attributes:
        name: the instance's name (row 11.32).
    """

    name: str

    def submit(self, batch: list[Inference], on_outcome: OnOutcome) -> None:
        """Execute a batch; `on_outcome` is called on the loop exactly once, also when the instance dies."""
        ...

    def deferred_to(self, on_deferred: OnDeferred) -> None:
        """Set the callback for deferred responses, called on the loop in their order.

        Called once, before the first batch. Responses that were sent before a batch came back are passed on before its outcome.
        """
        ...

    def watch(self, usable: collections.abc.Callable[[bool], None]) -> None:
        """Set the callback for whether this host can run batches: False when it cannot any more, True when it can again.

        A host is usable at first; it calls back with False before it returns the outcome of the batch in execution.
        """
        ...

    def ready_now(self) -> bool | None:
        """Whether the instance could run a batch now, if that is known without a call to it; None: call `ready`."""
        ...

    async def ready(self) -> bool:
        """Whether the instance could run a batch now."""
        ...

    def abort(self, why: str) -> None:
        """Abandon the batch in execution; only `close` may follow.

        A process is killed, and the batch fails before this returns. A thread cannot be killed: it is abandoned, and may still return
        the outcome later.

        Args:
            why: the second half of a sentence, for the log and for clients.
        """
        ...

    async def close(self) -> None:
        """Wait for the batch in execution, close the instance, end the thread or process. Idempotent.

        A thread or process that does not end in time is abandoned, with an error in the log.
        """
        ...

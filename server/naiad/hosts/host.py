"""The host of an instance, a thread of this process or a worker process: its interface, and what both kinds share.

A host takes batches from the event loop and returns their outcomes, with one wake-up in each direction
(a hand-over costs as much as ten requests). It never calls a request's callback.
"""

import asyncio
import collections.abc
import typing
from typing import Any

from naiad.backends.instance import Execution, InstanceSpec
from naiad.core.inference import Inference
from naiad.core.record import Record
from naiad.core.response import InferResponse
from naiad.errors import InferenceError

if typing.TYPE_CHECKING:
    from naiad.hosts.device_tensors import DeviceTensors
    from naiad.hosts.link.link import SegmentLostError
    from naiad.hosts.link.payload import Payload


class BatchOutcome(Record, frozen=True):
    """A batch that came back.

    Attributes:
        batch: the inferences, as submitted.
        execution: the responses; None if the whole batch failed.
        error: why the whole batch failed; None if it did not.
        compute_start_ns: when the host began with the batch, or when a second batch began (monotonic).
        compute_end_ns: when the backend was done with it (monotonic).
        input_end_ns: when its inputs lay where the model reads them, if that was before the instance began with it; else what `execution` says.
    """

    batch: list[Inference]
    execution: Execution[InferResponse] | None
    error: InferenceError | None
    compute_start_ns: int
    compute_end_ns: int
    input_end_ns: int


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
    """Runs one instance. All methods are called on the event loop, `submit` only while no batch is in execution, or one if it prefetches.

    Attributes:
        prefetches: whether it takes a second batch while one is in execution, so that no hand-over comes between them.
    """

    @property
    def prefetches(self) -> bool:
        """See above."""
        ...

    def submit(self, batch: list[Inference], on_outcome: OnOutcome) -> None:
        """Execute a batch; `on_outcome` is called on the loop exactly once, also when the instance dies.

        A second batch begins when the first one has ended, and fails with it when the instance dies. If it cannot be handed over, its
        outcome comes before the first one's.
        """
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

    async def close_late(self, why: str) -> None:
        """Close as soon as possible, because the time for a stop is over; return once the thread or process has ended, so that the caller may stop waiting.

        A process is killed, and its batches fail. A thread cannot be killed: it ends after the batch in execution, whether or not it was aborted.

        Args:
            why: as for `abort`.
        """
        ...


class HostedInstance(typing.NamedTuple):
    """An instance of a model that serves: what it is, and what runs it."""

    spec: InstanceSpec
    host: Host


@typing.runtime_checkable
class InProcess(typing.Protocol):
    """A host that runs its instance in a worker process."""

    @property
    def pid(self) -> int:
        """The process's id; 0 while there is none."""


EXECUTE = "naiad.execute_timeout"
LOAD = "naiad.load_timeout"


class Limit(Record, frozen=True):
    """How long something may take.

    Attributes:
        parameter: of the model's config, which sets it.
        seconds: 0 for as long as it likes.
    """

    parameter: str
    seconds: float


class Limits(Record, frozen=True):
    """How long an execution and a load may take, as a model's config says.

    Attributes:
        execute: of a batch.
        load: of a load, the first one and those of new workers.
    """

    execute: Limit = Limit(EXECUTE, 0)
    load: Limit = Limit(LOAD, 0)


class Notify(typing.Protocol):
    """Sends a notification to the worker."""

    def __call__(
        self, kind: int, number: int = 0, header: bytes = b"", payload: "Payload | None" = None
    ) -> None:
        """See `WorkerProcess.notify`."""
        ...


BatchAt = collections.abc.Callable[[int, int], list[Inference] | None]
"""The unfinished part of a batch, by the number of its first request and its size."""


class WorkerInstance(typing.Protocol):
    """An instance in a worker process, as the process and its supervisor call it; on the event loop.

    Attributes:
        name: the instance's name.
        busy: whether it has a batch.
    """

    name: str

    @property
    def busy(self) -> bool:
        """See above."""
        ...

    def on_message(self, kind: int, header: bytes | bytearray) -> None:
        """A call message came on the instance's link, whose segment is the link's `base`."""
        ...

    def on_notification(self, kind: int, number: int, header: bytes | bytearray, base: Any) -> None:
        """A notification came; `base` is its segment."""
        ...

    def on_lost(self, lost: "SegmentLostError") -> None:
        """A message came whose segment could not be received."""
        ...

    def batch_at(self, first: int, count: int) -> list[Inference] | None:
        """See `BatchAt`."""
        ...

    def worker_usable(self, usable: bool) -> None:  # noqa: FBT001  as schedulers call it
        """The process runs no more batches, or a new one does."""
        ...

    def worker_lost(self, how: str) -> None:
        """The process that has its requests is gone, or is being killed; `how` follows "its worker process "."""
        ...

    def worker_closes(self) -> None:
        """It, or the process, is about to be ended; it has no batch."""
        ...


class WorkerRpcHandler(typing.Protocol):
    """Handles the requests of one instance's workers. All methods are called on the event loop."""

    def handle(
        self,
        number: int,
        header: bytes | bytearray,
        base: Any,
        *,
        batch_at: BatchAt,
        reply: Notify,
        lent: "DeviceTensors | None" = None,
    ) -> None:
        """Handle a request, and reply now or later.

        Args:
            number: the request's number, which the reply repeats.
            header: as in `worker/asking.py`.
            base: the request's segment, owned by the handler.
            batch_at: finds the batch that makes the request.
            reply: sends replies.
            lent: the tensors on GPUs of the worker; None if it has none.

        Raises:
            Exception: the request is invalid.
        """
        ...

    def worker_exited(self) -> None:
        """Cancel the calls of the worker that ended, and release its metrics. Another worker may follow."""
        ...


class ClosedRpcHandler:
    """Implements `WorkerRpcHandler` for hosts without a server: a request ends the worker."""

    def handle(
        self,
        number: int,
        header: bytes | bytearray,
        base: Any,
        *,
        batch_at: BatchAt,
        reply: Notify,
        lent: "DeviceTensors | None" = None,
    ) -> None:
        """Refuse the request."""
        raise ValueError("there is no server")

    def worker_exited(self) -> None:
        """Nothing to release."""


READY_TIMEOUT_S = 5.0
"""How long an instance may take to say whether it is ready (row 2.12)."""


class Probe:
    """Asks one instance whether it is ready. All of it is on the event loop.

    Args:
        loop: whose futures it makes.
    """

    __slots__ = ("_answer", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._answer: asyncio.Future[bool] | None = None

    async def ask(self, begin: collections.abc.Callable[[], None]) -> bool:
        """The answer to a question; no answer within `READY_TIMEOUT_S` means no.

        Args:
            begin: starts a check, unless one is running.
        """
        answer = self._answer
        if answer is None or answer.done():
            answer = self._answer = self._loop.create_future()
            begin()
        done, _ = await asyncio.wait({answer}, timeout=READY_TIMEOUT_S)
        return bool(done) and answer.result()

    def answer(self, ready: bool) -> None:  # noqa: FBT001  the answer itself
        """The answer came, or none will."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(ready)

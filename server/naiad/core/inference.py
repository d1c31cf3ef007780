"""One inference under way: a request, the model version it runs on, and the way back to who asked.

Made by the engine, carried by the scheduler's queue, read by the backend, settled exactly once. All of it is
owned by the event loop; a backend on another thread may read `request` and `cancelled`, wait on `flow`, and write nothing.
"""

import collections.abc
import typing

import msgspec

from naiad.core.flow import Flow
from naiad.core.record import Record
from naiad.core.request import InferRequest
from naiad.core.response import InferResponse

OnResponse = collections.abc.Callable[[InferResponse], None]


class Cancellable(typing.Protocol):
    """A handle on work in progress."""

    def cancel(self) -> object:
        """The client has gone, or its deadline has passed. Safe at any time, any number of times; loop only."""
        ...


class ExecutionTimes(Record, frozen=True):
    """When a batch was computed (monotonic nanoseconds), and by which version of the model; shared by all of the batch."""

    version: int
    start_ns: int
    input_end_ns: int
    output_start_ns: int
    end_ns: int


class Inference(msgspec.Struct, eq=False):
    """A request on its way through queue, batch and backend.

    Attributes:
        request: what was asked, validated; inputs are in the model's shapes (reshape applied).
        batch_size: how many batch rows it brings; 1 for a model without a batch dimension.
        on_response: called on the loop with each response; the last one is final. Never called again after that.
        received_ns: when the engine got it (monotonic).
        queued_ns: when the scheduler took it (monotonic).
        priority_level: 1 is the highest; 0 for a model without priorities.
        deadline_ns: when its place in the queue expires (monotonic); 0 means never.
        cancelled: the client does not want it any more. Whoever holds it next drops it (row 12.16).
        settled: its final response was given. Nothing may respond to it any more.
        flow: how fast a model may send many answers; None where the client gets one.
        execution: when it was computed; None as long as it was not, and when its batch failed.
        on_cancel: set by whoever holds it (the scheduler): told at once when `cancel` is called.
    """

    request: InferRequest
    on_response: OnResponse
    batch_size: int
    received_ns: int
    queued_ns: int = 0
    priority_level: int = 0
    deadline_ns: int = 0
    cancelled: bool = False
    settled: bool = False
    flow: Flow | None = None
    execution: ExecutionTimes | None = None
    on_cancel: "collections.abc.Callable[[Inference], None] | None" = None

    def cancel(self) -> None:
        """The client left or gave up. Safe at any time, any number of times; loop only."""
        if self.settled or self.cancelled:
            return
        self.cancelled = True
        if self.flow is not None:
            self.flow.close()
        if self.on_cancel is not None:
            self.on_cancel(self)

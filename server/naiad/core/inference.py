"""One inference in progress: a validated request and its response callback.

The engine makes it, the scheduler owns it, the backend reads it, and it is completed exactly once. All of it belongs to the
event loop; a backend on another thread may read `request` and `cancelled`, wait on `flow`, and writes nothing.
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


class TracedInference(typing.Protocol):
    """An inference that is traced. Loop only, but for `context`."""

    @property
    def context(self) -> str:
        """What its model may hand on, as JSON with `traceparent` and perhaps `tracestate`; "" for none. Any thread, once the model has it."""
        ...

    def child(self) -> "RecordsInference":
        """The trace of a further inference that this one causes."""

    def answers_begin(self) -> None:
        """The responses of the batch whose first inference this is are about to be sent."""

    def answers_end(self) -> None:
        """They were sent, or wait for other work. Called after `answers_begin`, whatever fails in between."""


class RecordsInference(TracedInference, typing.Protocol):
    """The trace of an inference, which gets what happens to it."""

    def begins(self, model: typing.Any, inference: "Inference") -> None:
        """A model version, an `engine.model.Model`, runs the inference."""

    def responds(self, inference: "Inference", response: InferResponse) -> None:
        """A response comes; it is sent after this."""


class ExecutionTimes(Record, frozen=True):
    """When a batch was executed (monotonic nanoseconds), and by which version of the model; shared by all its inferences.

    Attributes:
        requests: how many inferences the batch had.
        responded_ns: when it was known what they are answered; 0 if each of them failed, or was answered with nothing.
    """

    version: int
    start_ns: int
    input_end_ns: int
    output_start_ns: int
    end_ns: int
    requests: int = 1
    responded_ns: int = 0


class Inference(msgspec.Struct, eq=False):
    """A request on its way through queue, batch and backend.

    Attributes:
        request: validated; inputs have the model's shapes (reshape applied).
        batch_size: its batch rows; 1 for a model without a batch dimension.
        on_response: called on the loop with each response; the last one is final. Never called again after that.
        received_ns: when the engine received it (monotonic).
        queued_ns: when the scheduler accepted it (monotonic).
        priority_level: 1 is the highest; 0 for a model without priorities.
        deadline_ns: when it expires in the queue (monotonic); 0: never.
        cancelled: the client has gone. The scheduler drops it if it is queued, and a model may stop working on it (row 12.16).
        completed: its final response was sent. Nothing may respond to it any more.
        flow: limits how fast a model sends responses; None if the client gets only one.
        execution: when it was executed; None before that, and, unless it is traced, if its batch failed.
        answered_ns: when it failed, was refused, or was answered from the response cache (monotonic); 0 otherwise.
        on_cancel: set by its scheduler; called by `cancel`.
        called: whether another model asks: its code, or an ensemble.
        traced: its trace; None for most.
    """

    request: InferRequest
    on_response: OnResponse
    batch_size: int
    received_ns: int
    queued_ns: int = 0
    priority_level: int = 0
    deadline_ns: int = 0
    cancelled: bool = False
    completed: bool = False
    flow: Flow | None = None
    execution: ExecutionTimes | None = None
    answered_ns: int = 0
    on_cancel: "collections.abc.Callable[[Inference], None] | None" = None
    called: bool = False
    traced: TracedInference | None = None

    def cancel(self) -> None:
        """The client has gone, or its deadline has passed. Safe at any time, any number of times; loop only."""
        if self.completed or self.cancelled:
            return
        self.cancelled = True
        if self.flow is not None:
            self.flow.close()
        if self.on_cancel is not None:
            self.on_cancel(self)

    @property
    def trace_context(self) -> str:
        """See `TracedInference.context`; "" if it is not traced. Any thread."""
        return "" if self.traced is None else self.traced.context


class TraceParent(Record, frozen=True):
    """The client's header `traceparent` (W3C Trace Context).

    Attributes:
        trace_id: 32 hexadecimal digits.
        span_id: of the client's span, 16 hexadecimal digits.
        flags: of the trace; bit 0: the client samples it.
        state: the client's header `tracestate`, to be handed on as it is; "" for none.
    """

    trace_id: str
    span_id: str
    flags: int
    state: str = ""


class RequestContext(msgspec.Struct, eq=False):
    """What is known of a request beside its content, from its first byte to the last byte of its response.

    For logs and traces. The protocol makes one per request, only if something reads it; the model that runs the request adds the inference.

    Attributes:
        received_ns: when the request's headers were complete, or all of it if it came in one piece (monotonic).
        request_id: the client's id; "" if there is none, or if only the inference has it.
        trace: the client's traceparent; None if there is none.
        model: the version that runs it, an `engine.model.Model`; None if none does.
        inference: the inference that it caused; None if there was none, or several.
        send_ns, sent_ns: when its response began to be sent, and when it was sent (monotonic); 0 before that.
        response_bytes: bytes of the response's body that were sent.
        asked: whether the request is for a model.
        lean: whether `asked` may be set without a call of `asks`.
    """

    received_ns: int
    request_bytes: int = 0
    request_id: str = ""
    trace: TraceParent | None = None
    model: typing.Any = None
    inference: Inference | None = None
    send_ns: int = 0
    sent_ns: int = 0
    response_bytes: int = 0
    asked: bool = False
    lean: bool = False

    def asks(self, model: str) -> None:
        """The request is for this model, which exists."""
        self.asked = True

    def runs(self, model: typing.Any, inference: Inference) -> None:
        """A model runs the request."""
        self.model = model
        self.inference = inference

    def finish(self) -> None:
        """Its response was sent, or will never be."""

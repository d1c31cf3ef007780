"""What is kept of a traced request: its own times, and one part per inference that it caused, with the parent of each. Loop only, until it is complete."""

import collections.abc
import json
import random
import typing

import msgspec

from naiad.core.device_tensor import DeviceTensor
from naiad.core.inference import ExecutionTimes, Inference, TraceParent
from naiad.core.response import InferResponse
from naiad.core.tensor import NO_VALUES, PackedStrings, Tensor, UnreadTensor, packed_strings
from naiad.errors import InferenceError
from naiad.tracing.batch import Batches, BatchTrace
from naiad.tracing.held import HeldTensors
from naiad.tracing.settings import TENSORS, TraceSetting
from naiad.tracing.usual import AddSent, SentTrace

# About what these take in memory, with their numbers.
_BYTES, _BYTES_OF_PART, _BYTES_OF_TIME = 256, 768, 40


class SpanIds(msgspec.Struct, frozen=True):
    """The trace that spans belong to (W3C Trace Context).

    Attributes:
        trace_id: the client's, or one of its own; 128 bits.
        flags: the client's; 1 for a trace of its own.
        state: the client's `tracestate`.
    """

    trace_id: int
    flags: int
    state: str = ""


def span_ids(parent: TraceParent | None) -> SpanIds:
    """The client's trace, or a new one."""
    if parent is None:
        return SpanIds(random_id(128), 1)
    return SpanIds(int(parent.trace_id, 16), parent.flags, parent.state)


def random_id(bits: int) -> int:
    """An id of a span or a trace, which is never 0."""
    return random.getrandbits(bits) or 1


class RequestTrace(msgspec.Struct, eq=False):
    """A traced request. Times are monotonic nanoseconds; 0 for what did not happen.

    Attributes:
        id: of the request, and of its inference.
        protocol: HTTP or GRPC.
        parent: the client's span, if it has sent one.
        received_ns, read_ns: when the request began to be read, and when it was whole.
        send_ns, sent_ns: when its response began to be sent, and when it was sent.
        parts: its inferences, each behind the one that caused it.
        open: inferences that have no final response yet.
        ended: whether its response was sent, or will never be.
        completed: whether nothing more is recorded.
        spans: the trace of its spans, in the mode OPENTELEMETRY.
        owner: has sampled it, and gets it once nothing more will be recorded.
        held: bytes of tensors that it holds.
    """

    id: int
    setting: TraceSetting
    protocol: str
    parent: TraceParent | None
    received_ns: int
    read_ns: int
    owner: "Samples"
    send_ns: int = 0
    sent_ns: int = 0
    parts: "list[InferenceTrace]" = []
    open: int = 0
    ended: bool = False
    completed: bool = False
    spans: SpanIds | None = None
    held: int = 0

    @property
    def size(self) -> int:
        """About how many bytes of memory it takes, without tensors."""
        return _BYTES + sum(
            _BYTES_OF_PART + len(part.request_id) + _BYTES_OF_TIME * len(part.responded_ns or ())
            for part in self.parts
        )

    def keep(self, tensor: Tensor) -> Tensor:
        """A tensor for a part, without its values if there is no room for more of them."""
        size = size_of(tensor)
        if not self.owner.tensors.take(size):
            return Tensor(tensor.name, tensor.datatype, tensor.shape, NO_VALUES)
        self.held += size
        return kept(tensor)

    def free(self) -> None:
        """It was written, or never will be: its parts, each of which is in a cycle with it, are dropped, and what they hold is free."""
        self.parts.clear()
        if self.held:
            self.owner.tensors.free(self.held)
            self.held = 0

    def end(self) -> None:
        """Its response was sent, or will never be."""
        if self.ended:
            return
        self.ended = True
        if not self.open:
            self.completed = True
            self.owner.complete(self)

    def closed(self) -> None:
        """An inference has its final response."""
        self.open -= 1
        if self.ended and not self.open:
            self.completed = True
            self.owner.complete(self)


class InferenceTrace(msgspec.Struct, eq=False):
    """One inference of a traced request: `core.inference.RecordsInference`.

    Attributes:
        parent_id: of the inference that caused it; 0 for that of the request.
        started_ns: when its model received it.
        responded_ns: when each of its responses came.
        ended_ns: when its final one did.
        composed: whether it is an ensemble's, which computes nothing itself.
        recorded: whether it is a part of the request. A call that a model makes once its own request has ended is not.
        span_id: of its span, where the request has spans.
        batch: the batch that executed it, there as well.
        inputs, outputs: with the level TENSORS, in files.
        inference, on_response: what it records, and where the responses go, while it is in between as an `OnResponse`.
    """

    request: RequestTrace
    id: int
    parent_id: int = 0
    model_name: str = ""
    model_version: int = 0
    request_id: str = ""
    started_ns: int = 0
    queued_ns: int = 0
    execution: ExecutionTimes | None = None
    composed: bool = False
    recorded: bool = False
    span_id: int = 0
    batch: BatchTrace | None = None
    responded_ns: list[int] | None = None
    ended_ns: int = 0
    inputs: tuple[Tensor, ...] = ()
    outputs: list[Tensor] | None = None
    inference: Inference | None = None
    on_response: collections.abc.Callable[[InferResponse], None] | None = None

    def begins(self, model: typing.Any, inference: Inference) -> None:
        """See `RecordsInference`."""
        request, asked = self.request, inference.request
        if request.completed:
            return
        self.recorded = True
        request.open += 1
        request.parts.append(self)
        self.model_name, self.request_id = asked.model_name, asked.id
        self.model_version, self.composed = model.version, model.config.ensemble is not None
        self.started_ns = inference.received_ns
        if request.spans is not None:
            self.span_id = random_id(64)
        elif request.setting.level & TENSORS:
            self.inputs = tuple(map(request.keep, asked.inputs))

    def responds(self, inference: Inference, response: InferResponse) -> None:
        """See `RecordsInference`."""
        if not self.recorded:
            return
        now = self.request.owner.now_ns()
        if not response.empty:
            if self.responded_ns is None:
                self.responded_ns = [now]
            else:
                self.responded_ns.append(now)
            if self.request.spans is None and self.request.setting.level & TENSORS:
                self.outputs = self.outputs or []
                self.outputs += map(self.request.keep, response.outputs)
        if response.final and not self.ended_ns:
            self._ends(inference, now)

    def _ends(self, inference: Inference, now: int) -> None:
        self.queued_ns = inference.queued_ns
        if not self.composed:
            self._executed(inference.execution)
        self.ended_ns = now
        self.request.closed()

    def answered(self, inference: Inference, *, answered_ns: int, now: int) -> None:
        """It has its only response already: since `answered_ns`, which is 0 if that had nothing in it."""
        if answered_ns:
            self.responded_ns = [answered_ns]
        self._ends(inference, answered_ns or now)

    def _executed(self, execution: ExecutionTimes | None) -> None:
        self.execution = execution
        spans = self.request.spans
        if execution is not None and spans is not None:
            batches = self.request.owner.batches
            self.batch = batches.add(execution, spans.trace_id, self.span_id, new_id=random_id(64))

    @property
    def context(self) -> str:
        """See `RecordsInference`."""
        spans = self.request.spans
        if spans is None or not self.recorded:
            return ""
        parent = f"00-{spans.trace_id:032x}-{self.span_id:016x}-{spans.flags:02x}"
        state = f',"tracestate":{json.dumps(spans.state)}' if spans.state else ""
        return f'{{"traceparent":"{parent}"{state}}}'

    def child(self) -> "InferenceTrace":
        """See `RecordsInference`."""
        request = self.request
        return InferenceTrace(request, request.owner.next_id(), self.id)

    def answers_begin(self) -> None:
        """See `TracedInference`: its responses are recorded as they come."""

    def answers_end(self) -> None:
        """See `TracedInference`."""

    def between(self, inference: Inference) -> None:
        """Record each response of an inference before it goes on."""
        self.inference, self.on_response = inference, inference.on_response
        inference.on_response = self

    def __call__(self, response: InferResponse) -> None:
        """A response comes."""
        inference, on_response = self.inference, self.on_response
        assert inference is not None, "it is in between"
        assert on_response is not None, "it is in between"
        self.responds(inference, response)
        if response.final:
            # Without a cycle both are freed here, not by the garbage collector.
            inference.on_response = on_response
            self.inference = self.on_response = None
        on_response(response)


def kept(tensor: Tensor) -> Tensor:
    """A tensor with values of its own: those of the request may be in memory that is used again. One on a GPU, which the server cannot read, is without."""
    if isinstance(tensor, DeviceTensor):
        return Tensor(tensor.name, tensor.datatype, tensor.shape, NO_VALUES)
    if isinstance(tensor, UnreadTensor):
        try:
            return Tensor(tensor.name, tensor.datatype, tensor.shape, tensor.array)
        except (
            InferenceError
        ):  # its client has made the object smaller, which its worker says as well
            return Tensor(tensor.name, tensor.datatype, tensor.shape, NO_VALUES)
    if isinstance(tensor, PackedStrings):  # unpacked on the thread that writes
        return packed_strings(tensor.name, tensor.shape, tensor.packed.copy())
    array = tensor.array
    return Tensor(
        tensor.name, tensor.datatype, tensor.shape, array if array.dtype.hasobject else array.copy()
    )


def size_of(tensor: Tensor) -> int:
    """Bytes of a tensor that is kept; 0 for one on a GPU."""
    if isinstance(tensor, DeviceTensor):
        return 0
    if isinstance(tensor, UnreadTensor):
        return tensor.place.size
    if isinstance(tensor, PackedStrings):
        return tensor.packed.nbytes
    array = tensor.array
    return array.nbytes + (sum(map(len, array.flat)) if array.dtype.hasobject else 0)


class Samples(typing.Protocol):
    """Decides whether a request is traced, and has what all traces share.

    Attributes:
        next_id: gives the ids of requests and inferences.
        everything: the setting by which each request is traced, whatever its model is, if its usual traces need nothing but their numbers; None: see `sampled`.
        complete_sent: gets the traces whose requests have their responses.
        gathered: contexts whose responses were sent, while those of a batch are; None at other times.
        tensors: limits the memory of tensors.
        batches: those that executed traced requests, in the mode OPENTELEMETRY.
    """

    now_ns: collections.abc.Callable[[], int]
    next_id: collections.abc.Callable[[], int]
    everything: TraceSetting | None
    complete_sent: AddSent
    gathered: list[SentTrace] | None
    tensors: HeldTensors
    batches: Batches

    def sampled(self, model: str, parent: TraceParent | None) -> TraceSetting | None:
        """The setting by which a request for this model is traced; None if it is not. Counts it."""

    def complete(self, trace: RequestTrace) -> None:
        """Called once for each, when nothing more will be recorded."""

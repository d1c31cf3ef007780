"""Requests, from the side of the model that answers them (row 15.12).

A request wraps what its host received and makes tensors, JSON and sets only when the model asks for them.
"""

import enum
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from naiad.backends.python.api import arguments, context, dlpack, exchange
from naiad.backends.python.api.datatypes import BF16, CODES
from naiad.backends.python.api.errors import TritonModelException
from naiad.backends.python.api.response import (
    InferenceResponseSender,
    ResponseChannel,
    checked_parameters,
    require_text,
)
from naiad.backends.python.api.server import Asked
from naiad.backends.python.api.tensor import Tensor, wrap
from naiad.tensors.memory import HOST

TRITONSERVER_REQUEST_FLAG_SEQUENCE_START = 1
TRITONSERVER_REQUEST_FLAG_SEQUENCE_END = 2
TRITONSERVER_REQUEST_RELEASE_ALL = 1
TRITONSERVER_REQUEST_RELEASE_RESCHEDULE = 2


class MemoryType(enum.IntEnum):
    """Where a tensor is, or should be."""

    TRITONSERVER_MEMORY_GPU = 0
    TRITONSERVER_MEMORY_CPU = 1


class PreferredMemory:
    """Where a caller would like to have outputs."""

    __slots__ = ("device_id", "memory_type")

    def __init__(self, preferred_memory_type: MemoryType, preferred_device_id: int = 0) -> None:
        if not isinstance(preferred_memory_type, MemoryType):
            raise TypeError(
                "PreferredMemory takes pb_utils.TRITONSERVER_MEMORY_CPU or TRITONSERVER_MEMORY_GPU, not "
                f"{preferred_memory_type!r}"
            )
        self.memory_type = preferred_memory_type
        self.device_id = preferred_device_id


class InferenceTrace:
    """The trace of a request; one that a model makes itself belongs to none.

    A request that is made with `trace=request.trace()` is traced as a child of `request`, if that one is (row 9.16).
    """

    __slots__ = ("_call",)

    def __init__(self) -> None:
        self._call: Any = None

    def get_context(self) -> "str | None":
        """The trace context as JSON, `{"traceparent": …}` and perhaps `tracestate` (W3C Trace Context), in which the span of this model is the parent.

        None if the request is not traced, or not with OpenTelemetry.
        """
        return getattr(self._call, "trace_context", None) or None


NO_TRACE = InferenceTrace()
CPU_MEMORY = PreferredMemory(MemoryType.TRITONSERVER_MEMORY_CPU)
_UINT32 = (1 << 32) - 1
_INT64 = (1 << 63) - 1
_UINT64 = (1 << 64) - 1


class InferenceRequest:
    """A request: one that came in, or one that a model makes of another model (row 15.20).

    Args:
        request_id: the model's own name for it.
        correlation_id: an int or a str.
        inputs: tensors.
        requested_output_names: not empty names; none of them means all outputs.
        model_name: whom to ask.
        model_version: -1 for the newest.
        flags: sequence flags.
        timeout: microseconds; 0 for none.
        preferred_memory: where outputs shall be.
        trace: the trace it belongs to.
        parameters: by name; bool, int or str.

    Text may also be given as UTF-8 bytes, such as the element of a BYTES tensor.

    Raises:
        TritonModelException: an input or a name that is empty, or a correlation id or parameters of another type, or text that is not valid Unicode.
        TypeError: something is missing or of another type.
        ValueError: a number out of its range.
    """

    __slots__ = (
        "_call", "_channel", "_flags", "_received", "_rescheduled", "_running", "_sender", "_tensors",
    )  # fmt: skip

    _call: Any
    """The request in progress, as in `backends/instance.py`; None for one that the model made."""
    _channel: "ResponseChannel | None"
    _flags: "int | None"
    """None: those of what it received."""
    _received: Asked
    """What the model made; of a request that came in, what its host has: the same by `Request` of `backends/instance.py`, and never written."""
    _rescheduled: bool
    _running: "context.Running | None"
    _sender: InferenceResponseSender
    _tensors: "list[Tensor] | None"

    def __init__(  # noqa: PLR0917 - the order is Triton's, models may call it by position
        self,
        request_id: "str | bytes" = "",
        correlation_id: "int | str" = 0,
        inputs: "Sequence[Tensor]" = arguments.REQUIRED,
        requested_output_names: "Sequence[str | bytes]" = arguments.REQUIRED,
        model_name: "str | bytes" = arguments.REQUIRED,
        model_version: int = -1,
        flags: int = 0,
        timeout: int = 0,
        preferred_memory: PreferredMemory = CPU_MEMORY,
        trace: InferenceTrace = NO_TRACE,
        parameters: "dict[str, Any] | None" = None,
    ) -> None:
        outgoing = Asked()
        outgoing.id = arguments.text("request_id", request_id)
        outgoing.model_name = arguments.text("model_name", model_name)
        outgoing.inputs = arguments.sequence("inputs", inputs)
        names = {
            arguments.text("requested_output_names", name)
            for name in arguments.sequence("requested_output_names", requested_output_names)
        }
        where = f"for request with id '{outgoing.id}' and model name '{outgoing.model_name}' should not be empty."
        for tensor in outgoing.inputs:
            if tensor is None:
                raise TritonModelException("Input tensor " + where)
            if not isinstance(tensor, Tensor):
                raise TypeError(
                    f"InferenceRequest(inputs=[…]) takes pb_utils.Tensor objects, not {type(tensor).__name__}"
                )
        if "" in names:
            raise TritonModelException("Requested output name " + where)
        if isinstance(correlation_id, str):
            require_text("correlation_id", correlation_id)
        elif isinstance(correlation_id, int):
            correlation_id = arguments.number("correlation_id", correlation_id, 0, _UINT64)
        else:
            raise arguments.no_correlation_id(correlation_id)
        outgoing.correlation_id = correlation_id
        outgoing.output_names = sorted(names)
        outgoing.model_version = arguments.number("model_version", model_version, -1, _INT64)
        outgoing.flags = arguments.number("flags", flags, 0, _UINT32)
        outgoing.timeout_us = arguments.number("timeout", timeout, 0, _INT64)
        outgoing.preferred_memory = arguments.instance(
            "preferred_memory", preferred_memory, PreferredMemory
        )
        outgoing.trace = arguments.instance("trace", trace, InferenceTrace)
        outgoing.parameters = {} if parameters is None else checked_parameters(parameters)
        self._received = outgoing
        self._call = None
        self._tensors = outgoing.inputs
        self._flags = outgoing.flags
        self._channel = None
        self._running = context.running()

    def inputs(self) -> "list[Tensor]":
        """Its tensors."""
        tensors = self._tensors
        if tensors is None:
            tensors = self._tensors = []
            for tensor in self._received.inputs:
                if tensor.memory is HOST:
                    # As `received`, whose calls would take as long again.
                    array = tensor.array
                    code = CODES.get(array.dtype)
                    if code is not None:
                        tensors.append(wrap(tensor.name, array, code))
                        continue
                tensors.append(received(tensor))
        return tensors

    def request_id(self) -> str:
        """Its id; "" when it has none."""
        return self._received.id

    def correlation_id(self) -> "int | str":
        """The sequence it belongs to; 0 or "" for none."""
        return self._received.correlation_id

    def flags(self) -> int:
        """Its sequence flags."""
        flags = self._flags
        return self._received.flags if flags is None else flags

    def set_flags(self, flags: int) -> None:
        """Change its sequence flags.

        Raises:
            TypeError: no int.
            ValueError: an int of more than 32 bits.
        """
        self._flags = arguments.number("flags", flags, 0, _UINT32)

    def timeout(self) -> int:
        """Microseconds it may wait in the queue; 0 for no limit."""
        return self._received.timeout_us

    def parameters(self) -> str:
        """Its parameters as JSON, written as Triton's server writes it, or, of a request of the model's own, as Python does."""
        parameters = self._received.parameters
        if self._channel is None:
            return json.dumps(parameters)
        return json.dumps(parameters, ensure_ascii=False, separators=(",", ":"))

    def requested_output_names(self) -> "set[str]":
        """The outputs that it asks for; all of the model's when the client named none."""
        names = self._received.output_names
        return set(names if names or self._channel is None else self._channel.all_outputs)

    def preferred_memory(self) -> PreferredMemory:
        """Where outputs should be."""
        return getattr(self._received, "preferred_memory", CPU_MEMORY)

    def trace(self) -> InferenceTrace:
        """The trace it belongs to."""
        if self._call is None:
            trace: InferenceTrace = self._received.trace
            return trace
        trace = InferenceTrace()
        trace._call = self._call  # noqa: SLF001 - as in `receive`
        return trace

    def is_cancelled(self) -> bool:
        """Whether the client does not want it any more."""
        return self._call is not None and bool(self._call.cancelled)

    def exec(self, decoupled: bool = False) -> Any:  # noqa: FBT001, FBT002 - models call it so
        """Ask the other model and wait.

        Args:
            decoupled: it may answer any number of times.

        Returns:
            Its response, or, decoupled, an iterator over all its responses. A failure is a response with an error.

        Raises:
            TritonModelException: outside `execute`, or it is a request that came in.
        """
        return exchange.ask(self._asked(), self._caller(), decoupled=decoupled)

    def async_exec(self, decoupled: bool = False) -> Any:  # noqa: FBT001, FBT002 - models call it so
        """Ask the other model from a coroutine: gives back a future of what `exec` gives back.

        Raises:
            RuntimeError: called outside a coroutine.
            TritonModelException: as `exec`.
        """
        return exchange.ask_async(self._asked(), self._caller(), decoupled=decoupled)

    def get_response_sender(self) -> InferenceResponseSender:
        """The way to answer apart from `execute`; the same one every time.

        Raises:
            TritonModelException: it is a request of the model's own.
        """
        sender = sender_of(self)
        if sender is None:
            if self._channel is None:
                raise TritonModelException(
                    "get_response_sender() answers requests that execute was given; this one was made by the model"
                )
            sender = self._sender = InferenceResponseSender(self._call, self._channel)
        return sender

    def set_release_flags(self, flags: int) -> None:
        """Say what becomes of the request after `execute`: RELEASE_ALL, or RELEASE_RESCHEDULE to see it again (row 15.18).

        Raises:
            TritonModelException: another flag.
        """
        if flags not in (TRITONSERVER_REQUEST_RELEASE_ALL, TRITONSERVER_REQUEST_RELEASE_RESCHEDULE):
            raise TritonModelException(f"Unsupported request release flag {flags}")
        self._rescheduled = flags == TRITONSERVER_REQUEST_RELEASE_RESCHEDULE
        if self._rescheduled and self._channel is not None:
            self._channel.has_rescheduled = True

    def _asked(self) -> Asked:
        outgoing = self._received
        if not isinstance(outgoing, Asked):
            raise TritonModelException(
                "exec() and async_exec() send requests that the model made; this one came in: make a pb_utils.InferenceRequest"
            )
        outgoing.flags = self.flags()
        return outgoing

    def _caller(self) -> "context.Running | None":
        """The instance whose code runs now, or, in an unknown thread, the one whose code made the request."""
        return context.running() or self._running


def traced_of(trace: InferenceTrace) -> Any:
    """For hosts: the `traced` of the request that a trace is of; None for none."""
    return getattr(trace._call, "traced", None)  # noqa: SLF001


def sender_of(request: InferenceRequest) -> "InferenceResponseSender | None":
    """A request's sender, if the model has asked for it."""
    return getattr(request, "_sender", None)


def receive(calls: "Sequence[Any]", channel: ResponseChannel) -> "list[InferenceRequest]":
    """What a model sees of a batch that came in; answers of its senders go to the channel."""
    requests: list[InferenceRequest] = []
    new, kind = InferenceRequest.__new__, InferenceRequest
    for call in calls:
        request = new(kind)
        request._received = call.request  # noqa: SLF001 - the one other way to make one, kept beside the class
        request._call = call  # noqa: SLF001
        request._tensors = None  # noqa: SLF001
        request._flags = None  # noqa: SLF001
        request._channel = channel  # noqa: SLF001
        requests.append(request)
    return requests


def is_rescheduled(request: InferenceRequest) -> bool:
    """For hosts: whether the model wants to see it again."""
    return getattr(request, "_rescheduled", False)


def received(tensor: Any) -> Tensor:
    """For hosts: a received tensor as a model sees it, wherever it lies."""
    on_device = None if tensor.memory is HOST else dlpack.of_received(tensor)
    if on_device is not None:
        return wrap(tensor.name, *on_device)
    return incoming(tensor.name, tensor.array)


def incoming(name: str, array: "np.ndarray[Any, Any]") -> Tensor:
    """For hosts: a received tensor as a model sees it; BF16 is an array of any dtype of two bytes that is not numeric."""
    code = CODES.get(array.dtype)
    if code is None:
        return wrap(name, array.view(np.uint16), BF16)
    return wrap(name, array, code)

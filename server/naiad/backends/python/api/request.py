"""Requests, from the side of the model that answers them (row 15.12).

A request wraps what its host received and makes tensors, JSON and sets only when the model asks for them.
"""

import enum
import json
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from naiad.backends.python.api.datatypes import BF16, CODES
from naiad.backends.python.api.errors import TritonModelException, not_there_yet
from naiad.backends.python.api.response_sender import InferenceResponseSender, Outlet
from naiad.backends.python.api.tensor import Tensor, wrap

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
        self.memory_type = preferred_memory_type
        self.device_id = preferred_device_id


class InferenceTrace:
    """The trace of a request; none is kept, so there is no context to hand on."""

    __slots__ = ()

    def get_context(self) -> "str | None":
        """The trace context as JSON; None without one."""
        return None


NO_TRACE = InferenceTrace()
CPU_MEMORY = PreferredMemory(MemoryType.TRITONSERVER_MEMORY_CPU)


class Received(Protocol):
    """What a host received: read, never written.

    Attributes:
        id: the caller's own name for it; "" when it gave none.
        correlation_id: the sequence it belongs to; 0 or "" for none.
        flags: sequence flags.
        timeout_us: microseconds it may wait in the queue; 0 for no limit.
        parameters: by name.
        requested_outputs: names; empty means all.
        inputs: each with a `name` and an `array`; BF16 as an array of a 2-byte dtype called bfloat16.
    """

    id: str
    correlation_id: "int | str"
    flags: int
    timeout_us: int
    parameters: "dict[str, Any]"
    requested_outputs: "list[str]"
    inputs: "list[Any]"


class Call(Protocol):
    """A request under way: what was received, and whether anybody still waits for the answer."""

    cancelled: bool

    @property
    def request(self) -> Any:
        """As `Received`."""


class _Asked:
    """What a model asks of another model, in the form of something received."""

    __slots__ = (
        "correlation_id", "flags", "id", "inputs", "model_name", "model_version", "parameters", "preferred_memory",
        "requested_outputs", "timeout_us", "trace",
    )  # fmt: skip

    id: str
    correlation_id: "int | str"
    flags: int
    timeout_us: int
    parameters: "dict[str, Any]"
    requested_outputs: "list[str]"
    inputs: "list[Any]"
    model_name: str
    model_version: int
    preferred_memory: PreferredMemory
    trace: InferenceTrace


class InferenceRequest:
    """A request: one that came in, or one that a model makes of another model (which cannot be sent yet).

    Args:
        request_id: the caller's own name for it.
        correlation_id: an int or a str.
        inputs: tensors.
        requested_output_names: not empty names.
        model_name: whom to ask.
        model_version: -1 for the newest.
        flags: sequence flags.
        timeout: microseconds; 0 for none.
        preferred_memory: where outputs shall be.
        trace: the trace it belongs to.
        parameters: by name; bool, int or str.

    Raises:
        TritonModelException: an input or a name that is empty, or a correlation id of another type.
    """

    __slots__ = ("_call", "_flags", "_outlet", "_received", "_sender", "_tensors")

    _call: "Call | None"
    _outlet: "Outlet | None"
    _sender: InferenceResponseSender
    _tensors: "list[Tensor] | None"

    def __init__(  # noqa: PLR0917 - the order is Triton's, models may call it by position
        self,
        request_id: str = "",
        correlation_id: "int | str" = 0,
        inputs: "Sequence[Tensor]" = (),
        requested_output_names: "Sequence[str]" = (),
        model_name: str = "",
        model_version: int = -1,
        flags: int = 0,
        timeout: int = 0,
        preferred_memory: PreferredMemory = CPU_MEMORY,
        trace: InferenceTrace = NO_TRACE,
        parameters: "dict[str, Any] | None" = None,
    ) -> None:
        where = (
            f"for request with id '{request_id}' and model name '{model_name}' should not be empty."
        )
        if any(tensor is None for tensor in inputs):
            raise TritonModelException("Input tensor " + where)
        if not all(requested_output_names):
            raise TritonModelException("Requested output name " + where)
        if not isinstance(correlation_id, (int, str)):
            raise TritonModelException("Correlation ID must be integer or string")
        asked = _Asked()
        asked.id = request_id
        asked.correlation_id = correlation_id
        asked.inputs = list(inputs)
        asked.requested_outputs = list(requested_output_names)
        asked.model_name = model_name
        asked.model_version = model_version
        asked.timeout_us = timeout
        asked.preferred_memory = preferred_memory
        asked.trace = trace
        asked.parameters = parameters or {}
        self._received: Received = asked
        self._call = None
        self._tensors = asked.inputs
        self._flags = flags
        self._outlet = None

    def inputs(self) -> "list[Tensor]":
        """Its tensors."""
        tensors = self._tensors
        if tensors is None:
            tensors = self._tensors = [
                _incoming(each.name, each.array) for each in self._received.inputs
            ]
        return tensors

    def request_id(self) -> str:
        """Its id; "" when it has none."""
        return self._received.id

    def correlation_id(self) -> "int | str":
        """The sequence it belongs to; 0 or "" for none."""
        return self._received.correlation_id

    def flags(self) -> int:
        """Its sequence flags."""
        return self._flags

    def set_flags(self, flags: int) -> None:
        """Change its sequence flags."""
        self._flags = flags

    def timeout(self) -> int:
        """Microseconds it may wait in the queue; 0 for no limit."""
        return self._received.timeout_us

    def parameters(self) -> str:
        """Its parameters as JSON, written as Triton's server writes it."""
        return json.dumps(self._received.parameters, ensure_ascii=False, separators=(",", ":"))

    def requested_output_names(self) -> "set[str]":
        """The outputs that it asks for; all of the model's when the client named none."""
        names = self._received.requested_outputs
        return set(names if names or self._outlet is None else self._outlet.all_outputs)

    def preferred_memory(self) -> PreferredMemory:
        """Where outputs should be."""
        return getattr(self._received, "preferred_memory", CPU_MEMORY)

    def trace(self) -> InferenceTrace:
        """The trace it belongs to."""
        return getattr(self._received, "trace", NO_TRACE)

    def is_cancelled(self) -> bool:
        """Whether the client does not want it any more."""
        return self._call is not None and self._call.cancelled

    def exec(self, decoupled: bool = False) -> Any:  # noqa: FBT001, FBT002 - models call it so
        """Ask another model and wait."""
        raise not_there_yet("Calling other models (InferenceRequest.exec)")

    def async_exec(self, decoupled: bool = False) -> Any:  # noqa: FBT001, FBT002 - models call it so
        """Ask another model and await the answer."""
        raise not_there_yet("Calling other models (InferenceRequest.async_exec)")

    def get_response_sender(self) -> InferenceResponseSender:
        """The way to answer apart from `execute`; the same one every time.

        Raises:
            TritonModelException: it is a request of the model's own.
        """
        sender = sender_of(self)
        if sender is None:
            if self._outlet is None:
                raise TritonModelException(
                    "get_response_sender() answers requests that execute was given; this one was made by the model"
                )
            sender = self._sender = InferenceResponseSender(self._call, self._outlet)
        return sender

    def set_release_flags(self, flags: int) -> None:
        """Say what becomes of the request after `execute`; only RELEASE_ALL, which is what happens anyway."""
        if flags == TRITONSERVER_REQUEST_RELEASE_RESCHEDULE:
            raise not_there_yet("Rescheduling a request (set_release_flags)")
        if flags != TRITONSERVER_REQUEST_RELEASE_ALL:
            raise TritonModelException(f"Unsupported request release flag {flags}")


def sender_of(request: InferenceRequest) -> "InferenceResponseSender | None":
    """A request's sender, if somebody asked for it."""
    return getattr(request, "_sender", None)


def receive(call: Call, outlet: Outlet) -> InferenceRequest:
    """What a model sees of a request that came in.

    Args:
        call: the request under way.
        outlet: where answers of its sender go.
    """
    request = InferenceRequest.__new__(InferenceRequest)
    received = call.request
    request._received = received  # noqa: SLF001 - the one other way to make one, kept beside the class
    request._call = call  # noqa: SLF001
    request._tensors = None  # noqa: SLF001
    request._flags = received.flags  # noqa: SLF001
    request._outlet = outlet  # noqa: SLF001
    return request


def _incoming(name: str, array: "np.ndarray[Any, Any]") -> Tensor:
    code = CODES.get(array.dtype)
    if code is None:
        return wrap(name, array.view(np.uint16), BF16)
    return wrap(name, array, code)

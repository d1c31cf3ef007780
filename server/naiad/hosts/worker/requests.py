"""The requests that a worker process has, read from the server's messages; `in_progress` finds them again for its cancellations and pauses.

Limits: standard library and numpy, Python 3.8.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from naiad.backends.instance import host_array
from naiad.backends.python.api.datatypes import deserialize_bytes_tensor
from naiad.errors import unavailable
from naiad.hosts.worker import codec, layouts
from naiad.hosts.worker.layouts import Alike
from naiad.tensors import descriptor
from naiad.tensors.descriptor import Descriptor
from naiad.tensors.memory import CPU, HOST, Memory
from naiad.tensors.shared_slots import SHARED, ReceivedSlots


class ReceivedTensor:
    """An input.

    Attributes:
        name: its name.
        datatype: its wire name.
        array: its values; a view of shared memory, except BYTES.
        memory: where they lie.
    """

    __slots__ = ("array", "datatype", "name")

    memory = HOST

    def __init__(self, name: str, datatype: str, array: "np.ndarray[Any, Any]") -> None:
        self.name = name
        self.datatype = datatype
        self.array = array

    def __dlpack__(self, *, stream: Any = None, **_newer: Any) -> Any:
        """See `InputTensor`; the stream and what newer consumers ask for have no effect on the CPU."""
        from naiad.tensors import dlpack  # noqa: PLC0415 - few backends use it, and ctypes takes milliseconds

        return dlpack.export(self.array, self.datatype, owner=self)

    def __dlpack_device__(self) -> "tuple[int, int]":
        """See `InputTensor`."""
        return CPU, 0


class ReceivedDeviceTensor:
    """An input on a CUDA device, in memory of another process: opened with its first use, and kept as long as this or a view of it is there.

    Attributes:
        name: its name.
        datatype: its wire name.
        shape: its shape.
    """

    __slots__ = ("_descriptor", "_opened", "datatype", "name", "shape")

    def __init__(
        self, name: str, datatype: str, shape: "tuple[int, ...]", descriptor: Descriptor
    ) -> None:
        self.name = name
        self.datatype = datatype
        self.shape = shape
        self._descriptor = descriptor
        self._opened: Any = None

    @property
    def on_device(self) -> Any:
        """Its values, a `DeviceArray`.

        Raises:
            InferenceError: INTERNAL: they cannot be opened.
        """
        if self._opened is None:
            self._opened = _imports().open(self._descriptor, self.shape, self.datatype)
        return self._opened

    @property
    def memory(self) -> Memory:
        """Where they lie, numbered as this process does."""
        memory: Memory = self.on_device.memory
        return memory

    @property
    def array(self) -> "np.ndarray[Any, Any]":
        """A copy of its values in the host's memory.

        Raises:
            InferenceError: the device reports an error.
        """
        return host_array(self.name, self.on_device)

    def __dlpack__(self, *, stream: Any = None, **newer: Any) -> Any:
        """See `InputTensor`."""
        return self.on_device.__dlpack__(stream=stream, **newer)

    def __dlpack_device__(self) -> "tuple[int, int]":
        """See `InputTensor`."""
        found: tuple[int, int] = self.on_device.__dlpack_device__()
        return found

    def __del__(self) -> None:
        if self._opened is None:
            _imports().refuse(self._descriptor.number)


class Returns:
    """How the server hears which tensors on a device this process does not use any more: set before the first one comes."""

    send: "Callable[[bytes], None]"


def _imports() -> Any:
    from naiad.hosts.worker.gpu.imports import IMPORTS  # noqa: PLC0415 - most processes have no device

    IMPORTS.returns_to(Returns.send)
    return IMPORTS


_PLACES, _CONTEXT = 6, 7
_PLAIN = 2
"""Fields of `extra` of a request whose outputs go to the host."""

MOST_REQUESTS = 1 << 31
"""In a batch: the server writes no more than there are."""


class _Fields:
    """The fields of a batch that differ from request to request. They are read when a model asks for the first of them: most never do.

    Args:
        text: a list of them as JSON; empty if all requests have the defaults.
    """

    __slots__ = ("_rows", "_text")

    def __init__(self, text: "bytes | bytearray") -> None:
        self._text = text
        self._rows: Any = None

    def of(self, index: int) -> Any:
        """Of the request at this position: id, correlation id, flags, timeout, parameters, whether it was cancelled; perhaps places, and trace context."""
        if not self._text:
            return "", 0, 0, 0, {}, False
        rows = self._rows
        if rows is None:
            rows = self._rows = codec.read_json(self._text)
        return rows[index]

    def places(self, index: int) -> "Sequence[Any]":
        """See `ReceivedRequest.places`."""
        row = self.of(index)
        return row[_PLACES] if len(row) > _PLACES else ()

    def trace_context(self, index: int) -> str:
        """See `ReceivedRequest.trace_context`."""
        row = self.of(index)
        context: str = row[_CONTEXT] if len(row) > _CONTEXT else ""
        return context


_DEFAULTS = _Fields(b"")


class ReceivedRequest:
    """Implements `Request`, and `Call`: `request` is itself.

    Args:
        number: of this request among all that the worker was given.
        fields: of its batch.
        index: its position there.

    Attributes:
        on_device: the server's number of the device on which its outputs may stay, -1 for any, and their names, None for all; None: they go to the host.
        places: of each output that is to be written to a client's shared memory, if it can be: its name, the number of the object, offset, bytes.
    """

    __slots__ = (
        "__weakref__", "_capacity", "_fields", "_index", "batch_size", "cancelled", "inputs", "number", "on_device", "output_names",
        "places",
    )  # fmt: skip

    output_names: "list[str]"
    batch_size: int
    inputs: "list[Any]"

    def __init__(self, number: int, fields: _Fields = _DEFAULTS, index: int = 0) -> None:
        self.number = number
        self.cancelled = False
        self.on_device: Any = None
        self.places: Sequence[Any] = ()
        self._fields = fields
        self._index = index
        self._capacity: threading.Event | None = None

    @property
    def request(self) -> "ReceivedRequest":
        """What was received."""
        return self

    @property
    def is_plain(self) -> bool:
        """Whether it has no id, correlation id, flags, timeout and parameters: most have none."""
        return self._fields is _DEFAULTS

    @property
    def id(self) -> str:
        """See `Request`."""
        name: str = self._fields.of(self._index)[0]
        return name

    @property
    def correlation_id(self) -> "int | str":
        """See `Request`."""
        correlation: int | str = self._fields.of(self._index)[1]
        return correlation

    @property
    def flags(self) -> int:
        """See `Request`."""
        flags: int = self._fields.of(self._index)[2]
        return flags

    @property
    def timeout_us(self) -> int:
        """See `Request`."""
        timeout: int = self._fields.of(self._index)[3]
        return timeout

    @property
    def parameters(self) -> "dict[str, Any]":
        """See `Request`."""
        parameters: dict[str, Any] = self._fields.of(self._index)[4]
        return parameters

    @property
    def traced(self) -> int:
        """Which request's trace a call belongs to: the server knows whether there is one."""
        return self.number

    @property
    def trace_context(self) -> str:
        """What the model may hand on of its trace, as JSON; "" for none."""
        return self._fields.trace_context(self._index)

    @property
    def requested_outputs(self) -> "list[str]":
        """See `Request`."""
        return self.output_names

    @property
    def label(self) -> str:
        """See `Request`."""
        return f"[request id: {self.id or '<id_unknown>'}] "

    def cancel(self) -> None:
        """The client has gone. Called beside the batch, in another thread."""
        self.cancelled = True
        self.pause(False)

    def pause(self, paused: bool) -> None:  # noqa: FBT001  as it was received
        """Whether senders of its responses wait, because its client does not read. Called as `cancel` is."""
        capacity = self._capacity
        if paused and not self.cancelled:
            if capacity is None:
                capacity = self._capacity = threading.Event()
            capacity.clear()
        elif capacity is not None:
            capacity.set()

    def wait_for_capacity(self) -> None:
        """Return once its client takes more responses, or has gone; at once unless it is paused."""
        capacity = self._capacity
        if capacity is not None and not self.cancelled:
            capacity.wait()


class RequestReader:
    """Reads batches."""

    def __init__(self) -> None:
        self._reader = layouts.Reader(resolved)

    def __len__(self) -> int:
        """The number of layouts that it remembers."""
        return len(self._reader)

    def read(
        self,
        base: Any,
        header: "bytes | bytearray",
        first: int,
        shared: "ReceivedSlots | None" = None,
    ) -> "list[ReceivedRequest]":
        """The requests of a BATCH.

        Args:
            base: where the tensors are.
            header: the message's.
            first: the message's number: that of the first request.
            shared: files in which they may be as well.

        Raises:
            InferenceError: a tensor is where this process cannot read it.
        """
        layout, rest = self._reader.read(header, MOST_REQUESTS)
        fields = _Fields(rest) if rest else _DEFAULTS
        perhaps_cancelled = b"true" in rest
        placed = shared is not None and len(shared.files) > 0
        requests: list[ReceivedRequest] = []
        if layout.alike is not None and not placed and len(layout.alike.extra) == _PLAIN:
            requests = _alike(base, layout.alike, first, fields)
            if perhaps_cancelled:
                for index, request in enumerate(requests):
                    request.cancelled = fields.of(index)[5]
            return requests
        for index, ((batch_size, output_names, *on_device), tensors) in enumerate(layout.groups):
            request = ReceivedRequest(first + index, fields, index)
            request.batch_size = batch_size
            request.output_names = output_names
            if on_device:
                request.on_device = on_device
            request.inputs = [_tensor(base, each, at, size, shared) for each, at, size in tensors]
            if perhaps_cancelled:
                request.cancelled = fields.of(index)[5]
            if placed:
                request.places = fields.places(index)
            requests.append(request)
        return requests


def _alike(base: Any, alike: Alike, first: int, fields: _Fields) -> "list[ReceivedRequest]":
    """Requests that all look alike, whose tensors are views of one array for each input."""
    batch_size, output_names = alike.extra
    columns: list[list[ReceivedTensor]] = []
    for (name, datatype, dtype, _), shape, at, strides in alike.columns:
        column: list[ReceivedTensor] = []
        new_tensor = ReceivedTensor.__new__
        for array in np.ndarray(shape, dtype, base, at, strides):
            # As `ReceivedTensor` and `ReceivedRequest` make themselves; their calls would take as long again.
            tensor = new_tensor(ReceivedTensor)
            tensor.name = name
            tensor.datatype = datatype
            tensor.array = array
            column.append(tensor)
        columns.append(column)
    requests: list[ReceivedRequest] = []
    new = ReceivedRequest.__new__
    for index, inputs in enumerate(zip(*columns)):  # noqa: B905 - 3.8 knows no strict; they are as long as each other
        request = new(ReceivedRequest)
        request.number = first + index
        request.cancelled = False
        request.on_device = None
        request.places = ()
        request._fields = fields
        request._index = index  # noqa: SLF001
        request._capacity = None  # noqa: SLF001
        request.batch_size = batch_size
        request.output_names = output_names
        request.inputs = list(inputs)
        requests.append(request)
    return requests


def resolved(
    name: str, datatype: str, shape: "tuple[int, ...]", memory: Memory
) -> "tuple[Any, ...]":
    """What this side needs of a tensor: its dtype is None for BYTES, its memory for one that is on a device, and a tuple of its dtype for one in a shared file."""
    dtype = codec.DTYPES.get(datatype)
    if memory == SHARED:
        return name, datatype, (dtype,), shape
    return name, datatype, dtype if memory is HOST else memory, shape


def tensors_of(base: Any, group: Any) -> "list[Any]":
    """The tensors of a group that was read with `resolved`; views of the message, except BYTES, or on a device."""
    return [_tensor(base, each, at, size) for each, at, size in group[1]]


def _tensor(
    base: Any,
    resolved: "tuple[Any, ...]",
    at: int,
    size: int,
    shared: "ReceivedSlots | None" = None,
) -> Any:
    name, datatype, dtype, shape = resolved
    if type(dtype) is tuple:
        return ReceivedTensor(
            name, datatype, _shared(bytes(base[at : at + size]), shape, dtype[0], shared)
        )
    if type(dtype) is Memory:
        return ReceivedDeviceTensor(
            name, datatype, shape, descriptor.unpacked(bytes(base[at : at + size]))
        )
    if dtype is None:
        values = deserialize_bytes_tensor(bytes(base[at : at + size])).reshape(shape)
    elif size:
        values = np.ndarray(shape, dtype, base, at)
    else:
        values = np.empty(shape, dtype)
    return ReceivedTensor(name, datatype, values)


def _shared(
    place: bytes, shape: "tuple[int, ...]", dtype: Any, shared: "ReceivedSlots | None"
) -> Any:
    try:
        if shared is not None:
            return shared.array(place, shape, dtype)
    except LookupError as error:
        raise unavailable(f"its worker process could not take the request: {error}") from error
    raise unavailable("its worker process could not take the request: it has no shared files")

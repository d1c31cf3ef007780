"""The requests that a worker process has, read from the server's messages; `in_progress` finds them again for its cancellations and pauses.

Limits: standard library and numpy, Python 3.8.
"""

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from naiad.hosts.link import codec, layouts
from naiad.hosts.link.layouts import Alike
from naiad.hosts.worker.received_tensors import ReceivedTensor, resolved, tensor_of
from naiad.tensors.shared_slots import ReceivedSlots

_PLACES, _CONTEXT = 6, 7
_PLAIN = 2
"""Fields of `extra` of a request whose outputs go to the host."""

_WITH_PLACES = 3
"""Fields behind these, if places of outputs on a device are behind the inputs; the last one says how many."""

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
        places_on_device: the place of each output that is to be written to a client's memory on the device, if it can be, by its name.
    """

    __slots__ = (
        "__weakref__", "_capacity", "_fields", "_index", "batch_size", "cancelled", "inputs", "number", "on_device", "output_names",
        "places", "places_on_device",
    )  # fmt: skip

    output_names: "list[str]"
    batch_size: int
    inputs: "list[Any]"

    def __init__(self, number: int, fields: _Fields = _DEFAULTS, index: int = 0) -> None:
        self.number = number
        self.cancelled = False
        self.on_device: Any = None
        self.places: Sequence[Any] = ()
        self.places_on_device: Any = None
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
            request.inputs = [tensor_of(base, each, at, size, shared) for each, at, size in tensors]
            if len(on_device) == _WITH_PLACES:
                first_place = len(tensors) - on_device.pop()
                request.places_on_device = {
                    each.name: each for each in request.inputs[first_place:]
                }
                del request.inputs[first_place:]
            if perhaps_cancelled:
                request.cancelled = fields.of(index)[5]
            if placed:
                request.places = fields.places(index)
            requests.append(request)
        if shared is not None:
            shared.read()
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
        request.places_on_device = None
        request._fields = fields
        request._index = index  # noqa: SLF001
        request._capacity = None  # noqa: SLF001
        request.batch_size = batch_size
        request.output_names = output_names
        request.inputs = list(inputs)
        requests.append(request)
    return requests

"""The requests that a worker process has: read from the server's messages, and found again for its cancellations and pauses.

Limits: standard library and numpy, Python 3.8.
"""

import threading
import weakref
from typing import Any

import numpy as np

from naiad.backends.python.api.datatypes import deserialize_bytes_tensor
from naiad.hosts.worker import codec


class ReceivedTensor:
    """An input.

    Attributes:
        name: its name.
        datatype: its wire name.
        array: its values; a view of shared memory, except BYTES.
    """

    __slots__ = ("array", "datatype", "name")

    def __init__(self, name: str, datatype: str, array: "np.ndarray[Any, Any]") -> None:
        self.name = name
        self.datatype = datatype
        self.array = array


class ReceivedRequest:
    """Implements `Request`, and `Call`: `request` is itself.

    Attributes:
        number: of this request among all that the worker was given.
    """

    __slots__ = (
        "__weakref__",
        "_capacity",
        "batch_size",
        "cancelled",
        "correlation_id",
        "flags",
        "id",
        "inputs",
        "number",
        "output_names",
        "parameters",
        "timeout_us",
    )  # fmt: skip

    id: str
    correlation_id: "int | str"
    flags: int
    timeout_us: int
    parameters: "dict[str, Any]"
    output_names: "list[str]"
    cancelled: bool
    batch_size: int
    inputs: "list[Any]"

    def __init__(self, number: int) -> None:
        self.number = number
        self._capacity: threading.Event | None = None

    @property
    def request(self) -> "ReceivedRequest":
        """What was received."""
        return self

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


_NO_FIELDS: Any = ("", 0, 0, 0, {}, False)
"""Of a request with defaults; nothing writes to its parameters."""


class RequestReader:
    """Reads batches."""

    def __init__(self) -> None:
        self._reader = codec.Reader(resolved)

    def __len__(self) -> int:
        """The number of layouts that it remembers."""
        return len(self._reader)

    def read(self, base: Any, header: "bytes | bytearray", first: int) -> "list[ReceivedRequest]":
        """The requests of a BATCH.

        Args:
            base: where the tensors are.
            header: the message's.
            first: the message's number: that of the first request.

        Raises:
            InferenceError: a tensor is where this process cannot read it.
        """
        layout, rest = self._reader.read(header)
        fields = codec.read_json(rest) if rest else None
        found: list[ReceivedRequest] = []
        for index, group in enumerate(layout.groups):
            request = ReceivedRequest(first + index)
            (request.batch_size, request.output_names), _ = group
            (
                request.id, request.correlation_id, request.flags, request.timeout_us, request.parameters, request.cancelled,
            ) = _NO_FIELDS if fields is None else fields[index]  # fmt: skip
            request.inputs = tensors_of(base, group)
            found.append(request)
        return found


def resolved(name: str, datatype: str, shape: "tuple[int, ...]") -> "tuple[Any, ...]":
    """What this side needs of a tensor: its dtype is None for BYTES."""
    return name, datatype, codec.DTYPES.get(datatype), shape


def tensors_of(base: Any, group: Any) -> "list[ReceivedTensor]":
    """The tensors of a group that was read with `resolved`; views of the message, except BYTES."""
    return [_tensor(base, each, at, size) for each, at, size in group[1]]


def _tensor(base: Any, resolved: "tuple[Any, ...]", at: int, size: int) -> ReceivedTensor:
    name, datatype, dtype, shape = resolved
    if dtype is None:
        values = deserialize_bytes_tensor(bytes(base[at : at + size])).reshape(shape)
    elif size:
        values = np.ndarray(shape, dtype, base, at)
    else:
        values = np.empty(shape, dtype)
    return ReceivedTensor(name, datatype, values)


class RequestsInProgress:
    """The requests whose responses may still be sent, by number: where a cancel finds them.

    Without a lock, which would cost every batch: each thread writes what the other one reads, and then reads what the other one
    writes, so that one of them sees both.

    Args:
        first: the number of the first request to come.
    """

    def __init__(self, first: int) -> None:
        self._batch: tuple[int, list[ReceivedRequest]] = (first, [])
        self._early: set[int] = set()
        self._paused: set[int] = set()
        self._pausing = threading.Lock()
        self._deferred: weakref.WeakValueDictionary[int, ReceivedRequest] = (
            weakref.WeakValueDictionary()
        )

    def begin(self, first: int, batch: "list[ReceivedRequest]") -> None:
        """A batch is about to run."""
        self._batch = (first, batch)
        later: set[int] = set()
        while self._early:
            # Its client left while it was on its way here: the control socket was faster.
            number = self._early.pop()
            if number >= first + len(batch):
                later.add(number)
            elif number >= first:
                batch[number - first].cancelled = True
        self._early |= later
        if self._paused:
            with self._pausing:
                self._paused = {n for n in self._paused if n >= first or n in self._deferred}
                for number in self._paused:
                    if first <= number < first + len(batch):
                        batch[number - first].pause(True)

    def defer(self, request: ReceivedRequest) -> None:
        """The responses of a request of the batch are deferred; it is known here for as long as a sender refers to it."""
        self._deferred[request.number] = request

    def ended(self) -> None:
        """The batch has ended."""
        first, batch = self._batch
        self._batch = (first + len(batch), [])

    def cancel(self, number: int) -> None:
        """The client has gone; called by the thread that listens."""
        first, batch = self._batch
        if number >= first + len(batch):
            self._early.add(number)
            first, batch = self._batch
            if number >= first + len(batch):
                return
        if number >= first:
            batch[number - first].cancel()
            return
        request = self._deferred.get(number)
        if request is not None:
            request.cancel()

    def pause(self, number: int, *, paused: bool) -> None:
        """Whether senders of its responses wait; called by the thread that listens, for a few requests of many."""
        with self._pausing:
            (self._paused.add if paused else self._paused.discard)(number)
            first, batch = self._batch
            in_batch = first <= number < first + len(batch)
            request = batch[number - first] if in_batch else self._deferred.get(number)
            if request is not None:
                request.pause(paused)

"""The tensors that a worker process has from the server's messages: in the message, in a shared file, or on a device.

Limits: standard library and numpy, Python 3.8.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from naiad.backends.instance import host_array
from naiad.backends.python.api.datatypes import deserialize_bytes_tensor
from naiad.errors import unavailable
from naiad.hosts.link import codec
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

    def take(self, values: Any) -> bool:
        """Copy an array that is on the device to where these are; False if that cannot be done here, see `Imports.fill`.

        Raises:
            cudart.CudaError: the device reports an error.
        """
        taken: bool = _imports().fill(self._descriptor, values)
        if taken:
            self._opened = taken
        return taken

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
    return [tensor_of(base, each, at, size) for each, at, size in group[1]]


def tensor_of(
    base: Any,
    resolved: "tuple[Any, ...]",
    at: int,
    size: int,
    shared: "ReceivedSlots | None" = None,
) -> Any:
    """A tensor of a message: what `resolved` made of its layout, where it lies in the message, and the files in which it may be as well."""
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

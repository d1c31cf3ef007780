"""An array on a CUDA device: its address, shape and datatype, and what keeps it. Limits: standard library, Python 3.8."""

from typing import Any

from naiad.tensors.memory import CUDA, Memory


class DeviceArray:
    """Contiguous values on a CUDA device, complete when this is made. It is a DLPack tensor.

    Args:
        address: on the device; 0 of an empty one.
        shape: its shape.
        datatype: its wire name, not BYTES.
        itemsize: bytes of an element.
        memory: the device, numbered as this process sees it.
        owner: what keeps the memory.
    """

    __slots__ = (
        "__weakref__",
        "_itemsize",
        "_owner",
        "address",
        "datatype",
        "memory",
        "nbytes",
        "shape",
    )

    def __init__(
        self,
        address: int,
        shape: "tuple[int, ...]",
        datatype: str,
        *,
        itemsize: int,
        memory: Memory,
        owner: Any,
    ) -> None:
        self.address = address
        self.shape = shape
        self.datatype = datatype
        self.memory = memory
        self._itemsize = self.nbytes = itemsize
        for dim in shape:
            self.nbytes *= dim
        self._owner = owner

    @property
    def ndim(self) -> int:
        """The number of its dimensions."""
        return len(self.shape)

    def rows(self, start: int, count: int) -> "DeviceArray":
        """Some of its rows, without a copy; it has at least one dimension."""
        row = self.nbytes // self.shape[0] if self.shape[0] else 0
        return DeviceArray(
            self.address + start * row,
            (count, *self.shape[1:]),
            self.datatype,
            itemsize=self._itemsize,
            memory=self.memory,
            owner=self._owner,
        )

    def __dlpack__(self, *, stream: Any = None, **_newer: Any) -> Any:
        """A DLPack capsule over its memory; no stream has to wait, because its values are complete."""
        from naiad.tensors import dlpack  # noqa: PLC0415 - it imports this module

        return dlpack.export_device(
            self.address, self.shape, self.datatype, device=self.memory.device, owner=self
        )

    def __dlpack_device__(self) -> "tuple[int, int]":
        """Its device."""
        return CUDA, self.memory.device

"""Lays out the requests of a batch as `naiad_batch` has them, in one piece of memory that an instance uses again and again.

Tensors are not copied, but for BYTES, whose elements are put together; the memory of each is the client's or shared with the server.

Limits: those of `backends/instance.py`: standard library and numpy, Python 3.8.
"""

import ctypes
import json
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from naiad.backends.c import abi
from naiad.backends.instance import Call
from naiad.backends.python.api.datatypes import BYTES, serialize_byte_tensor

_BATCH = struct.Struct("=QQII")
_REQUEST = struct.Struct("=QQQQQQIIII")
_TENSOR = struct.Struct("=QQQQII")
_FIRST = 4096
_KNOWN = 1024
_ALIGNED = 8


class Arena:
    """The memory of one instance's batches; one batch at a time."""

    def __init__(self) -> None:
        self._names: dict[str, Any] = {}
        self._shapes: dict[tuple[int, ...], Any] = {}
        self._empty = self._text("")
        self._no_parameters = self._text("{}")
        self._grow(_FIRST)

    def write(self, batch: "Sequence[Call]", context: int) -> "tuple[int, list[Any]]":
        """Lay out a batch.

        Returns:
            The address of its `naiad_batch`, and what must be kept until it has run.
        """
        keep: list[Any] = []
        count = sum([len(call.request.inputs) for call in batch])
        names = sum([len(call.request.output_names) for call in batch])
        tensors_at = _BATCH.size + len(batch) * _REQUEST.size
        names_at = tensors_at + count * _TENSOR.size
        size = names_at + names * _ALIGNED
        if size > self._size:
            self._grow(size)
        memory, base = self._memory, self._base
        _BATCH.pack_into(memory, 0, context, base + _BATCH.size, len(batch), 0)
        at = _BATCH.size
        for call in batch:
            request = call.request
            inputs, wanted = request.inputs, request.output_names
            identity, parameters, correlation = (
                request.id,
                request.parameters,
                request.correlation_id,
            )
            _REQUEST.pack_into(
                memory,
                at,
                self._kept(identity, keep) if identity else self._empty,
                self._kept(json.dumps(parameters), keep) if parameters else self._no_parameters,
                self._kept(str(correlation), keep) if correlation else self._empty,
                base + tensors_at,
                base + names_at,
                request.timeout_us,
                len(inputs),
                len(wanted),
                call.batch_size,
                request.flags,
            )
            at += _REQUEST.size
            for tensor in inputs:
                self._tensor(tensors_at, tensor, keep)
                tensors_at += _TENSOR.size
            for name in wanted:
                struct.pack_into("=Q", memory, names_at, self._text(name))
                names_at += _ALIGNED
        return base, keep

    def _tensor(self, at: int, tensor: Any, keep: "list[Any]") -> None:
        array = tensor.array
        code = abi.CODES[tensor.datatype]
        shape = array.shape
        if code == BYTES:
            array = np.frombuffer(serialize_byte_tensor(array) or b"\0", np.uint8)
            size = array.nbytes if shape and 0 not in shape else 0
        else:
            flags = array.flags
            if not (flags.aligned and flags.c_contiguous):
                array = array.copy()
            size = array.nbytes
        keep.append(array)
        _TENSOR.pack_into(
            self._memory,
            at,
            self._text(tensor.name),
            self._shape(shape, keep),
            array.__array_interface__["data"][0],
            size,
            code,
            len(shape),
        )

    def _text(self, text: str) -> int:
        """The address of a name; there are as many as a config has."""
        found = self._names.get(text)
        if found is None:
            memory = ctypes.create_string_buffer(text.encode("utf-8", "replace"))
            found = self._names[text] = (ctypes.addressof(memory), memory)
        address: int = found[0]
        return address

    def _kept(self, text: str, keep: "list[Any]") -> int:
        memory = ctypes.create_string_buffer(text.encode("utf-8", "replace"))
        keep.append(memory)
        return ctypes.addressof(memory)

    def _shape(self, shape: "tuple[int, ...]", keep: "list[Any]") -> int:
        found = self._shapes.get(shape)
        if found is None:
            memory = (ctypes.c_int64 * max(1, len(shape)))(*shape)
            found = ctypes.addressof(memory), memory
            if len(self._shapes) < _KNOWN:
                self._shapes[shape] = found
            else:
                keep.append(memory)
        address: int = found[0]
        return address

    def _grow(self, size: int) -> None:
        self._size = 2 * size
        self._memory = ctypes.create_string_buffer(self._size)
        self._base = ctypes.addressof(self._memory)

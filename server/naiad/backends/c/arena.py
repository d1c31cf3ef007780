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
_first_byte, _address_of = ctypes.c_char.from_buffer, ctypes.addressof
_KNOWN = 1024
_ALIGNED = 8
_NO_TEXT = np.zeros(1, np.uint8)


class Arena:
    """The memory of one instance's batches; one batch at a time. `outputs` are the names of the config; without `text` BYTES tensors have no data."""

    def __init__(self, outputs: "Sequence[str]", *, text: bool = True) -> None:
        self._has_text = text
        self._names: dict[str, Any] = {}
        self._layouts: dict[tuple[str, str, tuple[int, ...]], tuple[int, int, int, int, int]] = {}
        self._shapes: list[Any] = []
        empty = self._text("")
        self._plain = empty, self._text("{}"), empty, 0, 0
        self._outputs = (ctypes.c_void_p * max(1, len(outputs)))(*map(self._text, outputs))
        self._all = ctypes.addressof(self._outputs), len(outputs)
        self._grow(_FIRST)

    def write(self, batch: "Sequence[Call]", context: int) -> "tuple[int, list[Any]]":
        """Lay out a batch.

        Returns:
            The address of its `naiad_batch`, and what must be kept until it has run.
        """
        keep: list[Any] = []
        requests = [call.request for call in batch]
        count = sum([len(request.inputs) for request in requests])
        names = sum([len(request.output_names) for request in requests])
        tensors_at = _BATCH.size + len(batch) * _REQUEST.size
        names_at = tensors_at + count * _TENSOR.size
        size = names_at + names * _ALIGNED
        if size > self._size:
            self._grow(size)
        memory, base, layouts, pack = self._memory, self._base, self._layouts, _TENSOR.pack_into
        _BATCH.pack_into(memory, 0, context, base + _BATCH.size, len(batch), 0)
        at = _BATCH.size
        for call, request in zip(batch, requests):  # noqa: B905 - 3.8 knows no strict; they are as long as each other
            inputs: Sequence[Any] = request.inputs
            wanted = request.output_names
            wants_at, wants = (base + names_at, len(wanted)) if wanted else self._all
            identity, parameters, correlation, timeout, flags = self._plain if getattr(request, "is_plain", False) else self._fields(request, keep)  # fmt: skip
            _REQUEST.pack_into(
                memory, at, identity, parameters, correlation, base + tensors_at, wants_at, timeout, len(inputs), wants, call.batch_size, flags
            )  # fmt: skip
            at += _REQUEST.size
            for tensor in inputs:
                array = tensor.array
                known = layouts.get((tensor.name, tensor.datatype, array.shape))
                if known is None:
                    known = self._layout(tensor.name, tensor.datatype, array.shape, keep)
                name_at, shape_at, code, rank, item = known
                size = array.nbytes
                if code == BYTES:
                    array, size = _flat(array) if self._has_text else (_NO_TEXT, 0)
                elif not array.flags.c_contiguous:
                    array = array.copy()
                data_at = 0 if array is _NO_TEXT else _address(array)
                if data_at % item:
                    array = array.copy()
                    data_at = _address(array)
                keep.append(array)
                pack(memory, tensors_at, name_at, shape_at, data_at, size, code, rank)
                tensors_at += _TENSOR.size
            for name in wanted:
                struct.pack_into("=Q", memory, names_at, self._text(name))
                names_at += _ALIGNED
        return base, keep

    def _fields(self, request: Any, keep: "list[Any]") -> "tuple[int, int, int, int, int]":
        """The addresses of a request's id, parameters and correlation id; its timeout and its flags."""
        identity, parameters = request.id, request.parameters
        correlation = request.correlation_id
        empty, no_parameters = self._plain[:2]
        return (
            self._kept(identity, keep) if identity else empty,
            self._kept(json.dumps(parameters), keep) if parameters else no_parameters,
            self._kept(str(correlation), keep) if correlation else empty,
            request.timeout_us,
            request.flags,
        )

    def _layout(
        self, name: str, datatype: str, shape: "tuple[int, ...]", keep: "list[Any]"
    ) -> "tuple[int, int, int, int, int]":
        """The addresses of a tensor's name and shape, the number of its datatype, its rank, and what its address must be a multiple of."""
        memory = (ctypes.c_int64 * max(1, len(shape)))(*shape)
        code = abi.CODES[datatype]
        item = 1 if code == BYTES else abi.SIZES[code]
        found = self._text(name), ctypes.addressof(memory), code, len(shape), item
        if len(self._layouts) < _KNOWN:
            self._layouts[name, datatype, shape] = found
            self._shapes.append(memory)
        else:
            keep.append(memory)
        return found

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

    def _grow(self, size: int) -> None:
        self._size = 2 * size
        memory = ctypes.create_string_buffer(self._size)
        self._base = ctypes.addressof(memory)
        self._memory = memoryview(memory).cast("B")


def _address(array: Any) -> int:
    try:
        return _address_of(_first_byte(array))  # a quarter of the time
    except (TypeError, ValueError):  # it is read-only, or empty
        address: int = array.__array_interface__["data"][0]
        return address


def _flat(array: Any) -> "tuple[Any, int]":
    """The elements of a BYTES tensor behind their lengths, and their bytes."""
    flat = serialize_byte_tensor(array) or b""
    return np.frombuffer(flat or b"\0", np.uint8), len(flat)

"""What the config allows an output to be: what a library gives is held against it before it gets memory.

Limits: those of `backends/instance.py`: standard library and numpy, Python 3.8.
"""

import ctypes
import math
import struct
from collections.abc import Iterable
from typing import Any, NamedTuple, Tuple  # noqa: UP035 - 3.8 cannot subscript the builtin one

import numpy as np

from naiad.backends.c import abi
from naiad.backends.python.api.datatypes import BF16, BYTES, WIRE_NAMES, triton_to_numpy_type

_KNOWN = 1024
_LONGEST = 1 << 40
"""Bytes of an output beyond which no memory is asked for."""

_DIMS: "list[Any]" = [
    (ctypes.c_char * (8 * rank)).from_address for rank in range(abi.MOST_DIMENSIONS + 1)
]
"""By rank: reads the numbers at an address; a sixth of the time of `string_at`."""

_DTYPES: "dict[int, np.dtype[Any]]" = {
    code: np.dtype("V2" if code == BF16 else triton_to_numpy_type(code)) for code in WIRE_NAMES
}


class OutputSpec(NamedTuple):
    """An output of the config: its name, its datatype's wire name and the header's number, its dims as the backend sees them, with the batch's as -1."""

    name: str
    datatype: str
    code: int
    shape: Tuple[int, ...]  # noqa: UP006 - as above


class Given(NamedTuple):
    """An output that a library may give: its spec, its shape, its dtype, and its bytes; -1 for BYTES, of which each has its own."""

    spec: OutputSpec
    dims: Tuple[int, ...]  # noqa: UP006 - as above
    dtype: Any
    size: int


class WrongError(Exception):
    """Something of an output is wrong; says what."""


class OutputRules:
    """The outputs of a model.

    Args:
        specs: of the config.
        batched: whether the first dimension is the batch.

    Attributes:
        specs: by the name that a library gives.
        outputs: their names and the wire names of their datatypes, in the order of the config.
    """

    def __init__(self, specs: "Iterable[OutputSpec]", *, batched: bool) -> None:
        self.specs = {spec.name.encode(): spec for spec in specs}
        self.outputs = [(spec.name, spec.datatype) for spec in self.specs.values()]
        self._batched = batched
        self._known: dict[Any, Given] = {}

    def given(  # noqa: PLR0917 - as the header has it
        self,
        name: "bytes | None",
        datatype: int,
        shape: "int | None",
        rank: int,
        size: int,
        rows: "int | None",
    ) -> Given:
        """The output that a library gives; `shape` is the address of `rank` numbers, `rows` are those of the request, None for any.

        Raises:
            WrongError: its name, datatype, shape or size is not one that the config and the request allow.
        """
        key = None
        if shape and 0 < rank <= abi.MOST_DIMENSIONS:
            key = name, datatype, _DIMS[rank](shape).raw, rows
            known = self._known.get(key)
            if known is not None and known.size == size:
                return known
        spec = None if name is None else self.specs.get(name)
        if spec is None:
            raise WrongError(self._unknown(name))
        dims = _dims(spec, datatype, shape, rank)
        _check_shape(spec, dims, rows if self._batched else None)
        _check_size(spec, dims, size)
        if spec.code == BYTES:
            return Given(spec, dims, None, -1)
        found = Given(spec, dims, _DTYPES[spec.code], size)
        if key is not None and len(self._known) < _KNOWN:
            self._known[key] = found
        return found

    def _unknown(self, name: "bytes | None") -> str:
        listed = ", ".join(spec.name for spec in self.specs.values()) or "none"
        if name is None:
            return f"it gives an output without a name (NULL); the config lists {listed}"
        return f"it gives an output '{name.decode('utf-8', 'replace')[:200]}', and the config lists {listed}"


def _dims(spec: OutputSpec, datatype: int, shape: "int | None", rank: int) -> "tuple[int, ...]":
    if datatype != spec.code:
        what = WIRE_NAMES.get(datatype, f"number {datatype}, which does not exist")
        raise WrongError(
            f"it gives output '{spec.name}' with datatype {what}, and the config says {spec.datatype}"
        )
    if not rank and spec.shape == (1,):
        return (1,)
    if rank != len(spec.shape):
        raise WrongError(
            f"it gives output '{spec.name}' with {rank} dimensions, and the config has {list(spec.shape)}"
        )
    if rank and not shape:
        raise WrongError(f"it gives output '{spec.name}' without a shape (NULL)")
    return struct.unpack(f"={rank}q", ctypes.string_at(shape or 0, 8 * rank))


def _check_shape(spec: OutputSpec, dims: "tuple[int, ...]", rows: "int | None") -> None:
    expected = spec.shape if rows is None else (rows, *spec.shape[1:])
    for size, dim in zip(dims, expected):  # noqa: B905 - 3.8 knows no strict; they are as long as each other
        if size < 0 or (dim != size and dim >= 0):
            raise WrongError(
                f"it gives output '{spec.name}' the shape {list(dims)}, and it must be {list(expected)}"
            )


def _check_size(spec: OutputSpec, dims: "tuple[int, ...]", size: int) -> None:
    elements = math.prod(dims)
    if spec.code == BYTES:
        if size < 4 * elements or (size and not elements):
            raise WrongError(
                f"it gives output '{spec.name}' {size} bytes for the {elements} elements of shape {list(dims)}: each has 4 bytes of its length first"
            )
    elif size != elements * abi.SIZES[spec.code]:
        raise WrongError(
            f"it gives output '{spec.name}' {size} bytes, and shape {list(dims)} of {spec.datatype} has {elements * abi.SIZES[spec.code]}"
        )
    if size > _LONGEST:
        raise WrongError(f"it gives output '{spec.name}' {size} bytes, more than {_LONGEST}")

"""The tensor datatypes of KServe v2: their wire names, config names, numpy dtypes and sizes (row 2.16).

One table, compared by identity. BYTES elements are `bytes` objects in a numpy object array.
"""

import collections.abc
import enum

import ml_dtypes
import msgspec
import numpy as np
from typing_extensions import override


class Kind(enum.Enum):
    """How values of a datatype are written in JSON."""

    BOOL = "bool"
    UINT = "uint"
    INT = "int"
    FLOAT = "float"
    BYTES = "bytes"


class DataType(msgspec.Struct, frozen=True, eq=False):
    """One datatype.

    Attributes:
        name: the wire name, e.g. "FP32".
        config_name: its name in config.pbtxt, e.g. "TYPE_FP32".
        dtype: the numpy dtype of an array that holds it.
        size: bytes per element; 0 for BYTES, whose elements differ in size.
    """

    name: str
    config_name: str
    dtype: "np.dtype[np.generic]"
    size: int
    kind: Kind

    @override
    def __repr__(self) -> str:
        return f"<DataType {self.name}>"

    @override
    def __reduce__(self) -> "tuple[collections.abc.Callable[[str], DataType], tuple[str]]":
        """Pickled by name: a datatype stays the one of the table."""
        return _named, (self.name,)


def _fixed(name: str, scalar: type, kind: Kind) -> DataType:
    dtype = np.dtype(scalar)
    return DataType(name, f"TYPE_{name}", dtype, dtype.itemsize, kind)


BOOL = _fixed("BOOL", np.bool_, Kind.BOOL)
UINT8 = _fixed("UINT8", np.uint8, Kind.UINT)
UINT16 = _fixed("UINT16", np.uint16, Kind.UINT)
UINT32 = _fixed("UINT32", np.uint32, Kind.UINT)
UINT64 = _fixed("UINT64", np.uint64, Kind.UINT)
INT8 = _fixed("INT8", np.int8, Kind.INT)
INT16 = _fixed("INT16", np.int16, Kind.INT)
INT32 = _fixed("INT32", np.int32, Kind.INT)
INT64 = _fixed("INT64", np.int64, Kind.INT)
FP16 = _fixed("FP16", np.float16, Kind.FLOAT)
FP32 = _fixed("FP32", np.float32, Kind.FLOAT)
FP64 = _fixed("FP64", np.float64, Kind.FLOAT)
BF16 = _fixed("BF16", ml_dtypes.bfloat16, Kind.FLOAT)
BYTES = DataType("BYTES", "TYPE_STRING", np.dtype(object), 0, Kind.BYTES)

ALL = (
    BOOL, UINT8, UINT16, UINT32, UINT64, INT8, INT16, INT32, INT64, FP16, FP32, FP64, BF16, BYTES,
)  # fmt: skip

BY_NAME = {datatype.name: datatype for datatype in ALL}
BY_CONFIG_NAME = {datatype.config_name: datatype for datatype in ALL}
BY_DTYPE = {datatype.dtype: datatype for datatype in ALL}


def _named(name: str) -> DataType:
    return BY_NAME[name]

"""`naiad_backend.h` as Python sees it: structs, datatypes, statuses and the types of functions.

Limits: those of `backends/instance.py`, whose worker processes use it: the standard library, Python 3.8.
"""

import ctypes
from typing import Any, ClassVar, List, Tuple  # noqa: UP035 - 3.8 cannot subscript the builtin ones in a ClassVar

from naiad.backends.python.api.datatypes import WIRE_NAMES
from naiad.errors import ErrorCode

VERSION = 1
ERROR_BYTES = 8192
MOST_DIMENSIONS = 32
CODES = {name: number for number, name in WIRE_NAMES.items()}
"""The header's number of a datatype, by its wire name."""
SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 2, 8: 4, 9: 8, 10: 2, 11: 4, 12: 8, 14: 2}
"""Bytes of an element, by the header's number; BYTES have none."""

STATUS = {
    1: ErrorCode.UNKNOWN,
    2: ErrorCode.INTERNAL,
    3: ErrorCode.NOT_FOUND,
    4: ErrorCode.INVALID_ARG,
    5: ErrorCode.UNAVAILABLE,
    6: ErrorCode.UNSUPPORTED,
    7: ErrorCode.ALREADY_EXISTS,
    8: ErrorCode.CANCELLED,
}

Fields = List[Tuple[str, Any]]  # noqa: UP006 - as above

_POINTER, _TEXT, _U32, _U64, _I64 = (
    ctypes.c_void_p,
    ctypes.c_char_p,
    ctypes.c_uint32,
    ctypes.c_uint64,
    ctypes.c_int64,
)


class Error(ctypes.Structure):
    """`naiad_error`."""

    _fields_: ClassVar[Fields] = [("text", _POINTER), ("capacity", _U64)]


class ModelInfo(ctypes.Structure):
    """`naiad_model_info`."""

    _fields_: ClassVar[Fields] = [
        ("name", _TEXT),
        ("config", _TEXT),
        ("model_dir", _TEXT),
        ("version_dir", _TEXT),
        ("backend_dir", _TEXT),
        ("options", _TEXT),
        ("version", _U64),
    ]


class InstanceInfo(ctypes.Structure):
    """`naiad_instance_info`."""

    _fields_: ClassVar[Fields] = [
        ("name", _TEXT),
        ("kind", _TEXT),
        ("device_id", ctypes.c_int32),
        ("reserved", _U32),
    ]


LOG = ctypes.CFUNCTYPE(None, _U32, _TEXT)
OUTPUT = ctypes.CFUNCTYPE(_POINTER, _POINTER, _U32, _TEXT, _U32, _POINTER, _U32, _U64)
FAIL = ctypes.CFUNCTYPE(None, _POINTER, _U32, ctypes.c_int, _TEXT)
PARAMETER = ctypes.CFUNCTYPE(None, _POINTER, _U32, _TEXT, _TEXT)
CANCELLED = ctypes.CFUNCTYPE(ctypes.c_int, _POINTER, _U32)
TIMES = ctypes.CFUNCTYPE(None, _POINTER, _I64, _I64)
DEFER = ctypes.CFUNCTYPE(_POINTER, _POINTER, _U32)
RESPONSE = ctypes.CFUNCTYPE(_POINTER, _POINTER)
SEND = ctypes.CFUNCTYPE(None, _POINTER, _U32)
END = ctypes.CFUNCTYPE(None, _POINTER)
COMPLETE = ctypes.CFUNCTYPE(None, _TEXT)


class Host(ctypes.Structure):
    """`naiad_host`."""

    _fields_: ClassVar[Fields] = [
        ("abi", _U32),
        ("reserved", _U32),
        ("log", LOG),
        ("output", OUTPUT),
        ("fail", FAIL),
        ("parameter", PARAMETER),
        ("cancelled", CANCELLED),
        ("times", TIMES),
        ("defer", DEFER),
        ("response", RESPONSE),
        ("send", SEND),
        ("end", END),
        ("complete", COMPLETE),
    ]


def declare(library: Any) -> None:
    """Give the functions of a loaded library their types.

    Raises:
        AttributeError: it does not define one.
    """
    error = ctypes.POINTER(Error)
    into = ctypes.POINTER(_POINTER)
    library.naiad_model_load.argtypes = (
        ctypes.POINTER(Host),
        ctypes.POINTER(ModelInfo),
        into,
        error,
    )
    library.naiad_instance_create.argtypes = (_POINTER, ctypes.POINTER(InstanceInfo), into, error)
    if hasattr(library, "naiad_model_complete"):
        library.naiad_model_complete.argtypes = (
            ctypes.POINTER(Host),
            ctypes.POINTER(ModelInfo),
            error,
        )
    library.naiad_execute.argtypes = (_POINTER, _POINTER, error)
    library.naiad_model_unload.argtypes = library.naiad_instance_destroy.argtypes = (_POINTER,)
    library.naiad_model_unload.restype = library.naiad_instance_destroy.restype = None
    if hasattr(library, "naiad_instance_ready"):
        library.naiad_instance_ready.argtypes = (_POINTER,)

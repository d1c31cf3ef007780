"""DLPack by ctypes: tensors handed to and taken from torch, CuPy, JAX … without a copy (row 15.11).

numpy's own DLPack has no BF16, refuses read-only arrays and takes no bare capsule; this does, for the CPU. The structures are
those of dlpack.h before version 1.0 (a capsule named "dltensor"), which every consumer accepts. What cannot be handed over is a BufferError, as
the protocol has it. Limits: standard library and numpy, Python 3.8.
"""

import ctypes
from typing import Any

import numpy as np

from naiad.tensors.memory import CPU, CUDA, CUDA_HOST

_NAME = b"dltensor"
_USED = b"used_dltensor"

_INT, _UINT, _FLOAT, _BFLOAT, _BOOL = 0, 1, 2, 4, 6
_TYPES = {
    "BOOL": (_BOOL, 8), "UINT8": (_UINT, 8), "UINT16": (_UINT, 16), "UINT32": (_UINT, 32), "UINT64": (_UINT, 64),
    "INT8": (_INT, 8), "INT16": (_INT, 16), "INT32": (_INT, 32), "INT64": (_INT, 64),
    "FP16": (_FLOAT, 16), "FP32": (_FLOAT, 32), "FP64": (_FLOAT, 64), "BF16": (_BFLOAT, 16),
}  # fmt: skip
"""By wire name (row 2.16); BYTES have none."""

_LETTERS = {_INT: "i", _UINT: "u", _FLOAT: "f", _BFLOAT: "u", _BOOL: "b"}
_DATATYPES = {
    kind: (datatype, np.dtype(f"{_LETTERS[kind[0]]}{kind[1] // 8}"))
    for datatype, kind in _TYPES.items()
}


class _Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("id", ctypes.c_int32)]


class _DataType(ctypes.Structure):
    _fields_ = [
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
    ]


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("dtype", _DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Managed(ctypes.Structure):
    _fields_ = [
        ("tensor", _Tensor),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    ]


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

# Pointers as plain numbers: a capsule that is being destroyed must not be turned into a Python reference again.
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi)
)
_pointer_in = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_rename = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_SetName", ctypes.pythonapi)
)
_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)

_lent: "dict[int, tuple[Any, ...]]" = {}
"""What a consumer may still read, by the address of its structure: the structure, its shape, the array, its owner."""


def _forget(address: int) -> None:
    """The consumer is done."""
    _lent.pop(address, None)


def _drop(capsule: int) -> None:
    """A capsule is gone; it was not consumed if its name is still the first one."""
    if _is_valid(capsule, _NAME):
        _forget(_pointer_in(capsule, _NAME))


_FORGET = _Deleter(_forget)
_DROP = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(_drop)

# Other libraries may call these while the interpreter ends: they stay for ever.
for _callback in (_FORGET, _DROP):
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(_callback))


def export(array: "np.ndarray[Any, Any]", datatype: str, *, owner: Any) -> Any:
    """A capsule over a contiguous array's memory, which lives, and `owner` with it, until the consumer is done.

    Args:
        array: of the datatype; BF16 as any dtype of two bytes. It may be read-only: the consumer must not write then.
        datatype: its wire name.
        owner: kept alive with it.

    Raises:
        BufferError: BYTES.
    """
    if datatype not in _TYPES:
        raise BufferError("DLPack does not have support for string tensors.")
    kind, bits = _TYPES[datatype]
    shape = (ctypes.c_int64 * max(array.ndim, 1))(*array.shape)
    managed = _Managed()
    managed.tensor = _Tensor(
        array.ctypes.data,
        _Device(CPU, 0),
        array.ndim,
        _DataType(kind, bits, 1),
        ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64)),
        None,
        0,
    )
    managed.deleter = ctypes.cast(_FORGET, ctypes.c_void_p).value
    address = ctypes.addressof(managed)
    _lent[address] = (managed, shape, array, owner)
    return _new(address, _NAME, ctypes.cast(_DROP, ctypes.c_void_p).value)


class _Borrowed:
    """Memory of another library, released when the last array over it is gone."""

    def __init__(self, managed: Any, address: int, typestr: str) -> None:
        tensor = managed.tensor
        self._address = address
        self._deleter = managed.deleter
        self.__array_interface__ = {
            "version": 3,
            "data": ((tensor.data or 0) + tensor.byte_offset, False),
            "shape": tuple(tensor.shape[: tensor.ndim]),
            "typestr": typestr,
        }

    def __del__(self) -> None:
        if self._deleter:
            _Deleter(self._deleter)(self._address)


def take(source: Any) -> "tuple[np.ndarray[Any, Any], str]":
    """An array over the memory of a DLPack capsule, or of an object that gives one, and the wire name of its datatype; BF16 as uint16.

    Raises:
        BufferError: neither of these; not on the CPU; not contiguous; a type that Triton does not have.
    """
    capsule = source
    if type(source).__name__ != "PyCapsule":
        if not hasattr(source, "__dlpack__") or not hasattr(source, "__dlpack_device__"):
            raise BufferError(
                "Provided tensor is not supported. Tensor must be a DLPack capsule or have `__dlpack__` and "
                "`__dlpack_device__` attributes; got a " + type(source).__name__
            )
        _require_cpu(int(source.__dlpack_device__()[0]))
        capsule = source.__dlpack__()
    if not _is_valid(id(capsule), _NAME):
        raise BufferError(
            "The DLPack capsule was used already, or is not a DLPack capsule: a capsule can be taken once"
        )
    address = _pointer_in(id(capsule), _NAME)
    managed = _Managed.from_address(address)
    tensor = managed.tensor
    _require_cpu(tensor.device.type)
    _require_contiguous(tensor)
    known = _DATATYPES.get((tensor.dtype.code, tensor.dtype.bits))
    if known is None or tensor.dtype.lanes != 1:
        raise BufferError(
            f"DLPack type (code {tensor.dtype.code}, {tensor.dtype.bits} bits, {tensor.dtype.lanes} lanes) is not a datatype of Triton's"
        )
    _rename(capsule, _USED)
    datatype, dtype = known
    borrowed = _Borrowed(managed, address, dtype.str)
    if not tensor.data:
        return np.empty(tuple(tensor.shape[: tensor.ndim]), dtype), datatype
    return np.asarray(borrowed), datatype


def _require_cpu(device: int) -> None:
    if device == CUDA:
        raise BufferError(
            "DLPack capsule passed pointer to memory allocated on GPU device: bring it to the CPU first, "
            "e.g. tensor.cpu()"
        )
    if device not in (CPU, CUDA_HOST):
        raise BufferError(f"DLDevice type {device} is not support by Python backend.")


def _require_contiguous(tensor: Any) -> None:
    if not tensor.strides or 0 in tensor.shape[: tensor.ndim]:
        return
    expected = 1
    for axis in reversed(range(tensor.ndim)):
        size = tensor.shape[axis]
        if size != 1 and tensor.strides[axis] != expected:
            raise BufferError(
                "DLPack tensor is not contiguous. Only contiguous DLPack tensors that are stored in C-Order are supported."
            )
        expected *= size

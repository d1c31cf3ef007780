"""DLPack by ctypes: tensors handed to and taken from torch, CuPy, JAX … without a copy (row 15.11).

numpy's own DLPack has no BF16, refuses read-only arrays and takes no bare capsule; this does, and tensors on a CUDA device. The structures are
those of dlpack.h before version 1.0 (a capsule named "dltensor"), which every consumer accepts. What cannot be handed over is a BufferError, as
the protocol has it. Limits: standard library and numpy, Python 3.8.
"""

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from naiad.tensors.device_array import DeviceArray
from naiad.tensors.memory import CPU, CUDA, CUDA_HOST, Memory

BF16 = "BF16"

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


def dtype_of(datatype: str) -> "np.dtype[Any]":
    """The dtype of a datatype by wire name; of BF16 that of uint16."""
    return _DATATYPES[_TYPES[datatype]][1]


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
"""What a consumer may still read, by the address of its structure: the structure, its shape, its owner."""


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
    return _capsule(array.ctypes.data, array.shape, datatype, _Device(CPU, 0), (array, owner))


def export_device(
    address: int, shape: "tuple[int, ...]", datatype: str, *, device: int, owner: Any
) -> Any:
    """The same over memory of a CUDA device; the caller has waited for the work that writes there.

    Raises:
        BufferError: BYTES.
    """
    return _capsule(address, shape, datatype, _Device(CUDA, device), owner)


def _capsule(
    address: int, dims: "tuple[int, ...]", datatype: str, device: _Device, owner: Any
) -> Any:
    if datatype not in _TYPES:
        raise BufferError("DLPack does not have support for string tensors.")
    kind, bits = _TYPES[datatype]
    shape = (ctypes.c_int64 * max(len(dims), 1))(*dims)
    managed = _Managed()
    managed.tensor = _Tensor(
        address,
        device,
        len(dims),
        _DataType(kind, bits, 1),
        ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64)),
        None,
        0,
    )
    managed.deleter = ctypes.cast(_FORGET, ctypes.c_void_p).value
    at = ctypes.addressof(managed)
    _lent[at] = (managed, shape, owner)
    return _new(at, _NAME, ctypes.cast(_DROP, ctypes.c_void_p).value)


class _Managing:
    """Memory of another library, released when nothing refers to it any more."""

    __slots__ = ("_address", "_deleter")

    def __init__(self, address: int, deleter: "int | None") -> None:
        self._address = address
        self._deleter = deleter

    def __del__(self) -> None:
        if self._deleter:
            _Deleter(self._deleter)(self._address)


class _Borrowed:
    """That memory as numpy takes it."""

    __slots__ = ("__array_interface__", "_managing")

    def __init__(
        self, managing: _Managing, address: int, shape: "tuple[int, ...]", typestr: str
    ) -> None:
        self._managing = managing
        self.__array_interface__ = {
            "version": 3,
            "data": (address, False),
            "shape": shape,
            "typestr": typestr,
        }


def take(source: Any) -> "tuple[np.ndarray[Any, Any], str]":
    """An array over the memory of a DLPack capsule, or of an object that gives one, and the wire name of its datatype; BF16 as uint16.

    Raises:
        BufferError: neither of these; not on the CPU; not contiguous; a type that Triton does not have.
    """
    if type(source).__name__ != "PyCapsule":
        _require_cpu(_device_of(source)[0])
    taken = take_any(source, on_device=False)
    assert isinstance(taken, tuple)
    return taken


def take_any(
    source: Any, *, stream: "Callable[[int], int] | None" = None, on_device: bool = True
) -> "tuple[np.ndarray[Any, Any], str] | DeviceArray":
    """The same, or what is on a CUDA device.

    Args:
        source: as above.
        stream: gives the stream on which an object's values have to be complete, by the number of its device; None: the default stream.
        on_device: whether a capsule may be of a CUDA device.

    Raises:
        BufferError: as above; another device.
    """
    capsule = source
    if type(source).__name__ != "PyCapsule":
        kind, device = _device_of(source)
        if kind == CUDA:
            capsule = source.__dlpack__(stream=1 if stream is None else stream(device))
        else:
            _require_cpu(kind)
            capsule = source.__dlpack__()
    if not _is_valid(id(capsule), _NAME):
        raise BufferError(
            "The DLPack capsule was used already, or is not a DLPack capsule: a capsule can be taken once"
        )
    address = _pointer_in(id(capsule), _NAME)
    managed = _Managed.from_address(address)
    tensor = managed.tensor
    if not on_device or tensor.device.type != CUDA:
        _require_cpu(tensor.device.type)
    _require_contiguous(tensor)
    known = _DATATYPES.get((tensor.dtype.code, tensor.dtype.bits))
    if known is None or tensor.dtype.lanes != 1:
        raise BufferError(
            f"DLPack type (code {tensor.dtype.code}, {tensor.dtype.bits} bits, {tensor.dtype.lanes} lanes) is not a datatype of Triton's"
        )
    _rename(capsule, _USED)
    datatype, dtype = known
    shape = tuple(tensor.shape[: tensor.ndim])
    managing = _Managing(address, managed.deleter)
    at = (tensor.data or 0) + tensor.byte_offset
    if tensor.device.type == CUDA:
        memory = Memory("cuda", tensor.device.id)
        return DeviceArray(
            at, shape, datatype, itemsize=dtype.itemsize, memory=memory, owner=managing
        )
    if not tensor.data:
        return np.empty(shape, dtype), datatype
    return np.asarray(_Borrowed(managing, at, shape, dtype.str)), datatype


def _device_of(source: Any) -> "tuple[int, int]":
    """The kind and the number of an object's device, as DLPack numbers them.

    Raises:
        BufferError: it is not a DLPack tensor.
    """
    if not hasattr(source, "__dlpack__") or not hasattr(source, "__dlpack_device__"):
        raise BufferError(
            "Provided tensor is not supported. Tensor must be a DLPack capsule or have `__dlpack__` and "
            "`__dlpack_device__` attributes; got a " + type(source).__name__
        )
    kind, device = source.__dlpack_device__()
    return int(kind), int(device)


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

"""The Tensor that models see (row 15.11).

On the hot path: a request makes at least two of these, so there is nothing in them but a name, an array and a number.
"""

import operator
from typing import Any

import numpy as np

from naiad.backends.python.api import dlpack
from naiad.backends.python.api.datatypes import BF16, BYTES, CODES, code_of
from naiad.backends.python.api.errors import TritonModelException
from naiad.tensors.device_array import DeviceArray

_ARRAY: Any = np.ndarray


class Tensor:
    """A named tensor.

    Args:
        name: not empty.
        numpy_array: any layout; a non-contiguous one is copied. BYTES is an object array of bytes (other elements are sent as
            the UTF-8 of their str) or an S array.

    Raises:
        TritonModelException: an empty name, or a dtype that Triton does not have.
        TypeError: not a numpy array, or a name that is not text.
    """

    __slots__ = ("_array", "_code", "_name")

    _array: Any

    def __init__(self, name: str, numpy_array: "np.ndarray[Any, Any]") -> None:
        if type(numpy_array) is not _ARRAY:
            numpy_array = _plain(name, numpy_array)
        code = CODES.get(numpy_array.dtype)
        if code is None:
            code = code_of(numpy_array.dtype)
        self._name = name if type(name) is str and name else _name(name)
        self._code = code
        if code == BYTES:
            # What the model puts into its array for the next tensor must not show in this one: Triton's is text by now.
            self._array = numpy_array.copy()
        else:
            contiguous = numpy_array.flags.c_contiguous
            self._array = numpy_array if contiguous else np.ascontiguousarray(numpy_array)

    def name(self) -> str:
        """Its name."""
        return self._name

    def as_numpy(self) -> "np.ndarray[Any, Any]":
        """Its values. A model may write to them: memory that is not its own is copied the first time.

        Raises:
            TritonModelException: BF16, which numpy does not have; a tensor in GPU memory.
        """
        array: Any = self._array
        if type(array) is DeviceArray:
            raise TritonModelException("Tensor is stored in GPU and cannot be converted to NumPy.")
        if self._code == BF16:
            raise TritonModelException(
                "Tensor dtype is BF16 and cannot be converted to NumPy. Use to_dlpack() and from_dlpack() instead."
            )
        if not array.flags.writeable:  # as `_own`
            array = self._array = array.copy()
        return array  # type: ignore[no-any-return]

    def triton_dtype(self) -> int:
        """Triton's number of its datatype."""
        return self._code

    def shape(self) -> "list[int]":
        """Its shape, the batch dimension included."""
        return list(self._array.shape)

    def is_cpu(self) -> bool:
        """Whether it is in the host's memory."""
        return type(self._array) is not DeviceArray

    def to_dlpack(self) -> Any:
        """A DLPack capsule over its memory, without a copy; it can be taken once.

        Raises:
            TritonModelException: BYTES.
        """
        if not self.is_cpu():
            return self._array.__dlpack__()
        return dlpack.export(self._own(), self._code, owner=self)

    @staticmethod
    def from_dlpack(name: str, tensor: Any) -> "Tensor":
        """A tensor over another library's memory, without a copy.

        Args:
            name: not empty.
            tensor: a DLPack capsule, or an object that gives one (torch, CuPy, JAX, numpy …), in the host's memory or on a CUDA device. The work that
                makes an object's values is waited for; of a capsule, that on the device's default stream.

        Raises:
            TritonModelException: as `dlpack.take`, or an empty name.
            TypeError: a name that is not text.
        """
        return wrap(_name(name), *dlpack.take(tensor))

    def __dlpack__(self, stream: Any = None, **_newer: Any) -> Any:
        """As `to_dlpack`; the stream and what newer consumers ask for have no effect: the values are complete."""
        return self.to_dlpack()

    def __dlpack_device__(self) -> "tuple[int, int]":
        """Its device."""
        if not self.is_cpu():
            found: tuple[int, int] = self._array.__dlpack_device__()
            return found
        return (dlpack.CPU, 0)

    def _own(self) -> "np.ndarray[Any, Any]":
        array: np.ndarray[Any, Any] = self._array
        if not array.flags.writeable:
            array = self._array = array.copy()
        return array


def _name(name: Any) -> str:
    """Its name as a str: UTF-8 bytes are text as well."""
    if isinstance(name, bytes):
        name = name.decode()
    if not isinstance(name, str):
        raise TypeError(f"the name of a Tensor is a str, not {type(name).__name__}")
    if not name:
        raise TritonModelException("Tensor name cannot be an empty string.")
    return str(name)


def _plain(name: Any, value: Any) -> "np.ndarray[Any, Any]":
    """An array without the rules of its own that matrices and masked arrays have."""
    if not isinstance(value, _ARRAY):
        raise TypeError(
            f"Tensor(name, numpy_array): '{name}' needs a numpy array, not a {type(value).__name__}; write np.asarray(...), or "
            "Tensor.from_dlpack(name, tensor)"
        )
    return np.asarray(value)


parts_of = operator.attrgetter("_name", "_array", "_code")
"""A tensor's name, array and Triton datatype, for hosts; BF16 as uint16, and what is in GPU memory as a `DeviceArray`."""


def wrap(name: str, array: Any, code: int) -> Tensor:
    """A tensor whose name, layout and datatype are valid already: a numpy array, BF16 as uint16, or a `DeviceArray`."""
    tensor = Tensor.__new__(Tensor)
    tensor._name = name  # noqa: SLF001 - the one other way to make one, kept beside the class
    tensor._array = array  # noqa: SLF001
    tensor._code = code  # noqa: SLF001
    return tensor

"""DLPack as models see it: Triton's datatype numbers, and its errors (row 15.11)."""

from typing import Any

import numpy as np

from naiad.backends.python.api.datatypes import WIRE_NAMES
from naiad.backends.python.api.errors import TritonModelException
from naiad.tensors import dlpack
from naiad.tensors.device_array import DeviceArray
from naiad.tensors.memory import CPU

__all__ = ["CPU", "export", "of_received", "take"]

_CODES = {name: code for code, name in WIRE_NAMES.items()}


def export(array: "np.ndarray[Any, Any]", code: int, *, owner: Any) -> Any:
    """As `dlpack.export`.

    Raises:
        TritonModelException: BYTES.
    """
    try:
        return dlpack.export(array, WIRE_NAMES[code], owner=owner)
    except BufferError as error:
        raise TritonModelException(str(error)) from None


def take(source: Any) -> "tuple[Any, int]":
    """A numpy array, or, of what is on a CUDA device, a `DeviceArray`, and its number, as `copies.taken`.

    Raises:
        TritonModelException: the source is not a tensor that models can have, or the device reports an error.
    """
    from naiad.tensors import copies, cudart  # noqa: PLC0415 - a model starts without them

    try:
        found = copies.taken(source)
    except cudart.NoCudaError as error:
        raise TritonModelException(
            f"DLPack capsule passed pointer to memory allocated on GPU device, when GPU is not available: {error}"
        ) from None
    except (BufferError, cudart.CudaError) as error:
        raise TritonModelException(str(error)) from error
    if isinstance(found, DeviceArray):
        return found, _CODES[found.datatype]
    array, datatype = found
    return array, _CODES[datatype]


def of_received(tensor: Any) -> "tuple[DeviceArray, int] | None":
    """The values and the number of a tensor that a host has received on a device; None of one in the host's memory."""
    array: DeviceArray | None = getattr(tensor, "on_device", None)
    return None if array is None else (array, _CODES[array.datatype])

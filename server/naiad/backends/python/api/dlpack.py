"""DLPack as models see it: Triton's datatype numbers, and its errors (row 15.11)."""

from typing import Any

import numpy as np

from naiad.backends.python.api.datatypes import WIRE_NAMES
from naiad.backends.python.api.errors import TritonModelException
from naiad.tensors import dlpack
from naiad.tensors.memory import CPU

__all__ = ["CPU", "export", "take"]

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


def take(source: Any) -> "tuple[np.ndarray[Any, Any], int]":
    """As `dlpack.take`.

    Raises:
        TritonModelException: the source is not a tensor that models can have.
    """
    try:
        array, datatype = dlpack.take(source)
    except BufferError as error:
        raise TritonModelException(str(error)) from None
    return array, _CODES[datatype]

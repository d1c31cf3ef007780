"""BYTES tensors as onnxruntime wants them: text in, text out (row 16.12).

ONNX strings are UTF-8; a client may send any bytes. Bytes that are not UTF-8 are refused before it reaches the batch.
"""

import numpy as np

from naiad.backends.batch import Array
from naiad.backends.instance import InputTensor
from naiad.core import datatypes
from naiad.core.tensor import Tensor
from naiad.errors import FailureReason, InferenceError, invalid


def decoded(tensor: InputTensor, *, label: str) -> InputTensor:
    """The tensor with text in place of bytes; a tensor of numbers as it is.

    Raises:
        InferenceError: INVALID_ARG: an element is not UTF-8; names the input and the element.
    """
    array = tensor.array  # once: it may be made when it is read
    if not array.dtype.hasobject:
        return tensor
    texts: list[str] = []
    for element in array.ravel().tolist():
        try:
            texts.append(element.decode())
        except UnicodeDecodeError as error:
            raise _not_utf8(tensor.name, len(texts), error, label=label) from error
    return Tensor(tensor.name, datatypes.BYTES, array.shape, _objects(texts, array.shape))


def encoded(array: Array) -> Array:
    """The array with bytes in place of text."""
    return _objects([text.encode() for text in array.ravel().tolist()], array.shape)


def _objects(values: list[str] | list[bytes], shape: tuple[int, ...]) -> Array:
    flat = np.empty(len(values), dtype=object)
    flat[:] = values
    return flat.reshape(shape)


def _not_utf8(name: str, index: int, error: UnicodeDecodeError, *, label: str) -> InferenceError:
    failed = invalid(
        f"{label}element {index} of input '{name}' is not UTF-8 ({error.reason} at byte {error.start}): ONNX strings are UTF-8 "
        "text; encode the text as UTF-8, or send binary data as base64 text if the model expects that"
    )
    failed.reason = FailureReason.BACKEND
    return failed

"""Between numpy and torch, without a copy: arrays as tensors and tensors as arrays. Importing this imports torch.

torch has no tensors of text: a BYTES tensor is a list of `str`, of one dimension (row 16.14).
"""

import warnings
from typing import Any

import ml_dtypes
import numpy as np
import torch

from naiad.backends.batch import Array
from naiad.core.tensor import object_array

# What comes in is read-only at times, and torch says so of each such array; a model that writes to its inputs is given copies.
warnings.filterwarnings("ignore", message="The given NumPy array is not writable")

_NOT_DENSE = (
    torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc, torch.jagged,
)  # fmt: skip
"""Layouts of tensors that no array can be."""

_BF16 = np.dtype(ml_dtypes.bfloat16)


def tensor_of(array: Array) -> "torch.Tensor | list[str]":
    """The tensor over an array's memory; the list of the texts of an object array, which has one dimension."""
    if array.dtype.hasobject:
        texts: list[str] = array.ravel().tolist()
        return texts
    if array.dtype.kind == "V":  # BF16, whatever its dtype is called
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def array_of(result: Any) -> Array:
    """The array over the memory of a tensor on the host, in C order; the bytes of a list of texts.

    Raises:
        TypeError: it is neither; says what it is.
    """
    if isinstance(result, torch.Tensor):
        check_dense(result)
        tensor = result.detach().contiguous()
        if tensor.is_conj() or tensor.is_neg():
            tensor = tensor.resolve_conj().resolve_neg()
        if tensor.dtype is torch.bfloat16:
            tensor = tensor.view(torch.int16)
            bits: Array = tensor.numpy()
            return bits.view(_BF16)
        array: Array = tensor.numpy()
        return array
    if isinstance(result, list) and all(isinstance(text, str) for text in result):
        return object_array([text.encode() for text in result])
    raise TypeError(f"an output must be of type Tensor or List[str], received {kind_of(result)}")


def check_dense(result: "torch.Tensor") -> None:
    """Refuse a tensor that no array can be.

    Raises:
        TypeError: it is not dense; says its layout.
    """
    if result.layout in _NOT_DENSE:
        raise TypeError(
            f"an output must be a dense tensor, received one of layout {result.layout}: return its to_dense()"
        )


def kind_of(result: Any) -> str:
    """A type in the words of TorchScript."""
    if isinstance(result, list):
        inner = {kind_of(each) for each in result}
        return f"List[{inner.pop() if len(inner) == 1 else 'Any'}]"
    return type(result).__name__


def flattened(results: Any) -> list[Any]:
    """What a model returned, as a list of outputs by position: a tensor or a list of texts alone, or a tuple of them.

    Raises:
        TypeError: it is something else, in the words of Triton's backend.
    """
    if isinstance(results, tuple):
        for index, each in enumerate(results):
            if not _is_output(each):
                raise TypeError(
                    f"output at index {index} must be of type Tensor or List[str], received {kind_of(each)}"
                )
        return list(results)
    if _is_output(results):
        return [results]
    if isinstance(results, list):
        raise TypeError(
            f"output must be of type Tensor or List[str], received {kind_of(results)}: return a tuple of tensors"
        )
    raise TypeError(
        "output must be of type Tensor, List[str] or Tuple containing one of these two types. It should not be a List / Dictionary of Tensors or "
        f"a Scalar, received {kind_of(results)}"
    )


def _is_output(value: Any) -> bool:
    return isinstance(value, torch.Tensor) or (
        isinstance(value, list) and all(isinstance(each, str) for each in value)
    )

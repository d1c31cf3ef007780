"""Classification: the classes with the highest values in place of an output's values (rows 5.1 to 5.5, 10.22). Pure.

Where the highest values are equal, or an item has NaN, the order is that of the reference (`sort_order`), for up to 4096 elements per item. Beyond, the lower index
comes first among equal values, and NaN last.
"""

import collections.abc
import math
import typing

import msgspec
import numpy as np

from naiad.config.labels import Labels
from naiad.core.datatypes import BOOL, BYTES, Kind
from naiad.core.request import InferRequest
from naiad.core.response import InferResponse
from naiad.core.tensor import Tensor, object_array
from naiad.engine.forms.formed import failed
from naiad.engine.forms.sort_order import sort_order
from naiad.errors import InferenceError, invalid

MOST_ELEMENTS = 1_000_000
"""More elements of one item are refused (row 5.5)."""

_AS_REFERENCE = 4096
"""For up to so many elements of an item the order of equal values and NaN is that of the reference, which takes as long in Python as `_PER_TIE` says."""

_PER_TIE = 30
"""An element that is sorted so costs as much as so many of others, about 0.3 µs."""

_PER_CLASS = 50
"""A class of the result costs as much as so many elements of the output, about 0.5 µs."""

_Array = np.ndarray[typing.Any, typing.Any]
_FLOATS = {"FP32", "FP64"}

Classes = collections.abc.Mapping[str, int]
"""By the name of an output: how many classes are requested."""


def requested(request: InferRequest) -> Classes:
    """The outputs that a request wants as classes; empty if there are none."""
    return {output.name: output.classes for output in request.requested_outputs if output.classes}


def cost(response: InferResponse, classes: Classes) -> int:
    """What `classify` costs, in elements: about 10 ns each."""
    total = 0
    for tensor in response.outputs:
        count = classes.get(tensor.name)
        if count and tensor.datatype is not BYTES:
            size = math.prod(tensor.shape)
            rows = tensor.shape[0] if tensor.shape else 1
            each = _PER_TIE if size <= _AS_REFERENCE * max(rows, 1) else 1
            total += size * each + _PER_CLASS * min(size, count * rows)
    return total


def classify(
    response: InferResponse, classes: Classes, labels: Labels, *, batched: bool
) -> InferResponse:
    """The response with classes in place of these outputs; one with an error if an output has none.

    Args:
        response: without an error.
        classes: see there.
        labels: of the model.
        batched: whether the first dimension of its outputs is the batch.
    """
    try:
        outputs = [
            _classes(tensor, classes[tensor.name], labels.get(tensor.name, ()), batched=batched)
            if tensor.name in classes
            else tensor
            for tensor in response.outputs
        ]
    except InferenceError as error:
        return failed(response, error)
    return msgspec.structs.replace(response, outputs=outputs)


def _classes(
    tensor: Tensor, count: int, labels: collections.abc.Sequence[bytes], *, batched: bool
) -> Tensor:
    datatype, shape = tensor.datatype, tensor.shape
    if datatype is BOOL or datatype.kind is Kind.BYTES or not _is_plain(datatype.name):
        raise invalid(
            f"class result not available for output due to unsupported type '{datatype.name}': output '{tensor.name}' has no classes; "
            "leave out its parameter 'classification'"
        )
    rows = shape[0] if batched and shape else 0
    of_item = shape[1:] if rows else shape
    size = math.prod(of_item)
    if size > MOST_ELEMENTS:
        raise invalid(
            f"classification output tensor too large: output '{tensor.name}' has {size} elements, at most {MOST_ELEMENTS} are possible"
        )
    values = np.asarray(tensor.array).reshape(max(rows, 1), size)
    texts: list[bytes] = []
    for row in values:
        order = _highest(row, min(count, size))
        texts += _texts(row[order], order, labels, whole=datatype.kind is not Kind.FLOAT)
    found = min(count, size)
    shape = (rows, found) if rows else (found,)
    return Tensor(tensor.name, BYTES, shape, object_array(texts).reshape(shape))


def _is_plain(name: str) -> bool:
    """Whether it is a type of C, which the reference can sort."""
    return name in _FLOATS or "INT" in name


def _highest(values: _Array, count: int) -> _Array:
    """The indexes of the highest values, the highest one first."""
    is_float = values.dtype.kind == "f"
    # The lowest keys are the highest values; NaN is the highest key.
    keys: _Array = -values if is_float else ~values
    if len(keys) <= _AS_REFERENCE:
        order = np.argsort(keys, kind="stable")
        highest = values[order[: count + 1]]
        if (is_float and np.isnan(values).any()) or (highest[1:] == highest[:-1]).any():
            as_reference = sort_order(values.tolist())
            if as_reference is not None:
                return np.array(as_reference[:count], np.intp)
        return order[:count]
    if count < len(keys):
        limit = np.partition(keys, count - 1)[count - 1]
        if not (is_float and np.isnan(limit)):
            candidates = np.flatnonzero(keys <= limit)
            return candidates[np.argsort(keys[candidates], kind="stable")[:count]]
    return np.argsort(keys, kind="stable")[:count]


def _texts(
    values: _Array, order: _Array, labels: collections.abc.Sequence[bytes], *, whole: bool
) -> list[bytes]:
    """Value, index and label, as the reference prints them (row 5.2)."""
    texts: list[bytes] = []
    known = len(labels)
    for value, index in zip(values.tolist(), order.tolist(), strict=True):
        text = b"%d:%d" % (value, index) if whole else b"%s:%d" % (_decimal(value), index)
        if index < known and labels[index]:
            text = b"%s:%s" % (text, labels[index])
        texts.append(text)
    return texts


def _decimal(value: float) -> bytes:
    if value != value:  # noqa: PLR0124 - NaN
        return b"-nan" if math.copysign(1, value) < 0 else b"nan"
    return b"%f" % value

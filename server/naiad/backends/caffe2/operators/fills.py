"""Operators that make a blob out of their arguments: mostly weights, in the init net."""

import collections.abc
from typing import Any

import numpy as np

from naiad.backends.caffe2.arguments import Call, floats_of
from naiad.backends.caffe2.graph import FLOAT, INT64, Array, UnsupportedError, Value, product

Operator = collections.abc.Callable[[Call], list[Value]]

MAX_FILLED = 1 << 28
"""Elements of all tensors that a net fills with one value: their size is not bounded by that of the file."""

_ELEMENTS: collections.abc.Mapping[int, tuple[str, Any]] = {
    1: ("FLOAT", np.float32),
    2: ("INT32", np.int32),
    3: ("BYTE", np.uint8),
    5: ("BOOL", np.bool_),
    6: ("UINT8", np.uint8),
    7: ("INT8", np.int8),
    8: ("UINT16", np.uint16),
    9: ("INT16", np.int16),
    10: ("INT64", np.int64),
    12: ("FLOAT16", np.float16),
    13: ("DOUBLE", np.float64),
}
"""caffe2.TensorProto.DataType."""


def element_type(kind: int | str) -> np.dtype[Any]:
    """A datatype by its number or its name.

    Raises:
        UnsupportedError: there is no such one.
    """
    for number, (name, dtype) in _ELEMENTS.items():
        if kind in (number, name):
            found: np.dtype[Any] = np.dtype(dtype)
            return found
    raise UnsupportedError(
        f"has the datatype {kind}, expected {', '.join(f'{n} ({name})' for n, (name, _) in _ELEMENTS.items())}"
    )


def given(dtype: Any) -> Operator:
    """GivenTensorFill and its kin: `values` in the `shape`. Of GivenTensorFill alone the argument `dtype` has an effect, as in Caffe2."""

    def translate(call: Call) -> list[Value]:
        argument = call.argument("values")
        made: np.dtype[Any] = np.dtype(dtype)
        if call.has("dtype") and made == FLOAT:
            made = element_type(call.integer("dtype", 1))
        values = np.zeros(0, made)
        if argument is not None:
            source = argument.ints or floats_of(argument)
            values = np.asarray(source).astype(made, copy=False)
        return [call.graph.constant(_shaped(call, values), call.operator.outputs[0])]

    return translate


def given_bytes(call: Call) -> list[Value]:
    """GivenTensorByteStringToUInt8Fill: a text whose bytes are the values."""
    argument = call.argument("values")
    content = b"".join(argument.strings) if argument is not None else b""
    values = np.frombuffer(content, np.uint8)
    return [call.graph.constant(_shaped(call, values), call.operator.outputs[0])]


def constant(call: Call) -> list[Value]:
    """ConstantFill: one `value` in a `shape`, or in that of the input."""
    argument = call.argument("value")
    dtype: np.dtype[Any] = FLOAT
    if call.has("dtype"):
        dtype = element_type(call.integer("dtype", 1))
    elif argument is not None and argument.f is None:
        dtype = INT64
    number = 0.0 if argument is None else call.number("value", 0)
    value = argument.i if argument is not None and argument.i is not None else number
    if not call.inputs:
        dims = _dims(call)
        call.graph.filled += product(dims)
        if call.graph.filled > MAX_FILLED:
            raise UnsupportedError(
                f"fills the shape {list(dims)}: this net fills more than {MAX_FILLED} elements"
            )
        return [call.graph.constant(np.full(dims, value, dtype), call.operator.outputs[0])]
    if call.integers("extra_shape"):
        raise UnsupportedError("has an argument 'extra_shape', which is not in the table")
    like = call.x
    if call.integer("input_as_shape", 0):
        rank = like.size(0)
        shape, known = call.graph.cast(like, INT64), (None if rank < 0 else (-1,) * rank)
    else:
        shape, known = call.graph.shape_of(like), like.dims
    one = call.graph.scalar(value, dtype)
    return [call.graph.node("Expand", [one, shape], known)]


def random(call: Call) -> list[Value]:
    """XavierFill, UniformFill and so on, which belong to training.

    Raises:
        UnsupportedError: always.
    """
    raise UnsupportedError(
        "is random, as at the start of training: save the net with the weights that training has found (mobile_exporter.Export)"
    )


def _shaped(call: Call, values: Array) -> Array:
    dims = _dims(call) if call.has("shape") else values.shape
    if product(dims) != values.size:
        raise UnsupportedError(
            f"has {values.size} values for the shape {list(dims)}, which takes {product(dims)}"
        )
    return values.reshape(dims)


def _dims(call: Call) -> tuple[int, ...]:
    dims = tuple(call.integers("shape"))
    if call.integers("extra_shape"):
        raise UnsupportedError("has an argument 'extra_shape', which is not in the table")
    if min(dims, default=0) < 0:
        raise UnsupportedError(f"argument 'shape' is {list(dims)}, expected sizes from 0 on")
    return dims

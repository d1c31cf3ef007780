"""Operators that work element by element."""

import collections.abc

import numpy as np

from naiad.backends.caffe2.arguments import Call
from naiad.backends.caffe2.graph import BOOL, UnsupportedError, Value, broadcast
from naiad.backends.caffe2.onnx_file import Attribute
from naiad.backends.caffe2.operators.images import per_channel

Operator = collections.abc.Callable[[Call], list[Value]]


def plain(name: str) -> Operator:
    """An operator of one input that ONNX has as well."""
    return lambda call: [call.graph.node(name, [call.x], call.x.dims)]


def with_floats(name: str, **defaults: float) -> Operator:
    """An operator of one input that ONNX has with the same arguments."""

    def translate(call: Call) -> list[Value]:
        numbers: dict[str, Attribute] = {
            key: call.number(key, default) for key, default in defaults.items()
        }
        return [call.graph.node(name, [call.x], call.x.dims, more=numbers)]

    return translate


def selu(call: Call) -> list[Value]:
    """Selu, whose argument `scale` is ONNX's `gamma`."""
    alpha = call.number("alpha", 1.6732632423543772)
    gamma = call.number("scale", 1.0507009873554805)
    return [call.graph.node("Selu", [call.x], call.x.dims, alpha=alpha, gamma=gamma)]


def binary(name: str, *, compares: bool = False, negated: bool = False) -> Operator:
    """An operator of two inputs, the second of which may be broadcast at an axis of the first."""

    def translate(call: Call) -> list[Value]:
        a, b = call.x, _aligned(call, call.x, call.input(1))
        dims = broadcast(a.dims, b.dims)
        y = call.graph.node(name, [a, b], dims, dtype=BOOL if compares else None)
        return [call.graph.node("Not", [y], dims) if negated else y]

    return translate


def several(name: str) -> Operator:
    """An operator of any number of inputs."""

    def translate(call: Call) -> list[Value]:
        values = [call.x, *call.inputs[1:]]
        return [call.graph.node(name, values, broadcast(*(each.dims for each in values)))]

    return translate


def weighted_sum(call: Call) -> list[Value]:
    """WeightedSum: X0, w0, X1, w1 …."""
    if not call.inputs or len(call.inputs) % 2:
        raise UnsupportedError("needs a weight for each value")
    terms = [
        call.graph.node("Mul", [x, weight], x.dims)
        for x, weight in zip(call.inputs[::2], call.inputs[1::2], strict=True)
    ]
    return [call.graph.node("Sum", terms, broadcast(*(each.dims for each in terms)))]


def power(call: Call) -> list[Value]:
    """Pow: with the argument `exponent`, or a second input."""
    if len(call.inputs) > 1:
        return binary("Pow")(call)
    if not call.has("exponent"):
        raise UnsupportedError("has neither an argument 'exponent' nor a second input")
    exponent = call.graph.scalar(call.number("exponent", 0), call.x.dtype)
    return [call.graph.node("Pow", [call.x, exponent], call.x.dims)]


def square(call: Call) -> list[Value]:
    """Sqr."""
    return [call.graph.node("Mul", [call.x, call.x], call.x.dims)]


def cube(call: Call) -> list[Value]:
    """Cube."""
    squared = call.graph.node("Mul", [call.x, call.x], call.x.dims)
    return [call.graph.node("Mul", [squared, call.x], call.x.dims)]


def inverse_root(call: Call) -> list[Value]:
    """Rsqrt."""
    root = call.graph.node("Sqrt", [call.x], call.x.dims)
    return [call.graph.node("Reciprocal", [root], call.x.dims)]


def swish(call: Call) -> list[Value]:
    """Swish: x times its sigmoid."""
    gate = call.graph.node("Sigmoid", [call.x], call.x.dims)
    return [call.graph.node("Mul", [call.x, gate], call.x.dims)]


def scale(call: Call) -> list[Value]:
    """Scale: by a number."""
    factor = call.graph.scalar(call.number("scale", 1), call.x.dtype)
    return [call.graph.node("Mul", [call.x, factor], call.x.dims)]


def clip(call: Call) -> list[Value]:
    """Clip, without bounds by default."""
    bounds = [
        call.graph.scalar(call.number(name, default), call.x.dtype) if call.has(name) else None
        for name, default in (("min", -np.inf), ("max", np.inf))
    ]
    while bounds and bounds[-1] is None:
        bounds.pop()
    return [call.graph.node("Clip", [call.x, *bounds], call.x.dims)]


def parametric_relu(call: Call) -> list[Value]:
    """PRelu: one slope, or one for each channel."""
    slope = call.input(1)
    if slope.dims != (1,):
        slope = per_channel(call, slope, call.x.need_rank("a slope for each channel"))
    return [call.graph.node("PRelu", [call.x, slope], call.x.dims)]


def _aligned(call: Call, a: Value, b: Value) -> Value:
    """The second input, so that numpy's way of broadcasting puts it where Caffe2 does: `axis` of the first input is its first dimension."""
    enabled = call.integer("broadcast", 0)
    axis = call.integer("axis", -1)
    named = call.text("axis_str", "")
    if named:
        axis = call.text("order", "NCHW").find(named)
        if len(named) != 1 or axis < 0:
            raise UnsupportedError(
                f"argument 'axis_str' is '{named}', expected one letter of the order"
            )
    if axis == -1 or not enabled:
        return b
    rank, count = a.need_rank("broadcasting at an axis"), b.need_rank("broadcasting at an axis")
    after = rank - axis - count
    if axis < 0 or after < 0:
        raise UnsupportedError(f"broadcasts {count} dimensions at axis {axis} of {rank}")
    if not after or not count:
        return b
    dims = (*(b.dims or ()), *[1] * after)
    if b.constant is not None:
        return call.graph.constant(b.constant.reshape(dims), b.name)
    return call.graph.node("Unsqueeze", [b], dims, axes=list(range(count, count + after)))

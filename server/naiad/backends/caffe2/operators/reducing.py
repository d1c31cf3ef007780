"""Reductions, and what flattens an input to compute along its rows."""

import collections.abc

from naiad.backends.caffe2.arguments import Call
from naiad.backends.caffe2.graph import INT64, Dims, UnsupportedError, Value

Operator = collections.abc.Callable[[Call], list[Value]]


def reduce(name: str) -> Operator:
    """A reduction over the argument `axes`, by default all dimensions."""

    def translate(call: Call) -> list[Value]:
        axes = call.integers("axes")
        return [_reduced(call, name, axes or None, keep=bool(call.integer("keepdims", 1)))]

    return translate


def reduce_side(name: str, *, front: bool) -> Operator:
    """A reduction over the first or the last `num_reduce_dim` dimensions, which go."""

    def translate(call: Call) -> list[Value]:
        if len(call.inputs) > 1:
            raise UnsupportedError("reduces by lengths, which is not in the table")
        count = call.integer("num_reduce_dim", 1)
        rank = call.x.need_rank("reducing the last dimensions")
        if not 0 < count <= rank:
            raise UnsupportedError(f"reduces {count} of {rank} dimensions")
        axes = list(range(count)) if front else list(range(rank - count, rank))
        return [_reduced(call, name, axes, keep=False)]

    return translate


def sum_elements(call: Call) -> list[Value]:
    """SumElements: one number."""
    name = "ReduceMean" if call.integer("average", 0) else "ReduceSum"
    return [call.graph.node(name, [call.x], (), keepdims=0)]


def position(name: str) -> Operator:
    """ArgMax and ArgMin."""

    def translate(call: Call) -> list[Value]:
        axis, keep = call.integer("axis", -1), call.integer("keepdims", 1)
        dims = _dims(call.x.dims, [axis], keep=bool(keep))
        return [call.graph.node(name, [call.x], dims, dtype=INT64, axis=axis, keepdims=keep)]

    return translate


def softmax(call: Call) -> list[Value]:
    """Softmax over all dimensions from `axis` on, as one row."""
    graph, x = call.graph, call.x
    axis = call.axis("axis", 1, x.rank)
    if x.dims is not None and set(x.dims[axis + 1 :]) <= {1}:
        return [graph.node("Softmax", [x], x.dims, axis=axis)]
    rows = graph.node("Flatten", [x], (-1, -1), axis=axis)
    row = graph.node("Softmax", [rows], (-1, -1), axis=1)
    # The runtime knows the shape of the result only where it does not have to compute it: 0 is the number of rows.
    if x.dims is not None and axis == 1 and -1 not in x.dims[1:]:
        shape = graph.constant([0, *x.dims[1:]])
    elif x.dims is not None and x.dims.count(-1) < 2:  # noqa: PLR2004 - one size may be worked out
        shape = graph.constant(list(x.dims))
    else:
        shape = graph.shape_of(x)
    return [graph.node("Reshape", [row, shape], x.dims)]


def _reduced(call: Call, name: str, axes: list[int] | None, *, keep: bool) -> Value:
    dims = _dims(call.x.dims, axes, keep=keep)
    if axes is None:
        return call.graph.node(name, [call.x], dims, keepdims=int(keep))
    return call.graph.node(name, [call.x], dims, keepdims=int(keep), axes=axes)


def _dims(dims: Dims | None, axes: list[int] | None, *, keep: bool) -> Dims | None:
    if dims is None:
        return None
    rank = len(dims)
    if axes is not None and any(not -rank <= axis < rank for axis in axes):
        raise UnsupportedError(f"reduces the dimensions {axes} of {rank}")
    gone = set(range(rank)) if axes is None else {axis % rank for axis in axes}
    sizes = (1 if axis in gone else size for axis, size in enumerate(dims))
    return tuple(sizes) if keep else tuple(s for axis, s in enumerate(dims) if axis not in gone)

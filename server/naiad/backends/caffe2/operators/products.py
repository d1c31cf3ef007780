"""Fully connected layers and products of matrices."""

import collections.abc

from naiad.backends.caffe2.arguments import Call
from naiad.backends.caffe2.graph import INT64, Dims, UnsupportedError, Value, broadcast, product


def fully_connected(call: Call, *, transposed: bool = False) -> list[Value]:
    """FC: X, flattened at `axis`, weights [N, K], flattened at `axis_w`, and a bias; FCTransposed has weights [K, N]."""
    graph, x = call.graph, call.x
    axis = call.axis("axis", 1, x.rank, more=1)
    weights = _flat(call, call.input(1), "axis_w")
    flat = _flat(call, x, "axis")
    outputs, inputs = weights.size(0), weights.size(1)
    if transposed:
        outputs, inputs = inputs, outputs
    if -1 not in (inputs, flat.size(1)) and inputs != flat.size(1):
        raise UnsupportedError(
            f"has weights for {inputs} inputs, and gets {flat.size(1)} from the shape {list(x.dims or ())}"
        )
    bias = call.inputs[2:3]
    y = graph.node(
        "Gemm", [flat, weights, *bias], (flat.size(0), outputs), transB=0 if transposed else 1
    )
    if axis == 1:
        return [y]
    kept = graph.node(
        "Slice", [graph.shape_of(x), graph.constant([0]), graph.constant([axis])], (axis,)
    )
    shape = graph.node("Concat", [kept, graph.constant([-1])], (axis + 1,), axis=0)
    dims: Dims | None = None if x.dims is None else (*x.dims[:axis], outputs)
    return [graph.node("Reshape", [y, shape], dims)]


def fully_connected_transposed(call: Call) -> list[Value]:
    """FCTransposed."""
    return fully_connected(call, transposed=True)


def matrix_product(call: Call) -> list[Value]:
    """MatMul: both inputs flattened to matrices."""
    a = _flat(call, call.x, "axis_a")
    b = _flat(call, call.input(1), "axis_b")
    trans_a, trans_b = (1 if call.integer(name, 0) else 0 for name in ("trans_a", "trans_b"))
    dims = (a.size(1 if trans_a else 0), b.size(0 if trans_b else 1))
    return [call.graph.node("Gemm", [a, b], dims, transA=trans_a, transB=trans_b)]


def batch_product(call: Call) -> list[Value]:
    """BatchMatMul: products of the last two dimensions; those before are broadcast."""
    call.integer("broadcast", 0)
    a, b = (
        _swapped(call, value) if call.integer(name, 0) else value
        for name, value in (("trans_a", call.x), ("trans_b", call.input(1)))
    )
    dims: Dims | None = None
    if a.dims is not None and b.dims is not None and min(len(a.dims), len(b.dims)) >= 2:  # noqa: PLR2004 - matrices
        dims = (*(broadcast(a.dims[:-2], b.dims[:-2]) or ()), a.size(-2), b.size(-1))
    return [call.graph.node("MatMul", [a, b], dims)]


def gather(axis: int) -> collections.abc.Callable[[Call], list[Value]]:
    """Gather and BatchGather: parts of the first input by the indices in the second."""

    def translate(call: Call) -> list[Value]:
        data, indices = call.x, call.input(1)
        at = call.axis("axis", axis, data.rank)
        dims: Dims | None = None
        if data.dims is not None and indices.dims is not None:
            dims = (*data.dims[:at], *indices.dims, *data.dims[at + 1 :])
        return [call.graph.node("Gather", [data, indices], dims, axis=at)]

    return translate


def top_k(call: Call) -> list[Value]:
    """TopK along an axis: values and their indices."""
    if len(call.operator.outputs) > 2:  # noqa: PLR2004 - values and indices
        raise UnsupportedError("gives flattened indices, which are not in the table")
    k, axis = call.integer("k", 0), call.axis("axis", -1, call.x.need_rank("TopK"))
    if k < 1:
        raise UnsupportedError(f"argument 'k' is {k}, expected at least 1")
    dims = None
    if call.x.dims is not None:
        dims = (*call.x.dims[:axis], k, *call.x.dims[axis + 1 :])
    outputs = [(call.x.dtype, dims), (INT64, dims)]
    return call.graph.nodes_of("TopK", [call.x, call.graph.constant([k])], outputs, axis=axis)


def _flat(call: Call, value: Value, name: str) -> Value:
    """A value as a matrix: all dimensions before the one that an argument names by the others."""
    axis = call.axis(name, 1, value.rank, more=1)
    if value.rank == 2 and axis == 1:  # noqa: PLR2004 - it is one
        return value
    if value.dims is None:
        return call.graph.node("Flatten", [value], (-1, -1), axis=axis)
    dims = (product(value.dims[:axis]), product(value.dims[axis:]))
    if value.constant is not None:
        return call.graph.constant(value.constant.reshape(dims), value.name)
    return call.graph.node("Flatten", [value], dims, axis=axis)


def _swapped(call: Call, value: Value) -> Value:
    rank = value.need_rank("transposing the last two dimensions")
    if rank < 2:  # noqa: PLR2004 - a matrix
        return value
    return call.graph.transposed(value, [*range(rank - 2), rank - 1, rank - 2])

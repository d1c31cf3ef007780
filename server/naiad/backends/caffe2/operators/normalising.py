"""Normalisations, and what is left of Dropout when a net runs."""

import numpy as np

from naiad.backends.caffe2.arguments import Call
from naiad.backends.caffe2.graph import UnsupportedError, Value
from naiad.backends.caffe2.operators.images import channels_back, channels_first, per_channel

_MOST = 1 << 16
"""Above any number of groups."""


def batch_norm(call: Call) -> list[Value]:
    """SpatialBN: X, scale, bias, mean and variance that training has found."""
    if not call.integer("is_test", 0):
        raise UnsupportedError(
            "normalises by the batch itself, as in training: export the net with is_test: 1"
        )
    rank = call.x.need_rank("SpatialBN")
    x = channels_first(call, call.x, rank)
    y = call.graph.node(
        "BatchNormalization",
        [x, *(call.input(index) for index in range(1, 5))],
        x.dims,
        epsilon=call.number("epsilon", 1e-5),
    )
    return [channels_back(call, y, rank)]


def instance_norm(call: Call) -> list[Value]:
    """InstanceNorm: X, scale, bias."""
    rank = call.x.need_rank("InstanceNorm")
    x = channels_first(call, call.x, rank)
    y = call.graph.node(
        "InstanceNormalization",
        [x, call.input(1), call.input(2)],
        x.dims,
        epsilon=call.number("epsilon", 1e-5),
    )
    return [channels_back(call, y, rank)]


def group_norm(call: Call) -> list[Value]:
    """GroupNorm: X, gamma and beta of each channel; the groups are normalised as instances."""
    graph, groups = call.graph, call.integer("group", 32)
    rank = call.x.need_rank("GroupNorm")
    x = channels_first(call, call.x, rank)
    channels = x.size(1) if x.size(1) > 0 else call.input(1).size(0)
    if not 1 <= groups <= _MOST or channels % groups:
        raise UnsupportedError(f"has {groups} groups of {channels} channels")
    folded = graph.node("Reshape", [x, graph.constant([0, groups, -1])], (x.size(0), groups, -1))
    ones, zeros = (graph.constant(np.full(groups, each, x.dtype)) for each in (1, 0))
    normal = graph.node(
        "InstanceNormalization",
        [folded, ones, zeros],
        folded.dims,
        epsilon=call.number("epsilon", 1e-5),
    )
    whole = channels_back(call, graph.node("Reshape", [normal, graph.shape_of(x)], x.dims), rank)
    gamma, beta = (per_channel(call, call.input(index), rank) for index in (1, 2))
    return [graph.node("Add", [graph.node("Mul", [whole, gamma], whole.dims), beta], whole.dims)]


def layer_norm(call: Call) -> list[Value]:
    """LayerNorm over all dimensions from `axis` on; gives mean and standard deviation as well."""
    graph, x = call.graph, call.x
    rank = x.need_rank("LayerNorm")
    axis = call.axis("axis", 1, rank)
    axes = list(range(axis, rank))
    reduced = (*(x.dims or ())[:axis], *[1] * (rank - axis))
    mean = graph.node("ReduceMean", [x], reduced, axes=axes)
    off = graph.node("Sub", [x, mean], x.dims)
    variance = graph.node("ReduceMean", [graph.node("Mul", [off, off], x.dims)], reduced, axes=axes)
    epsilon = graph.scalar(call.number("epsilon", 1e-5), x.dtype)
    deviation = graph.node("Sqrt", [graph.node("Add", [variance, epsilon], reduced)], reduced)
    y = graph.node("Div", [off, deviation], x.dims)
    if call.integer("elementwise_affine", 0):
        gamma, beta = call.input(1), call.input(2)
        y = graph.node("Add", [graph.node("Mul", [y, gamma], x.dims), beta], x.dims)
    kept = (*(x.dims or ())[:axis], 1)
    flat = [0] * axis + [-1]
    return [y, *(graph.reshaped(each, flat, kept) for each in (mean, deviation))]


def local_response_norm(call: Call) -> list[Value]:
    """LRN, across channels."""
    rank = call.x.need_rank("LRN")
    size = call.integer("size", 0)
    if size < 1 or size % 2 == 0:
        raise UnsupportedError(f"argument 'size' is {size}, expected an odd number")
    x = channels_first(call, call.x, rank)
    y = call.graph.node(
        "LRN",
        [x],
        x.dims,
        size=size,
        alpha=call.number("alpha", 0),
        beta=call.number("beta", 0),
        bias=call.number("bias", 1),
    )
    return [channels_back(call, y, rank)]


def affine_channel(call: Call) -> list[Value]:
    """AffineChannel: X, scale and bias of each channel."""
    rank = call.x.need_rank("AffineChannel")
    gain, bias = (per_channel(call, call.input(index), rank) for index in (1, 2))
    scaled = call.graph.node("Mul", [call.x, gain], call.x.dims)
    return [call.graph.node("Add", [scaled, bias], call.x.dims)]


def unit_norm(call: Call) -> list[Value]:
    """Normalize: to the length 1 along an axis."""
    rank = call.x.need_rank("Normalize")
    axis = call.axis("axis", -1, rank)
    dims = tuple(1 if each == axis else size for each, size in enumerate(call.x.dims or ()))
    length = call.graph.node("ReduceL2", [call.x], dims, axes=[axis])
    least = call.graph.scalar(1e-12, call.x.dtype)
    return [
        call.graph.node("Div", [call.x, call.graph.node("Max", [length, least], dims)], call.x.dims)
    ]


def dropout(call: Call) -> list[Value]:
    """Dropout of a net that is not in training: nothing. The mask is not made."""
    call.number("ratio", 0.5)
    if not call.integer("is_test", 0):
        raise UnsupportedError("drops at random, as in training: export the net with is_test: 1")
    return [call.x]

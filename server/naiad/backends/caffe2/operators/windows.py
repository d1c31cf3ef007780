"""Convolutions and pooling."""

from naiad.backends.caffe2.arguments import Call
from naiad.backends.caffe2.graph import Dims, UnsupportedError, Value
from naiad.backends.caffe2.onnx_file import Attribute
from naiad.backends.caffe2.operators.images import (
    CAFFE,
    SAME,
    Window,
    channels_back,
    channels_first,
    check_rank,
    settle,
    window_of,
)


def convolution(call: Call) -> list[Value]:
    """Conv: X, weights [M, C / group, …] (NHWC: [M, …, C / group]), and optionally a bias."""
    window = window_of(call)
    rank = len(window) + 2
    check_rank(call.x, rank)
    x = channels_first(call, call.x, rank)
    weights = _weights(call, call.input(1), window, rank)
    group = call.integer("group", 1)
    _check_channels(x, weights.size(1) * group if weights.size(1) > 0 else -1)
    spatial, automatic = settle(window, _spatial(x, rank))
    dims = (x.size(0), weights.size(0), *spatial)
    y = call.graph.node(
        "Conv",
        [x, weights, *call.inputs[2:3]],
        dims,
        kernel_shape=window.kernel,
        strides=window.strides,
        dilations=window.dilations,
        group=group,
        more=_padding(window, automatic),
    )
    return [channels_back(call, y, rank)]


def transposed_convolution(call: Call) -> list[Value]:
    """ConvTranspose: X, weights [C, M / group, …] (NHWC: [C, …, M / group]), and optionally a bias."""
    window = window_of(call)
    rank = len(window) + 2
    check_rank(call.x, rank)
    if window.legacy in (SAME, CAFFE):
        raise UnsupportedError(
            f"argument 'legacy_pad' is {window.legacy}, which Caffe2 refuses as well"
        )
    x = channels_first(call, call.x, rank)
    weights = _weights(call, call.input(1), window, rank)
    group = call.integer("group", 1)
    adjust = call.integers("adjs")
    if call.has("adj"):
        adjust = [call.integer("adj", 0)] * len(window)
    elif call.has("adj_h") and call.has("adj_w"):
        adjust = [call.integer("adj_h", 0), call.integer("adj_w", 0)]
    adjust = adjust or [0] * len(window)
    if len(adjust) != len(window):
        raise UnsupportedError(f"has {len(adjust)} adjs for a kernel of {len(window)} dimensions")
    _check_channels(x, weights.size(0))
    count = len(window)
    spatial = tuple(
        -1
        if size < 0
        else (size - 1) * window.strides[axis] + (window.kernel[axis] - 1) * window.dilations[axis] + 1 + adjust[axis]
        - window.pads[axis] - window.pads[count + axis]
        for axis, size in enumerate(_spatial(x, rank))
    )  # fmt: skip
    channels = weights.size(1) * group if weights.size(1) > 0 else -1
    y = call.graph.node(
        "ConvTranspose",
        [x, weights, *call.inputs[2:3]],
        (x.size(0), channels, *spatial),
        kernel_shape=window.kernel,
        strides=window.strides,
        dilations=window.dilations,
        pads=window.pads,
        output_padding=adjust,
        group=group,
    )
    return [channels_back(call, y, rank)]


def max_pool(call: Call) -> list[Value]:
    """MaxPool."""
    return _pool(call, "MaxPool")


def average_pool(call: Call) -> list[Value]:
    """AveragePool: pads do not count, unless the argument count_include_pad is there."""
    return _pool(call, "AveragePool")


def _pool(call: Call, operator: str) -> list[Value]:
    if call.integer("global_pooling", 0):
        for name in ("kernel", "kernels", "stride", "strides", "pad", "pads", "legacy_pad"):
            call.has(name)  # without effect then
        rank = call.x.need_rank("global pooling")
        x = channels_first(call, call.x, rank)
        dims: Dims = (x.size(0), x.size(1), *[1] * (rank - 2))
        return [channels_back(call, call.graph.node(f"Global{operator}", [x], dims), rank)]
    window = window_of(call)
    rank = len(window) + 2
    check_rank(call.x, rank)
    x = channels_first(call, call.x, rank)
    spatial, automatic = settle(window, _spatial(x, rank))
    more: dict[str, Attribute] = {}
    if operator == "MaxPool":
        more["dilations"] = window.dilations
    elif max(window.dilations) > 1:
        raise UnsupportedError("has a dilation, which AveragePool of ONNX does not have")
    elif call.integer("count_include_pad", 0):
        more["count_include_pad"] = 1
    y = call.graph.node(
        operator,
        [x],
        (x.size(0), x.size(1), *spatial),
        kernel_shape=window.kernel,
        strides=window.strides,
        more={**_padding(window, automatic), **more},
    )
    return [channels_back(call, y, rank)]


def _padding(window: Window, automatic: str) -> dict[str, Attribute]:
    return {"auto_pad": automatic} if automatic else {"pads": window.pads}


def _spatial(x: Value, rank: int) -> list[int]:
    return [x.size(axis) for axis in range(2, rank)]


def _weights(call: Call, weights: Value, window: Window, rank: int) -> Value:
    """The weights in ONNX's order, checked against the kernel."""
    check_rank(weights, rank, "its weights")
    first = channels_first(call, weights, rank)
    kernel = [first.size(axis) for axis in range(2, rank)]
    if -1 not in kernel and kernel != window.kernel:
        raise UnsupportedError(
            f"has weights of the shape {list(weights.dims or ())} for a kernel of {window.kernel}"
        )
    return first


def _check_channels(x: Value, expected: int) -> None:
    if -1 not in (x.size(1), expected) and x.size(1) != expected:
        raise UnsupportedError(
            f"has weights for {expected} channels, and its input has {x.size(1)}"
        )

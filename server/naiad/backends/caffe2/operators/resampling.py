"""Operators that make images larger or smaller, pad them or mix their channels."""

import collections.abc
import itertools

import numpy as np

from naiad.backends.caffe2.arguments import Call
from naiad.backends.caffe2.graph import UnsupportedError, Value
from naiad.backends.caffe2.onnx_file import Attribute
from naiad.backends.caffe2.operators.images import channels_back, channels_first, check_rank

_RANK = 4
_MOST = 1 << 16
"""Above any scale of an image, and any number of its channels."""
_MODES = {"constant": "constant", "reflect": "reflect", "edge": "edge"}


def nearest(call: Call) -> list[Value]:
    """ResizeNearest."""
    return _resized(
        call, mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"
    )


def bilinear(call: Call) -> list[Value]:
    """UpsampleBilinear, which keeps the corners where they are."""
    return _resized(call, mode="linear", coordinate_transformation_mode="align_corners")


def pad(call: Call) -> list[Value]:
    """PadImage."""
    check_rank(call.x, _RANK)
    pads = call.integers("pads")
    if call.has("pad"):
        pads = [call.integer("pad", 0)] * 4
    elif not pads:
        pads = [call.integer(name, 0) for name in ("pad_t", "pad_l", "pad_b", "pad_r")]
    if len(pads) != 4:  # noqa: PLR2004 - the sides of an image
        raise UnsupportedError(f"has {len(pads)} pads, expected 4")
    mode = call.choice("mode", "constant", tuple(_MODES))
    top, left, bottom, right = pads
    whole = [0, 0, top, left, 0, 0, bottom, right]
    if call.channels_last:
        whole = [0, top, left, 0, 0, bottom, right, 0]
    value = call.graph.scalar(call.number("value", 0), call.x.dtype)
    dims = None
    if call.x.dims is not None:
        dims = tuple(
            size if size < 0 else size + whole[axis] + whole[axis + _RANK]
            for axis, size in enumerate(call.x.dims)
        )
    inputs = [call.x, call.graph.constant(whole), *([value] if mode == "constant" else [])]
    return [call.graph.node("Pad", inputs, dims, mode=mode)]


def channel_shuffle(call: Call) -> list[Value]:
    """ChannelShuffle: the first channels of each group, then the second ones …."""
    for name in ("kernel", "kernels"):
        call.has(name)  # without effect
    groups = call.integer("group", 1)
    rank = call.x.need_rank("ChannelShuffle")
    axis = rank - 1 if call.channels_last else 1
    channels = call.x.size(axis)
    if channels < 0:
        raise UnsupportedError("needs the number of channels, which is not known here")
    if groups < 1 or channels % groups or channels > _MOST:
        raise UnsupportedError(f"has {groups} groups of {channels} channels")
    each = channels // groups
    order = [group * each + place for place, group in itertools.product(range(each), range(groups))]
    return [call.graph.node("Gather", [call.x, call.graph.constant(order)], call.x.dims, axis=axis)]


def _resized(call: Call, **attributes: Attribute) -> list[Value]:
    check_rank(call.x, _RANK)
    if len(call.inputs) > 1:
        scales = call.constant_input(1, "the scales").reshape(-1)
        if scales.size != 2:  # noqa: PLR2004 - height and width
            raise UnsupportedError(f"has {scales.size} scales, expected 2")
        height, width = map(float, scales)
    else:
        height, width = call.number("height_scale", 1), call.number("width_scale", 1)
    if not (0 < height < _MOST and 0 < width < _MOST):
        raise UnsupportedError(
            f"has the scales {height} and {width}, expected numbers between 0 and {_MOST}"
        )
    x = channels_first(call, call.x, _RANK)
    dims = (x.size(0), x.size(1), *_scaled((x.size(2), x.size(3)), (height, width)))
    factors = call.graph.constant(np.array([1, 1, height, width], np.float32))
    none = call.graph.constant(np.zeros(0, np.float32))
    y = call.graph.node("Resize", [x, none, factors], dims, more=attributes)
    return [channels_back(call, y, _RANK)]


def _scaled(
    sizes: collections.abc.Iterable[int], scales: collections.abc.Iterable[float]
) -> tuple[int, ...]:
    return tuple(
        size if size < 0 else int(np.float32(size) * np.float32(scale))
        for size, scale in zip(sizes, scales, strict=True)
    )

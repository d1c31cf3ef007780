"""What convolutions and pooling have in common: windows over images, and the order of their dimensions."""

import collections.abc
import math

import msgspec

from naiad.backends.caffe2.arguments import Call
from naiad.backends.caffe2.graph import Dims, UnsupportedError, Value

NOTSET, VALID, SAME, CAFFE = 0, 1, 2, 3
"""The values of the argument legacy_pad."""

_MAX_DIMENSIONS = 3


class Window(msgspec.Struct, kw_only=True):
    """A window over the spatial dimensions.

    Attributes:
        pads: those before each dimension, then those after each.
    """

    kernel: list[int]
    strides: list[int]
    dilations: list[int]
    pads: list[int]
    legacy: int

    def __len__(self) -> int:
        return len(self.kernel)


def window_of(call: Call) -> Window:
    """The window that an operator's arguments describe, in any of the ways in which they can: one number for both dimensions, one for each, a list.

    Raises:
        UnsupportedError: numbers are missing, or do not fit each other.
    """
    legacy = call.integer("legacy_pad", NOTSET)
    if legacy not in (NOTSET, VALID, SAME, CAFFE):
        raise UnsupportedError(f"argument 'legacy_pad' is {legacy}, expected 0, 1, 2 or 3")
    kernel = _list(call, "kernel", "kernels", ("kernel_h", "kernel_w"), 2)
    if not kernel or min(kernel) < 1:
        raise UnsupportedError("has no kernel size")
    count = len(kernel)
    if count > _MAX_DIMENSIONS:
        raise UnsupportedError(
            f"has a kernel of {count} dimensions, expected at most {_MAX_DIMENSIONS}"
        )
    strides = _list(call, "stride", "strides", ("stride_h", "stride_w"), count) or [1] * count
    dilations = (
        _list(call, "dilation", "dilations", ("dilation_h", "dilation_w"), count) or [1] * count
    )
    pads = _list(call, "pad", "pads", ("pad_t", "pad_l", "pad_b", "pad_r"), 2 * count) or [0] * (
        2 * count
    )
    for name, values, expected in (
        ("strides", strides, count),
        ("dilations", dilations, count),
        ("pads", pads, 2 * count),
    ):
        if len(values) != expected:
            raise UnsupportedError(
                f"has {len(values)} {name} for a kernel of {count} dimensions, expected {expected}"
            )
    if min(strides) < 1 or min(dilations) < 1 or min(pads) < 0:
        raise UnsupportedError("has a stride or dilation below 1, or a pad below 0")
    if legacy in (VALID, SAME):
        pads = [0] * (2 * count)
    return Window(kernel=kernel, strides=strides, dilations=dilations, pads=pads, legacy=legacy)


def settle(window: Window, sizes: collections.abc.Sequence[int]) -> tuple[Dims, str]:
    """Work out the pads of the legacy kinds of padding for an image's sizes, in place.

    Returns:
        The sizes of the output, -1 for one that is not known; and "SAME_UPPER" where the runtime has to work out the pads, else "".

    Raises:
        UnsupportedError: a size is not known, and has to be.
    """
    count = len(window)
    output: list[int] = []
    automatic = ""
    for axis in range(count):
        size, stride = sizes[axis], window.strides[axis]
        reach = (window.kernel[axis] - 1) * window.dilations[axis] + 1
        head = window.pads[axis]
        if window.legacy == SAME:
            if size < 0:
                if reach < stride:
                    raise UnsupportedError(
                        "pads to the SAME size with a stride above the kernel, where the size of the image has to be known: write it in dims"
                    )
                automatic = "SAME_UPPER"
                output.append(-1)
                continue
            steps = -(-size // stride)
            needed = max(0, (steps - 1) * stride + reach - size)
            window.pads[axis], window.pads[count + axis] = needed // 2, needed - needed // 2
            output.append(steps)
            continue
        if window.legacy == CAFFE:
            if size < 0:
                raise UnsupportedError(
                    "pads as Caffe does (legacy_pad: 3), where the size of the image has to be known: write it in dims"
                )
            steps = math.ceil((size + 2 * head - window.kernel[axis]) / stride) + 1
            if head > 0 and (steps - 1) * stride >= size + head:
                steps -= 1
            # What lies beyond the last window does not count.
            window.pads[count + axis] = max(
                0, (steps - 1) * stride + window.kernel[axis] - size - head
            )
            output.append(steps)
            continue
        if size < 0:
            output.append(-1)
            continue
        whole = size + head + window.pads[count + axis] - reach
        if whole < 0:
            raise UnsupportedError(f"has a window of {reach} over an image of {size} with its pads")
        output.append(whole // stride + 1)
    return tuple(output), automatic


def channels_first(call: Call, value: Value, rank: int) -> Value:
    """An image as NCHW, whatever order the operator has."""
    if not call.channels_last:
        return value
    return call.graph.transposed(value, [0, rank - 1, *range(1, rank - 1)])


def channels_back(call: Call, value: Value, rank: int) -> Value:
    """A result in the order that the operator has."""
    if not call.channels_last:
        return value
    return call.graph.transposed(value, [0, *range(2, rank), 1])


def check_rank(value: Value, rank: int, what: str = "its input") -> None:
    """Check the number of dimensions, if it is known.

    Raises:
        UnsupportedError: it is another one.
    """
    if value.rank is not None and value.rank != rank:
        raise UnsupportedError(
            f"expects {rank} dimensions of {what}, which has {value.rank}: {list(value.dims or ())}"
        )


def per_channel(call: Call, value: Value, rank: int) -> Value:
    """One number for each channel, in a shape that fits images in the operator's order."""
    if call.channels_last or value.dims == (1,):
        return value
    count = value.size(0)
    return call.graph.reshaped(value, [-1, *[1] * (rank - 2)], (count, *[1] * (rank - 2)))


def _list(
    call: Call, single: str, several: str, named: collections.abc.Sequence[str], count: int
) -> list[int]:
    values = call.integers(several)
    each = [call.integer(name, 0) for name in named if call.has(name)]
    if call.has(single):
        return [call.integer(single, 0)] * (len(values) or count)
    if len(each) == len(named):
        return each
    if each:
        raise UnsupportedError(
            f"has some of the arguments {', '.join(named)}, and needs all of them"
        )
    return values

"""Convolutions and pooling of Caffe2, against torch's own."""

import math
import pathlib
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from tests.frameworks.caffe2.operators import check, nhwc, random

X = random(2, 4, 9, 11)
T = torch.from_numpy


@pytest.mark.parametrize("free", [False, True], ids=["sizes known", "sizes free"])
@pytest.mark.parametrize(
    ("arguments", "stride", "padding", "dilation", "groups"),
    [
        ({"kernel": 3}, 1, 0, 1, 1),
        ({"kernel": 3, "pad": 1, "stride": 2}, 2, 1, 1, 1),
        ({"kernel_h": 3, "kernel_w": 3, "stride_h": 2, "stride_w": 1, "pad_t": 1, "pad_l": 2, "pad_b": 1, "pad_r": 2}, (2, 1), (1, 2), 1, 1),
        ({"kernels": [3, 3], "strides": [1, 2], "pads": [2, 1, 2, 1], "dilations": [2, 1]}, (1, 2), (2, 1), (2, 1), 1),
        ({"kernel": 3, "dilation": 2, "group": 2, "use_cudnn": 1, "exhaustive_search": 1}, 1, 0, 2, 2),
        ({"kernel": 3, "group": 4, "order": "NCHW"}, 1, 0, 1, 4),
    ],
)  # fmt: skip
def test_convolutions(
    tmp_path: pathlib.Path, *, free: bool, arguments: dict[str, Any], stride: Any, padding: Any, dilation: Any, groups: int
) -> None:  # fmt: skip
    weights, bias = random(8, 4 // groups, 3, 3, seed=1), random(8, seed=2)
    expected = functional.conv2d(T(X), T(weights), T(bias), stride, padding, dilation, groups)
    check(tmp_path, "Conv", [X], expected, arguments, constants=[weights, bias], free=free)


@pytest.mark.parametrize(
    "shape", [(2, 3, 9), (2, 3, 7, 8), (1, 3, 5, 6, 7)], ids=["1D", "2D", "3D"]
)
def test_convolutions_of_any_number_of_dimensions(
    tmp_path: pathlib.Path, shape: tuple[int, ...]
) -> None:
    count = len(shape) - 2
    x, weights = random(*shape), random(5, 3, *[3] * count, seed=1)
    expected = (functional.conv1d, functional.conv2d, functional.conv3d)[count - 1](
        T(x), T(weights), padding=1
    )
    check(
        tmp_path,
        "Conv",
        [x],
        expected,
        {"kernels": [3] * count, "pads": [1] * 2 * count},
        constants=[weights],
    )


def test_convolution_with_channels_last(tmp_path: pathlib.Path) -> None:
    weights, bias = random(8, 4, 3, 3, seed=1), random(8, seed=2)
    expected = nhwc(functional.conv2d(T(X), T(weights), T(bias), 2, 1).numpy())
    arguments = {"kernel": 3, "stride": 2, "pad": 1, "order": "NHWC"}
    check(tmp_path, "Conv", [nhwc(X)], expected, arguments, constants=[nhwc(weights), bias])


def test_a_convolution_whose_weights_are_an_input(tmp_path: pathlib.Path) -> None:
    weights = random(8, 4, 3, 3, seed=1)
    check(
        tmp_path,
        "Conv",
        [X, weights],
        functional.conv2d(T(X), T(weights)),
        {"kernel": 3},
        free=True,
    )


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize(
    ("size", "kernel", "stride"), [(9, 3, 2), (10, 3, 2), (7, 2, 1), (8, 5, 3)]
)
def test_padding_to_the_same_size(
    tmp_path: pathlib.Path, *, free: bool, size: int, kernel: int, stride: int
) -> None:
    x, weights = random(1, 2, size, size), random(3, 2, kernel, kernel, seed=1)
    needed = max(0, (math.ceil(size / stride) - 1) * stride + kernel - size)
    padded = functional.pad(T(x), (needed // 2, needed - needed // 2) * 2)
    expected = functional.conv2d(padded, T(weights), stride=stride)
    arguments = {"kernel": kernel, "stride": stride, "legacy_pad": 2}
    check(tmp_path, "Conv", [x], expected, arguments, constants=[weights], free=free)


@pytest.mark.parametrize("free", [False, True])
def test_transposed_convolutions(tmp_path: pathlib.Path, *, free: bool) -> None:
    weights, bias = random(4, 3, 3, 3, seed=1), random(3, seed=2)
    expected = functional.conv_transpose2d(
        T(X), T(weights), T(bias), stride=2, padding=1, output_padding=1
    )
    arguments = {"kernel": 3, "stride": 2, "pad": 1, "adj": 1}
    check(
        tmp_path / "a",
        "ConvTranspose",
        [X],
        expected,
        arguments,
        constants=[weights, bias],
        free=free,
    )
    last = {**arguments, "order": "NHWC"}
    check(
        tmp_path / "b",
        "ConvTranspose",
        [nhwc(X)],
        nhwc(expected.numpy()),
        last,
        constants=[nhwc(weights), bias],
    )


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
@pytest.mark.parametrize(
    ("kind", "function"), [("MaxPool", functional.max_pool2d), ("AveragePool", lambda *a, **k: functional.avg_pool2d(*a, **k, count_include_pad=False))]
)  # fmt: skip
def test_pooling(
    tmp_path: pathlib.Path, *, free: bool, order: str, kind: str, function: Any
) -> None:
    expected = function(T(X), 3, 2, padding=1).numpy()
    arguments = {"kernel": 3, "stride": 2, "pad": 1, "order": order}
    if order == "NHWC":
        check(tmp_path, kind, [nhwc(X)], nhwc(expected), arguments, free=free)
    else:
        check(tmp_path, kind, [X], expected, arguments, free=free)


@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
def test_global_pooling(tmp_path: pathlib.Path, *, kind: str, order: str) -> None:
    flat = T(X).flatten(2)
    expected = (flat.max(2).values if kind == "MaxPool" else flat.mean(2))[:, :, None, None].numpy()
    # As exporters write it: a kernel of 0 and Caffe's padding have no effect then.
    arguments = {
        "kernel": 0,
        "stride": 1,
        "pad": 0,
        "legacy_pad": 3,
        "global_pooling": 1,
        "order": order,
    }
    x = X if order == "NCHW" else nhwc(X)
    check(
        tmp_path, kind, [x], expected if order == "NCHW" else nhwc(expected), arguments, free=True
    )


@pytest.mark.parametrize(
    ("kernel", "stride", "pad"), [(3, 2, 0), (3, 2, 1), (2, 2, 0), (2, 2, 1), (5, 3, 2)]
)
@pytest.mark.parametrize("size", [8, 9, 10, 11, 13])
@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool"])
def test_padding_as_caffe_does(
    tmp_path: pathlib.Path, *, kind: str, size: int, kernel: int, stride: int, pad: int
) -> None:
    # torch's ceil_mode has the rule of Caffe: the last window begins inside the image or the padding before it.
    x = random(1, 2, size, size)
    if kind == "MaxPool":
        expected = functional.max_pool2d(T(x), kernel, stride, pad, ceil_mode=True)
    else:
        expected = functional.avg_pool2d(
            T(x), kernel, stride, pad, ceil_mode=True, count_include_pad=False
        )
    check(
        tmp_path,
        kind,
        [x],
        expected,
        {"kernel": kernel, "stride": stride, "pad": pad, "legacy_pad": 3},
    )


def test_the_second_output_of_pooling_is_left_out(tmp_path: pathlib.Path) -> None:
    x = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    check(tmp_path, "MaxPool", [x], [[[[5, 7], [13, 15]]]], {"kernel": 2, "stride": 2})

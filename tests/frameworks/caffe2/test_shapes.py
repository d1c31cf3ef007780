"""Operators of Caffe2 that change shapes, order and size, against torch's own."""

import pathlib
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from tests.frameworks.caffe2.operators import check, compute, nhwc, random

X = random(2, 6, 5, 3)
T = torch.from_numpy

SHAPING: list[tuple[str, dict[str, Any], Any]] = [
    ("Flatten", {}, lambda x: x.flatten(1)),
    ("Flatten", {"axis": 2}, lambda x: x.reshape(12, 15)),
    ("FlattenToVec", {}, lambda x: x.flatten()),
    ("ExpandDims", {"dims": [0, 3]}, lambda x: x[None, :, :, None]),
    ("Transpose", {}, lambda x: x.permute(3, 2, 1, 0)),
    ("Transpose", {"axes": [0, 2, 3, 1]}, lambda x: x.permute(0, 2, 3, 1)),
    ("NCHW2NHWC", {}, lambda x: x.permute(0, 2, 3, 1)),
    ("NHWC2NCHW", {}, lambda x: x.permute(0, 3, 1, 2)),
    ("Slice", {"starts": [0, 1, 2], "ends": [-1, 4, -2]}, lambda x: x[:, 1:4, 2:-1]),
    ("Slice", {"starts": [0, -4], "ends": [2, 6]}, lambda x: x[:, 3:6]),
    ("ChannelShuffle", {"group": 3, "kernel": 1}, lambda x: functional.channel_shuffle(x, 3)),
    ("PadImage", {"pad_t": 1, "pad_l": 2, "pad_b": 3, "pad_r": 0, "value": 0.5}, lambda x: functional.pad(x, (2, 0, 1, 3), value=0.5)),
    ("PadImage", {"pad": 2, "mode": "reflect"}, lambda x: functional.pad(x, (2, 2, 2, 2), mode="reflect")),
    ("PadImage", {"pad": 1, "mode": "edge"}, lambda x: functional.pad(x, (1, 1, 1, 1), mode="replicate")),
    ("ResizeNearest", {"width_scale": 2.0, "height_scale": 2.0}, lambda x: functional.interpolate(x, scale_factor=2, mode="nearest")),
    ("ResizeNearest", {"width_scale": 2.0, "height_scale": 0.5}, lambda x: functional.interpolate(x, scale_factor=(0.5, 2.0), mode="nearest")),
    ("UpsampleBilinear", {"width_scale": 2.0, "height_scale": 3.0}, lambda x: functional.interpolate(x, size=(15, 6), mode="bilinear", align_corners=True)),
    ("Tile", {"tiles": 3, "axis": 1}, lambda x: x.repeat(1, 3, 1, 1)),
    ("Cast", {"to": 10}, lambda x: x.to(torch.int64)),
    ("Cast", {"to": "INT32"}, lambda x: x.to(torch.int32)),
    ("Cast", {"to": 13}, lambda x: x.to(torch.float64)),
    ("Shape", {}, lambda x: torch.tensor(x.shape)),
    ("Shape", {"axes": [1, 3]}, lambda x: torch.tensor([6, 3])),
]  # fmt: skip


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize(
    ("kind", "arguments", "function"), SHAPING, ids=[f"{a[0]} {a[1]}" for a in SHAPING]
)
def test_of_one_input(
    tmp_path: pathlib.Path, *, free: bool, kind: str, arguments: dict[str, Any], function: Any
) -> None:
    if kind == "ChannelShuffle" and free:
        pytest.skip("the number of channels has to be known")
    check(tmp_path, kind, [X], function(T(X)), arguments, free=free)


@pytest.mark.parametrize("kind", ["ResizeNearest", "UpsampleBilinear"])
def test_resizing_with_channels_last(tmp_path: pathlib.Path, *, kind: str) -> None:
    nearest = kind == "ResizeNearest"
    expected = functional.interpolate(
        T(X),
        scale_factor=2,
        mode="nearest" if nearest else "bilinear",
        align_corners=None if nearest else True,
    )
    check(
        tmp_path,
        kind,
        [nhwc(X)],
        nhwc(expected.numpy()),
        {"width_scale": 2.0, "height_scale": 2.0, "order": "NHWC"},
    )


def test_padding_with_channels_last(tmp_path: pathlib.Path) -> None:
    check(
        tmp_path,
        "PadImage",
        [nhwc(X)],
        nhwc(functional.pad(T(X), (1, 1, 1, 1)).numpy()),
        {"pad": 1, "order": "NHWC"},
    )


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("shape", [[0, -1], [2, 6, 15], [-1, 3], [0, 2, 3, 15], [0, 6, -1, 0]])
def test_reshape_gives_the_old_shape_as_well(
    tmp_path: pathlib.Path, *, free: bool, shape: list[int]
) -> None:
    y, old = compute(tmp_path, "Reshape", [X], outputs=2, shape=shape, free=free)
    sizes = [X.shape[axis] if size == 0 else size for axis, size in enumerate(shape)]
    np.testing.assert_array_equal(y, X.reshape(sizes))
    assert old.tolist() == list(X.shape)


def test_reshape_by_an_input(tmp_path: pathlib.Path) -> None:
    shape = np.array([3, -1], np.int64)
    (constant, _) = compute(tmp_path / "a", "Reshape", [X], constants=[shape], outputs=2)
    (given, _) = compute(tmp_path / "b", "Reshape", [X, shape.astype(np.int32)], outputs=2)
    np.testing.assert_array_equal(constant, X.reshape(3, -1))
    np.testing.assert_array_equal(given, X.reshape(3, -1))
    (like,) = compute(tmp_path / "c", "ResizeLike", [X, random(4, 45)])
    np.testing.assert_array_equal(like, X.reshape(4, 45))


def test_squeeze(tmp_path: pathlib.Path) -> None:
    check(tmp_path, "Squeeze", [X[:, :1, :, :1]], T(X[:, 0, :, 0]), {"dims": [3, 1]}, free=True)


@pytest.mark.parametrize("free", [False, True])
def test_concat_says_what_each_input_takes(tmp_path: pathlib.Path, *, free: bool) -> None:
    a, b = random(2, 3, 4), random(2, 5, 4)
    y, lengths = compute(tmp_path / "a", "Concat", [a, b], outputs=2, free=free)
    np.testing.assert_array_equal(y, np.concatenate([a, b], 1))
    assert (lengths.tolist(), lengths.dtype) == ([3, 5], np.int32)
    c = random(2, 3, 4, seed=1)
    for axis in (0, 1, 3, -1):
        y, lengths = compute(
            tmp_path / str(axis), "Concat", [a, c], outputs=2, free=free, axis=axis, add_axis=1
        )
        np.testing.assert_array_equal(y, np.stack([a, c], axis))
        assert lengths.tolist() == [1, 1]
    y, _ = compute(tmp_path / "l", "Concat", [X, X], outputs=2, order="NHWC", free=free)
    np.testing.assert_array_equal(y, np.concatenate([X, X], 3))


@pytest.mark.parametrize("free", [False, True])
def test_split(tmp_path: pathlib.Path, *, free: bool) -> None:
    cases: list[tuple[dict[str, Any], list[Any], list[Any]]] = [
        ({}, [], np.split(X, 3, 1)),
        ({"split": [1, 2, 3]}, [], np.split(X, [1, 3], 1)),
        ({"axis": 2}, [np.array([1, 1, 3], np.int32)], np.split(X, [1, 2], 2)),
        ({"order": "NHWC"}, [], np.split(X, 3, 3)),
        ({"axis": -1}, [], np.split(X, 3, 3)),
    ]
    for index, (arguments, constants, expected) in enumerate(cases):
        parts = compute(
            tmp_path / str(index),
            "Split",
            [X],
            constants=constants,
            outputs=3,
            free=free,
            **arguments,
        )
        for part, wanted in zip(parts, expected, strict=True):
            np.testing.assert_array_equal(part, wanted)


def test_a_constant_in_the_shape_of_an_input(tmp_path: pathlib.Path) -> None:
    check(
        tmp_path / "a",
        "ConstantFill",
        [X],
        np.full(X.shape, 2.5, np.float32),
        {"value": 2.5},
        free=True,
    )
    shape = np.array([2, 3], np.int64)
    check(
        tmp_path / "b",
        "ConstantFill",
        [shape],
        np.full((2, 3), 7),
        {"value": 7, "input_as_shape": 1},
    )

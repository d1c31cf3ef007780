"""Operators of detection, against the same written as loops over boxes, as Caffe2's sources have them."""

import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, RuntimeException

from naiad.backends.caffe2.net import NetDefError
from tests.frameworks.caffe2.operators import check, compute, nhwc, random

Array = Any

X = random(2, 3, 9, 12)


def boxes(count: int, *, side: float, seed: int = 0, images: int = 0) -> Array:
    """Boxes within a square, float32; the first column is an image's number where there are some."""
    draw = np.random.default_rng(seed)
    corner = draw.uniform(0, 0.7 * side, (count, 2))
    size = draw.uniform(0.02 * side, 0.5 * side, (count, 2))
    made = np.concatenate((corner, corner + size), axis=1)
    if images:
        made = np.concatenate((np.sort(draw.integers(0, images, (count, 1)), axis=0), made), axis=1)
    return made.astype(np.float32)


def interpolated(image: Array, y: float, x: float) -> Array:
    """Of [channels, height, width] at a place between pixels; 0 beyond a pixel outside."""
    _, height, width = image.shape
    if y < -1 or y > height or x < -1 or x > width:
        return np.zeros(len(image))
    y, x = (min(max(at, 0.0), size - 1.0) for at, size in ((y, height), (x, width)))
    top, left = int(y), int(x)
    below, right = min(top + 1, height - 1), min(left + 1, width - 1)
    down, along = y - top, x - left
    upper = image[:, top, left] * (1 - along) + image[:, top, right] * along
    lower = image[:, below, left] * (1 - along) + image[:, below, right] * along
    return upper * (1 - down) + lower * down


def pooled(
    x: Array, regions: Array, *, h: int, w: int, scale: float, ratio: int, aligned: bool
) -> Array:
    """The mean of samples in each of h x w parts of each region."""
    found = np.zeros((len(regions), x.shape[1], h, w))
    for region, out in zip(regions, found, strict=True):
        image = x[int(region[0]) if len(region) == 5 else 0]
        left, top, right, bottom = region[-4:] * scale - (0.5 if aligned else 0)
        width, height = right - left, bottom - top
        if not aligned:
            width, height = max(width, 1.0), max(height, 1.0)
        rows = ratio if ratio > 0 else int(np.ceil(height / h))
        columns = ratio if ratio > 0 else int(np.ceil(width / w))
        for i in range(h):
            for j in range(w):
                samples = [
                    interpolated(
                        image,
                        top + (i + (a + 0.5) / rows) * height / h,
                        left + (j + (b + 0.5) / columns) * width / w,
                    )
                    for a in range(rows)
                    for b in range(columns)
                ]
                out[:, i, j] = np.mean(samples, axis=0)
    return found


@pytest.mark.parametrize("images", [0, 2])
@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("ratio", [0, 2])
def test_regions_are_pooled(
    tmp_path: pathlib.Path, *, images: int, aligned: bool, ratio: int
) -> None:
    regions = boxes(6, side=150, images=images)
    regions[0, -2:] = regions[0, -4:-2] + 3  # smaller than a pixel
    regions[1, -2:] += 90  # beyond the image
    arguments: dict[str, Any] = {
        "pooled_h": 2,
        "pooled_w": 3,
        "spatial_scale": 0.0625,
        "sampling_ratio": ratio,
    }
    expected = pooled(X, regions, h=2, w=3, scale=0.0625, ratio=ratio, aligned=aligned)
    more: dict[str, Any] = {"aligned": 1} if aligned else {}
    check(tmp_path, "RoIAlign", [X, regions], expected, {**arguments, **more})
    (found,) = compute(tmp_path, "RoIAlign", [nhwc(X), regions], order="NHWC", **arguments, **more)
    assert_allclose(found, nhwc(expected), rtol=1e-4, atol=1e-5)


def moved(
    regions: Array, deltas: Array, info: Array, weights: Sequence[float], *, one: float, inside: float, apply_scale: bool
) -> Array:  # fmt: skip
    """Boxes after regression, cut off at the edges."""
    found = np.zeros_like(deltas, dtype=np.float64)
    for region, delta, out in zip(regions, deltas, found, strict=True):
        height, width, scale = info[int(region[0]) if len(region) == 5 else 0]
        edges = int(width / scale + 0.5) - one, int(height / scale + 0.5) - one
        x1, y1, x2, y2 = region[-4:] / scale
        for k in range(len(delta) // 4):
            dx, dy, dw, dh = delta[4 * k : 4 * k + 4] / np.asarray(weights)
            for at, low, high, shift, growth in ((0, x1, x2, dx, dw), (1, y1, y2, dy, dh)):
                size = high - low + one
                centre = shift * size + low + 0.5 * size
                half = 0.5 * size * np.exp(min(growth, np.log(1000 / 16)))
                for to, end in ((at, centre - half), (at + 2, centre + half - inside)):
                    cut = max(min(end, edges[at]), 0.0)
                    out[4 * k + to] = cut * (scale if apply_scale else 1.0)
    return found


@pytest.mark.parametrize("images", [0, 3])
@pytest.mark.parametrize(
    ("arguments", "one", "inside"),
    [
        ({"weights": [10.0, 10.0, 5.0, 5.0], "apply_scale": 0, "correct_transform_coords": 1}, 1.0, 1.0),
        ({"correct_transform_coords": 0}, 1.0, 0.0),
        ({"weights": [1.0, 1.0, 0.1, 1.0], "legacy_plus_one": 0, "rotated": 0, "clip_angle_thresh": 1.0}, 0.0, 0.0),
        ({}, 1.0, 1.0),
    ],
)  # fmt: skip
def test_boxes_are_moved_and_cut_off(
    tmp_path: pathlib.Path, *, images: int, arguments: dict[str, Any], one: float, inside: float
) -> None:
    regions = boxes(7, side=200, seed=1, images=images)
    deltas = random(7, 8, seed=2)
    info = np.array([[200, 180, 1.6], [150, 190, 0.5], [99, 100, 1.0]], np.float32)
    info = info[: images or 1]
    expected = moved(
        regions, deltas, info, arguments.get("weights", [1.0] * 4),
        one=one, inside=inside, apply_scale=bool(arguments.get("apply_scale", 1)),
    )  # fmt: skip
    found, counts = compute(
        tmp_path, "BBoxTransform", [regions, deltas, info], outputs=2, **arguments
    )
    assert_allclose(found, expected, rtol=1e-4, atol=1e-3)
    numbers = regions[:, 0] if images else np.zeros(len(regions))
    assert counts.tolist() == [int((numbers == image).sum()) for image in range(len(info))]
    assert counts.dtype == np.float32


def overlap(a: Array, b: Array, one: float) -> float:
    width, height = (min(a[2 + i], b[2 + i]) - max(a[i], b[i]) + one for i in range(2))
    inter = max(width, 0.0) * max(height, 0.0)
    areas = [(each[2] - each[0] + one) * (each[3] - each[1] + one) for each in (a, b)]
    return float(inter / (sum(areas) - inter))


def limited(
    scores: Array, all_boxes: Array, *, threshold: float, nms: float, limit: int, background: bool, one: float
) -> list[tuple[int, int]]:  # fmt: skip
    """Class and box of what is left, class by class."""
    kept: list[tuple[int, int]] = []
    classes = scores.shape[1] - 1
    for number in range(classes):
        column = scores[:, number + background]
        mine = all_boxes[:, 4 * (number + background) :][:, :4]
        left = [i for i in np.argsort(-column) if column[i] > threshold]
        chosen: list[int] = []
        for i in left:
            if all(overlap(mine[i], mine[j], one) <= nms for j in chosen):
                chosen.append(int(i))
        kept += [(number, i) for i in (chosen[:limit] if limit > 0 else chosen)]
    if 0 < limit < len(kept):
        kept.sort(key=lambda each: -scores[each[1], each[0] + background])
        kept = sorted(
            kept[:limit], key=lambda each: (each[0], -scores[each[1], each[0] + background])
        )
    return kept


@pytest.mark.parametrize("limit", [0, 4, 100])
@pytest.mark.parametrize("new", [False, True])
def test_overlapping_boxes_go_and_the_best_stay(
    tmp_path: pathlib.Path, *, limit: int, new: bool
) -> None:
    count, classes = 30, 3
    scores = np.random.default_rng(5).random((count, classes + 1)).astype(np.float32)
    per_class = classes if new else classes + 1
    every = np.concatenate(
        [boxes(count, side=60, seed=20 + each) for each in range(per_class)], axis=1
    )
    arguments: dict[str, Any] = {"score_thresh": 0.3, "nms": 0.4, "detections_per_im": limit}
    inputs = [scores, every]
    if new:
        arguments |= {"input_boxes_include_bg_cls": 0, "output_classes_include_bg_cls": 0, "legacy_plus_one": 0}  # fmt: skip
        inputs.append(np.array([count], np.float32))
    kept = limited(
        scores, every, threshold=0.3, nms=0.4, limit=limit, background=not new, one=0.0 if new else 1.0
    )  # fmt: skip
    assert len(kept) > 4 or limit == 4
    left, places, labels, splits, keeps, sizes = compute(
        tmp_path, "BoxWithNMSLimit", inputs, outputs=6, **arguments
    )
    first = 0 if new else 1
    assert labels.tolist() == [number + first for number, _ in kept]
    assert keeps.tolist() == [i for _, i in kept]
    assert_allclose(left, [scores[i, number + (not new)] for number, i in kept])
    at = [4 * (number + (not new)) for number, _ in kept]
    assert_allclose(places, [every[i, a : a + 4] for a, (_, i) in zip(at, kept, strict=True)])
    assert splits.tolist() == [len(kept)]
    numbers = [number for number, _ in kept]
    assert sizes.tolist() == [[0, *(numbers.count(each) for each in range(classes))]]


def test_nothing_above_the_threshold_is_nothing(tmp_path: pathlib.Path) -> None:
    scores = np.full((5, 2), 0.01, np.float32)
    left, places, labels = compute(
        tmp_path, "BoxWithNMSLimit", [scores, np.tile(boxes(5, side=50), 2)], outputs=3
    )
    assert (left.shape, places.shape, labels.shape) == ((0,), (0, 4), (0,))


def test_boxes_of_several_images_fail(tmp_path: pathlib.Path) -> None:
    scores = np.ones((6, 2), np.float32)
    splits = np.array([2, 4], np.float32)
    with pytest.raises((Fail, InvalidArgument, RuntimeException)):
        compute(
            tmp_path, "BoxWithNMSLimit", [scores, np.tile(boxes(6, side=50), 2), splits], outputs=3
        )


@pytest.mark.parametrize(
    ("kind", "arguments", "said"),
    [
        ("BBoxTransform", {"rotated": 1}, "has rotated boxes, which are not in the table"),
        ("BoxWithNMSLimit", {"soft_nms_enabled": 1}, "lowers scores"),
        ("BoxWithNMSLimit", {"cls_agnostic_bbox_reg": 1}, "has one box for all classes"),
        ("RoIAlign", {"pooled_h": 0}, "pools to 0 x 1 at a scale of 1.0, expected numbers above"),
    ],
)
def test_what_is_not_in_the_table_is_named(
    tmp_path: pathlib.Path, kind: str, arguments: dict[str, Any], said: str
) -> None:
    inputs = [X, boxes(2, side=9)] if kind == "RoIAlign" else [boxes(2, side=9), random(2, 4), np.ones((1, 3), np.float32)]  # fmt: skip
    with pytest.raises(NetDefError, match=said):
        compute(tmp_path, kind, inputs, **arguments)

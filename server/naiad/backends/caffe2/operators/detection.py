"""Operators of detection: pooling of regions, boxes from regressions, and the suppression of boxes that overlap. Boxes are x1, y1, x2, y2."""

import math

import numpy as np

from naiad.backends.caffe2.arguments import Call, floats_of
from naiad.backends.caffe2.graph import (
    FLOAT,
    INT32,
    INT64,
    Array,
    Dims,
    UnsupportedError,
    Value,
)
from naiad.backends.caffe2.operators.images import channels_back, channels_first, check_rank

_RANK = 4
_BOX = 4
_WITH_IMAGE = 5
"""Columns of a box that begins with the number of its image."""
_LARGEST_STEP = math.log(1000 / 16)
"""Of a regression of a width or height, as a logarithm."""
_LAST = (1 << 63) - 1
_ALL_OF_THEM = (1 << 31) - 1


def roi_align(call: Call) -> list[Value]:
    """RoIAlign; with `aligned`, pixels are half a pixel to the left, and regions may be smaller than one."""
    graph, regions = call.graph, call.input(1)
    check_rank(call.x, _RANK)
    x = channels_first(call, call.x, _RANK)
    height, width = call.integer("pooled_h", 1), call.integer("pooled_w", 1)
    scale = call.number("spatial_scale", 1.0)
    if height < 1 or width < 1 or not scale > 0:
        raise UnsupportedError(
            f"pools to {height} x {width} at a scale of {scale}, expected numbers above 0"
        )
    image, boxes = _parted(call, regions)
    dims = (regions.size(0), x.size(1), height, width)
    mode = "half_pixel" if call.integer("aligned", 0) else "output_half_pixel"
    y = graph.node(
        "RoiAlign",
        [x, boxes, image],
        dims,
        output_height=height,
        output_width=width,
        sampling_ratio=max(0, call.integer("sampling_ratio", -1)),
        spatial_scale=scale,
        coordinate_transformation_mode=mode,
        mode="avg",
    )
    return [channels_back(call, y, _RANK)]


def box_transform(call: Call) -> list[Value]:
    """BBoxTransform: regressions applied to regions, and cut off at the edges of their images. The second output is how many regions each image has."""
    graph, regions, deltas, info = call.graph, call.x, call.input(1), call.input(2)
    _refuse_rotated(call)
    weights = call.argument("weights")
    factors = np.ones(_BOX, np.float32) if weights is None else floats_of(weights)
    if len(factors) != _BOX or not factors.all():
        raise UnsupportedError(f"has the weights {factors.tolist()}, expected 4 numbers but 0")
    one = 1.0 if call.integer("legacy_plus_one", 1) else 0.0
    # Nets of the first years say by this argument whether the right edge is inside.
    inside = one
    if call.has("correct_transform_coords"):
        inside = float(bool(call.integer("correct_transform_coords", 0)))
    image, boxes = _parted(call, regions)
    count = regions.size(0)
    of_box = graph.node("Gather", [info, image], (count, 3), axis=0)
    height, width, scale = _columns(call, of_box, [1, 1, 1], axis=1)
    scale = graph.node("Unsqueeze", [scale], (count, 1, 1), axes=[2])
    edges = [
        _calc(call, "Sub", _rounded(call, size, scale), one) for size in (height, width)
    ]  # of the image as it was, [count, 1, 1]
    boxes = graph.node("Unsqueeze", [boxes], (count, 1, _BOX), axes=[1])
    x1, y1, x2, y2 = _columns(call, _calc(call, "Div", boxes, scale), [1] * _BOX, axis=2)
    split = graph.node("Reshape", [deltas, graph.constant([0, -1, _BOX])], (count, -1, _BOX))
    steps = _columns(call, _calc(call, "Div", split, factors), [1] * _BOX, axis=2)
    sides: list[Value] = []
    for low, high, shift, growth, edge in (
        (x1, x2, steps[0], steps[2], edges[1]),
        (y1, y2, steps[1], steps[3], edges[0]),
    ):
        size = _calc(call, "Add", _calc(call, "Sub", high, low), one)
        centre = _calc(call, "Add", low, _calc(call, "Mul", size, 0.5))
        centre = _calc(call, "Add", _calc(call, "Mul", shift, size), centre)
        most = _calc(call, "Min", growth, _LARGEST_STEP)
        grown = _calc(call, "Mul", graph.node("Exp", [most], most.dims), size)
        half = _calc(call, "Mul", grown, 0.5)
        ends = (
            _calc(call, "Sub", centre, half),
            _calc(call, "Sub", _calc(call, "Add", centre, half), inside),
        )
        sides += [_calc(call, "Max", _calc(call, "Min", end, edge), 0.0) for end in ends]
    ordered = [sides[0], sides[2], sides[1], sides[3]]
    made = graph.node("Concat", ordered, (count, -1, _BOX), axis=2)
    if call.integer("apply_scale", 1):
        made = _calc(call, "Mul", made, scale)
    outputs = [graph.node("Reshape", [made, graph.constant([0, -1])], deltas.dims)]
    if len(call.operator.outputs) > 1:
        outputs.append(_counts(call, image, info))
    return outputs


def limited_boxes(call: Call) -> list[Value]:
    """BoxWithNMSLimit, of one image: for each class the boxes that no better one overlaps, and of all classes the best."""
    graph = call.graph
    _refuse_rotated(call)
    if call.integer("soft_nms_enabled", 0):
        raise UnsupportedError("lowers scores (soft_nms_enabled), which is not in the table")
    for name in ("soft_nms_sigma", "soft_nms_min_score_thres"):
        call.number(name, 0.0)
    call.text("soft_nms_method", "linear")
    if call.integer("cls_agnostic_bbox_reg", 0):
        raise UnsupportedError(
            "has one box for all classes (cls_agnostic_bbox_reg), which is not in the table"
        )
    background = 1 if call.integer("input_boxes_include_bg_cls", 1) else 0
    first_class = 1 if call.integer("output_classes_include_bg_cls", 1) else 0
    one = 1.0 if call.integer("legacy_plus_one", 1) else 0.0
    scores, boxes = call.x, call.input(1)
    check_rank(scores, 2, "the scores")
    check_rank(boxes, 2, "the boxes")
    if len(call.inputs) > 2:  # noqa: PLR2004 - how many boxes each image has
        # Several images fail here: this has to be one number.
        splits = graph.cast(call.input(2), INT64)
        rows = graph.node("Reshape", [splits, graph.constant([1])], (1,))
        scores = _first_rows(call, scores, rows)
    classes = scores.size(1)
    # Of the scores the first column is the background, or the last one where the boxes have none.
    kept = (1, _LAST) if background else (0, -1)
    scores = _cut(call, scores, *kept)
    if background:
        boxes = _cut(call, boxes, _BOX, _LAST)
    by_class = graph.transposed(scores, [1, 0])
    by_box = graph.node("Reshape", [boxes, graph.constant([0, -1, _BOX])], (-1, -1, _BOX))
    by_box = graph.transposed(by_box, [1, 0, 2])  # [classes, boxes, 4]
    wider = _calc(call, "Add", by_box, np.array([0, 0, one, one], np.float32))
    limit = call.integer("detections_per_im", 100)
    most = limit if limit > 0 else _ALL_OF_THEM
    chosen = graph.node(
        "NonMaxSuppression",
        [
            wider,
            graph.node("Unsqueeze", [by_class], (-1, 1, -1), axes=[1]),
            graph.constant([most]),
            graph.constant(np.array([call.number("nms", 0.3)], np.float32)),
            graph.constant(np.array([call.number("score_thresh", 0.05)], np.float32)),
        ],
        (-1, 3),
        dtype=INT64,
    )
    found = _scores_of(call, by_class, chosen)
    size = graph.shape_of(found)
    if limit > 0:
        size = graph.node("Min", [size, graph.constant([limit])], (1,))
    best = _top(call, found, size, largest=True)[1]
    # By class again, and by score in each: the order in which they were chosen.
    order = _top(call, best, size, largest=False)[0]
    chosen = graph.node("Gather", [chosen, order], (-1, 3), axis=0)
    number, _, box = _columns(call, chosen, [1, 1, 1], axis=1)
    at = graph.node("Concat", [number, box], (-1, 2), axis=1)
    label = _flat(call, number)
    outputs = [
        graph.node("GatherND", [by_class, at], (-1,)),
        graph.node("GatherND", [by_box, at], (-1, _BOX)),
        _calc(call, "Add", graph.cast(label, FLOAT), float(first_class)),
        graph.cast(size, FLOAT),
        graph.cast(_flat(call, box), INT32),
    ]
    if len(call.operator.outputs) > len(outputs):
        if classes < 0:
            raise UnsupportedError("counts the boxes of each class, whose number is not known here")
        each = graph.constant(np.arange(classes, dtype=np.int64)[np.newaxis] - 1)
        same = graph.node("Equal", [number, each], (-1, classes), dtype=np.dtype(np.bool_))
        outputs.append(
            graph.node("ReduceSum", [graph.cast(same, INT32)], (1, classes), axes=[0], keepdims=1)
        )
    return outputs[: len(call.operator.outputs)]


def _refuse_rotated(call: Call) -> None:
    if call.integer("rotated", 0):
        raise UnsupportedError("has rotated boxes, which are not in the table")
    for name in ("angle_bound_on", "angle_bound_lo", "angle_bound_hi"):
        call.integer(name, 0)
    call.number("clip_angle_thresh", 1.0)


def _parted(call: Call, regions: Value) -> tuple[Value, Value]:
    """The image of each region, int64 [count], and its box, [count, 4]."""
    graph, count = call.graph, regions.size(0)
    check_rank(regions, 2, "the regions")
    if regions.size(1) == _BOX:
        rows = graph.node("Gather", [graph.shape_of(regions), graph.constant([0])], (1,))
        return graph.node("Expand", [graph.constant([0]), rows], (count,)), regions
    if regions.size(1) != _WITH_IMAGE:
        raise UnsupportedError(
            f"has regions of {regions.size(1) if regions.size(1) >= 0 else 'an unknown number of'} columns, expected 4, or 5 with the number of the image: write it in dims"
        )
    image, boxes = _columns(call, regions, [1, _BOX], axis=1)
    return graph.cast(_flat(call, image), INT64), boxes


def _columns(call: Call, value: Value, sizes: list[int], *, axis: int) -> list[Value]:
    dims = value.dims or ()
    parts: list[tuple[np.dtype[np.generic], Dims | None]] = [
        (value.dtype, (*dims[:axis], size, *dims[axis + 1 :])) for size in sizes
    ]
    return call.graph.nodes_of("Split", [value], parts, axis=axis, split=sizes)


def _flat(call: Call, column: Value) -> Value:
    return call.graph.node("Squeeze", [column], (column.size(0),), axes=[1])


def _calc(call: Call, operator: str, left: Value, right: Value | float | Array) -> Value:
    """An element-wise operator; a number is one of float32."""
    if not isinstance(right, Value):
        right = call.graph.constant(np.asarray(right, np.float32))
    dims = None
    if left.dims is not None and right.dims is not None:
        dims = (-1,) * max(len(left.dims), len(right.dims))
    return call.graph.node(operator, [left, right], dims)


def _rounded(call: Call, size: Value, scale: Value) -> Value:
    """The size of the image before it was scaled, [count, 1, 1]."""
    wide = call.graph.node("Unsqueeze", [size], (size.size(0), 1, 1), axes=[2])
    whole = _calc(call, "Add", _calc(call, "Div", wide, scale), 0.5)
    return call.graph.node("Floor", [whole], whole.dims)


def _counts(call: Call, image: Value, info: Value) -> Value:
    """FP32 [images]: how many regions each has."""
    graph = call.graph
    images = graph.node("Gather", [graph.shape_of(info), graph.scalar(0, INT64)], (), dtype=INT64)
    numbers = graph.node("Range", [graph.scalar(0, INT64), images, graph.scalar(1, INT64)], (-1,))
    column = graph.node("Unsqueeze", [image], (-1, 1), axes=[1])
    same = graph.node("Equal", [column, numbers], (-1, -1), dtype=np.dtype(np.bool_))
    return graph.node("ReduceSum", [graph.cast(same, FLOAT)], (info.size(0),), axes=[0], keepdims=0)


def _first_rows(call: Call, value: Value, rows: Value) -> Value:
    graph = call.graph
    dims = (-1, value.size(1))
    return graph.node("Slice", [value, graph.constant([0]), rows, graph.constant([0])], dims)


def _cut(call: Call, value: Value, begin: int, end: int) -> Value:
    graph = call.graph
    bounds = [graph.constant([each]) for each in (begin, end, 1)]
    return graph.node("Slice", [value, *bounds], (value.size(0), -1))


def _scores_of(call: Call, by_class: Value, chosen: Value) -> Value:
    number, _, box = _columns(call, chosen, [1, 1, 1], axis=1)
    at = call.graph.node("Concat", [number, box], (-1, 2), axis=1)
    return call.graph.node("GatherND", [by_class, at], (-1,))


def _top(call: Call, values: Value, size: Value, *, largest: bool) -> list[Value]:
    return call.graph.nodes_of(
        "TopK",
        [values, size],
        [(values.dtype, (-1,)), (INT64, (-1,))],
        axis=0,
        largest=int(largest),
        sorted=1,
    )

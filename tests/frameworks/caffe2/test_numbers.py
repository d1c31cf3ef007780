"""Activations, element-wise operators, normalisations and products of Caffe2, against torch's own."""

import pathlib
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from tests.frameworks.caffe2.operators import check, compute, nhwc, positive, random

X = random(2, 4, 5, 3)
P = positive(2, 4, 5, 3)
T = torch.from_numpy

UNARY: list[tuple[str, dict[str, Any], Any]] = [
    ("Relu", {}, functional.relu),
    ("LeakyRelu", {"alpha": 0.2}, lambda x: functional.leaky_relu(x, 0.2)),
    ("LeakyRelu", {}, lambda x: functional.leaky_relu(x, 0.01)),
    ("Elu", {"alpha": 0.7}, lambda x: functional.elu(x, 0.7)),
    ("Elu", {}, functional.elu),
    ("Selu", {}, functional.selu),
    ("Selu", {"alpha": 1.5, "scale": 2.0}, lambda x: 2 * functional.elu(x, 1.5)),
    ("Sigmoid", {}, torch.sigmoid),
    ("Tanh", {}, torch.tanh),
    ("Softplus", {}, functional.softplus),
    ("Softsign", {}, functional.softsign),
    ("HardSigmoid", {}, lambda x: torch.clamp(0.2 * x + 0.5, 0, 1)),
    ("ThresholdedRelu", {"alpha": 0.3}, lambda x: functional.threshold(x, 0.3, 0)),
    ("Swish", {}, functional.silu),
    ("Clip", {"min": -0.5, "max": 0.4}, lambda x: torch.clamp(x, -0.5, 0.4)),
    ("Clip", {"min": 0.1}, lambda x: torch.clamp(x, min=0.1)),
    ("Clip", {"max": 0.1}, lambda x: torch.clamp(x, max=0.1)),
    ("Clip", {}, lambda x: x),
    ("Abs", {}, torch.abs),
    ("Negative", {}, torch.neg),
    ("Sqr", {}, torch.square),
    ("Cube", {}, lambda x: x**3),
    ("Exp", {}, torch.exp),
    ("Sign", {}, torch.sign),
    ("Floor", {}, torch.floor),
    ("Ceil", {}, torch.ceil),
    ("Sin", {}, torch.sin),
    ("Cos", {}, torch.cos),
    ("Atan", {}, torch.atan),
    ("Scale", {"scale": 3.0}, lambda x: 3 * x),
    ("Pow", {"exponent": 2.0}, lambda x: x**2),
    ("Copy", {}, lambda x: x),
    ("StopGradient", {}, lambda x: x),
    ("Dropout", {"is_test": 1, "ratio": 0.5}, lambda x: x),
]


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize(
    ("kind", "arguments", "function"), UNARY, ids=[f"{a[0]} {a[1]}" for a in UNARY]
)
def test_of_one_input(
    tmp_path: pathlib.Path, *, free: bool, kind: str, arguments: dict[str, Any], function: Any
) -> None:
    check(tmp_path, kind, [X], function(T(X)), arguments, free=free)


@pytest.mark.parametrize(
    ("kind", "function"), [("Log", torch.log), ("Sqrt", torch.sqrt), ("Rsqrt", torch.rsqrt), ("Reciprocal", torch.reciprocal)]
)  # fmt: skip
def test_of_positive_numbers(tmp_path: pathlib.Path, *, kind: str, function: Any) -> None:
    check(tmp_path, kind, [P], function(T(P)))


BINARY = [
    ("Add", torch.add), ("Sub", torch.sub), ("Mul", torch.mul), ("Div", torch.div), ("Pow", torch.pow),
    ("LT", torch.lt), ("LE", torch.le), ("GT", torch.gt), ("GE", torch.ge), ("EQ", torch.eq), ("NE", torch.ne),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "function"), BINARY, ids=[a[0] for a in BINARY])
def test_of_two_inputs(tmp_path: pathlib.Path, *, kind: str, function: Any) -> None:
    other = positive(2, 4, 5, 3, seed=1)
    check(tmp_path / "same", kind, [P, other], function(T(P), T(other)), free=True)
    row = positive(3, seed=2)
    check(tmp_path / "row", kind, [P, row], function(T(P), T(row)), {"broadcast": 1})
    channels = positive(4, seed=3)
    at = {"broadcast": 1, "axis": 1}
    expected = function(T(P), T(channels)[:, None, None])
    check(tmp_path / "axis", kind, [P, channels], expected, at)
    check(tmp_path / "constant", kind, [P], expected, at, constants=[channels], free=True)
    check(
        tmp_path / "named",
        kind,
        [P],
        expected,
        {"broadcast": 1, "axis_str": "C"},
        constants=[channels],
    )


def test_of_several_inputs(tmp_path: pathlib.Path) -> None:
    parts = [random(2, 3, seed=seed) for seed in range(3)]
    for kind, expected in (
        ("Sum", sum(map(T, parts))),
        ("Max", torch.stack([*map(T, parts)]).amax(0)),
        ("Min", torch.stack([*map(T, parts)]).amin(0)),
        ("Mean", torch.stack([*map(T, parts)]).mean(0)),
    ):
        check(tmp_path / kind, kind, parts, expected)
    x, y = parts[:2]
    weighted = [x, np.array([2.0], np.float32), y, np.array([0.5], np.float32)]
    check(tmp_path / "w", "WeightedSum", weighted, 2 * T(x) + 0.5 * T(y))


@pytest.mark.parametrize("slopes", [1, 4])
def test_a_slope_for_all_or_for_each_channel(tmp_path: pathlib.Path, slopes: int) -> None:
    slope = positive(slopes, seed=1)
    expected = functional.prelu(T(X), T(slope))
    check(tmp_path / "a", "PRelu", [X], expected, constants=[slope], free=True)
    last = nhwc(expected.numpy())
    check(tmp_path / "b", "PRelu", [nhwc(X)], last, {"order": "NHWC"}, constants=[slope])


@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
def test_normalisations_of_images(tmp_path: pathlib.Path, *, order: str) -> None:
    gain, bias, mean, variance = (positive(4, seed=seed) for seed in range(4))
    x = X if order == "NCHW" else nhwc(X)

    def images(kind: str, expected: torch.Tensor, constants: list[Any], **arguments: Any) -> None:
        wanted = expected.numpy() if order == "NCHW" else nhwc(expected.numpy())
        check(
            tmp_path / kind, kind, [x], wanted, {**arguments, "order": order}, constants=constants
        )

    g, b, m, v = map(T, (gain, bias, mean, variance))
    images(
        "SpatialBN",
        functional.batch_norm(T(X), m, v, g, b, eps=1e-3),
        [gain, bias, mean, variance],
        is_test=1,
        epsilon=1e-3,
        momentum=0.9,
    )
    images("InstanceNorm", functional.instance_norm(T(X), weight=g, bias=b, eps=1e-5), [gain, bias])
    images("GroupNorm", functional.group_norm(T(X), 2, g, b, eps=1e-5), [gain, bias], group=2)
    images("AffineChannel", T(X) * g[:, None, None] + b[:, None, None], [gain, bias])
    # torch's LRN divides alpha by the size as well.
    images(
        "LRN",
        functional.local_response_norm(T(X), 3, alpha=2e-2, beta=0.75, k=1.5),
        [],
        size=3,
        alpha=2e-2,
        beta=0.75,
        bias=1.5,
    )


@pytest.mark.parametrize("axis", [1, 2, 3])
def test_layer_norm(tmp_path: pathlib.Path, axis: int) -> None:
    y, mean, deviation = compute(tmp_path, "LayerNorm", [X], outputs=3, axis=axis, epsilon=1e-4)
    flat = T(X).flatten(axis)
    np.testing.assert_allclose(
        y, functional.layer_norm(T(X), X.shape[axis:], eps=1e-4), rtol=1e-4, atol=1e-5
    )
    np.testing.assert_allclose(mean, flat.mean(axis, keepdim=True), rtol=1e-4, atol=1e-6)
    expected = (flat.var(axis, correction=0, keepdim=True) + 1e-4).sqrt()
    np.testing.assert_allclose(deviation, expected, rtol=1e-4, atol=1e-6)


def test_layer_norm_with_a_gain(tmp_path: pathlib.Path) -> None:
    gain, bias = positive(3), random(3)
    expected = functional.layer_norm(T(X), (3,), T(gain), T(bias), eps=1e-5)
    check(
        tmp_path,
        "LayerNorm",
        [X],
        expected,
        {"axis": 3, "elementwise_affine": 1},
        constants=[gain, bias],
    )


def test_unit_length(tmp_path: pathlib.Path) -> None:
    check(tmp_path / "a", "Normalize", [X], functional.normalize(T(X), dim=1), {"axis": 1})
    check(tmp_path / "b", "Normalize", [X], functional.normalize(T(X), dim=-1))


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("axis", [1, 2, -1])
def test_softmax_takes_all_dimensions_from_its_axis_on_as_one(
    tmp_path: pathlib.Path, *, free: bool, axis: int
) -> None:
    expected = functional.softmax(T(X).flatten(axis), dim=-1).reshape(X.shape)
    check(tmp_path, "Softmax", [X], expected, {"axis": axis}, free=free)


@pytest.mark.parametrize("free", [False, True])
def test_fully_connected(tmp_path: pathlib.Path, *, free: bool) -> None:
    weights, bias = random(7, 60, seed=1), random(7, seed=2)
    expected = functional.linear(T(X).flatten(1), T(weights), T(bias))
    check(tmp_path / "a", "FC", [X], expected, constants=[weights, bias], free=free)
    check(
        tmp_path / "b", "FCTransposed", [X], expected, constants=[weights.T.copy(), bias], free=free
    )
    rows, row_bias = random(7, 15, seed=3), random(7, seed=4)
    at_two = functional.linear(T(X).flatten(2), T(rows), T(row_bias))
    check(tmp_path / "c", "FC", [X], at_two, {"axis": 2}, constants=[rows, row_bias], free=free)
    spatial = weights.reshape(7, 4, 5, 3)  # flattened like its input
    check(tmp_path / "d", "FC", [X], expected, {"axis_w": 1}, constants=[spatial, bias], free=free)


@pytest.mark.parametrize("free", [False, True])
def test_products(tmp_path: pathlib.Path, *, free: bool) -> None:
    a, b = random(3, 4), random(4, 5, seed=1)
    check(tmp_path / "a", "MatMul", [a, b], T(a) @ T(b), free=free)
    flipped = {"trans_a": 1, "trans_b": 1}
    check(tmp_path / "b", "MatMul", [a.T.copy(), b.T.copy()], T(a) @ T(b), flipped, free=free)
    many, others = random(2, 3, 4), random(2, 4, 5, seed=1)
    check(tmp_path / "c", "BatchMatMul", [many, others], T(many) @ T(others), free=free)
    turned = [np.ascontiguousarray(each.swapaxes(1, 2)) for each in (many, others)]
    check(tmp_path / "d", "BatchMatMul", turned, T(many) @ T(others), flipped, free=free)


@pytest.mark.parametrize("free", [False, True])
def test_reductions(tmp_path: pathlib.Path, *, free: bool) -> None:
    for kind, function in (
        ("Mean", torch.mean),
        ("Sum", torch.sum),
        ("Max", torch.amax),
        ("Min", torch.amin),
    ):
        expected = function(T(X), dim=(2, 3), keepdim=True)
        check(tmp_path / kind, f"Reduce{kind}", [X], expected, {"axes": [2, 3]}, free=free)
        dropped = function(T(X), dim=1)
        check(
            tmp_path / f"{kind}1",
            f"Reduce{kind}",
            [X],
            dropped,
            {"axes": [1], "keepdims": 0},
            free=free,
        )
    check(tmp_path / "b", "ReduceBackMean", [X], T(X).mean(3), free=free)
    check(tmp_path / "c", "ReduceBackSum", [X], T(X).sum((2, 3)), {"num_reduce_dim": 2}, free=free)
    check(tmp_path / "d", "ReduceFrontSum", [X], T(X).sum(0), free=free)
    check(tmp_path / "e", "SumElements", [X], T(X).sum())
    check(tmp_path / "f", "ArgMax", [X], T(X).argmax(1, keepdim=True), {"axis": 1}, free=free)


def test_the_largest(tmp_path: pathlib.Path) -> None:
    values, indices = compute(tmp_path, "TopK", [X], outputs=2, k=2)
    expected = T(X).topk(2)
    np.testing.assert_array_equal(values, expected.values)
    np.testing.assert_array_equal(indices, expected.indices)


def test_lookups(tmp_path: pathlib.Path) -> None:
    table, indices = random(6, 3), np.array([[0, 5], [2, 2]], np.int64)
    check(tmp_path / "a", "Gather", [table, indices], T(table)[T(indices)])
    check(tmp_path / "b", "BatchGather", [X, np.array([3, 1], np.int64)], T(X)[:, [3, 1]])

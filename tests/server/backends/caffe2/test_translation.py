"""A pair of nets as one graph: blobs that are written twice, weights, and everything that cannot be translated."""

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from naiad.backends.caffe2.net import NetDefError
from naiad.backends.caffe2.operators import fills
from tests.server.backends.caffe2.running import run, translated
from tests.support.netdef import Op, net, write

X = {"x": ("float32", (-1, 3))}
IN = np.array([[-1, 2, -3]], np.float32)


def refused(
    folder: pathlib.Path,
    ops: Sequence[Op],
    *,
    inputs: Mapping[str, Any] = X,
    outputs: Sequence[str] = ("y",),
    **more: Any,
) -> str:
    """What is said of a net that cannot be translated, without its file."""
    path = write(folder, ops, list(inputs), outputs, **more)
    with pytest.raises(NetDefError) as caught:
        translated(path, inputs)
    return str(caught.value).removeprefix(f"'{path}' cannot be translated: ")


def test_an_operator_in_place_makes_another_value(tmp_path: pathlib.Path) -> None:
    path = write(
        tmp_path,
        [
            ("Negative", ("x",), ("a",), {}),
            ("Copy", ("a",), ("before",), {}),
            ("Relu", ("a",), ("a",), {}),
            ("Scale", ("a",), ("a",), {"scale": 10.0}),
            ("Sum", ("a", "before"), ("y",), {}),
        ],
        ["x"],
        ["y", "a", "before"],
    )
    found = run(translated(path, X), {"x": IN})
    assert found["before"].tolist() == [[1, -2, 3]]
    assert found["a"].tolist() == [[10, 0, 30]]
    assert found["y"].tolist() == [[11, -2, 33]]


def test_an_input_that_is_written_again(tmp_path: pathlib.Path) -> None:
    ops: list[Op] = [("Relu", ("x",), ("x",), {}), ("Scale", ("x",), ("y",), {"scale": 2.0})]
    path = write(tmp_path, ops, ["x"], ["y"])
    assert run(translated(path, X), {"x": IN})["y"].tolist() == [[0, 4, 0]]
    said = refused(tmp_path / "out", ops[:1], outputs=["x"])
    assert said == "external output 'x' is an input as well: give the output another name"


def test_a_placeholder_of_the_init_net_is_replaced_by_an_input_of_the_config(
    tmp_path: pathlib.Path,
) -> None:
    path = write(
        tmp_path,
        [("Copy", ("x",), ("y",), {})],
        ["x"],
        ["y"],
        init=[("ConstantFill", (), ("x",), {"shape": [1], "value": 5.0})],
    )
    assert run(translated(path, X), {"x": IN})["y"].tolist() == IN.tolist()
    assert run(translated(path, {}), {})["y"].tolist() == [5]


def test_weights_of_every_kind(tmp_path: pathlib.Path) -> None:
    arrays: dict[str, Any] = {
        "f": np.array([[1.5, 2]], np.float32),
        "i": np.array([3], np.int32),
        "l": np.array([2**40, -1], np.int64),
        "b": np.array([True, False]),
        "d": np.array(0.25, np.float64),
    }
    init: list[Op] = [
        (
            "GivenTensorByteStringToUInt8Fill",
            (),
            ("u",),
            {"shape": [3], "values": [b"\x01\xff\x00"]},
        ),
        ("ConstantFill", (), ("c",), {"shape": [2, 1], "value": 7}),
        ("ConstantFill", (), ("h",), {"shape": [2], "value": 0.5, "dtype": 12}),
        ("Cast", ("i",), ("later",), {"to": 1}),
    ]
    names = [*arrays, "u", "c", "h", "later"]
    ops: list[Op] = [("Copy", (name,), (f"{name}_out",), {}) for name in names]
    path = write(tmp_path, ops, ["x"], [f"{name}_out" for name in names], arrays, init=init)
    found = run(translated(path, X), {"x": IN})
    for name, array in arrays.items():
        assert found[f"{name}_out"].dtype == array.dtype
        assert found[f"{name}_out"].tolist() == array.tolist()
    assert found["u_out"].tolist() == [1, 255, 0]
    assert (found["c_out"].dtype, found["c_out"].tolist()) == (np.int64, [[7], [7]])
    assert (found["h_out"].dtype, found["h_out"].tolist()) == (np.float16, [0.5, 0.5])
    assert found["later_out"].tolist() == [3.0]


def test_the_datatype_of_given_values_is_an_argument_of_one_fill_alone(
    tmp_path: pathlib.Path,
) -> None:
    init: list[Op] = [
        ("GivenTensorFill", (), ("a",), {"shape": [2], "values": [1.0, 0.0], "dtype": 5}),
        ("GivenTensorFill", (), ("b",), {"shape": [2], "values": [3, 4], "dtype": 10}),
        ("GivenTensorIntFill", (), ("c",), {"shape": [2], "values": [5, 6], "dtype": 1}),
    ]
    ops: list[Op] = [("Copy", (name,), (f"{name}_out",), {}) for name in "abc"]
    path = write(tmp_path, ops, ["x"], ["a_out", "b_out", "c_out"], init=init)
    found = run(translated(path, X), {"x": IN})
    assert [(each.dtype.name, each.tolist()) for each in found.values()] == [
        ("bool", [True, False]),
        ("int64", [3, 4]),
        ("int32", [5, 6]),
    ]


def test_a_model_without_weights_has_an_init_net_without_operators(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path, [("Relu", ("x",), ("y",), {})], ["x"], ["y"])
    (tmp_path / "init_model.netdef").write_bytes(net([]))
    assert run(translated(path, X), {"x": IN})["y"].tolist() == [[0, 2, 0]]
    (tmp_path / "init_model.netdef").write_bytes(b"\x58\x01")
    with pytest.raises(NetDefError, match=r"init_model\.netdef' has no operators"):
        translated(path, X)
    (tmp_path / "init_model.netdef").write_bytes(net([]))
    path.write_bytes(net([]))
    with pytest.raises(NetDefError, match=r"/model\.netdef' has no operators"):
        translated(path, X)


def test_all_operators_that_are_not_in_the_table_are_named_at_once(tmp_path: pathlib.Path) -> None:
    said = refused(
        tmp_path,
        [
            ("Relu", ("x",), ("a",), {}),
            ("GenerateProposals", ("a",), ("b", "c"), {}),
            ("Relu", ("b",), ("d",), {}),
            ("NMS", ("d", "a"), ("e",), {}),
            ("Conv", ("a",), ("y",), {"kernel": 3}),
        ],
        init=[("XavierFill", (), ("w",), {"shape": [3]})],
    )
    assert said == (
        "operator 0 of init_model.netdef (XavierFill -> 'w') is random, as at the start of training: save the net with the weights that training has found "
        "(mobile_exporter.Export); "
        "operator 1 of model.netdef (GenerateProposals -> 'b', 'c') is not in the table of operators; "
        "operator 3 of model.netdef (NMS -> 'e') is not in the table of operators; "
        "operator 4 of model.netdef (Conv -> 'y') expects 4 dimensions of its input, which has 2: [-1, 3]. "
        "GenerateProposals, NMS belong to a detector: end the net before them and compute the rest in a Python model, as two steps of an ensemble, or export the "
        "detector to ONNX"
    )


@pytest.mark.parametrize(
    ("kind", "way"),
    [
        ("Int8Conv", "Int8Conv compute with quantised numbers: serve the FP32 net that was quan"),
        (
            "If",
            "If run nets inside of nets: export the model to ONNX by the framework that trained",
        ),
        ("While", "While run nets inside of nets: export the model to ONNX"),
        ("CollectAndDistributeFpnRpnProposals", "Proposals belong to a detector: end the net"),
        (
            "Mystery",
            "Mystery: export the model to ONNX by the framework that trained it, or compute",
        ),
    ],
)
def test_an_operator_that_is_not_in_the_table_has_a_way_out(
    tmp_path: pathlib.Path, kind: str, way: str
) -> None:
    said = refused(tmp_path, [(kind, ("x",), ("y",), {})])
    assert f"({kind} -> 'y') is not in the table of operators. " in said
    assert way in said


def test_many_faults_are_counted(tmp_path: pathlib.Path) -> None:
    said = refused(
        tmp_path, [("Foo", ("x",), (f"a{index}",), {}) for index in range(60)], outputs=["a0"]
    )
    assert said.count("is not in the table") == 50
    assert "; and 10 more. Foo: export the model to ONNX" in said


IMAGE = {"x": ("float32", (-1, 4, 8, 8))}
ARGUMENTS: list[tuple[str, Mapping[str, Any], str]] = [
    (
        "MaxPool",
        {"kernel": 3, "order": "NCWH"},
        "argument 'order' is 'NCWH', expected NCHW or NHWC",
    ),
    (
        "MaxPool",
        {"kernel": 3, "legacy_pad": 7},
        "argument 'legacy_pad' is 7, expected 0, 1, 2 or 3",
    ),
    ("MaxPool", {}, "has no kernel size"),
    ("MaxPool", {"kernel": 20}, "has a window of 20 over an image of 8 with its pads"),
    (
        "MaxPool",
        {"kernels": [3, 3], "strides": [1]},
        "has 1 strides for a kernel of 2 dimensions, expected 2",
    ),
    (
        "MaxPool",
        {"kernel_h": 3},
        "has some of the arguments kernel_h, kernel_w, and needs all of them",
    ),
    ("MaxPool", {"kernel": "3"}, "argument 'kernel' is not an integer"),
    ("MaxPool", {"kernel": 3, "stride": 0}, "has a stride or dilation below 1, or a pad below 0"),
    (
        "AveragePool",
        {"kernel": 3, "dilation": 2},
        "has a dilation, which AveragePool of ONNX does not have",
    ),
    ("Relu", {"slope": 0.5}, "has the argument 'slope', which is not in the table"),
    ("Relu", {"b": 1, "a": 1}, "has the arguments 'a', 'b', which are not in the table"),
    ("Dropout", {"ratio": 0.5}, "drops at random, as in training: export the net with is_test: 1"),
    (
        "SpatialBN",
        {},
        "normalises by the batch itself, as in training: export the net with is_test: 1",
    ),
    ("LRN", {"size": 4}, "argument 'size' is 4, expected an odd number"),
    (
        "PadImage",
        {"pad": 1, "mode": "wrap"},
        "argument 'mode' is 'wrap', expected constant or reflect or edge",
    ),
    ("Pow", {}, "has neither an argument 'exponent' nor a second input"),
    (
        "Reshape",
        {"shape": [-1, -1]},
        "argument 'shape' is [-1, -1], expected sizes of which at most one is -1",
    ),
    (
        "Transpose",
        {"axes": [0, 0, 1, 2]},
        "argument 'axes' is [0, 0, 1, 2], expected the dimensions 0 to 3 in some order",
    ),
    ("Cast", {"to": 99}, "has the datatype 99, expected 1 (FLOAT), 2 (INT32)"),
    ("ChannelShuffle", {"group": 3}, "has 3 groups of 4 channels"),
    ("Add", {}, "has 1 inputs, and needs 2"),
]


@pytest.mark.parametrize(
    ("kind", "arguments", "said"),
    ARGUMENTS,
    ids=[f"{kind} {said[:30]}" for kind, _, said in ARGUMENTS],
)
def test_an_argument_that_is_not_in_the_table_is_named(
    tmp_path: pathlib.Path, kind: str, arguments: Mapping[str, Any], said: str
) -> None:
    found = refused(tmp_path, [(kind, ("x",), ("y",), arguments)], inputs=IMAGE)
    assert found.startswith(f"operator 0 of model.netdef ({kind} -> 'y') {said}")


def test_arguments_that_say_how_to_compute_are_passed_over(tmp_path: pathlib.Path) -> None:
    path = write(
        tmp_path, [("Relu", ("x",), ("y",), {"use_cudnn": 1, "order": "NHWC"})], ["x"], ["y"]
    )
    assert run(translated(path, X), {"x": IN})["y"].tolist() == [[0, 2, 0]]


def test_blobs_that_nothing_makes(tmp_path: pathlib.Path) -> None:
    # Two operators that need each other are such a case as well: operators run in their order.
    said = refused(
        tmp_path,
        [("Sum", ("x", "b"), ("a",), {}), ("Relu", ("a",), ("b",), {})],
        outputs=["b", "nowhere"],
    )
    assert said == (
        "operator 0 of model.netdef (Sum -> 'a') reads the blob 'b', which no input, no weight and no operator before it makes; "
        "external output 'nowhere' is made by no operator"
    )
    mask = [("Dropout", ("x",), ("a", "mask"), {"is_test": 1}), ("Copy", ("mask",), ("y",), {})]
    assert "reads the blob 'mask', which" in refused(tmp_path / "mask", mask)


def test_weights_that_do_not_fit(tmp_path: pathlib.Path) -> None:
    conv = ("Conv", ("x", "w"), ("y",), {"kernel": 3})
    blobs = {"w": np.zeros((2, 3, 3, 3), np.float32)}
    said = refused(tmp_path / "a", [conv], inputs=IMAGE, blobs=blobs)
    assert said.endswith("(Conv -> 'y') has weights for 3 channels, and its input has 4")
    blobs = {"w": np.zeros((2, 4, 5, 5), np.float32)}
    said = refused(tmp_path / "b", [conv], inputs=IMAGE, blobs=blobs)
    assert said.endswith(
        "(Conv -> 'y') has weights of the shape [2, 4, 5, 5] for a kernel of [3, 3]"
    )
    dense: Op = ("FC", ("x", "w"), ("y",), {})
    said = refused(tmp_path / "c", [dense], blobs={"w": np.zeros((2, 4), np.float32)})
    assert said.endswith("(FC -> 'y') has weights for 4 inputs, and gets 3 from the shape [-1, 3]")
    half = {"x": ("float16", (-1, 4))}
    said = refused(tmp_path / "d", [dense], inputs=half, blobs={"w": np.zeros((2, 4), np.float32)})
    assert said.endswith(
        "(FC -> 'y') takes float16 and float32 together: inputs of the config have the datatype of the net's weights"
    )


@pytest.mark.parametrize(
    ("fill", "said"),
    [
        (("GivenTensorFill", (), ("w",), {"shape": [2, 2**40], "values": [1.0]}), "has 1 values for the shape [2, 1099511627776], which takes 2199023255552"),
        (("GivenTensorFill", (), ("w",), {"shape": [-1], "values": [1.0]}), "argument 'shape' is [-1], expected sizes from 0 on"),
        (("ConstantFill", (), ("w",), {"shape": [2**20, 2**20]}), f"fills the shape [1048576, 1048576]: this net fills more than {fills.MAX_FILLED} elements"),
    ],
)  # fmt: skip
def test_sizes_that_a_file_does_not_hold(tmp_path: pathlib.Path, fill: Op, said: str) -> None:
    found = refused(tmp_path, [("Copy", ("w",), ("y",), {})], init=[fill])
    assert found == f"operator 0 of init_model.netdef ({fill[0]} -> 'w') {said}"


@pytest.mark.parametrize("axis", [4, -5, 2**40])
@pytest.mark.parametrize("kind", ["Concat", "Split", "Softmax", "Tile", "Normalize", "LayerNorm"])
def test_a_dimension_that_is_not_there(tmp_path: pathlib.Path, kind: str, axis: int) -> None:
    said = refused(tmp_path, [(kind, ("x",), ("y",), {"axis": axis})], inputs=IMAGE)
    assert said.endswith(f"({kind} -> 'y') argument 'axis' is {axis}, and there are 4 dimensions")


def test_fills_are_bounded_as_a_whole(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fills, "MAX_FILLED", 10)
    many: list[Op] = [("ConstantFill", (), (f"w{index}",), {"shape": [4]}) for index in range(3)]
    said = refused(tmp_path, [("Copy", ("w0",), ("y",), {})], init=many)
    assert said == (
        "operator 2 of init_model.netdef (ConstantFill -> 'w2') fills the shape [4]: this net fills more than 10 elements"
    )


def test_a_net_without_outputs(tmp_path: pathlib.Path) -> None:
    said = refused(tmp_path, [("Relu", ("x",), ("y",), {})], outputs=[])
    assert said == "'model.netdef' has no external output"

"""The outside of ONNX files, read from their bytes, held against what onnx wrote and what onnxruntime reads."""

import contextlib
import os
import pathlib

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, strategies as st
from onnx import TensorProto, helper, numpy_helper

from naiad.backends.model_files import wire_format
from naiad.backends.onnxruntime import onnx_graph
from naiad.backends.onnxruntime.onnx_graph import OnnxFileError, has_operator, read
from naiad.backends.onnxruntime.plugin import PLUGIN
from naiad.core import datatypes
from tests.server.config.onnx_models import model, save, value

ORT_TYPES = {
    "tensor(float)": "FP32",
    "tensor(int32)": "INT32",
    "tensor(int64)": "INT64",
    "tensor(string)": "BYTES",
}


def ort_shape(shape: list[int | str | None]) -> tuple[int, ...]:
    return tuple(size if isinstance(size, int) else -1 for size in shape)


def test_names_types_shapes_and_symbols_are_read(tmp_path: pathlib.Path) -> None:
    path = save(
        model(
            [value("x", ["N", 3, None]), value("ids", ["N", 7], TensorProto.INT64)],
            [value("y", [1, 0]), value("z", [])],
        ),
        tmp_path / "model.onnx",
    )
    graph = read(path)
    assert [(t.name, t.datatype, t.shape, t.shape_text) for t in graph.inputs] == [
        ("x", datatypes.FP32, (-1, 3, -1), "[N, 3, ?]"),
        ("ids", datatypes.INT64, (-1, 7), "[N, 7]"),
    ]
    assert [(t.name, t.shape, t.shape_text) for t in graph.outputs] == [
        ("y", (1, 0), "[1, 0]"),
        ("z", (), "[]"),
    ]


def test_a_shape_that_is_not_given_differs_from_a_scalar(tmp_path: pathlib.Path) -> None:
    graph = read(save(model([value("x", None)], [value("y", [])]), tmp_path / "m.onnx"))
    assert graph.inputs[0].shape is None
    assert graph.inputs[0].shape_text == "of unknown rank"
    assert graph.outputs[0].shape == ()


@pytest.mark.parametrize("ir_version", [3, 8])
def test_an_initialiser_listed_among_the_inputs_is_not_an_input(
    tmp_path: pathlib.Path, ir_version: int
) -> None:
    path = save(
        model(
            [value("x", [2]), value("w", [2])],
            [value("y", [2])],
            initializers={"w": [1, 2]},
            ir_version=ir_version,
        ),
        tmp_path / "m.onnx",
    )
    graph = read(path)
    assert [tensor.name for tensor in graph.inputs] == ["x"]
    assert [tensor.name for tensor in graph.overridable] == ["w"]
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    assert [tensor.name for tensor in session.get_inputs()] == ["x"]


def test_a_sparse_initialiser_counts_too(tmp_path: pathlib.Path) -> None:
    proto = model([value("x", [2]), value("s", [4])], [value("y", [2])])
    values = helper.make_tensor("s", TensorProto.FLOAT, [1], [2.0])
    indices = helper.make_tensor("i", TensorProto.INT64, [1], [1])
    proto.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [4]))
    assert [t.name for t in read(save(proto, tmp_path / "m.onnx")).inputs] == ["x"]


@pytest.mark.parametrize(
    ("elem", "name"), [(number, t.name) for number, t in onnx_graph.ELEMENT_TYPES.items()]
)
def test_every_element_type_is_the_one_onnx_means(
    tmp_path: pathlib.Path, elem: int, name: str
) -> None:
    graph = read(save(model([value("x", [1], elem)], [value("y", [1])]), tmp_path / "m.onnx"))
    datatype = graph.inputs[0].datatype
    assert datatype is not None
    assert datatype.name == name
    if datatype is not datatypes.BYTES:
        assert helper.tensor_dtype_to_np_dtype(elem) == datatype.dtype


def test_values_that_cannot_be_served_are_named(tmp_path: pathlib.Path) -> None:
    sequence = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, [1])
    proto = model([value("c", [1], TensorProto.COMPLEX64), sequence], [value("y", [1])])
    complex_, sequence_ = read(save(proto, tmp_path / "m.onnx")).inputs
    assert (complex_.kind, complex_.datatype, complex_.type_name) == ("tensor", None, "complex64")
    assert sequence_.kind == "sequence"


def test_weights_in_another_file_need_not_be_there(tmp_path: pathlib.Path) -> None:
    proto = model([value("x", [2])], [value("y", [2])])
    proto.graph.initializer.append(numpy_helper.from_array(np.zeros(2000, np.float32), "w"))
    onnx.save_model(
        proto, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0
    )
    (tmp_path / "w.bin").unlink()
    graph = read(tmp_path / "m.onnx")
    assert graph.external_files == {"w.bin"}


def test_operators_are_found_in_the_graph_its_subgraphs_and_functions(
    tmp_path: pathlib.Path,
) -> None:
    inner = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"])], "inner", [], [value("y", None)]
    )
    other = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["y"])], "other", [], [value("y", None)]
    )
    branch = helper.make_node("If", ["c"], ["y"], then_branch=other, else_branch=inner)
    loop = helper.make_node(
        "Loop", ["n", "c"], ["y"], body=helper.make_graph([branch], "b", [], [])
    )
    function = helper.make_function(
        "mine", "F", ["x"], ["y"],
        [helper.make_node("Erf", ["x"], ["y"])], [helper.make_opsetid("", 17)],
    )  # fmt: skip
    graph = helper.make_graph([loop], "g", [value("x", [2])], [value("y", [2])])
    path = tmp_path / "m.onnx"
    path.write_bytes(helper.make_model(graph, functions=[function]).SerializeToString())
    found = {name for name in ("If", "Loop", "Conv", "Neg", "Erf") if has_operator(path, {name})}
    assert found == {"If", "Loop", "Conv", "Neg", "Erf"}
    # Neither the name of a node, nor that of a tensor, nor that of a function that no node calls.
    assert not has_operator(path, {"F", "inner", "x", "mine"})


def test_a_file_without_a_graph_has_no_operators(tmp_path: pathlib.Path) -> None:
    (tmp_path / "m.ort").write_bytes(b"ORTM0123")
    with pytest.raises(OnnxFileError):
        has_operator(tmp_path / "m.ort", {"Conv"})


def test_metadata_of_any_size_is_stepped_over(tmp_path: pathlib.Path) -> None:
    proto = model([value("x", [2])], [value("y", [2])])
    helper.set_model_props(proto, {"labels": "0 90", "huge": "x" * (wire_format.MAX_TEXT + 1)})
    assert [tensor.name for tensor in read(save(proto, tmp_path / "m.onnx")).inputs] == ["x"]


def test_weights_are_stepped_over_and_not_read(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of 200 MB, sparse on disk: nothing of the weights is touched, so it is read in no time."""
    size = 200 << 20
    head = model([value("x", [2])], [value("y", [2])]).SerializeToString()
    graph = onnx.load_from_string(head).graph.SerializeToString()
    tensor_head = b"\x42\x01w" + b"\x4a" + _varint(size)  # name: "w", then raw_data
    weights = b"\x2a" + _varint(len(tensor_head) + size) + tensor_head
    before = b"\x08\x08\x3a" + _varint(len(graph) + len(weights) + size) + graph + weights
    path = tmp_path / "m.onnx"
    with path.open("wb") as file:
        file.write(before)
        file.truncate(len(before) + size)
    monkeypatch.setattr(wire_format, "MAX_FIELDS", 100)
    assert [t.name for t in read(path).inputs] == ["x"]


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def test_a_missing_file_is_said_to_be_missing(tmp_path: pathlib.Path) -> None:
    with pytest.raises(OnnxFileError, match=r"unable to find '.*model\.onnx'"):
        read(tmp_path / "model.onnx")


def test_a_pipe_is_refused_without_waiting_for_a_writer(tmp_path: pathlib.Path) -> None:
    os.mkfifo(tmp_path / "model.onnx")
    with pytest.raises(OnnxFileError, match=r"is a named pipe \(FIFO\), and not a file"):
        read(tmp_path / "model.onnx")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty: copy the model again"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0", "Git LFS pointer"),
        (b"<!DOCTYPE html><html></html>", "is not an ONNX model"),
        (b"PK\x03\x04\x14\x00\x00\x00", "is not an ONNX model"),
        (b"\x08\x08", "holds no graph"),
        (b"\x80" * 30, "is not an ONNX model"),
        (b"\x08" + b"\xff" * 11 + b"\x00", "is not an ONNX model"),
    ],
)
def test_a_file_that_is_not_a_model_is_refused_in_words(
    tmp_path: pathlib.Path, content: bytes, message: str
) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(OnnxFileError, match=message):
        read(path)


def test_a_partial_copy_is_said_to_be_cut_off(tmp_path: pathlib.Path) -> None:
    whole = model(
        [value("x", [2])], [value("y", [2])], initializers={"w": [0.0] * 1000}
    ).SerializeToString()
    path = tmp_path / "model.onnx"
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(OnnxFileError, match=f"cut off after {len(whole) // 2} bytes"):
        read(path)


def test_a_file_of_very_many_fields_is_given_up(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire_format, "MAX_FIELDS", 1000)
    path = tmp_path / "model.onnx"
    path.write_bytes(b"\x08\x01" * 1001)
    with pytest.raises(OnnxFileError, match="more than 1000 fields"):
        read(path)


@given(data=st.data())
def test_no_bytes_do_anything_but_parse_or_be_refused(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    whole = bytearray(
        model(
            [value("x", ["N", 2])], [value("y", [2])], initializers={"w": [1]}
        ).SerializeToString()
    )
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("fuzz") / "model.onnx"
    path.write_bytes(whole[: data.draw(st.integers(1, len(whole)))])
    with contextlib.suppress(OnnxFileError):
        read(path)


def real_models() -> list[pathlib.Path]:
    light = sorted((pathlib.Path(onnx.__file__).parent / "backend/test/data/light").glob("*.onnx"))
    examples = pathlib.Path(__file__).parents[3] / "examples" / "model_repository"
    return [*light, *sorted(examples.rglob("*.onnx"))]


@pytest.mark.parametrize("path", real_models(), ids=lambda path: path.stem)
@pytest.mark.slow
def test_real_models_look_as_onnxruntime_sees_them(path: pathlib.Path) -> None:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    graph = read(path)
    for ours, theirs in (
        (graph.inputs, session.get_inputs()),
        (graph.outputs, session.get_outputs()),
    ):
        assert [(t.name, t.datatype.name if t.datatype else "", t.shape) for t in ours] == [
            (t.name, ORT_TYPES[t.type], ort_shape(t.shape)) for t in theirs
        ]


def test_a_folder_called_model_onnx_holds_the_model(tmp_path: pathlib.Path) -> None:
    assert PLUGIN.model_file(tmp_path, "") == tmp_path / "model.onnx"
    assert PLUGIN.model_file(tmp_path, "net.onnx") == tmp_path / "net.onnx"
    (tmp_path / "model.onnx").mkdir()
    assert PLUGIN.model_file(tmp_path, "model.onnx") == tmp_path / "model.onnx" / "model.onnx"

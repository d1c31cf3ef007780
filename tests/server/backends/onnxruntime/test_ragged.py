"""Ragged batches of ONNX models: what the network gets, and what each request gets back, held against the bare network."""

import itertools
import pathlib
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from naiad.core import datatypes
from naiad.core.inference import Inference
from naiad.errors import InferenceError
from tests.server.backends.configs import Instance, inference, run, tensor, values
from tests.server.backends.graphs import instance_of, value, write_graph
from tests.server.config.model_folders import resolve

SAME = """
output { name: "SAME" data_type: TYPE_FP32 dims: [ -1 ] }
batch_output { target_name: "SAME" kind: BATCH_SCATTER_WITH_INPUT_SHAPE source_input: "X" }
"""


def _loaded(folder: pathlib.Path) -> Instance:
    resolution = resolve(folder)
    assert resolution.config is not None, [each.message for each in resolution.problems]
    return instance_of(folder, resolution.config)


def ask(*shape: int, start: float = 0) -> Inference:
    count = int(np.prod(shape))
    return inference(tensor("X", np.arange(start, start + count).reshape(shape), datatypes.FP32))


SHAPES: list[tuple[int, ...]] = [(1, 3), (1, 1), (2, 4)]
KINDS: dict[str, list[Any]] = {
    "BATCH_ELEMENT_COUNT": [3, 1, 8],
    "BATCH_ACCUMULATED_ELEMENT_COUNT": [3, 4, 12],
    "BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO": [0, 3, 4, 12],
    "BATCH_MAX_ELEMENT_COUNT_AS_SHAPE": [0] * 8,
    "BATCH_ITEM_SHAPE_FLATTEN": [3, 1, 4, 4],
    "BATCH_ITEM_SHAPE": [[3], [1], [4], [4]],
}


def seen(folder: pathlib.Path, kind: str, dtype: str, shapes: list[tuple[int, ...]]) -> Any:
    """What the network gets of the kind."""
    rank = 2 if kind == "BATCH_ITEM_SHAPE" else 1
    element = TensorProto.FLOAT if dtype == "FP32" else TensorProto.INT32
    symbols: list[int | str] = ["k"]
    if rank > 1:
        symbols.append("r")
    write_graph(
        folder,
        [
            helper.make_node("Identity", ["X"], ["SAME"]),
            helper.make_node("Identity", ["ADDED"], ["SEEN"]),
        ],
        [value("X", ["n"]), value("ADDED", symbols, element)],
        [value("SAME", ["n"]), value("SEEN", symbols, element)],
    )
    dims = ", ".join("-1" for _ in shapes[0][1:])
    (folder / "config.pbtxt").write_text(f"""
backend: "onnxruntime"
max_batch_size: 8
input {{ name: "X" data_type: TYPE_FP32 dims: [ {dims} ] allow_ragged_batch: true }}
{SAME.replace("-1", dims)}
batch_input {{ kind: {kind} target_name: "ADDED" data_type: TYPE_{dtype} source_input: "X" }}
""")
    instance = _loaded(folder)
    sessions = instance.instance._sessions  # type: ignore[attr-defined]
    runner = sessions.first
    feeds = runner.ragged.merge([each.request.inputs for each in (ask(*s) for s in shapes)])
    (found,) = runner.run(["SEEN"], feeds)
    return found


@pytest.mark.parametrize("dtype", ["INT32", "FP32"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_network_gets_what_the_kind_says(tmp_path: pathlib.Path, kind: str, dtype: str) -> None:
    found = seen(tmp_path, kind, dtype, SHAPES)
    assert found.tolist() == KINDS[kind]
    assert found.dtype == (np.float32 if dtype == "FP32" else np.int32)


def test_the_shapes_of_items_have_a_column_for_each_dimension(tmp_path: pathlib.Path) -> None:
    shapes: list[tuple[int, ...]] = [(1, 2, 3), (2, 1, 5)]
    found = seen(tmp_path / "a", "BATCH_ITEM_SHAPE", "INT32", shapes)
    assert found.tolist() == [[2, 3], [1, 5], [1, 5]]
    flat = seen(tmp_path / "b", "BATCH_ITEM_SHAPE_FLATTEN", "INT32", shapes)
    assert flat.tolist() == [2, 3, 1, 5, 1, 5]


SUMS = """
backend: "onnxruntime"
max_batch_size: 8
input { name: "X" data_type: TYPE_FP32 dims: [ -1 ] allow_ragged_batch: true }
output { name: "SUM" data_type: TYPE_FP32 dims: [ 1 ] reshape { shape: [ ] } }
output { name: "SAME" data_type: TYPE_FP32 dims: [ -1 ] }
batch_output { target_name: "SAME" kind: BATCH_SCATTER_WITH_INPUT_SHAPE source_input: "X" }
batch_input { kind: BATCH_ACCUMULATED_ELEMENT_COUNT target_name: "END" data_type: TYPE_INT32 source_input: "X" }
"""


def sums(folder: pathlib.Path, config: str = SUMS) -> pathlib.Path:
    """SUM = the sum of each request, from the sums up to its end; SAME = X."""
    zero = helper.make_tensor("ZERO", TensorProto.FLOAT, [1], [0.0])
    one = helper.make_tensor("ONE", TensorProto.INT64, [1], [1])
    start = helper.make_tensor("START", TensorProto.INT64, [1], [0])
    axis = helper.make_tensor("AXIS", TensorProto.INT64, [], [0])
    last = helper.make_tensor("LAST", TensorProto.INT64, [1], [-1])
    write_graph(
        folder,
        [
            helper.make_node("CumSum", ["X", "AXIS"], ["running"]),
            helper.make_node("Concat", ["ZERO", "running"], ["padded"], axis=0),
            helper.make_node("Gather", ["padded", "END"], ["ends"], axis=0),
            helper.make_node("Slice", ["ends", "START", "LAST", "START"], ["before"]),
            helper.make_node("Concat", ["ZERO", "before"], ["begins"], axis=0),
            helper.make_node("Sub", ["ends", "begins"], ["SUM"]),
            helper.make_node("Identity", ["X"], ["SAME"]),
        ],
        [value("X", ["n"]), value("END", ["k"], TensorProto.INT32)],
        [value("SUM", ["k"]), value("SAME", ["n"])],
        initializer=[zero, one, start, axis, last],
    )
    (folder / "config.pbtxt").write_text(config)
    return folder


def test_each_request_gets_its_own_part_as_the_bare_network_computes_it(
    tmp_path: pathlib.Path,
) -> None:
    instance = _loaded(sums(tmp_path))
    requests = [ask(1, 3, start=1), ask(1, 1, start=5), ask(1, 4, start=-2)]
    answers = [values(response) for response in run(instance, *requests)]
    flat = [each.request.inputs[0].array.ravel() for each in requests]
    ends = np.array(list(itertools.accumulate(map(len, flat))), np.int32)
    bare = onnxruntime.InferenceSession(tmp_path / "1" / "model.onnx")
    expected = bare.run(["SUM"], {"X": np.concatenate(flat), "END": ends})[0]
    assert [answer["SUM"][0][0] for answer in answers] == expected.tolist() == [6, 5, -2]
    assert [answer["SAME"] for answer in answers] == [
        each.request.inputs[0].array.tolist() for each in requests
    ]


def test_a_request_alone_and_one_that_wants_a_part(tmp_path: pathlib.Path) -> None:
    instance = _loaded(sums(tmp_path))
    (alone,) = run(instance, ask(1, 3))
    assert values(alone) == {"SUM": [[3.0]], "SAME": [[0.0, 1.0, 2.0]]}
    first = inference(tensor("X", [[1.0, 2.0]], datatypes.FP32), outputs=["SUM"])
    second = inference(tensor("X", [[4.0]], datatypes.FP32), outputs=["SAME"])
    assert list(map(values, run(instance, first, second))) == [{"SUM": [[3.0]]}, {"SAME": [[4.0]]}]


def test_an_output_with_too_few_elements_is_an_error(tmp_path: pathlib.Path) -> None:
    config = SUMS.replace('name: "SUM" data_type: TYPE_FP32 dims: [ 1 ] reshape { shape: [ ] }', 'name: "SUM" data_type: TYPE_FP32 dims: [ -1 ]')  # fmt: skip
    config += 'batch_output { target_name: "SUM" kind: BATCH_SCATTER_WITH_INPUT_SHAPE source_input: "X" }'  # fmt: skip
    instance = _loaded(sums(tmp_path, config))
    with pytest.raises(InferenceError, match=r"output 'SUM' of model '.*' has 2 elements"):
        run(instance, ask(1, 3), ask(1, 1))


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("TYPE_INT32 source", "TYPE_INT64 source", "batch input data type must be TYPE_INT32 or TYPE_FP32"),
        ("TYPE_INT32 source", "TYPE_FP32 source", "expects datatype TYPE_FP32 for batch input 'END', model provides TYPE_INT32"),
        ('target_name: "END"', 'target_name: "NO"', "batch input 'NO' is not an input of the model"),
        ('source_input: "X" }\nbatch_input', 'source_input: "Z" }\nbatch_input', "unknown source input name 'Z'"),
        ('target_name: "END" data_type: TYPE_INT32 source_input: "X"', 'target_name: "END" data_type: TYPE_INT32', "batch input kind 'BATCH_ACCUMULATED_ELEMENT_COUNT' expects 1 source input, got 0"),
        ('target_name: "SAME"', 'target_name: "S"', "unknown target output name 'S'"),
        ('target_name: "SAME"', 'target_name: ["SAME", "SAME"]', "target output name 'SAME' can only be specified once"),
        ("BATCH_ACCUMULATED_ELEMENT_COUNT", "BATCH_ITEM_SHAPE", "batch input 'END' of kind BATCH_ITEM_SHAPE has 2 dimensions"),
        ("allow_ragged_batch: true", "allow_ragged_batch: true optional: true", "which is not supported for optional input"),
    ],
)  # fmt: skip
def test_what_cannot_be_served_is_refused(
    tmp_path: pathlib.Path, before: str, after: str, message: str
) -> None:
    assert before in SUMS
    resolution = resolve(sums(tmp_path, SUMS.replace(before, after)))
    assert resolution.config is None
    assert any(message in each.message for each in resolution.problems), [
        each.message for each in resolution.problems
    ]


def test_the_network_takes_a_ragged_input_flat(tmp_path: pathlib.Path) -> None:
    write_graph(
        tmp_path,
        [helper.make_node("Identity", ["X"], ["SAME"])],
        [value("X", ["n", "m"])],
        [value("SAME", ["n", "m"])],
    )
    (tmp_path / "config.pbtxt").write_text(
        'backend: "onnxruntime" max_batch_size: 4\n'
        'input { name: "X" data_type: TYPE_FP32 dims: [ -1 ] allow_ragged_batch: true }\n'
        'output { name: "SAME" data_type: TYPE_FP32 dims: [ -1 ] }\n'
    )
    (problem,) = resolve(tmp_path).problems
    assert "expects model provides input with shape [-1] for ragged input 'X'" in problem.message
    assert problem.position is not None
    assert problem.position.line == 2


def test_text_of_different_lengths(tmp_path: pathlib.Path) -> None:
    write_graph(
        tmp_path,
        [helper.make_node("Identity", ["X"], ["SAME"])],
        [value("X", ["n"], TensorProto.STRING), value("END", ["k"], TensorProto.INT32)],
        [value("SAME", ["n"], TensorProto.STRING)],
    )
    config = SUMS.replace("TYPE_FP32", "TYPE_STRING")
    start, end = config.index('output { name: "SUM"'), config.index('output { name: "SAME"')
    (tmp_path / "config.pbtxt").write_text(config[:start] + config[end:])
    instance = _loaded(tmp_path)
    requests = [
        inference(tensor("X", [texts], datatypes.BYTES)) for texts in ([b"a", b"bb"], [b"c"])
    ]
    assert list(map(values, run(instance, *requests))) == [
        {"SAME": [[b"a", b"bb"]]},
        {"SAME": [[b"c"]]},
    ]
    broken = inference(tensor("X", [[b"\xff"]], datatypes.BYTES))
    failed, good = instance.execute([broken, requests[1]]).responses
    assert failed is not None
    assert failed.error is not None
    assert good is not None
    assert values(good) == {"SAME": [[b"c"]]}


def test_a_model_without_a_batch_dimension(tmp_path: pathlib.Path) -> None:
    config = SUMS.replace("max_batch_size: 8", "max_batch_size: 0").replace(
        "dims: [ 1 ] reshape { shape: [ ] }", "dims: [ -1 ]"
    )
    instance = _loaded(sums(tmp_path, config))
    request = inference(tensor("X", [1.0, 2.0, 3.0], datatypes.FP32), rows=1)
    (answer,) = run(instance, request)
    assert values(answer) == {"SUM": [6.0], "SAME": [1.0, 2.0, 3.0]}

"""ONNX completion (rows 11.49-11.51): what the graph says becomes the config, in JSON."""

import pathlib
from collections.abc import Mapping
from typing import Any

import onnx
import onnxruntime
import pytest
from google.protobuf import text_format
from onnx import TensorProto, helper

from naiad.backends.onnxruntime.completion import complete
from naiad.config.backend_type import CompletionError
from naiad.config.config_json import to_json
from naiad.core.messages import model_config_pb2
from naiad.errors import ErrorCode
from tests.server.backends.onnxruntime.test_onnx_graph import ort_shape, real_models
from tests.server.config.model_folders import make_model, only, resolve
from tests.server.config.onnx_models import model, value

BATCHING = model(
    [value("x", ["N", 3], TensorProto.INT64)], [value("y", ["N", "k"]), value("z", ["N"])]
)
FIXED = model([value("x", [1, 3])], [value("y", ["N", 2])])
SCALAR = model([value("x", [])], [value("y", [])])


def completed(
    root: pathlib.Path,
    proto: onnx.ModelProto,
    given: str = "",
    options: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """What completion sets or changes, as JSON."""
    folder = make_model(root, files={"1/model.onnx": proto})
    message = text_format.Parse(f'name: "m" {given}', model_config_pb2.ModelConfig())
    complete(message, folder / "1", options or {})
    return {
        key: item
        for key, item in to_json(message).items()
        if key in {"max_batch_size", "input", "output", "dynamic_batching", "sequence_batching"}
    }


def tensors(specs: list[dict[str, Any]]) -> list[tuple[str, str, list[int], Any]]:
    return [(s["name"], s["data_type"], s["dims"], s.get("reshape")) for s in specs]


def test_a_graph_whose_first_dimensions_are_free_gets_batches_of_four(
    tmp_path: pathlib.Path,
) -> None:
    shown = completed(tmp_path, BATCHING)
    assert shown["max_batch_size"] == 4
    assert "dynamic_batching" in shown
    assert tensors(shown["input"]) == [("x", "TYPE_INT64", [3], None)]
    assert tensors(shown["output"]) == [
        ("y", "TYPE_FP32", [-1], None),
        ("z", "TYPE_FP32", [1], {"shape": []}),
    ]


def test_a_graph_with_a_fixed_first_dimension_gets_none(tmp_path: pathlib.Path) -> None:
    shown = completed(tmp_path, FIXED)
    assert shown["max_batch_size"] == 0
    assert "dynamic_batching" not in shown
    assert tensors(shown["input"]) == [("x", "TYPE_FP32", [1, 3], None)]
    assert tensors(shown["output"]) == [("y", "TYPE_FP32", [-1, 2], None)]


def test_a_scalar_becomes_one_value_without_batches(tmp_path: pathlib.Path) -> None:
    shown = completed(tmp_path, SCALAR)
    assert shown["max_batch_size"] == 0
    assert tensors(shown["input"] + shown["output"]) == [
        ("x", "TYPE_FP32", [1], None),
        ("y", "TYPE_FP32", [1], None),
    ]


@pytest.mark.parametrize(
    ("given", "options", "size", "dynamic"),
    [
        ("", {}, 4, True),
        ("max_batch_size: 16", {}, 16, True),
        ("max_batch_size: 1", {}, 1, False),
        ("", {"default-max-batch-size": "32"}, 32, True),
        ("", {"default-max-batch-size": "1"}, 1, False),
        ("", {"default-max-batch-size": "0"}, 0, False),
        ("", {"default-max-batch-size": "-5"}, 0, False),
        ("sequence_batching {}", {}, 4, False),
    ],
)
def test_the_batch_size_is_the_configs_or_the_options(
    tmp_path: pathlib.Path, given: str, options: dict[str, str], size: int, *, dynamic: bool
) -> None:
    shown = completed(tmp_path, BATCHING, given, options)
    assert shown["max_batch_size"] == size
    assert ("dynamic_batching" in shown) is dynamic
    assert shown["input"][0]["dims"] == ([3] if size else [-1, 3])


def test_controls_and_states_are_not_inputs_or_outputs_of_clients(tmp_path: pathlib.Path) -> None:
    graph = model(
        [value("x", ["N", 3]), value("START", ["N", 1]), value("S_IN", ["N", 2])],
        [value("y", ["N", 3]), value("S_OUT", ["N", 2])],
    )
    given = (
        'sequence_batching { control_input { name: "START" } '
        'state { input_name: "S_IN" output_name: "S_OUT" } }'
    )
    shown = completed(tmp_path, graph, given)
    assert tensors(shown["input"]) == [("x", "TYPE_FP32", [3], None)]
    assert tensors(shown["output"]) == [("y", "TYPE_FP32", [3], None)]


def test_an_option_that_is_not_a_number_is_reported(tmp_path: pathlib.Path) -> None:
    with pytest.raises(CompletionError, match="default-max-batch-size=many is not a number"):
        completed(tmp_path, BATCHING, options={"default-max-batch-size": "many"})


def test_only_what_is_missing_is_filled_in(tmp_path: pathlib.Path) -> None:
    given = 'output { name: "z" data_type: TYPE_FP32 dims: 1 }'
    shown = completed(tmp_path, BATCHING, given)
    assert tensors(shown["output"]) == [("z", "TYPE_FP32", [1], None)]
    assert tensors(shown["input"]) == [("x", "TYPE_INT64", [3], None)]


def test_a_config_with_inputs_and_outputs_is_left_alone_and_the_file_unread(
    tmp_path: pathlib.Path,
) -> None:
    given = 'name: "m" input { name: "a" } output { name: "b" }'
    message = text_format.Parse(given, model_config_pb2.ModelConfig())
    complete(message, tmp_path / "none", {})
    assert message == text_format.Parse(given, model_config_pb2.ModelConfig())


def test_batches_that_the_graph_cannot_take_are_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(CompletionError) as caught:
        completed(tmp_path, FIXED, "max_batch_size: 8")
    assert caught.value.field == ("max_batch_size",)
    assert caught.value.code is ErrorCode.INVALID_ARG
    assert caught.value.plain == (
        "autofill failed for model 'm': model does not support batching while non-zero max_batch_size is "
        "specified; the graph fixes the first dimension of 'x' [1, 3]"
    )
    folder = make_model(tmp_path, "max_batch_size: 8", files={"1/model.onnx": FIXED})
    problem = only(resolve(folder))
    assert problem.position is not None
    assert (problem.position.line, problem.position.column) == (1, 17)
    assert problem.suggestion.startswith("write max_batch_size: 0")


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (
            helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, [1]),
            "Unsupported ONNX Type 'ONNX_TYPE_SEQUENCE' for I/O 's', expected 'ONNX_TYPE_TENSOR'.",
        ),
        (value("c", [1], TensorProto.COMPLEX64), "output 'c' is complex64"),
        (value("u", None), "the graph does not say how many dimensions output 'u' has"),
    ],
    ids=["sequence", "complex", "unknown rank"],
)
def test_an_output_that_cannot_be_described_is_named(
    tmp_path: pathlib.Path, tensor: onnx.ValueInfoProto, message: str
) -> None:
    with pytest.raises(CompletionError) as caught:
        completed(tmp_path, model([value("x", [1])], [tensor]))
    assert message in caught.value.message
    assert ("{'zipmap': False}" in caught.value.message) == ("SEQUENCE" in message)
    given = 'output { name: "other" data_type: TYPE_FP32 dims: 1 }'
    assert len(completed(tmp_path, model([value("x", [1])], [tensor]), given)["input"]) == 1


def test_a_missing_file_is_unavailable(tmp_path: pathlib.Path) -> None:
    message = model_config_pb2.ModelConfig(name="m")
    with pytest.raises(
        CompletionError, match=r"unable to load model 'm': unable to find"
    ) as caught:
        complete(message, tmp_path, {})
    assert caught.value.code is ErrorCode.UNAVAILABLE


@pytest.mark.parametrize("path", real_models(), ids=lambda path: path.stem)
@pytest.mark.slow
def test_real_models_are_completed_as_from_a_session(
    tmp_path: pathlib.Path, path: pathlib.Path
) -> None:
    (tmp_path / "m" / "1").mkdir(parents=True)
    (tmp_path / "m" / "1" / "model.onnx").symlink_to(path)
    config = resolve(tmp_path / "m").config
    assert config is not None
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    batch = (-1,) if config.max_batch_size else ()
    for ours, theirs in (
        (config.inputs, session.get_inputs()),
        (config.outputs, session.get_outputs()),
    ):
        assert [(t.name, (*batch, *t.dims)) for t in ours] == [
            (t.name, ort_shape(t.shape)) for t in theirs
        ]
    assert bool(config.max_batch_size) == all(
        ort_shape(t.shape)[:1] == (-1,) for t in (*session.get_inputs(), *session.get_outputs())
    )

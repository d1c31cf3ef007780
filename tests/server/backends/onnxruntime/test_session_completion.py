"""Completion from a session, where a file does not say whether its model takes batches: detectors that give a fixed number of boxes."""

import pathlib
from typing import Any

import onnx
import pytest
from google.protobuf import text_format
from onnx import TensorProto, helper

from naiad.backends.catalog import Catalog
from naiad.backends.onnxruntime import completion, session_completion
from naiad.backends.onnxruntime.backend import OnnxRuntimeBackend
from naiad.config.backend_type import CompletionError
from naiad.config.resolving.resolve import resolve
from naiad.core.clock import ManualClock
from naiad.core.messages import model_config_pb2
from tests.server.config.model_folders import make_model
from tests.server.config.onnx_models import model, value

NODES = [
    helper.make_node("ReduceMax", ["x"], ["flat"], axes=[0], keepdims=0),
    helper.make_node("TopK", ["flat", "k"], ["scores", "index"]),
]


def detector() -> onnx.ModelProto:
    """The five best scores of a batch: the file calls their number "num", and a session knows that it is 5."""
    graph = helper.make_graph(
        NODES,
        "g",
        [value("x", ["batch", 100])],
        [value("scores", ["num"]), value("index", ["num"], TensorProto.INT64)],
        [helper.make_tensor("k", TensorProto.INT64, [1], [5])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def config(text: str = "") -> Any:
    return text_format.Parse(f'name: "m" {text}', model_config_pb2.ModelConfig())


def shown(message: Any) -> tuple[int, bool, list[tuple[str, list[int]]]]:
    return (
        message.max_batch_size,
        message.HasField("dynamic_batching"),
        [(spec.name, list(spec.dims)) for spec in (*message.input, *message.output)],
    )


FIXED = (0, False, [("x", [-1, 100]), ("scores", [5]), ("index", [5])])


@pytest.mark.parametrize("text", ["", "max_batch_size: 0", 'platform: "onnxruntime_onnx"'])
def test_a_session_that_fixes_an_outputs_first_dimension_keeps_the_model_from_batching(
    tmp_path: pathlib.Path, text: str
) -> None:
    folder = make_model(tmp_path, files={"1/model.onnx": detector()})
    backend = OnnxRuntimeBackend(clock=ManualClock())
    message = config(text)
    backend.complete(message, folder / "1", {})
    assert shown(message) == FIXED


def test_a_worker_completes_the_same(tmp_path: pathlib.Path) -> None:
    folder = make_model(tmp_path, files={"1/model.onnx": detector()})
    backend = OnnxRuntimeBackend(clock=ManualClock())
    message = config()
    plan = backend.completion_plan(message, folder / "1", {})
    assert plan.load == "naiad.backends.onnxruntime.session_completion:run_in_worker"
    backend.take_completion(message, session_completion.run_in_worker(plan.settings))
    assert shown(message) == FIXED


def test_a_batch_size_that_the_session_contradicts_is_refused_as_in_triton(
    tmp_path: pathlib.Path,
) -> None:
    folder = make_model(tmp_path, files={"1/model.onnx": detector()})
    backend = OnnxRuntimeBackend(clock=ManualClock())
    with pytest.raises(CompletionError) as caught:
        backend.complete(config("max_batch_size: 8"), folder / "1", {})
    assert "model does not support batching while non-zero max_batch_size is specified" in (
        caught.value.plain
    )
    assert "the graph fixes the first dimension of 'scores' [5], 'index' [5]" in caught.value.plain


def test_a_model_of_which_no_session_can_be_made_is_completed_from_its_file(
    tmp_path: pathlib.Path,
) -> None:
    proto = detector()
    proto.graph.node[0].op_type = "Unknown"
    folder = make_model(tmp_path, files={"1/model.onnx": proto})
    message = config()
    OnnxRuntimeBackend(clock=ManualClock()).complete(message, folder / "1", {})
    assert message.max_batch_size == 4


@pytest.mark.parametrize(
    ("inputs", "outputs", "is_open"),
    [
        ([value("x", ["N", 3])], [value("y", ["N", 2])], False),
        ([value("x", ["N", 3]), value("z", ["M"])], [value("y", ["M"])], False),
        ([value("x", ["N", 3])], [value("y", ["M", 2])], True),
        ([value("x", ["N", 3])], [value("y", ["N"]), value("z", [None, 2])], True),
        ([value("x", [None, 3])], [value("y", [None, 2])], True),
        ([value("x", ["N", 3])], [value("y", None)], True),
        ([value("x", [1, 3])], [value("y", ["M"])], False),  # fixed anyway
        ([value("x", ["N", 3])], [value("y", [5])], False),
    ],
)
def test_only_an_output_with_a_first_dimension_of_its_own_leaves_it_open(
    tmp_path: pathlib.Path, inputs: Any, outputs: Any, *, is_open: bool
) -> None:
    folder = make_model(tmp_path, files={"1/model.onnx": model(inputs, outputs)})
    assert completion.leaves_batching_open(config(), folder / "1") is is_open
    both = 'input { name: "x" } output { name: "y" }'
    assert not completion.leaves_batching_open(config(both), folder / "1")


def test_no_session_is_made_of_a_large_model(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_model(tmp_path, files={"1/model.onnx": detector()})
    monkeypatch.setattr(completion, "_LARGE", 100)
    assert not completion.leaves_batching_open(config(), folder / "1")


def test_a_missing_or_broken_file_leaves_it_to_the_load(tmp_path: pathlib.Path) -> None:
    assert not completion.leaves_batching_open(config(), tmp_path)
    (tmp_path / "model.onnx").write_bytes(b"no model")
    assert not completion.leaves_batching_open(config(), tmp_path)


def test_a_check_without_a_load_notes_that_the_server_may_complete_otherwise(
    tmp_path: pathlib.Path,
) -> None:
    folder = make_model(tmp_path, files={"1/model.onnx": detector()})
    notes = resolve(folder, backends=Catalog()).notes
    assert any("naiad check --load shows the result" in note for note in notes)
    same = make_model(
        tmp_path / "same", files={"1/model.onnx": model([value("x", ["N"])], [value("y", ["N"])])}
    )
    assert not any("--load" in note for note in resolve(same, backends=Catalog()).notes)

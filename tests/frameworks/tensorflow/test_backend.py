"""TensorFlow models through the backend, against TensorFlow itself."""

import json
import pathlib
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from naiad.core import datatypes
from naiad.core.tensor import Tensor, object_array
from naiad.errors import ErrorCode, FailureReason, InferenceError
from tests.frameworks.tensorflow.models import SPEC, function, instance_of, load, resolved, save
from tests.server.backends.configs import inference, run, tensor, values

FP32 = datatypes.FP32


class Scale(tf.Module):
    def __init__(self) -> None:
        self.factor = tf.Variable(2.0)

    @function(tf.TensorSpec([None, 2], tf.float32, name="x"))
    def scaled(self, x: tf.Tensor) -> Any:
        return {"y": x * self.factor, "rows": tf.shape(x)[:1] + tf.zeros_like(x[:, :1], tf.int32)}

    @function(tf.TensorSpec([None, 1], tf.string, name="s"))
    def twice(self, s: tf.Tensor) -> Any:
        return {"t": tf.strings.join([s, s])}


def scale(folder: pathlib.Path) -> pathlib.Path:
    module = Scale()
    return save(folder, module, serving_default=module.scaled, twice=module.twice)


def test_a_batch_is_split_into_its_requests(tmp_path: pathlib.Path) -> None:
    instance = instance_of(scale(tmp_path / "m"))
    one, two = run(
        instance,
        inference(tensor("x", [[1, 2]], FP32)),
        inference(tensor("x", [[3, 4], [5, 6]], FP32)),
    )
    assert values(one) == {"rows": [[3]], "y": [[2.0, 4.0]]}
    assert values(two) == {"rows": [[3], [3]], "y": [[6.0, 8.0], [10.0, 12.0]]}


def test_only_requested_outputs_are_given(tmp_path: pathlib.Path) -> None:
    instance = instance_of(scale(tmp_path / "m"))
    assert values(run(instance, inference(tensor("x", [[1, 2]], FP32), outputs=["y"]))[0]) == {
        "y": [[2.0, 4.0]]
    }


def test_outputs_come_by_name_as_in_triton(tmp_path: pathlib.Path) -> None:
    """KServe's transformer of a BERT takes the first one for end_logits, whatever it asks for first."""
    config = """
        input { name: "x" data_type: TYPE_FP32 dims: 2 }
        output [ { name: "y" data_type: TYPE_FP32 dims: 2 }, { name: "rows" data_type: TYPE_INT32 dims: 1 } ]
        max_batch_size: 8 platform: "tensorflow_savedmodel"
    """
    instance = instance_of(scale(tmp_path / "m"), config)
    (one,) = run(instance, inference(tensor("x", [[1, 2]], FP32), outputs=["y", "rows"]))
    assert [(output.name, output.array.tolist()) for output in one.outputs] == [("rows", [[1]]), ("y", [[2.0, 4.0]])]  # fmt: skip


def test_another_signature_has_text_that_may_be_any_bytes(tmp_path: pathlib.Path) -> None:
    text = 'parameters { key: "TF_SIGNATURE_DEF" value { string_value: "twice" } }'
    instance = instance_of(scale(tmp_path / "m"), text)
    texts = Tensor(
        "s", datatypes.BYTES, (2, 1), object_array([b"\xffa", "ö".encode()]).reshape(2, 1)
    )
    assert values(run(instance, inference(texts))[0]) == {"t": [[b"\xffa\xffa"], ["öö".encode()]]}


ELEMENTS = {
    "BOOL": tf.bool, "UINT8": tf.uint8, "UINT16": tf.uint16, "UINT32": tf.uint32, "UINT64": tf.uint64, "INT8": tf.int8, "INT16": tf.int16,
    "INT32": tf.int32, "INT64": tf.int64, "FP16": tf.float16, "FP32": tf.float32, "FP64": tf.float64, "BF16": tf.bfloat16,
}  # fmt: skip


@pytest.mark.parametrize("name", ELEMENTS)
def test_every_datatype_goes_through(tmp_path: pathlib.Path, name: str) -> None:
    class Identity(tf.Module):
        @function(tf.TensorSpec([None, 3], ELEMENTS[name], name="x"))
        def serve(self, x: tf.Tensor) -> Any:
            return {"y": tf.identity(x)}

    module = Identity()
    datatype = datatypes.BY_NAME[name]
    instance = instance_of(save(tmp_path / "m", module, serving_default=module.serve))
    given = Tensor("x", datatype, (2, 3), np.array([[0, 1, 2], [3, 1, 0]]).astype(datatype.dtype))
    (output,) = run(instance, inference(given))[0].outputs
    assert output.datatype is datatype
    assert output.array.tobytes() == given.array.tobytes()


def graph_def(model: pathlib.Path) -> pathlib.Path:
    """SUM = A + B, in a GraphDef with a variable that has to be initialised."""
    graph = tf.Graph()
    with graph.as_default():
        a, b = (tf.compat.v1.placeholder(tf.float32, [None, 1], name=name) for name in "AB")
        start = tf.compat.v1.get_variable("start", initializer=10.0)
        tf.add(a + b, start, name="SUM")
        tf.compat.v1.global_variables_initializer()
    (model / "1").mkdir(parents=True)
    tf.io.write_graph(graph, str(model / "1"), "model.graphdef", as_text=False)
    return model


GRAPH = """
    platform: "tensorflow_graphdef" max_batch_size: 4
    input [ { name: "A" data_type: TYPE_FP32 dims: 1 }, { name: "B" data_type: TYPE_FP32 dims: 1 } ]
    output { name: "SUM" data_type: TYPE_FP32 dims: 1 }
    parameters { key: "TF_INIT_OPS_FILE" value { string_value: "init_ops.json" } }
"""


@pytest.mark.parametrize("place", [".", "1"])
def test_a_graph_def_is_initialised_by_the_operations_of_a_file(
    tmp_path: pathlib.Path, place: str
) -> None:
    model = graph_def(tmp_path / "m")
    (model / place / "init_ops.json").write_text(json.dumps({"init_ops": ["init"]}))
    instance = instance_of(model, GRAPH)
    request = inference(tensor("A", [[1.0]], FP32), tensor("B", [[2.0]], FP32))
    assert values(run(instance, request)[0]) == {"SUM": [[13.0]]}


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("init_ops.json", None, "unable to find 'init_ops.json'"),
        ("init_ops.json", "[]", 'write {"init_ops": ["init"]}'),
        ("../../init_ops.json", "{}", "must be a file in the model's folder"),
        ("init_ops.json", '{"init_ops": ["nope"]}', "nope"),
    ],
)
def test_a_wrong_file_of_operations_says_why(
    tmp_path: pathlib.Path, name: str, content: str | None, said: str
) -> None:
    model = graph_def(tmp_path / "m")
    if content is not None:
        (model / name).write_text(content)
    with pytest.raises(InferenceError) as caught:
        instance_of(model, GRAPH.replace("init_ops.json", name))
    assert said in caught.value.message
    names_an_operation = said == "nope"  # which TensorFlow refuses
    assert caught.value.code is (
        ErrorCode.INTERNAL if names_an_operation else ErrorCode.INVALID_ARG
    )
    assert caught.value.message.count("model 'm'") == 1


class Counts(tf.Module):
    def __init__(self) -> None:
        self.seen = tf.Variable(0.0)

    @function(tf.TensorSpec([None, 1], tf.float32, name="x"))
    def serve(self, x: tf.Tensor) -> Any:
        return {"y": x * 0 + self.seen.assign_add(1.0)}


@pytest.mark.parametrize(("sharing", "expected"), [("", [1.0, 2.0, 3.0]), ("1", [1.0, 2.0, 1.0])])
def test_instances_share_a_session_unless_the_config_limits_it(
    tmp_path: pathlib.Path, sharing: str, expected: list[float]
) -> None:
    module = Counts()
    text = (
        f'parameters {{ key: "MAX_SESSION_SHARE_COUNT" value {{ string_value: "{sharing}" }} }}'
        if sharing
        else ""
    )
    loaded = load(save(tmp_path / "m", module, serving_default=module.serve), text)
    one, two = loaded.make_instance(SPEC), loaded.make_instance(SPEC)
    request = inference(tensor("x", [[0.0]], FP32))
    assert [values(run(each, request)[0])["y"][0][0] for each in (one, one, two)] == expected


class Checks(tf.Module):
    @function(tf.TensorSpec([None, 1], tf.float32, name="x"))
    def serve(self, x: tf.Tensor) -> Any:
        tf.debugging.assert_positive(x, message="only positive values")
        return {"y": x}


def test_a_model_that_fails_answers_the_next_request(tmp_path: pathlib.Path) -> None:
    module = Checks()
    instance = instance_of(save(tmp_path / "m", module, serving_default=module.serve))
    with pytest.raises(InferenceError) as caught:
        run(instance, inference(tensor("x", [[-1.0]], FP32)))
    assert caught.value.message.startswith("TensorFlow execute failure: ")
    assert "only positive values" in caught.value.message
    assert caught.value.reason is FailureReason.BACKEND
    assert values(run(instance, inference(tensor("x", [[1.0]], FP32)))[0]) == {"y": [[1.0]]}


def test_a_model_saved_by_keras(tmp_path: pathlib.Path) -> None:
    net = tf.keras.Sequential([tf.keras.layers.Input((3,)), tf.keras.layers.Dense(2)])
    net.export(str(tmp_path / "m" / "1" / "model.savedmodel"), verbose=False)
    instance = instance_of(tmp_path / "m")
    rows = np.random.default_rng(1).normal(size=(2, 3)).astype(np.float32)
    (spec,) = resolved(tmp_path / "m").inputs
    (output,) = run(instance, inference(tensor(spec.name, rows)))[0].outputs
    np.testing.assert_allclose(output.array, net(rows).numpy(), rtol=1e-5)


def test_a_folder_that_tensorflow_cannot_load_says_why(tmp_path: pathlib.Path) -> None:
    model = scale(tmp_path / "m")
    for file in (model / "1" / "model.savedmodel" / "variables").iterdir():
        file.unlink()
    with pytest.raises(InferenceError, match="unable to load model 'm': ") as caught:
        instance_of(model)
    assert caught.value.code is ErrorCode.INTERNAL
    assert "variables" in caught.value.message

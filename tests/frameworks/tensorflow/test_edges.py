"""TensorFlow at the edges: no rows, empty texts, values without a dimension, and what it says of failures."""

import pathlib
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from naiad.core import datatypes
from naiad.core.tensor import Tensor, object_array
from naiad.errors import InferenceError
from tests.frameworks.tensorflow.models import function, instance_of, save
from tests.server.backends.configs import inference, run, tensor, values

FP32, BYTES = datatypes.FP32, datatypes.BYTES


class Same(tf.Module):
    @function(tf.TensorSpec([None, 2], tf.float32, name="x"))
    def numbers(self, x: tf.Tensor) -> Any:
        return {"y": tf.identity(x)}

    @function(tf.TensorSpec([None, 1], tf.string, name="x"))
    def texts(self, x: tf.Tensor) -> Any:
        return {"y": tf.identity(x)}

    @function(
        tf.TensorSpec([None, 2], tf.float32, name="x"), tf.TensorSpec([], tf.float32, name="k")
    )
    def scaled(self, x: tf.Tensor, k: tf.Tensor) -> Any:
        return {"y": x * k, "k": k}

    @function(tf.TensorSpec([None, 2], tf.int32, name="x"))
    def quotients(self, x: tf.Tensor) -> Any:
        return {"y": x[:, :1] // x[:, 1:]}


def test_no_rows_give_no_rows(tmp_path: pathlib.Path) -> None:
    module = Same()
    instance = instance_of(save(tmp_path / "m", module, serving_default=module.numbers))
    empty = Tensor("x", FP32, (0, 2), np.zeros((0, 2), np.float32))
    one, two = run(instance, inference(empty), inference(tensor("x", [[1, 2]], FP32)))
    assert (values(one)["y"], values(two)["y"]) == ([], [[1, 2]])
    assert values(run(instance, inference(empty))[0])["y"] == []


@pytest.mark.parametrize("texts", [[], [b""], [b"", b"\xff"]])
def test_empty_texts_go_through(tmp_path: pathlib.Path, texts: list[bytes]) -> None:
    module = Same()
    instance = instance_of(save(tmp_path / "m", module, serving_default=module.texts))
    array = object_array(texts).reshape(-1, 1)
    (answer,) = run(instance, inference(Tensor("x", BYTES, array.shape, array)))
    assert values(answer)["y"] == [[text] for text in texts]


def test_the_reason_stands_first(tmp_path: pathlib.Path) -> None:
    module = Same()
    instance = instance_of(save(tmp_path / "m", module, serving_default=module.quotients))
    with pytest.raises(InferenceError) as caught:
        run(instance, inference(tensor("x", [[1, 0]], datatypes.INT32)))
    message = caught.value.message
    assert message.startswith("TensorFlow execute failure: Integer division by zero")
    assert "\n" not in message
    good = inference(tensor("x", [[6, 3]], datatypes.INT32))
    assert values(run(instance, good)[0]) == {"y": [[2]]}


SCALED = """
input [ { name: "x" data_type: TYPE_FP32 dims: [ -1, 2 ] }, { name: "k" data_type: TYPE_FP32 dims: [ 1 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ -1, 2 ] }, { name: "k" data_type: TYPE_FP32 dims: [ 1 ] } ]
"""


def test_a_value_without_a_dimension_has_one_in_requests(tmp_path: pathlib.Path) -> None:
    module = Same()
    saved = save(tmp_path / "m", module, serving_default=module.scaled)
    graph = tf.Graph()
    with graph.as_default():
        x = tf.compat.v1.placeholder(tf.float32, [None, 2], "x")
        k = tf.compat.v1.placeholder(tf.float32, [], "k")
        tf.multiply(x, k, name="y")
        tf.identity(k, name="same")
    definition = tmp_path / "g" / "1" / "model.graphdef"
    definition.parent.mkdir(parents=True)
    definition.write_bytes(graph.as_graph_def().SerializeToString())
    of_graph = SCALED.rpartition('"k"')
    for model, text in (
        (saved, f'platform: "tensorflow_savedmodel" {SCALED}'),
        (tmp_path / "g", f'platform: "tensorflow_graphdef" {of_graph[0]}"same"{of_graph[2]}'),
    ):
        request = inference(tensor("x", [[1, 2]], FP32), tensor("k", [3], FP32), rows=1)
        answer = values(run(instance_of(model, text), request)[0])
        assert answer.pop("y") == [[3, 6]]
        assert list(answer.values()) == [[3]]

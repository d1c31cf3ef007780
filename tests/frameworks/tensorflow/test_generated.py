"""SavedModels with identities, reshapes, ragged batches, sequences and implicit states, served and compared with TensorFlow."""

import collections.abc
from typing import Any

import pytest
import tensorflow as tf

from tests.frameworks import add_sub, generated
from tests.frameworks.generated import KINDS, Kind, Run
from tests.frameworks.tensorflow.models import save
from tests.frameworks.tensorflow.test_datatypes import TYPES, Served

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def outputs(kind: Kind, given: dict[str, Any]) -> dict[str, Any]:
    """The model, for tensors of a graph."""
    taken = given["INPUT"]
    if kind.name == "identity":
        return {"OUTPUT": tf.identity(taken)}
    if kind.name == "reshape":
        return {"OUTPUT": tf.reshape(taken, [-1, 4] if kind.batched else [4])}
    if kind.name == "ragged":
        return {"OUTPUT": taken + taken + 0 * tf.reduce_sum(given["INDEX"])}
    if kind.name == "implicit":
        total = taken + given["INPUT_STATE"]
        return {"OUTPUT": total, "OUTPUT_STATE": tf.identity(total)}
    total = taken + given["START"]
    if kind.name == "dyna_sequence":
        total += given["END"] * tf.cast(given["CORRID"], tf.float32)
    return {"OUTPUT": total * given["READY"]}


class Model(tf.Module):
    def __init__(self, kind: Kind) -> None:
        super().__init__()
        shape = [None if size < 0 else size for size in kind.shape]
        specs = {
            name: tf.TensorSpec([None] if name == "INDEX" else shape, TYPES[datatype], name=name)
            for name, datatype in kind.inputs.items()
        }
        self.serve = tf.function(lambda **given: outputs(kind, given)).get_concrete_function(
            **specs
        )


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> collections.abc.Iterator[Served]:
    models = tmp_path_factory.mktemp("generated") / "models"
    runs: dict[str, Run] = {}
    for kind in KINDS:
        runs[kind.model] = write(models, kind)
    with add_sub.serving(models, "tensorflow") as server:
        yield Served(server, runs)


def write(models: Any, kind: Kind) -> Run:
    module = Model(kind)
    save(models / kind.model, module, serving_default=module.serve)
    generated.write_config(models / kind.model, kind, 'platform: "tensorflow_savedmodel"')

    def run(**feeds: Any) -> Any:
        given = {
            name: tf.constant(array, TYPES[kind.inputs[name]]) for name, array in feeds.items()
        }
        return module.serve(**given)["OUTPUT"].numpy()

    return run


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.model)
def test_the_server_answers_as_tensorflow_does(served: Served, kind: Kind) -> None:
    assert generated.differences(served.server, kind, served.runs[kind.model]) == []


def test_ragged_requests_of_one_batch_get_their_own_values(served: Served) -> None:
    kind = Kind("ragged")
    assert generated.merged_differences(served.server, kind, served.runs[kind.model]) == []


def test_the_check_finds_nothing_wrong_with_what_is_served(served: Served) -> None:
    assert generated.check_problems(served.server.log.parent / "models", KINDS) == {}

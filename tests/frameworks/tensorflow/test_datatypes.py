"""SavedModels and GraphDefs of every datatype, with and without batches, served and compared with TensorFlow."""

import collections.abc
import pathlib
from typing import Any

import pytest
import tensorflow as tf

from tests.frameworks import add_sub
from tests.frameworks.add_sub import Case, Run
from tests.frameworks.tensorflow.models import save
from tests.reference.process import ServerProcess

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

TYPES = {
    **{name: tf.as_dtype(name.lower()) for name in add_sub.NUMBERS if "FP" not in name and name != "BF16"},
    "FP16": tf.float16, "BF16": tf.bfloat16, "FP32": tf.float32, "FP64": tf.float64, "BYTES": tf.string,
}  # fmt: skip

CASES = add_sub.cases(add_sub.NUMBERS, *add_sub.MIXED, *add_sub.STRINGS)

MODELS = [
    *(("tensorflow_savedmodel", case) for case in CASES),
    *(("tensorflow_graphdef", case) for case in CASES if case.batched),
]
"""Platform and case of each; what a GraphDef has without a batch, a SavedModel shows."""


def cast(value: Any, datatype: str) -> Any:
    return tf.strings.as_string(value) if datatype == "BYTES" else tf.cast(value, TYPES[datatype])


def outputs(case: Case, first: Any, second: Any) -> dict[str, Any]:
    """The model, for tensors of a graph."""
    if case.taken == "BYTES":
        first, second = (tf.strings.to_number(each, tf.int32) for each in (first, second))
    return {
        "OUTPUT0": cast(first + second, case.first),
        "OUTPUT1": cast(first - second, case.second),
    }


def shape_of(case: Case) -> list[int | None]:
    return [None if size < 0 else size for size in case.shape]


class AddSub(tf.Module):
    def __init__(self, case: Case) -> None:
        super().__init__()
        spec = tf.TensorSpec(shape_of(case), TYPES[case.taken])

        def serve(INPUT0: Any, INPUT1: Any) -> dict[str, Any]:  # noqa: N803 - the signature's names
            return outputs(case, INPUT0, INPUT1)

        self.serve = tf.function(serve, input_signature=[spec, spec])


def write_savedmodel(model: pathlib.Path, case: Case) -> Run:
    module = AddSub(case)
    save(model, module, serving_default=module.serve)

    def run(first: Any, second: Any) -> tuple[Any, Any]:
        results = module.serve(*(tf.constant(each, TYPES[case.taken]) for each in (first, second)))
        return results["OUTPUT0"].numpy(), results["OUTPUT1"].numpy()

    return run


def write_graphdef(model: pathlib.Path, case: Case) -> Run:
    graph = tf.Graph()
    with graph.as_default():
        taken = [tf.compat.v1.placeholder(TYPES[case.taken], shape_of(case), name=f"INPUT{n}") for n in (0, 1)]  # fmt: skip
        for name, value in outputs(case, *taken).items():
            tf.identity(value, name=name)
    tf.io.write_graph(graph.as_graph_def(), str(model / "1"), "model.graphdef", as_text=False)

    def run(first: Any, second: Any) -> tuple[Any, Any]:
        with tf.compat.v1.Session(graph=graph) as session:
            feeds = {"INPUT0:0": first, "INPUT1:0": second}
            return tuple(session.run(["OUTPUT0:0", "OUTPUT1:0"], feeds))

    return run


WRITERS = {"tensorflow_savedmodel": write_savedmodel, "tensorflow_graphdef": write_graphdef}


def name_of(case: Case, platform: str) -> str:
    return f"{platform}_{case.name}"


class Served:
    """The server and, for each model, TensorFlow itself."""

    def __init__(self, server: ServerProcess, runs: dict[str, Run]) -> None:
        self.server = server
        self.runs = runs


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> collections.abc.Iterator[Served]:
    models = tmp_path_factory.mktemp("datatypes") / "models"
    runs = {}
    for platform, case in MODELS:
        name = name_of(case, platform)
        runs[name] = WRITERS[platform](models / name, case)
        add_sub.write_config(models / name, case, f'platform: "{platform}"')
    with add_sub.serving(models, "tensorflow") as server:
        yield Served(server, runs)


@pytest.mark.parametrize(("platform", "case"), MODELS, ids=lambda each: getattr(each, "name", each))  # fmt: skip
def test_the_server_answers_as_tensorflow_does(served: Served, case: Case, platform: str) -> None:
    name = name_of(case, platform)
    assert add_sub.differences(served.server, case, served.runs[name], name=name) == []

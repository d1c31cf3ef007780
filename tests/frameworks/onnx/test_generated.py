"""ONNX models with identities, reshapes, ragged batches, sequences and implicit states, served and compared with onnxruntime."""

import collections.abc
import pathlib
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from tests.frameworks import add_sub, generated
from tests.frameworks.generated import DYNAMIC, KINDS, Kind, Run
from tests.frameworks.onnx.test_datatypes import element
from tests.reference.process import ServerProcess

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def model_of(kind: Kind) -> Any:
    node = helper.make_node
    add, last = (
        [node("Add", ["INPUT", "START"], ["sum"])],
        node("Mul", ["sum", "READY"], ["OUTPUT"]),
    )
    at_end = [
        node("Cast", ["CORRID"], ["id"], to=TensorProto.FLOAT),
        node("Mul", ["END", "id"], ["end"]),
        node("Add", ["INPUT", "START"], ["begun"]),
        node("Add", ["begun", "end"], ["sum"]),
    ]
    nodes = {
        "identity": [node("Identity", ["INPUT"], ["OUTPUT"])],
        "reshape": [node("Reshape", ["INPUT", "to"], ["OUTPUT"])],
        "ragged": [node("Add", ["INPUT", "INPUT"], ["OUTPUT"])],
        "sequence": [*add, last],
        "dyna_sequence": [*at_end, last],
        "implicit": [
            node("Add", ["INPUT", "INPUT_STATE"], ["OUTPUT"]),
            node("Identity", ["OUTPUT"], ["OUTPUT_STATE"]),
        ],
        "dyna_implicit": [
            node("Sub", ["READY", "START"], ["goes_on"]),  # READY is 1 in every row that is there
            node("Mul", ["INPUT_STATE", "goes_on"], ["before"]),
            node("Add", ["INPUT", "before"], ["OUTPUT"]),
            node("Identity", ["OUTPUT"], ["OUTPUT_STATE"]),
        ],
        "growing": [
            node("Concat", ["INPUT_STATE", "INPUT"], ["OUTPUT"], axis=-1),
            node("Identity", ["OUTPUT"], ["OUTPUT_STATE"]),
        ],
    }[kind.name]

    def shape_of(name: str) -> list[str | int]:
        own = name if kind in generated.DYNAMIC else ""  # each has a size of its own there
        return [f"d{at}{own if at else ''}" if size < 0 else size for at, size in enumerate(kind.shape_of(name))]  # fmt: skip

    flat: list[str | int] = ["rows", 4]
    names = ["OUTPUT", "OUTPUT_STATE"] if kind.has_state else ["OUTPUT"]
    value = helper.make_tensor_value_info
    to = np.array([-1, 4][not kind.batched :], np.int64)
    graph = helper.make_graph(
        nodes,
        kind.name,
        [value(name, element(datatype), ["n"] if name == "INDEX" else shape_of(name)) for name, datatype in kind.inputs.items()],
        [value(name, element(kind.datatype), flat[not kind.batched :] if kind.name == "reshape" else shape_of(name)) for name in names],
        [onnx.numpy_helper.from_array(to, "to")] if kind.name == "reshape" else [],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> collections.abc.Iterator[ServerProcess]:
    models = tmp_path_factory.mktemp("generated") / "models"
    for kind in (*KINDS, *DYNAMIC):
        (models / kind.model / "1").mkdir(parents=True)
        onnx.save(model_of(kind), models / kind.model / "1" / "model.onnx")
        generated.write_config(models / kind.model, kind, 'platform: "onnxruntime_onnx"')
    with add_sub.serving(models, "onnxruntime") as server:
        yield server


def onnxruntime_itself(path: pathlib.Path) -> Run:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])

    def run(**feeds: Any) -> Any:
        text = feeds["INPUT"].dtype == np.object_
        if text:
            feeds["INPUT"] = feeds["INPUT"].astype("U").astype(np.object_)
        (result,) = session.run(["OUTPUT"], feeds)
        return result.astype("S").astype(np.object_) if text else result

    return run


@pytest.mark.parametrize("kind", [*KINDS, *DYNAMIC], ids=lambda kind: kind.model)
def test_the_server_answers_as_onnxruntime_does(server: ServerProcess, kind: Kind) -> None:
    path = server.log.parent / "models" / kind.model / "1" / "model.onnx"
    assert generated.differences(server, kind, onnxruntime_itself(path)) == []


def test_ragged_requests_of_one_batch_get_their_own_values(server: ServerProcess) -> None:
    kind = Kind("ragged")
    path = server.log.parent / "models" / kind.model / "1" / "model.onnx"
    assert generated.merged_differences(server, kind, onnxruntime_itself(path)) == []


def test_the_check_finds_nothing_wrong_with_what_is_served(server: ServerProcess) -> None:
    assert generated.check_problems(server.log.parent / "models", [*KINDS, *DYNAMIC]) == {}

"""OpenVINO models with identities, reshapes, ragged batches, sequences and implicit states, served and compared with OpenVINO."""

import collections.abc
import pathlib
from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset13 as ops

from tests.frameworks import add_sub, generated
from tests.frameworks.generated import KINDS, Kind, Run
from tests.frameworks.openvino.test_datatypes import TYPES
from tests.reference.process import ServerProcess

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SERVED = [kind for kind in KINDS if kind.datatype != "BYTES"]


def results(kind: Kind, given: dict[str, Any]) -> dict[str, Any]:
    """The model's outputs."""
    taken = given["INPUT"]
    if kind.name == "identity":
        return {"OUTPUT": ops.add(taken, ops.constant(0, TYPES[kind.datatype]))}
    if kind.name == "reshape":
        to = ops.constant([-1, 4] if kind.batched else [4], openvino.Type.i64)
        return {"OUTPUT": ops.reshape(taken, to, special_zero=False)}
    if kind.name == "ragged":
        nothing = ops.multiply(ops.reduce_sum(given["INDEX"], 0, keep_dims=True), np.float32(0))
        return {"OUTPUT": ops.add(ops.add(taken, taken), nothing)}
    if kind.name == "implicit":
        total = ops.add(taken, given["INPUT_STATE"])
        return {"OUTPUT": total, "OUTPUT_STATE": ops.add(total, np.float32(0))}
    total = ops.add(taken, given["START"])
    if kind.name == "dyna_sequence":
        total = ops.add(total, ops.multiply(given["END"], ops.convert(given["CORRID"], "f32")))
    return {"OUTPUT": ops.multiply(total, given["READY"])}


def write(model: pathlib.Path, kind: Kind) -> None:
    given = {
        name: ops.parameter([-1] if name == "INDEX" else kind.shape, TYPES[datatype], name=name)
        for name, datatype in kind.inputs.items()
    }
    for name, node in given.items():
        node.output(0).set_names({name})
    found = []
    for name, node in results(kind, given).items():
        node.output(0).set_names({name})
        found.append(ops.result(node))
    (model / "1").mkdir(parents=True)
    whole = openvino.Model(found, list(given.values()), kind.model)
    openvino.save_model(whole, str(model / "1" / "model.xml"), compress_to_fp16=False)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> collections.abc.Iterator[ServerProcess]:
    models = tmp_path_factory.mktemp("generated") / "models"
    for kind in SERVED:
        write(models / kind.model, kind)
        generated.write_config(models / kind.model, kind, 'backend: "openvino"')
    with add_sub.serving(models, "openvino") as server:
        yield server


def openvino_itself(path: pathlib.Path) -> Run:
    compiled = openvino.Core().compile_model(str(path), "CPU")
    return lambda **feeds: np.array(compiled(feeds)["OUTPUT"])


@pytest.mark.parametrize("kind", SERVED, ids=lambda kind: kind.model)
def test_the_server_answers_as_openvino_does(server: ServerProcess, kind: Kind) -> None:
    path = server.log.parent / "models" / kind.model / "1" / "model.xml"
    assert generated.differences(server, kind, openvino_itself(path)) == []


def test_ragged_requests_of_one_batch_get_their_own_values(server: ServerProcess) -> None:
    kind = Kind("ragged")
    path = server.log.parent / "models" / kind.model / "1" / "model.xml"
    assert generated.merged_differences(server, kind, openvino_itself(path)) == []


def test_the_check_finds_nothing_wrong_with_what_is_served(server: ServerProcess) -> None:
    assert generated.check_problems(server.log.parent / "models", SERVED) == {}

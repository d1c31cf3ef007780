"""OpenVINO models of every datatype, with and without batches, served and compared with OpenVINO."""

import collections.abc
import pathlib
from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset13 as ops

from tests.frameworks import add_sub
from tests.frameworks.add_sub import Case, Run
from tests.reference.process import ServerProcess

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

TYPES = {
    "INT8": openvino.Type.i8, "INT16": openvino.Type.i16, "INT32": openvino.Type.i32, "INT64": openvino.Type.i64, "UINT8": openvino.Type.u8,
    "UINT16": openvino.Type.u16, "UINT32": openvino.Type.u32, "UINT64": openvino.Type.u64, "FP16": openvino.Type.f16,
    "FP32": openvino.Type.f32, "FP64": openvino.Type.f64,
}  # fmt: skip

CASES = add_sub.cases(TYPES, *add_sub.MIXED)


def write(model: pathlib.Path, case: Case) -> None:
    """Write the model, as Triton's tests have it: add, subtract, convert."""
    taken = [ops.parameter(case.shape, TYPES[case.taken], name=f"INPUT{n}") for n in (0, 1)]
    for number, each in enumerate(taken):
        each.output(0).set_names({f"INPUT{number}"})
    given = []
    for number, (node, datatype) in enumerate(((ops.add(*taken), case.first), (ops.subtract(*taken), case.second))):  # fmt: skip
        output = ops.convert(node, TYPES[datatype].get_type_name())
        output.output(0).set_names({f"OUTPUT{number}"})
        given.append(ops.result(output))
    (model / "1").mkdir(parents=True)
    openvino.save_model(openvino.Model(given, taken, case.name), str(model / "1" / "model.xml"), compress_to_fp16=False)  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> collections.abc.Iterator[ServerProcess]:
    models = tmp_path_factory.mktemp("datatypes") / "models"
    for case in CASES:
        write(models / case.name, case)
        add_sub.write_config(models / case.name, case, 'backend: "openvino"')
    with add_sub.serving(models, "openvino") as server:
        yield server


def openvino_itself(path: pathlib.Path) -> Run:
    compiled = openvino.Core().compile_model(str(path), "CPU")

    def run(first: Any, second: Any) -> tuple[Any, Any]:
        results = compiled({"INPUT0": first, "INPUT1": second})
        return np.array(results["OUTPUT0"]), np.array(results["OUTPUT1"])

    return run


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_server_answers_as_openvino_does(server: ServerProcess, case: Case) -> None:
    path = server.log.parent / "models" / case.name / "1" / "model.xml"
    assert add_sub.differences(server, case, openvino_itself(path)) == []

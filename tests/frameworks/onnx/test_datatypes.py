"""ONNX models of every datatype, with and without batches, served and compared with onnxruntime."""

import collections.abc
import pathlib
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from tests.frameworks import add_sub
from tests.frameworks.add_sub import Case, Run
from tests.reference.process import ServerProcess

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

TYPES = {
    "FP16": TensorProto.FLOAT16, "BF16": TensorProto.BFLOAT16, "FP32": TensorProto.FLOAT, "FP64": TensorProto.DOUBLE, "BYTES": TensorProto.STRING,
}  # fmt: skip
"""Integers have the same names."""

_NOT_ADDED = ("INT8", "INT16", "UINT8", "UINT16", "UINT32", "UINT64", "BYTES", "BF16")
"""onnxruntime adds none of these on a CPU: the model casts them first, as Triton's own do."""

CASES = add_sub.cases(add_sub.NUMBERS, *add_sub.MIXED, *add_sub.STRINGS)


def element(datatype: str) -> int:
    """The number of a datatype in ONNX."""
    return TYPES.get(datatype) or int(TensorProto.DataType.Value(datatype))


def model_of(case: Case) -> Any:
    shape = ["rows" if size < 0 else size for size in case.shape]

    def tensor(name: str, datatype: str) -> Any:
        return helper.make_tensor_value_info(name, element(datatype), shape)

    wide = {"UINT64": TensorProto.INT64, "UINT32": TensorProto.INT64, "BF16": TensorProto.FLOAT}
    node = helper.make_node
    if case.taken in _NOT_ADDED:
        to = wide.get(case.taken, TensorProto.INT32)
        read = [node("Cast", [f"INPUT{n}"], [f"in{n}"], to=to) for n in (0, 1)]
    else:
        read = [node("Identity", [f"INPUT{n}"], [f"in{n}"]) for n in (0, 1)]
    worked = [node("Add", ["in0", "in1"], ["sum"]), node("Sub", ["in0", "in1"], ["difference"])]
    cast = [
        node("Cast", ["sum"], ["OUTPUT0"], to=element(case.first)),
        node("Cast", ["difference"], ["OUTPUT1"], to=element(case.second)),
    ]
    graph = helper.make_graph(
        [*read, *worked, *cast],
        case.name,
        [tensor("INPUT0", case.taken), tensor("INPUT1", case.taken)],
        [tensor("OUTPUT0", case.first), tensor("OUTPUT1", case.second)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> collections.abc.Iterator[ServerProcess]:
    models = tmp_path_factory.mktemp("datatypes") / "models"
    for case in CASES:
        (models / case.name / "1").mkdir(parents=True)
        onnx.save(model_of(case), models / case.name / "1" / "model.onnx")
        add_sub.write_config(models / case.name, case, 'platform: "onnxruntime_onnx"')
    with add_sub.serving(models, "onnxruntime") as server:
        yield server


def onnxruntime_itself(case: Case, path: pathlib.Path) -> Run:
    """Python gets no BF16 from onnxruntime: that sum is numpy's."""
    if case.taken == "BF16":
        return lambda first, second: (first + second, first - second)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])

    def run(first: Any, second: Any) -> tuple[Any, Any]:
        if case.taken == "BYTES":
            first, second = (each.astype("U").astype(np.object_) for each in (first, second))
        results = session.run(None, {"INPUT0": first, "INPUT1": second})
        return tuple(each.astype("S").astype(np.object_) if each.dtype == np.object_ else each for each in results)  # fmt: skip

    return run


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_server_answers_as_onnxruntime_does(server: ServerProcess, case: Case) -> None:
    path = server.log.parent / "models" / case.name / "1" / "model.onnx"
    assert add_sub.differences(server, case, onnxruntime_itself(case, path)) == []

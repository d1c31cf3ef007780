"""OpenVINO models through the backend and a server, against the function that they compute."""

import pathlib
from typing import Any

import numpy as np
import openvino
import pytest
import tritonclient.grpc
import tritonclient.http
from openvino import opset13 as ops

from naiad.backends.backend import ModelSource
from naiad.backends.catalog import Catalog
from naiad.backends.instance import InstanceSpec
from naiad.backends.openvino.backend import OpenvinoBackend
from naiad.config.model_config import InstanceKind
from naiad.config.resolving.resolve import resolve
from naiad.core import datatypes
from naiad.core.clock import ManualClock
from naiad.core.tensor import Tensor
from naiad.errors import InferenceError
from tests.reference.process import ServerProcess, naiad_program
from tests.server.backends.configs import Instance, Loaded, inference, run, tensor, values
from tests.server.backends.graphs import write_add

FP32 = datatypes.FP32
SPEC = InstanceSpec(name="m_0_0", kind=InstanceKind.CPU, device_id=0)


def double(model: pathlib.Path, shape: list[int], dtype: Any = np.float32) -> pathlib.Path:
    """Y = 2 x, in `<model>/1/model.xml`; gives back `model`."""
    x = ops.parameter(shape, dtype, name="x")
    x.output(0).set_names({"x"})
    y = ops.add(x, x) if dtype is not np.bool_ else ops.logical_and(x, x)
    y.output(0).set_names({"y"})
    (model / "1").mkdir(parents=True, exist_ok=True)
    openvino.save_model(
        openvino.Model([ops.result(y)], [x], "m"),
        str(model / "1" / "model.xml"),
        compress_to_fp16=False,
    )
    return model


def load(model: pathlib.Path, text: str = "") -> Loaded:
    """Load version 1."""
    if text:
        (model / "config.pbtxt").write_text(text)
    resolution = resolve(model, backends=Catalog())
    assert resolution.config is not None, resolution.problems
    source = ModelSource(config=resolution.config, version=1, model_dir=model, options={})
    return Loaded(OpenvinoBackend(clock=ManualClock()).load(source), resolution.config)


def instance_of(model: pathlib.Path, text: str = "") -> Instance:
    """An instance on the CPU."""
    return load(model, text).make_instance(SPEC)


def parameter(key: str, value: str) -> str:
    return f' parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}'


@pytest.mark.parametrize("rows", [-1, 1], ids=["any number of rows", "one row"])
def test_a_batch_is_split_into_its_requests(tmp_path: pathlib.Path, rows: int) -> None:
    instance = instance_of(double(tmp_path / "m", [rows, 2]), "max_batch_size: 8")
    memory = np.array([[1, 2]], np.float32)
    memory.setflags(write=False)
    one, two = run(
        instance,
        inference(Tensor("x", FP32, (1, 2), memory)),
        inference(tensor("x", [[3, 4], [5, 6]], FP32)),
    )
    assert values(one) == {"y": [[2.0, 4.0]]}
    assert values(two) == {"y": [[6.0, 8.0], [10.0, 12.0]]}
    (lone,) = run(instance, inference(Tensor("x", FP32, (1, 2), memory)))
    run(instance, inference(tensor("x", [[9, 9]], FP32)))
    assert values(lone) == {"y": [[2.0, 4.0]]}, "a later run does not write into an answer"


@pytest.mark.parametrize(
    "name",
    [
        "BOOL",
        "UINT8",
        "UINT16",
        "UINT32",
        "UINT64",
        "INT8",
        "INT16",
        "INT32",
        "INT64",
        "FP16",
        "FP32",
        "FP64",
    ],
)
def test_every_datatype_goes_through(tmp_path: pathlib.Path, name: str) -> None:
    datatype = datatypes.BY_NAME[name]
    instance = instance_of(
        double(tmp_path / "m", [-1, 2], datatype.dtype.type), "max_batch_size: 4"
    )
    given = Tensor("x", datatype, (1, 2), np.array([[0, 1]]).astype(datatype.dtype))
    (output,) = run(instance, inference(given))[0].outputs
    expected = given.array if name == "BOOL" else given.array + given.array
    assert output.datatype is datatype
    assert output.array.tolist() == expected.tolist()


def test_a_model_computes_in_its_own_datatype_and_answers_in_the_configs(
    tmp_path: pathlib.Path,
) -> None:
    text = 'input { name: "x" data_type: TYPE_INT32 dims: [ -1, 2 ] } output { name: "y" data_type: TYPE_FP64 dims: [ -1, 2 ] }'
    instance = instance_of(double(tmp_path / "m", [-1, 2]), text)
    assert values(run(instance, inference(tensor("x", [[1, 2]], datatypes.INT32), rows=1))[0]) == {
        "y": [[2.0, 4.0]]
    }


def test_an_onnx_file_is_run(tmp_path: pathlib.Path) -> None:
    text = 'backend: "openvino" default_model_filename: "model.onnx" max_batch_size: 4'
    instance = instance_of(write_add(tmp_path / "m"), text)
    request = inference(tensor("A", [[1, 2]], FP32), tensor("B", [[3, 4]], FP32), outputs=["SUM"])
    assert values(run(instance, request)[0]) == {"SUM": [[4.0, 6.0]]}


def test_dims_of_the_config_take_the_place_of_the_models(tmp_path: pathlib.Path) -> None:
    text = 'input { name: "x" data_type: TYPE_FP32 dims: [ 1, 3 ] } output { name: "y" data_type: TYPE_FP32 dims: [ 1, 3 ] }'
    instance = instance_of(
        double(tmp_path / "m", [1, 2]), text + parameter("RESHAPE_IO_LAYERS", "yes")
    )
    assert values(run(instance, inference(tensor("x", [[1, 2, 3]], FP32), rows=1))[0]) == {
        "y": [[2.0, 4.0, 6.0]]
    }


def test_a_model_with_one_number_of_rows_fills_smaller_batches_only_if_asked_to(
    tmp_path: pathlib.Path,
) -> None:
    model = double(tmp_path / "m", [1, 2])
    text = "max_batch_size: 4" + parameter("SKIP_OV_DYNAMIC_BATCHSIZE", "yes")
    request = inference(tensor("x", [[1, 2]], FP32))
    with pytest.raises(
        InferenceError,
        match=r"expected requests with batch size '4', got '1'\.\.\. this error can be avoided",
    ):
        run(instance_of(model, text), request)
    assert values(
        run(instance_of(model, text + parameter("ENABLE_BATCH_PADDING", "yes")), request)[0]
    ) == {"y": [[2.0, 4.0]]}


def test_instances_share_the_compiled_model(tmp_path: pathlib.Path) -> None:
    loaded = load(
        double(tmp_path / "m", [-1, 2]),
        "max_batch_size: 4" + parameter("INFERENCE_NUM_THREADS", "1"),
    )
    one, two = loaded.make_instance(SPEC), loaded.make_instance(SPEC)
    assert one.instance._request is not two.instance._request  # type: ignore[attr-defined]
    assert [
        values(run(each, inference(tensor("x", [[1, 2]], FP32)))[0]) for each in (one, two)
    ] == [{"y": [[2.0, 4.0]]}] * 2


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        (parameter("TARGET_DEVICE", "NPU9"), "TARGET_DEVICE 'NPU9' is not there: OpenVINO has CPU"),
        (parameter("CPU_EXTENSION_PATH", "/nonesuch.so"), "CPU_EXTENSION_PATH '/nonesuch.so'"),
    ],
)
def test_what_openvino_refuses_is_said_at_the_load(
    tmp_path: pathlib.Path, parameters: str, said: str
) -> None:
    with pytest.raises(InferenceError) as caught:
        instance_of(double(tmp_path / "m", [-1, 2]), "max_batch_size: 4" + parameters)
    assert said in caught.value.message


def test_weights_that_are_cut_off_are_refused_before_openvino_reads_them(
    tmp_path: pathlib.Path,
) -> None:
    model = double(tmp_path / "m", [-1, 2])
    x = ops.parameter([-1, 2], np.float32, name="x")
    x.output(0).set_names({"x"})
    y = ops.add(x, ops.constant(np.ones((1, 2), np.float32)))
    y.output(0).set_names({"y"})
    openvino.save_model(
        openvino.Model([ops.result(y)], [x], "m"),
        str(model / "1" / "model.xml"),
        compress_to_fp16=False,
    )
    (model / "1" / "model.bin").write_bytes(b"")
    resolution = resolve(model, backends=Catalog())
    assert resolution.config is None
    assert [problem.message.replace(str(model), "m") for problem in resolution.problems] == [
        "unable to load model 'm': 'm/1/model.bin' has 0 bytes, and 'model.xml' takes values from 8: copy both files again"
    ]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_server_answers_over_both_protocols(tmp_path: pathlib.Path) -> None:
    double(tmp_path / "models" / "double", [1, 2])
    (tmp_path / "models" / "double" / "config.pbtxt").write_text("max_batch_size: 8")
    with ServerProcess(naiad_program(), [tmp_path / "models"], log=tmp_path / "log") as server:
        for module, address in ((tritonclient.http, server.http), (tritonclient.grpc, server.grpc)):
            with module.InferenceServerClient(address) as client:
                sent = module.InferInput("x", [2, 2], "FP32")
                sent.set_data_from_numpy(np.array([[1, 2], [3, 4]], np.float32))
                assert client.infer("double", [sent]).as_numpy("y").tolist() == [
                    [2.0, 4.0],
                    [6.0, 8.0],
                ]

"""A server with PyTorch models in worker processes, through tritonclient."""

import collections.abc
import json
import re
from typing import Any, Tuple  # noqa: UP035 - TorchScript knows it

import numpy as np
import psutil
import pytest
import torch
import tritonclient.grpc
import tritonclient.http
from tritonclient.utils import InferenceServerException

from tests.frameworks.pytorch.models import export, save
from tests.frameworks.pytorch.test_exported import ROWS, Double
from tests.frameworks.pytorch.test_nn_module import CODE
from tests.frameworks.pytorch.test_torchscript import Linear, Raises
from tests.reference.process import ServerProcess, naiad_program
from tests.wire.plain_http import get

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

CONFIGS = {
    "linear": """
        platform: "pytorch_libtorch" max_batch_size: 8 dynamic_batching { max_queue_delay_microseconds: 1000 }
        input { name: "x" data_type: TYPE_FP32 dims: [ 4 ] } output { name: "OUT__0" data_type: TYPE_FP32 dims: [ 3 ] }
        instance_group { count: 2 kind: KIND_CPU }
    """,
    "double": """
        max_batch_size: 8
        input { name: "INPUT__0" data_type: TYPE_FP32 dims: [ 2 ] } output { name: "RESULT" data_type: TYPE_FP32 dims: [ 2 ] }
    """,
    "code": """
        backend: "pytorch" runtime: "model.py" max_batch_size: 8
        input [ { name: "A" data_type: TYPE_FP32 dims: [ 1 ] }, { name: "B" data_type: TYPE_FP32 dims: [ 1 ] } ]
        output [ { name: "SUM" data_type: TYPE_FP32 dims: [ 1 ] }, { name: "DIFFERENCE" data_type: TYPE_FP32 dims: [ 1 ] } ]
        parameters { key: "TORCH_COMPILE_OPTIONAL_PARAMETERS" value { string_value: "{\\"disable\\": true}" } }
    """,
    "sums": """
        max_batch_size: 4
        input { name: "x__0" data_type: TYPE_FP32 dims: [ 1 ] } output { name: "y__0" data_type: TYPE_FP32 dims: [ 1 ] }
        sequence_batching {
            control_input { name: "start__2" control { kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ] } }
            state { input_name: "sum__1" output_name: "sum__1" data_type: TYPE_FP32 dims: [ 1 ] }
        }
    """,
    "raises": """
        max_batch_size: 8
        input { name: "x" data_type: TYPE_FP32 dims: [ 1 ] } output { name: "y" data_type: TYPE_FP32 dims: [ 1 ] }
    """,
}


class Sums(torch.nn.Module):
    """Adds up the values of a sequence: its state is the sum so far."""

    def forward(
        self, x: torch.Tensor, total: torch.Tensor, start: torch.Tensor
    ) -> Tuple[torch.Tensor, torch.Tensor]:  # noqa: UP006
        total = x + total * (1 - start)
        return total * 10, total


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> collections.abc.Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("pytorch")
    models = folder / "models"
    save(models / "linear", Linear())
    save(models / "raises", Raises())
    save(models / "sums", Sums())
    export(models / "double", Double(), (torch.ones(2, 2),), dynamic_shapes={"x": {0: ROWS}})
    (models / "code" / "1").mkdir(parents=True)
    (models / "code" / "1" / "model.py").write_text(CODE)
    for name, config in CONFIGS.items():
        (models / name / "config.pbtxt").write_text(config)
    with ServerProcess(naiad_program(), [models], log=folder / "log") as running:
        yield running


def infer(server: ServerProcess, module: Any, model: str, **inputs: Any) -> Any:
    address = server.http if module is tritonclient.http else server.grpc
    with module.InferenceServerClient(address) as client:
        sent = []
        for name, values in inputs.items():
            array = np.array(values, np.float32)
            tensor = module.InferInput(name, list(array.shape), "FP32")
            tensor.set_data_from_numpy(array)
            sent.append(tensor)
        return client.infer(model, sent)


@pytest.mark.parametrize("module", [tritonclient.http, tritonclient.grpc], ids=["HTTP", "gRPC"])
def test_every_kind_of_model_answers(server: ServerProcess, module: Any) -> None:
    x = np.ones((2, 4), np.float32)
    with torch.no_grad():
        expected = Linear()(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(
        infer(server, module, "linear", x=x).as_numpy("OUT__0"), expected, rtol=1e-6
    )
    assert infer(server, module, "double", INPUT__0=[[1, 2]]).as_numpy("RESULT").tolist() == [
        [2.0, 4.0]
    ]
    assert infer(server, module, "code", A=[[4]], B=[[1]]).as_numpy("SUM").tolist() == [[5.0]]


@pytest.mark.parametrize("module", [tritonclient.http, tritonclient.grpc], ids=["HTTP", "gRPC"])
def test_a_failure_is_the_request_s_alone(server: ServerProcess, module: Any) -> None:
    with pytest.raises(InferenceServerException, match="only positive values"):
        infer(server, module, "raises", x=[[-1]])
    assert infer(server, module, "raises", x=[[1]]).as_numpy("y").tolist() == [[1.0]]


def test_a_sequence_keeps_implicit_state(server: ServerProcess) -> None:
    said: list[float] = []
    with tritonclient.grpc.InferenceServerClient(server.grpc) as client:
        for step, sequence in ((0, 7), (0, 8), (1, 7), (2, 7), (1, 8)):
            tensor = tritonclient.grpc.InferInput("x__0", [1, 1], "FP32")
            tensor.set_data_from_numpy(np.array([[step + sequence]], np.float32))
            reply = client.infer("sums", [tensor], sequence_id=sequence, sequence_start=step == 0)
            said.append(float(reply.as_numpy("y__0")[0, 0]))
    assert said == [70.0, 80.0, 150.0, 240.0, 170.0]


def test_the_server_itself_has_no_torch_and_two_instances_share_a_process(
    server: ServerProcess,
) -> None:
    assert server.process is not None
    process = psutil.Process(server.process.pid)
    assert not [each.path for each in process.memory_maps() if "libtorch" in each.path]
    with_torch = [
        child
        for child in process.children(recursive=True)
        if any("libtorch" in each.path for each in child.memory_maps())
    ]
    assert len(with_torch) == len(CONFIGS), (
        "one process for each model, also for one of two instances"
    )


def test_the_config_is_the_one_that_the_reference_shows(server: ServerProcess) -> None:
    configs = {
        name: json.loads(get(server.http, f"/v2/models/{name}/config")[1]) for name in CONFIGS
    }
    shown = {
        name: (each["platform"], each["backend"], each["default_model_filename"], each["runtime"])
        for name, each in configs.items()
    }
    assert shown == {
        "linear": ("pytorch_libtorch", "pytorch", "model.pt", ""),
        "double": ("torch_aoti", "pytorch", "model.pt2", ""),
        "code": ("pytorch_libtorch", "pytorch", "", "model.py"),
        "sums": ("pytorch_libtorch", "pytorch", "model.pt", ""),
        "raises": ("pytorch_libtorch", "pytorch", "model.pt", ""),
    }


def test_the_log_has_no_warnings_of_torch(server: ServerProcess) -> None:
    assert not re.findall(r".*(?:FutureWarning|UserWarning).*", server.output())

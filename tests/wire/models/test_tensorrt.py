"""TensorRT plans over HTTP and gRPC, in worker processes: on a made-up GPU with a made-up TensorRT."""

import collections.abc
import concurrent.futures
import dataclasses
import json
import os
import pathlib
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient

from tests.reference.process import ServerProcess, naiad_program
from tests.support import made_up_gpu, sliced_gpu
from tests.support.made_up_gpu import plans
from tests.wire.plain_http import call

pytestmark = pytest.mark.slow  # a server and worker processes

GPU = "instance_group { kind: KIND_GPU count: 2 }\n"
SHAPES = """max_batch_size: 8
dynamic_batching { max_queue_delay_microseconds: 300000 preferred_batch_size: 4 }
instance_group { kind: KIND_GPU }
"""


def program(tmp_path: pathlib.Path) -> Any:
    """The server with one GPU that is made up, and TensorRT."""
    driver = made_up_gpu.install(tmp_path / "driver")
    (driver / sliced_gpu.MODULE.name).symlink_to(sliced_gpu.MODULE)
    maps = pathlib.Path("/proc/self/maps").read_text()
    library = next(line.split()[-1] for line in maps.splitlines() if "/libc.so" in line)
    (driver / sliced_gpu.DRIVER).symlink_to(library)
    naiad = naiad_program()
    environ = dict(naiad.environ)
    environ.pop("TRITON_SERVER_CPU_ONLY", None)
    environ.pop("CUDA_VISIBLE_DEVICES", None)
    environ["PYTHONPATH"] = os.pathsep.join((str(driver), environ["PYTHONPATH"]))
    environ["LD_LIBRARY_PATH"] = str(driver)
    environ["NVIDIA_VISIBLE_DEVICES"] = "MIG-aaaaaaaa-0000-0000-0000-000000000000"
    return dataclasses.replace(naiad, environ=environ)


def write(models: pathlib.Path, name: str, plan: bytes, config: str | None) -> None:
    (models / name / "1").mkdir(parents=True)
    (models / name / "1" / "model.plan").write_bytes(plan)
    if config is not None:
        (models / name / "config.pbtxt").write_text(config)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> collections.abc.Iterator[ServerProcess]:
    tmp_path = tmp_path_factory.mktemp("tensorrt")
    models = tmp_path / "models"
    write(models, "completed", plans.doubling(), None)
    write(models, "two", plans.doubling(), GPU)
    write(models, "shapes", plans.shape_tensors(), SHAPES)
    write(models, "older", plans.plan([], [], version=(10, 3, 0, 26)), None)
    write(models, "elsewhere", plans.plan([], [], capability=(7, 5)), None)
    write(models, "text", b"# not a plan", None)
    options = ["--exit-on-error=false", "--strict-readiness=false"]
    with ServerProcess(
        program(tmp_path), [models], options=options, log=tmp_path / "log"
    ) as started:
        yield started


def test_a_plan_completes_its_config(server: ServerProcess) -> None:
    with httpclient.InferenceServerClient(server.http) as client:
        config = client.get_model_config("completed")
    assert (config["max_batch_size"], config["platform"], config["backend"]) == (
        8,
        "tensorrt_plan",
        "tensorrt",
    )
    assert [
        (each["name"], each["data_type"], each["dims"])
        for each in config["input"] + config["output"]
    ] == [
        ("X", "TYPE_FP32", [4]),
        ("Y", "TYPE_FP32", [4]),
    ]
    assert "dynamic_batching" in config


@pytest.mark.parametrize("client", [httpclient, grpcclient])
@pytest.mark.parametrize("model", ["completed", "two"])
def test_a_plan_serves(server: ServerProcess, client: Any, model: str) -> None:
    given = np.arange(12, dtype=np.float32).reshape(3, 4)
    address = server.http if client is httpclient else server.grpc
    with client.InferenceServerClient(address) as connection:
        tensor = client.InferInput("X", [3, 4], "FP32")
        tensor.set_data_from_numpy(given)
        for _ in range(3):
            answer = connection.infer(model, [tensor])
            assert answer.as_numpy("Y").tolist() == (given * 2).tolist()


def test_requests_with_equal_shape_tensors_share_a_batch(server: ServerProcess) -> None:
    def ask(count: int) -> Any:
        with grpcclient.InferenceServerClient(server.grpc) as client:
            rows = grpcclient.InferInput("D", [count, 2], "FP32")
            rows.set_data_from_numpy(np.ones((count, 2), np.float32))
            said = grpcclient.InferInput("S", [2], "INT32")
            said.set_data_from_numpy(np.array([4, 6], np.int32))
            return client.infer("shapes", [rows, said])

    with concurrent.futures.ThreadPoolExecutor(3) as clients:
        answers = list(clients.map(ask, (1, 2, 1)))
    assert [answer.as_numpy("Y").shape for answer in answers] == [(1, 4, 6), (2, 4, 6), (1, 4, 6)]
    assert [answer.as_numpy("T").tolist() for answer in answers] == [
        [[4, 6]],
        [[4, 6]] * 2,
        [[4, 6]],
    ]
    assert {float(answer.as_numpy("Y")[0, 0, 0]) for answer in answers} == {4.0}


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ("older", "the plan was built by TensorRT 10.3.0.26, and TensorRT 11.4.0.106 is installed"),
        ("elsewhere", "generated on an incompatible device, expecting compute 9.0 got compute 7.5"),
        ("text", "is not a TensorRT plan"),
    ],
)
def test_a_plan_that_does_not_fit_says_why(server: ServerProcess, model: str, reason: str) -> None:
    status, reply = call(server.http, "POST", "/v2/repository/index")
    assert status == 200
    found = {each["name"]: each.get("reason", "") for each in json.loads(reply)}
    assert reason in found[model]

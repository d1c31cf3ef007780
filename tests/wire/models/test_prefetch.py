"""An ONNX model whose only instance gets the next request while it executes one: every client gets its own response, whatever happens to the worker."""

import concurrent.futures
import os
import pathlib
import signal

import numpy as np
import onnx
import pytest
import tritonclient.http
from onnx import TensorProto, helper
from tritonclient.utils import InferenceServerException

from tests.reference.process import ServerProcess
from tests.support.waiting import wait_until
from tests.wire.models.worker_models import launched, worker_of
from tests.wire.plain_http import get

CONFIG = """\
backend: "onnxruntime"
max_batch_size: 4
input { name: "x" data_type: TYPE_FP32 dims: -1 }
output { name: "y" data_type: TYPE_FP32 dims: -1 }
instance_group { kind: KIND_CPU count: 1 }
parameters { key: "naiad.host" value { string_value: "HOST" } }
"""
CLIENTS = 12
REQUESTS = 25


def served(folder: pathlib.Path, host: str) -> ServerProcess:
    """A server with `double`, x + x."""
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "x"], ["y"])],
        "double",
        [value("x", TensorProto.FLOAT, ["N", "M"])],
        [value("y", TensorProto.FLOAT, ["N", "M"])],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    version = folder / "models" / "double" / "1"
    version.mkdir(parents=True)
    onnx.save(made, version / "model.onnx")
    (version.parent / "config.pbtxt").write_text(CONFIG.replace("HOST", host))
    return launched(folder / "models", folder)


def ask_again_and_again(
    server: ServerProcess, client: int, answered: list[int]
) -> list[InferenceServerException]:
    """Requests of one client, small and large in turn; counts them in `answered`, and returns the errors of those that failed."""
    failed: list[InferenceServerException] = []
    with tritonclient.http.InferenceServerClient(server.http, network_timeout=120) as http:
        for number in range(REQUESTS):
            values = np.full(
                (1, 4 if number % 2 else 40_000), client * REQUESTS + number, np.float32
            )
            x = tritonclient.http.InferInput("x", list(values.shape), "FP32")
            x.set_data_from_numpy(values)
            try:
                np.testing.assert_array_equal(http.infer("double", [x]).as_numpy("y"), values * 2)
            except InferenceServerException as error:
                failed.append(error)
            answered.append(client)
    return failed


def pending(server: ServerProcess) -> int:
    for line in get(server.metrics, "/metrics")[1].decode().splitlines():
        if line.startswith("nv_inference_pending_request_count{"):
            return int(line.rpartition(" ")[2])
    raise AssertionError("no such metric")


@pytest.mark.parametrize("host", ["process", "thread"])
def test_every_client_gets_its_own_response(tmp_path: pathlib.Path, host: str) -> None:
    with (
        served(tmp_path, host) as server,
        concurrent.futures.ThreadPoolExecutor(CLIENTS) as clients,
    ):
        failed = clients.map(lambda client: ask_again_and_again(server, client, []), range(CLIENTS))
        assert [*failed] == [[]] * CLIENTS
        assert pending(server) == 0


def test_the_death_of_the_worker_fails_what_it_had_and_nothing_else(tmp_path: pathlib.Path) -> None:
    with (
        served(tmp_path, "process") as server,
        concurrent.futures.ThreadPoolExecutor(CLIENTS) as clients,
    ):
        answered: list[int] = []
        asking = [
            clients.submit(ask_again_and_again, server, client, answered)
            for client in range(CLIENTS)
        ]
        wait_until(lambda: len(answered) > CLIENTS)
        os.kill(worker_of(server, "double"), signal.SIGKILL)
        failed = [error for each in asking for error in each.result(timeout=60)]
        assert {error.status() for error in failed} <= {"503"}
        wait_until(lambda: get(server.http, "/v2/models/double/ready")[0] == 200)
        assert ask_again_and_again(server, 0, []) == []
        assert pending(server) == 0

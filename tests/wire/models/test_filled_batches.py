"""An ONNX model whose batches are filled up to a size: clients see their own rows, and the metrics what was added."""

import concurrent.futures
import pathlib

import numpy as np
import onnx
import pytest
import tritonclient.http
from onnx import TensorProto, helper

from tests.reference.process import ServerProcess
from tests.wire.models.worker_models import launched
from tests.wire.plain_http import get

CONFIG = """\
backend: "onnxruntime"
max_batch_size: 8
input { name: "x" data_type: TYPE_FP32 dims: 3 }
output { name: "y" data_type: TYPE_FP32 dims: 3 }
dynamic_batching { max_queue_delay_microseconds: 2000 }
instance_group { kind: KIND_CPU count: 1 }
parameters { key: "naiad.host" value { string_value: "HOST" } }
parameters { key: "naiad.fill_batches" value { string_value: "8" } }
"""
CLIENTS = 6
REQUESTS = 20


def served(folder: pathlib.Path, host: str) -> ServerProcess:
    """A server with `double`, x + x, whose batches all have 8 rows."""
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "x"], ["y"])],
        "double",
        [value("x", TensorProto.FLOAT, ["N", 3])],
        [value("y", TensorProto.FLOAT, ["N", 3])],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    version = folder / "models" / "double" / "1"
    version.mkdir(parents=True)
    onnx.save(made, version / "model.onnx")
    (version.parent / "config.pbtxt").write_text(CONFIG.replace("HOST", host))
    return launched(folder / "models", folder)


def ask(server: ServerProcess, client: int) -> int:
    """Requests of one client, of one to three rows; the number of these."""
    sent = 0
    with tritonclient.http.InferenceServerClient(server.http, network_timeout=120) as http:
        for number in range(REQUESTS):
            rows = 1 + number % 3
            values = np.full((rows, 3), client * REQUESTS + number, np.float32)
            x = tritonclient.http.InferInput("x", list(values.shape), "FP32")
            x.set_data_from_numpy(values)
            np.testing.assert_array_equal(http.infer("double", [x]).as_numpy("y"), values * 2)
            sent += rows
    return sent


def metric(server: ServerProcess, name: str) -> int:
    for line in get(server.metrics, "/metrics")[1].decode().splitlines():
        if line.startswith(f'{name}{{model="double"'):
            return int(line.rpartition(" ")[2])
    raise AssertionError(f"no metric {name}")


@pytest.mark.parametrize("host", ["process", "thread"])
def test_every_client_gets_its_own_rows_and_the_added_ones_are_counted(
    tmp_path: pathlib.Path, host: str
) -> None:
    with (
        served(tmp_path, host) as server,
        concurrent.futures.ThreadPoolExecutor(CLIENTS) as clients,
    ):
        sent = sum(clients.map(lambda client: ask(server, client), range(CLIENTS)))
        batches = metric(server, "nv_inference_exec_count")
        assert metric(server, "nv_inference_count") == sent
        assert metric(server, "naiad_batch_padding_rows_total") == 8 * batches - sent

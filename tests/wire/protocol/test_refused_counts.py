"""Whatever a client is refused is counted: a dead worker, an unloaded model, over HTTP and gRPC; and the reply says when to try again."""

import collections.abc
import http.client
import os
import pathlib
import signal

import grpc
import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from tritonclient.grpc import service_pb2 as pb

from tests.reference.process import ServerProcess
from tests.support.waiting import wait_until
from tests.wire.models.worker_models import launched, repository, worker_of
from tests.wire.plain_http import call, get

REFUSED = 40

MODEL = """\
import os, pathlib, time
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        gate = pathlib.Path(args["model_repository"]).parent.parent / "closed"
        while gate.exists():
            time.sleep(0.01)

    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("PID", np.array([1]))]) for _ in requests]
"""


@pytest.fixture
def server(tmp_path: pathlib.Path) -> collections.abc.Iterator[ServerProcess]:
    models = repository(tmp_path, gated=("", MODEL))
    with launched(models, tmp_path, "--model-control-mode=explicit", "--load-model=*") as running:
        yield running


def refused_over_http(server: ServerProcess) -> tuple[int, str | None]:
    """Status and Retry-After of one request."""
    body = '{"inputs":[{"name":"SECONDS","datatype":"FP32","shape":[1],"data":[0]}]}'
    connection = http.client.HTTPConnection(server.http, timeout=120)
    try:
        connection.request("POST", "/v2/models/gated/infer", body)
        reply = connection.getresponse()
        reply.read()
        return reply.status, reply.getheader("Retry-After")
    finally:
        connection.close()


def refused_over_grpc(infer: grpc.UnaryUnaryMultiCallable) -> tuple[grpc.StatusCode, bool]:
    """Status of one request, and whether a RetryInfo comes with it."""
    request = pb.ModelInferRequest(model_name="gated")
    request.inputs.add(name="SECONDS", datatype="FP32", shape=[1])
    request.raw_input_contents.append(np.zeros(1, np.float32).tobytes())
    with pytest.raises(grpc.RpcError) as caught:
        infer(request.SerializeToString(), timeout=120)
    trailing = dict(caught.value.trailing_metadata())
    return caught.value.code(), b"google.rpc.RetryInfo" in trailing.get(
        "grpc-status-details-bin", b""
    )


def counted(server: ServerProcess, family: str, **labels: str) -> int:
    """The sum of a family's samples with these labels."""
    return sum(
        int(line.rpartition(" ")[2])
        for line in get(server.metrics, "/metrics")[1].decode().splitlines()
        if line.startswith(family + "{")
        and all(f'{key}="{value}"' in line for key, value in labels.items())
    )


@pytest.mark.slow
def test_requests_without_a_running_instance_and_without_a_model_are_all_counted(
    server: ServerProcess, tmp_path: pathlib.Path
) -> None:
    worker = worker_of(server, "gated")
    (tmp_path / "closed").touch()
    os.kill(worker, signal.SIGKILL)
    wait_until(lambda: get(server.http, "/v2/models/gated/ready")[0] != 200)
    with grpc.insecure_channel(server.grpc) as channel:
        infer = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        for _ in range(REFUSED):
            assert refused_over_http(server) == (503, "1")
            assert refused_over_grpc(infer) == (grpc.StatusCode.UNAVAILABLE, True)
        failures = "nv_inference_request_failure"
        assert counted(server, failures, reason="BACKEND") == 2 * REFUSED
        with tritonclient.http.InferenceServerClient(server.http) as client:
            (statistics,) = client.get_inference_statistics("gated")["model_stats"]
        assert statistics["inference_stats"]["fail"]["count"] == 2 * REFUSED
        (tmp_path / "closed").unlink()
        wait_until(lambda: get(server.http, "/v2/models/gated/ready")[0] == 200)

        assert call(server.http, "POST", "/v2/repository/models/gated/unload")[0] == 200
        assert refused_over_http(server)[0] == 404
        assert refused_over_grpc(infer) == (grpc.StatusCode.NOT_FOUND, False)
    assert counted(server, "naiad_requests_not_served_total", reason="not_found") == 2

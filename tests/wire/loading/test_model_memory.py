"""What loading a model took of memory, as clients see it on the real server."""

import json
import pathlib
import queue
import re
import typing

import numpy as np
import pytest

from tests.reference.process import ServerProcess, naiad_program
from tests.support.waiting import wait_until
from tests.wire.plain_http import call
from tests.wire.protocol.test_clients import CLIENTS, client, tensor

MB = 1_000_000


@pytest.mark.parametrize("protocol", CLIENTS)
def test_tritonclient_reads_the_memory_of_a_model(server: ServerProcess, protocol: str) -> None:
    with client(protocol, server) as (asked, _):
        if protocol == "grpc":
            found = asked.get_inference_statistics("add", as_json=True)
        else:
            found = asked.get_inference_statistics("add")
    (usage,) = found["model_stats"][0]["memory_usage"]
    assert usage["type"] == "CPU"
    assert 0 < int(usage["byte_size"]) < 1000 * MB


def test_statistics_metrics_and_index_agree(server: ServerProcess) -> None:
    _, statistics = call(server.http, "GET", "/v2/models/stats")
    of_statistics = {
        model["name"]: usage["byte_size"]
        for model in json.loads(statistics)["model_stats"]
        for usage in model["memory_usage"]
    }
    _, page = call(server.metrics, "GET", "/metrics")
    of_metrics = {
        name: int(value)
        for name, value in re.findall(
            r'^naiad_model_memory_bytes{.*model="([^"]+)",type="CPU",.*} (\d+)$',
            page.decode(),
            re.MULTILINE,
        )
    }
    assert of_statistics == of_metrics != {}
    plain = index(server)
    assert not any("memory_usage" in entry for entry in plain)
    asked = index(server, memory=True)
    of_index = {
        entry["name"]: usage["byte_size"]
        for entry in asked
        for usage in entry.pop("memory_usage", ())
    }
    assert of_index == of_statistics
    assert asked == plain


def index(server: ServerProcess, **wanted: bool) -> list[dict[str, typing.Any]]:
    status, body = call(server.http, "POST", "/v2/repository/index", wanted)
    assert status == 200
    entries = json.loads(body)
    assert isinstance(entries, list)
    return entries


_CONFIG = """\
backend: "python"
max_batch_size: 8
input { name: "X" data_type: TYPE_FP32 dims: 1 }
output { name: "Y" data_type: TYPE_FP32 dims: 1 }
"""

_MODEL = """\
import triton_python_backend_utils as pb_utils

WEIGHTS = bytearray(60_000_000)


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        x = pb_utils.get_input_tensor_by_name(request, "X").as_numpy()
        return pb_utils.InferenceResponse([pb_utils.Tensor("Y", x + 1)])
"""


def write_models(folder: pathlib.Path, *names: str) -> pathlib.Path:
    """Models of about 80 MB each, with small files."""
    for name in names:
        version = folder / "models" / name / "1"
        version.mkdir(parents=True)
        (version.parent / "config.pbtxt").write_text(_CONFIG)
        (version / "model.py").write_text(_MODEL)
    return folder / "models"


def states(server: ServerProcess) -> dict[str, str]:
    return {entry["name"]: entry.get("reason", entry["state"]) for entry in index(server)}


@pytest.mark.slow
def test_requests_load_evicted_models_again_within_the_limit(tmp_path: pathlib.Path) -> None:
    models = write_models(tmp_path, "a", "b", "c")
    options = ["--model-memory-limit=180MB", "--evicted-model-wait-secs=60"]
    x = np.array([[1]], np.float32)
    with ServerProcess(naiad_program(), [models], log=tmp_path / "log", options=options) as server:
        for round_ in range(2):
            for name in ("a", "b", "c"):
                with client(CLIENTS[round_], server) as (asked, module):
                    result = asked.infer(name, [tensor(module, "X", x, "FP32")])
                    np.testing.assert_array_equal(result.as_numpy("Y"), x + 1)
                    assert asked.is_server_ready()
                assert states(server)[name] == "READY"
        # What a load took is known when it has ended: then another model may have to go.
        wait_until(lambda: sorted(states(server).values()) == ["READY", "READY", "evicted"])
        _, page = call(server.metrics, "GET", "/metrics")
        counted = re.search(rb"^naiad_model_evictions_total (\d+)$", page, re.MULTILINE)
        assert counted is not None
        # One at the start, and one for each request but the first ones.
        assert int(counted[1]) >= 4
        (gone,) = (name for name, state in states(server).items() if state == "evicted")
        results = queue.SimpleQueue[typing.Any]()
        with client("grpc", server) as (asked, module):
            asked.start_stream(lambda result, error: results.put((result, error)))
            asked.async_stream_infer(gone, [tensor(module, "X", x, "FP32")])
            result, error = results.get(timeout=60)
            asked.stop_stream()
        assert error is None
        np.testing.assert_array_equal(result.as_numpy("Y"), x + 1)
        status, body = call(server.http, "GET", "/v2/models/stats")
        assert status == 200
        used = sum(
            usage["byte_size"]
            for model in json.loads(body)["model_stats"]
            for usage in model["memory_usage"]
        )
        assert used <= 180 * MB


_CALLER = """\
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.call(request) for request in requests]

    def call(self, request):
        called = pb_utils.InferenceRequest(
            model_name="a", inputs=request.inputs(), requested_output_names=["Y"]
        ).exec()
        if called.has_error():
            return pb_utils.InferenceResponse(error=called.error())
        return pb_utils.InferenceResponse(called.output_tensors())
"""


@pytest.mark.slow
def test_a_model_may_call_one_that_was_evicted(tmp_path: pathlib.Path) -> None:
    models = write_models(tmp_path, "a", "b", "caller")
    (models / "caller" / "1" / "model.py").write_text(_CALLER)
    options = ["--model-memory-limit=130MB", "--evicted-model-wait-secs=60"]
    x = np.array([[1]], np.float32)
    with (
        ServerProcess(naiad_program(), [models], log=tmp_path / "log", options=options) as server,
        client("http", server) as (asked, module),
    ):
        for name in ("b", "caller", "b", "caller"):
            result = asked.infer(name, [tensor(module, "X", x, "FP32")])
            np.testing.assert_array_equal(result.as_numpy("Y"), x + 1)
        assert states(server) == {"a": "READY", "b": "evicted", "caller": "READY"}


@pytest.mark.slow
def test_requests_for_evicted_models_are_refused_by_default_until_a_client_loads_them(
    tmp_path: pathlib.Path,
) -> None:
    models = write_models(tmp_path, "a", "b")
    options = ["--model-memory-limit=100MB", "--model-control-mode=explicit"]
    x = np.array([[1]], np.float32)
    with (
        ServerProcess(naiad_program(), [models], log=tmp_path / "log", options=options) as server,
        client("grpc", server) as (asked, module),
    ):
        for name in ("a", "b"):
            asked.load_model(name)
        wait_until(lambda: states(server) == {"a": "evicted", "b": "READY"})
        assert asked.is_server_ready()
        with pytest.raises(module.InferenceServerException, match=r"UNAVAILABLE \(evicted\)"):
            asked.infer("a", [tensor(module, "X", x, "FP32")])
        asked.load_model("a")
        asked.infer("a", [tensor(module, "X", x, "FP32")])

"""`--access-log` and `--slow-request-ms` of a real server, over HTTP and gRPC."""

import json
import pathlib
import typing

import numpy as np
import pytest
import tritonclient.grpc as grpc_client
import tritonclient.http as http_client
from tritonclient.utils import InferenceServerException

from tests.wire.plain_http import get
from tests.wire.process.test_process import ADD, SLOW, launched

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
TRACEPARENT = f"00-{TRACE_ID}-b7ad6b7169203331-01"


def infer(client: typing.Any, module: typing.Any, model: str = "add") -> None:
    tensor = module.InferInput("x", [1, 4], "FP32")
    tensor.set_data_from_numpy(np.ones((1, 4), np.float32))
    client.infer(model, [tensor], request_id="mine", headers={"traceparent": TRACEPARENT})


def test_every_request_of_both_protocols_is_a_line_with_fields(
    models: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    with launched(models, tmp_path, *ADD, "--log-format=json", "--access-log") as server:
        with http_client.InferenceServerClient(server.http) as client:
            infer(client, http_client)
        with grpc_client.InferenceServerClient(server.grpc) as client:
            infer(client, grpc_client)
            with pytest.raises(InferenceServerException):
                infer(client, grpc_client, "nope")
        get(server.http, "/v2/models/add/config?x=1")
        server.stop()
        lines = [json.loads(line) for line in server.output().splitlines()]
    entries = [line for line in lines if line["logger"] == "naiad.access"]
    (over_http,) = [entry for entry in entries if entry["path"] == "/v2/models/add/infer"]
    over_grpc, unknown = [entry for entry in entries if entry["method"] == "ModelInfer"]
    (config,) = [entry for entry in entries if entry["path"] == "/v2/models/add/config?x=1"]
    for entry, status in ((over_http, 200), (over_grpc, "OK")):
        assert (entry["status"], entry["model"], entry["version"], entry["request_id"]) == (
            status,
            "add",
            1,
            "mine",
        )
        assert entry["trace_id"] == TRACE_ID
        assert entry["bytes_in"] > 16
        assert entry["bytes_out"] > 16
        assert entry["queue_ms"] + entry["compute_ms"] <= entry["total_ms"]
        parts = [entry[f"compute_{part}_ms"] for part in ("input", "infer", "output")]
        assert sum(parts) == pytest.approx(entry["compute_ms"], abs=0.01)
        assert entry["peer"].startswith("127.0.0.1:")
    assert (unknown["status"], unknown["protocol"]) == ("NOT_FOUND", "grpc")
    assert (config["status"], config["method"], config["bytes_in"]) == (200, "GET", 0)


@pytest.mark.slow
def test_only_slow_requests_are_logged_when_only_they_are_asked_for(
    models: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    with launched(models, tmp_path, *SLOW, "--log-format=json", "--slow-request-ms=200") as server:
        get(server.http, "/v2/health/live")
        with grpc_client.InferenceServerClient(server.grpc) as client:
            tensor = grpc_client.InferInput("SECONDS", [1], "FP32")
            tensor.set_data_from_numpy(np.array([0.3], np.float32))
            client.infer("slow", [tensor])
        server.stop()
        lines = [json.loads(line) for line in server.output().splitlines()]
    entries = [line for line in lines if line["logger"] == "naiad.access" and line.get("model")]
    assert [(entry["level"], entry["model"]) for entry in entries] == [("warning", "slow")]
    assert entries[0]["compute_ms"] >= 200

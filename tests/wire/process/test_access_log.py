"""`--access-log` and `--slow-request-ms` of a real server, over HTTP and gRPC."""

import json
import pathlib
import re
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


FORGED = 'm\nE0101 00:00:00.000000 1 engine.py:1] "forged"\u2028\u202e\x9b2J'
RECORD = re.compile(r"[IWE]\d{4} \d\d:\d\d:\d\d\.\d{6} \d+ \S+:\d+\] \".*\"", re.ASCII)


def test_no_text_of_a_client_begins_a_line_of_the_log(
    models: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    options = (*ADD, "--access-log", "--slow-request-ms=0.001", "--log-verbose=1")
    with launched(models, tmp_path, *options) as server:
        for module, address in ((http_client, server.http), (grpc_client, server.grpc)):
            tensor = module.InferInput("x", [1, 4], "FP32")
            tensor.set_data_from_numpy(np.ones((1, 4), np.float32))
            with module.InferenceServerClient(address) as client:
                client.infer("add", [tensor], request_id=FORGED)
                with pytest.raises(InferenceServerException):
                    client.infer("add", [tensor], model_version="7", request_id=FORGED)
        with grpc_client.InferenceServerClient(server.grpc) as client:
            with pytest.raises(InferenceServerException):
                client.load_model(FORGED)
            with pytest.raises(InferenceServerException):
                client.load_model(FORGED, config="{}", files={f"file:1/{FORGED}": b""})
            client.unload_model(FORGED)
        server.stop()
        lines = server.output().split("\n")
    assert sum("forged" in line for line in lines) == 3
    for line in filter(None, lines):
        assert line.startswith("    ") or RECORD.fullmatch(line), line
        assert line.isprintable()


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

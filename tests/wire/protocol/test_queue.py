"""`GET /v2/models/M/queue`, its gauges, and `naiad_deadline_ms` over HTTP and gRPC, while requests wait for a busy model."""

import collections.abc
import concurrent.futures
import contextlib
import json
import pathlib
import typing
import urllib.error
import urllib.request

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http

from tests.reference.process import ServerProcess, naiad_program
from tests.support.waiting import wait_until

CONFIG = """\
backend: "python"
max_batch_size: 1
input { name: "SECONDS" data_type: TYPE_FP32 dims: 1 }
output { name: "SECONDS" data_type: TYPE_FP32 dims: 1 }
instance_group { kind: KIND_CPU count: 1 }
dynamic_batching { priority_levels: 2 default_priority_level: 2 }
"""

SEQUENCES = """\
backend: "python"
max_batch_size: 1
input { name: "SECONDS" data_type: TYPE_FP32 dims: 1 }
output { name: "SECONDS" data_type: TYPE_FP32 dims: 1 }
instance_group { kind: KIND_CPU count: 1 }
sequence_batching { max_sequence_idle_microseconds: 60000000 }
"""

CODE = """\
import pathlib
import time
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.gate = pathlib.Path(args["model_repository"], "gate")

    def execute(self, requests):
        given = [pb_utils.get_input_tensor_by_name(each, "SECONDS") for each in requests]
        seconds = float(given[0].as_numpy().ravel()[0])
        if seconds == UNTIL_LET_GO:
            while self.gate.exists():
                time.sleep(0.01)
        else:
            time.sleep(seconds)
        return [pb_utils.InferenceResponse([each]) for each in given]
"""


UNTIL_LET_GO = -1.0
"""Seconds with which a request runs as long as its model's gate is closed."""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return tmp_path_factory.mktemp("models")


@contextlib.contextmanager
def gate(root: pathlib.Path, model: str) -> collections.abc.Iterator[collections.abc.Callable[[], None]]:  # fmt: skip
    """Holds requests with UNTIL_LET_GO inside the model; gives the function that lets them go, which happens at the end in any case."""
    closed = root / model / "gate"
    closed.touch()
    try:
        yield closed.unlink
    finally:
        closed.unlink(missing_ok=True)


@pytest.fixture(scope="module")
def server(root: pathlib.Path) -> collections.abc.Iterator[ServerProcess]:
    for name, config in (("sleeps", CONFIG), ("turns", SEQUENCES), ("unasked", SEQUENCES)):
        (root / name / "1").mkdir(parents=True)
        (root / name / "config.pbtxt").write_text(config)
        code = CODE.replace("UNTIL_LET_GO", str(UNTIL_LET_GO))
        (root / name / "1" / "model.py").write_text(code)
    with ServerProcess(naiad_program(), [root], log=root.with_suffix(".log")) as server:
        yield server


def get(server: ServerProcess, path: str) -> typing.Any:
    with urllib.request.urlopen(f"http://{server.http}{path}") as reply:
        return json.load(reply)


def infer(
    server: ServerProcess, seconds: float, model: str = "sleeps", **parameters: typing.Any
) -> tuple[int, str]:
    tensor = {"name": "SECONDS", "datatype": "FP32", "shape": [1, 1], "data": [seconds]}
    body = json.dumps({"id": "a", "inputs": [tensor], "parameters": parameters}).encode()
    url = f"http://{server.http}/v2/models/{model}/infer"
    try:
        with urllib.request.urlopen(url, data=body) as reply:
            return reply.status, ""
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)["error"]


def gauges(server: ServerProcess) -> dict[str, float]:
    url = f"http://127.0.0.1:{server.ports.metrics}/metrics"
    with urllib.request.urlopen(url) as reply:
        lines = reply.read().decode().splitlines()
    values = (
        line.rpartition(" ")
        for line in lines
        if line.startswith(("naiad_queue_", "naiad_instances"))
    )
    return {name: float(value) for name, _, value in values if "_bucket" not in name}  # fmt: skip


def test_what_waits_is_shown_and_a_deadline_that_cannot_be_met_is_refused_at_once(
    server: ServerProcess, root: pathlib.Path
) -> None:
    assert infer(server, 0.4) == (200, "")
    assert get(server, "/v2/models/sleeps/queue")["waiting"] == 0
    with concurrent.futures.ThreadPoolExecutor(8) as pool, gate(root, "sleeps") as let_go:
        running = [pool.submit(infer, server, UNTIL_LET_GO)]
        wait_until(lambda: get(server, "/v2/models/sleeps/queue")["instances"]["busy"] == 1)
        running += [pool.submit(infer, server, 0.0) for _ in range(2)]
        running.append(pool.submit(infer, server, 0.0, priority=1))
        wait_until(lambda: get(server, "/v2/models/sleeps/queue")["waiting"] == 3)
        state = get(server, "/v2/models/sleeps/versions/1/queue")
        assert {each["priority"]: each["waiting"] for each in state["priorities"]} == {1: 1, 2: 2}
        assert state["instances"] == {"usable": 1, "busy": 1}
        assert state["oldest_wait_ms"] > 0
        assert state["estimated_wait_ms"] > 3 * state["batch_ms"] - 1 > 3 * 400 - 1
        high, low = (each["estimated_wait_ms"] for each in state["priorities"])
        assert high < low
        shown = gauges(server)
        labels = 'model="sleeps",version="1"'
        assert shown['naiad_queue_requests{model="sleeps",priority="1",version="1"}'] == 1
        assert (
            shown[f"naiad_instances{{{labels}}}"] == shown[f"naiad_instances_busy{{{labels}}}"] == 1
        )
        assert shown[f"naiad_queue_estimated_wait_seconds{{{labels}}}"] > 0.8
        status, error = infer(server, 0.0, naiad_deadline_ms=300)
        assert get(server, "/v2/models/sleeps/queue")["waiting"] == 3, "it does not wait"
        assert status == 503
        assert error.startswith(
            "[request id: a] The deadline of 300 ms (naiad_deadline_ms) cannot be met: model 'sleeps'"
        )
        with tritonclient.grpc.InferenceServerClient(server.grpc) as client:
            given = tritonclient.grpc.InferInput("SECONDS", [1, 1], "FP32")
            given.set_data_from_numpy(np.array([[0.1]], np.float32))
            with pytest.raises(tritonclient.grpc.InferenceServerException) as refused:
                client.infer("sleeps", [given], parameters={"naiad_deadline_ms": 300})
            assert refused.value.status() == "StatusCode.UNAVAILABLE"
        running.append(pool.submit(infer, server, 0.0, naiad_deadline_ms=600_000))
        wait_until(lambda: get(server, "/v2/models/sleeps/queue")["waiting"] == 4)
        let_go()
        assert [each.result() for each in running] == [(200, "")] * 5
    assert infer(server, 0.0, naiad_deadline_ms=0)[0] == 400
    with tritonclient.http.InferenceServerClient(server.http) as client:
        assert client.is_server_ready()


def test_sequences_that_wait_for_a_slot_are_shown_and_have_a_deadline(
    server: ServerProcess, root: pathlib.Path
) -> None:
    def turn(key: int, seconds: float, flags: str, **parameters: typing.Any) -> tuple[int, str]:
        ends = {"sequence_start": "s" in flags, "sequence_end": "e" in flags}
        return infer(server, seconds, "turns", sequence_id=key, **ends, **parameters)

    path = "/v2/models/turns/queue"
    assert get(server, "/v2/models/unasked/queue")["estimated_wait_ms"] is None
    assert turn(1, 0.3, "se") == (200, "")
    with concurrent.futures.ThreadPoolExecutor(8) as pool, gate(root, "turns") as let_go:
        running = [pool.submit(turn, 2, UNTIL_LET_GO, "s")]
        wait_until(lambda: get(server, path)["instances"]["busy"] == 1)
        running.append(pool.submit(turn, 3, 0.1, "se"))
        wait_until(lambda: get(server, path)["waiting"] == 1)
        state = get(server, path)
        assert state["sequences"] == {"open": 1, "backlog": 1, "slots": 1, "slots_used": 1}
        assert state["instances"] == {"usable": 1, "busy": 1}
        assert state["estimated_wait_ms"] > 0
        assert state["oldest_wait_ms"] > 0
        labels = 'model="turns",version="1"'
        shown = gauges(server)
        assert shown['naiad_queue_requests{model="turns",priority="0",version="1"}'] == 1
        assert shown[f"naiad_instances_busy{{{labels}}}"] == 1
        assert shown[f"naiad_queue_oldest_wait_seconds{{{labels}}}"] > 0
        status, error = turn(4, 0.1, "s", naiad_deadline_ms=50)
        assert (status, "cannot be met: model 'turns'" in error) == (503, True)
        with tritonclient.grpc.InferenceServerClient(server.grpc) as client:
            given = tritonclient.grpc.InferInput("SECONDS", [1, 1], "FP32")
            given.set_data_from_numpy(np.array([[0.1]], np.float32))
            with pytest.raises(tritonclient.grpc.InferenceServerException) as refused:
                client.infer(
                    "turns",
                    [given],
                    sequence_id=4,
                    sequence_start=True,
                    parameters={"naiad_deadline_ms": 50},
                )
            assert refused.value.status() == "StatusCode.UNAVAILABLE"
        let_go()
        assert turn(2, 0.0, "e", naiad_deadline_ms=600_000) == (200, "")
        assert [each.result() for each in running] == [(200, "")] * 2
    assert get(server, path)["sequences"]["open"] == 0


def test_a_model_that_is_not_there(server: ServerProcess) -> None:
    with pytest.raises(urllib.error.HTTPError) as missing:
        get(server, "/v2/models/none/queue")
    assert missing.value.code in (400, 404)

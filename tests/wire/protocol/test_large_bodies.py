"""Bodies of megabytes with tensors, as a real server takes them off the socket: whole, in pieces, one after the other, and broken off."""

import collections.abc
import concurrent.futures
import contextlib
import http.client
import json
import socket

import numpy as np
import pytest

from tests.reference.process import ServerProcess, naiad_program
from tests.support.waiting import wait_until
from tests.wire.plain_http import call

CONFIG = """\
backend: "python"
max_batch_size: 8
input {{ name: "x" data_type: TYPE_FP32 dims: -1 }}
input {{ name: "s" data_type: TYPE_STRING dims: 1 optional: true }}
output {{ name: "y" data_type: TYPE_FP32 dims: -1 }}
dynamic_batching {{ }}
instance_group {{ kind: KIND_CPU count: 1 }}
parameters {{ key: "naiad.host" value {{ string_value: "{host}" }} }}
"""

MODEL = """\
import os

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.kept = []

    def execute(self, requests):
        responses = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
            assert x.flags.aligned
            if x[0, 0] == -1:
                os._exit(1)
            {step}
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("y", y)]))
        return responses
"""

STEPS = {
    "process": "y = x + 1",
    "thread": "y = x + 1",
    "changes": "x += 1; y = x",
    "keeps": "self.kept.append((x, x.copy())); y = x + all((a == b).all() for a, b in self.kept); del self.kept[:-5]",
}
"""What each model does; all of them add one, and `keeps` only if the inputs of earlier requests are what they were."""

ENSEMBLE = """\
platform: "ensemble"
max_batch_size: 8
input { name: "x" data_type: TYPE_FP32 dims: -1 }
output { name: "a" data_type: TYPE_FP32 dims: -1 }
output { name: "b" data_type: TYPE_FP32 dims: -1 }
ensemble_scheduling {
  step { model_name: "changes" model_version: -1 input_map { key: "x" value: "x" } output_map { key: "y" value: "a" } }
  step { model_name: "changes" model_version: -1 input_map { key: "x" value: "x" } output_map { key: "y" value: "b" } }
}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> collections.abc.Iterator[ServerProcess]:
    """A server with the models of `STEPS`, `thread` in a thread of it and all others in worker processes: y = x + 1."""
    folder = tmp_path_factory.mktemp("large")
    for name, step in STEPS.items():
        version = folder / "models" / name / "1"
        version.mkdir(parents=True)
        (version / "model.py").write_text(MODEL.replace("{step}", step))
        host = "thread" if name == "thread" else "process"
        (version.parent / "config.pbtxt").write_text(CONFIG.format(host=host))
    (folder / "models" / "both" / "1").mkdir(parents=True)
    (folder / "models" / "both" / "config.pbtxt").write_text(ENSEMBLE)
    with ServerProcess(naiad_program(), [folder / "models"], log=folder / "log") as running:
        yield running


def body_of(x: np.ndarray, *, padding: int = 0) -> tuple[bytes, dict[str, str]]:
    """A body and its headers; `padding` bytes make the JSON longer."""
    size = {"binary_data_size": x.nbytes}
    entry = {"name": "x", "datatype": "FP32", "shape": list(x.shape), "parameters": size}
    asked = {"inputs": [entry], "parameters": {"binary_data_output": True}}
    head = json.dumps(asked).encode() + b" " * padding
    return head + x.tobytes(), {"Inference-Header-Content-Length": str(len(head))}


def output_of(reply: bytes, count: int) -> np.ndarray:
    return np.frombuffer(reply[-4 * count :], np.float32)


@pytest.mark.parametrize("model", list(STEPS))
def test_requests_of_many_sizes_are_answered_with_their_own_numbers(
    server: ServerProcess, model: str
) -> None:
    def ask(number: int) -> None:
        count = (100_000, 131_072, 262_144, 1_000_000, 5_000_000)[number % 5]
        x = np.arange(number, number + count, dtype=np.float32).reshape(1, count)
        body, headers = body_of(x, padding=number)
        status, reply = call(server.http, "POST", f"/v2/models/{model}/infer", body, **headers)
        assert status == 200, reply
        assert np.array_equal(output_of(reply, count), x[0] + 1)

    with concurrent.futures.ThreadPoolExecutor(4) as clients:
        list(clients.map(ask, range(20)))


def test_a_step_that_changes_its_input_changes_that_of_no_other(server: ServerProcess) -> None:
    x = np.arange(1_000_000, dtype=np.float32).reshape(1, -1)
    body, headers = body_of(x)
    status, reply = call(server.http, "POST", "/v2/models/both/infer", body, **headers)
    assert status == 200, reply
    outputs = np.frombuffer(reply[-2 * x.nbytes :], np.float32).reshape(2, -1)
    assert np.array_equal(outputs, np.concatenate([x + 1, x + 1]))


def test_a_worker_that_dies_with_a_body_is_replaced(server: ServerProcess) -> None:
    bad, good = (np.full((1, 1_000_000), value, np.float32) for value in (-1, 3))
    body, headers = body_of(bad)
    path = "/v2/models/process/infer"
    status, reply = call(server.http, "POST", path, body, **headers)
    assert status == 503, reply
    body, headers = body_of(good)
    answers: list[bytes] = []

    def serves() -> bool:
        status, reply = call(server.http, "POST", path, body, **headers)
        answers.append(reply)
        return status == 200

    wait_until(serves, seconds=60)
    assert np.array_equal(output_of(answers[-1], good.size), good[0] + 1)


def test_a_connection_takes_large_and_small_bodies_in_turns(server: ServerProcess) -> None:
    with contextlib.closing(http.client.HTTPConnection(server.http)) as connection:
        for count in (3, 1_000_000, 3, 500_000, 700_000, 3):
            x = np.full((1, count), count, np.float32)
            body, headers = body_of(x)
            connection.request("POST", "/v2/models/process/infer", body, headers)
            reply = connection.getresponse().read()
            assert np.array_equal(output_of(reply, count), x[0] + 1)


@pytest.mark.parametrize("model", ["process", "unknown"])
def test_a_body_that_breaks_off_costs_other_requests_nothing(
    server: ServerProcess, model: str
) -> None:
    x = np.ones((1, 1_000_000), np.float32)
    body, headers = body_of(x)
    host, port = server.http.split(":")
    lines = [f"POST /v2/models/{model}/infer HTTP/1.1", "Host: h", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    for _ in range(70):
        with socket.create_connection((host, int(port))) as peer:
            peer.sendall("\r\n".join([*lines, "", ""]).encode() + body[:600_000])
    status, reply = call(server.http, "POST", "/v2/models/process/infer", body, **headers)
    assert status == 200
    assert np.array_equal(output_of(reply, 1_000_000), x[0] + 1)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ((b"1000000]", b"1000001]"), "Expected 4000004, got 4000000"),
        ((b'"x"', b'"u"'), "unexpected inference input 'u'"),
        ((b'"inputs"', b'"inputz"'), "Unable to parse 'inputs'"),
    ],
)
def test_a_large_body_is_refused_in_the_words_of_a_small_one(
    server: ServerProcess, change: tuple[bytes, bytes], expected: str
) -> None:
    body, headers = body_of(np.ones((1, 1_000_000), np.float32))
    status, reply = call(
        server.http, "POST", "/v2/models/process/infer", body.replace(*change, 1), **headers
    )
    assert status >= 400
    assert expected in json.loads(reply)["error"]


def test_a_chunked_body(server: ServerProcess) -> None:
    x = np.arange(2_000_000, dtype=np.float32).reshape(1, -1)
    body, headers = body_of(x)
    pieces = (body[at : at + 100_000] for at in range(0, len(body), 100_000))
    with contextlib.closing(http.client.HTTPConnection(server.http)) as connection:
        connection.request("POST", "/v2/models/process/infer", pieces, headers, encode_chunked=True)
        reply = connection.getresponse()
        assert reply.status == 200
        assert np.array_equal(output_of(reply.read(), x.size), x[0] + 1)

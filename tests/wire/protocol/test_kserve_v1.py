"""KServe's v1 on a real server, over both engines of HTTP: the same models, cache, limits, log and guards as v2."""

import collections.abc
import contextlib
import gzip
import http.client
import json
import pathlib
import typing

import numpy as np
import pytest
import tritonclient.http as http_client

from tests.reference.process import ServerProcess
from tests.support.waiting import wait_until
from tests.wire.plain_http import call, get
from tests.wire.process.test_process import launched

TENSORS = """\
input [ {{ name: "x" data_type: {0} dims: {1} }}, {{ name: "s" data_type: TYPE_STRING dims: 1 optional: true }} ]
output [ {{ name: "y" data_type: {0} dims: {1} }}, {{ name: "t" data_type: TYPE_STRING dims: 1 }} ]
instance_group {{ kind: KIND_CPU count: 1 }}
"""
ECHO = """\
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        outputs = []
        for name, other in (("x", "y"), ("s", "t")):
            tensor = pb_utils.get_input_tensor_by_name(request, name)
            if tensor is not None:
                outputs.append(pb_utils.Tensor(other, tensor.as_numpy()))
        return pb_utils.InferenceResponse(outputs)
"""
FAILS = ECHO.replace("outputs = []", 'raise pb_utils.TritonModelException("out of order")')
WAITS = """\
import os, pathlib, time
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        (request,) = requests
        (folder,) = pb_utils.get_input_tensor_by_name(request, "folder").as_numpy()
        folder = pathlib.Path(folder.decode())
        (folder / "began").touch()
        while not request.is_cancelled():
            time.sleep(0.01)
        (folder / "cancelled").touch()
        return [pb_utils.InferenceResponse(error=pb_utils.TritonError("gone"))]
"""
ENSEMBLE = """\
platform: "ensemble"
max_batch_size: 8
input [ { name: "x" data_type: TYPE_FP32 dims: 3 }, { name: "s" data_type: TYPE_STRING dims: 1 } ]
output [ { name: "y" data_type: TYPE_FP32 dims: 3 }, { name: "t" data_type: TYPE_STRING dims: 1 } ]
ensemble_scheduling {
  step { model_name: "echo" model_version: -1 input_map { key: "x" value: "x" } input_map { key: "s" value: "s" }
         output_map { key: "y" value: "y" } output_map { key: "t" value: "t" } }
}
"""
LIMIT = 2_000_000


def put(root: pathlib.Path, name: str, config: str, source: str = "") -> None:
    version = root / name / "1"
    version.mkdir(parents=True)
    (version.parent / "config.pbtxt").write_text(config)
    if source:
        (version / "model.py").write_text(source)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    root = tmp_path_factory.mktemp("models")
    python, batch = 'backend: "python"\n', "max_batch_size: 8\n"
    rows = python + batch + TENSORS.format("TYPE_FP32", 3)
    put(
        root,
        "echo",
        rows + 'parameters { key: "naiad.explainer" value { string_value: "why" } }\n',
        ECHO,
    )
    put(root, "why", rows, ECHO)
    put(root, "kept", rows + "response_cache { enable: true }\n", ECHO)
    put(root, "fails", rows, FAILS)
    put(root, "whole", python + TENSORS.format("TYPE_FP16", "[ -1 ]"), ECHO)
    put(root, "wide", python + batch + TENSORS.format("TYPE_FP64", "[ -1 ]"), ECHO)
    put(root, "steps", ENSEMBLE)
    folder = 'input { name: "folder" data_type: TYPE_STRING dims: 1 }\noutput { name: "out" data_type: TYPE_STRING dims: 1 }\n'
    put(root, "waits", python + folder, WAITS)
    return root


@pytest.fixture(scope="module", params=["native", "uvicorn"])
def server(
    request: pytest.FixtureRequest,
    repository: pathlib.Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> collections.abc.Iterator[ServerProcess]:
    options = (
        f"--http-engine={request.param}",
        f"--http-max-input-size={LIMIT}",
        "--access-log=true",
        "--cache-config=local,size=1048576",
    )
    with launched(repository, tmp_path_factory.mktemp("server"), *options) as running:
        yield running


def post(
    server: ServerProcess, path: str, body: typing.Any, **headers: str
) -> tuple[int, typing.Any]:
    status, text = call(server.http, "POST", f"/v1/models/{path}", body, **headers)
    return status, json.loads(text)


ROWS = {"instances": [{"x": [1, 2, 3], "s": "a"}, {"x": [4, 5, 6.5], "s": {"b64": "/w=="}}]}
ANSWER = {
    "predictions": [
        {"y": [1.0, 2.0, 3.0], "t": ["a"]},
        {"y": [4.0, 5.0, 6.5], "t": [{"b64": "/w=="}]},
    ]
}


def test_models_are_listed_and_say_whether_they_are_ready(server: ServerProcess) -> None:
    status, text = get(server.http, "/v1/models")
    assert (status, sorted(json.loads(text)["models"])) == (
        200,
        ["echo", "fails", "kept", "steps", "waits", "whole", "why", "wide"],
    )
    assert get(server.http, "/v1/models/echo") == (200, b'{"name":"echo","ready":true}')
    status, text = get(server.http, "/v1/models/nope")
    assert status == 404
    assert "Request for unknown model: 'nope'" in json.loads(text)["error"]


@pytest.mark.parametrize("model", ["echo", "echo/versions/1", "steps"])
def test_rows_are_predicted(server: ServerProcess, model: str) -> None:
    assert post(server, f"{model}:predict", ROWS) == (200, ANSWER)


def test_columns_are_predicted(server: ServerProcess) -> None:
    body = {"inputs": {"x": [[1, 2, 3]], "s": [["a"]]}}
    assert post(server, "echo:predict", body) == (
        200,
        {"outputs": {"y": [[1.0, 2.0, 3.0]], "t": [["a"]]}},
    )
    body = {"inputs": {"x": [[1, 2, 3]]}}
    assert post(server, "echo:predict", body) == (200, {"outputs": [[1.0, 2.0, 3.0]]})


def test_a_model_that_does_not_batch_predicts(server: ServerProcess) -> None:
    assert post(server, "whole:predict", {"instances": [{"x": 1.5}, {"x": 2}]}) == (
        200,
        {"predictions": [1.5, 2.0]},
    )
    assert post(server, "whole:predict", {"instances": [{"x": [1, 2, 3]}]}) == (
        200,
        {"predictions": [[1.0, 2.0, 3.0]]},
    )


def test_rows_are_one_request_of_the_model_as_over_v2(server: ServerProcess) -> None:
    with contextlib.closing(http_client.InferenceServerClient(server.http)) as client:

        def counts() -> tuple[int, int]:
            (stats,) = client.get_inference_statistics("echo")["model_stats"]
            return int(stats["inference_count"]), int(stats["execution_count"])

        inferences, executions = counts()
        assert post(server, "echo:predict", ROWS)[0] == 200
        assert counts() == (inferences + 2, executions + 1)
        tensor = http_client.InferInput("x", [2, 3], "FP32")
        tensor.set_data_from_numpy(np.array([[1, 2, 3], [4, 5, 6.5]], np.float32))
        result = client.infer("echo", [tensor]).as_numpy("y")
        assert result is not None
        assert result.tolist() == [row["y"] for row in ANSWER["predictions"]]


def test_the_response_cache_answers_v1_with_what_v2_asked(server: ServerProcess) -> None:
    with contextlib.closing(http_client.InferenceServerClient(server.http)) as client:
        tensor = http_client.InferInput("x", [1, 3], "FP32")
        tensor.set_data_from_numpy(np.array([[7, 8, 9]], np.float32))
        client.infer("kept", [tensor])
        for _ in range(3):
            body = {"instances": [{"x": [7, 8, 9]}]}
            assert post(server, "kept:predict", body) == (200, {"predictions": [[7.0, 8.0, 9.0]]})
        (stats,) = client.get_inference_statistics("kept")["model_stats"]
        assert int(stats["execution_count"]) == 1


def test_an_explainer_explains(server: ServerProcess) -> None:
    rows = {"explanations": ANSWER["predictions"]}
    assert post(server, "echo:explain", ROWS) == (200, rows)
    status, reply = post(server, "why:explain", ROWS)
    assert status == 501
    assert "'naiad.explainer'" in reply["error"]


@pytest.mark.parametrize(
    ("path", "body", "status", "says"),
    [
        ("nope:predict", ROWS, 404, "unknown model"),
        ("echo/versions/9:predict", ROWS, 404, "unknown model"),
        ("fails:predict", ROWS, 500, "out of order"),
        ("echo:predict", "hello", 400, "failed to parse the request JSON"),
        ("echo:predict", {"instances": [{"x": [1, 2]}]}, 400, "row 0 of input 'x'"),
        ("echo:predict", {"instances": [{"s": "a"}]}, 400, "'x'"),
        ("echo:predict", {"inputs": {"x": [[1, 2, 3]] * 9}}, 400, "batch-size must be <= 8"),
        ("echo:predict", "[" * 100_000, 400, "nesting depth"),
        ("echo:predict", " " * (LIMIT + 1), 400, "request JSON size"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_wrong_request_is_refused_and_harms_no_other(
    server: ServerProcess, path: str, body: typing.Any, status: int, says: str
) -> None:
    got, reply = post(server, path, body)
    assert (got, list(reply)) == (status, ["error"])
    assert says in reply["error"]
    assert post(server, "echo:predict", ROWS) == (200, ANSWER)


def test_another_method_is_405(server: ServerProcess) -> None:
    assert get(server.http, "/v1/models/echo:predict")[0] == 405
    assert call(server.http, "POST", "/v1/models/echo", "{}")[0] == 405
    assert call(server.http, "POST", "/v1/models", "{}")[0] == 405


def test_a_verb_that_does_not_exist_is_404_with_the_one_that_was_meant(
    server: ServerProcess,
) -> None:
    for verb, meant in (("predct", "predict"), ("explains", "explain"), ("classify", "predict")):
        for path in ("echo", "echo/versions/1"):
            status, reply = post(server, f"{path}:{verb}", ROWS)
            assert status == 404
            assert f"did you mean /v1/models/{path}:{meant}?" in reply["error"]


def test_bodies_are_compressed_and_bounded(server: ServerProcess) -> None:
    packed = gzip.compress(json.dumps(ROWS).encode())
    assert post(server, "echo:predict", packed, **{"Content-Encoding": "gzip"}) == (200, ANSWER)
    bomb = gzip.compress(b" " * (LIMIT + 1))
    status, reply = post(server, "echo:predict", bomb, **{"Content-Encoding": "gzip"})
    assert status == 400
    assert str(LIMIT) in reply["error"]
    row = [0.5] * 1000
    status, text = call(
        server.http,
        "POST",
        "/v1/models/wide:predict",
        {"instances": [{"x": row}]},
        **{"Accept-Encoding": "gzip"},
    )
    assert (status, json.loads(gzip.decompress(text))) == (200, {"predictions": [row]})


def test_large_bodies_are_read_and_written_as_small_ones(server: ServerProcess) -> None:
    rows = [[float(number) for number in range(60_000)] for _ in range(2)]
    status, reply = post(server, "wide:predict", {"instances": [{"x": row} for row in rows]})
    assert (status, reply) == (200, {"predictions": rows})
    status, reply = post(server, "wide:predict", {"inputs": {"x": [[1.0] * 100_000, ["a"]]}})
    assert status == 400
    assert 'inputs["x"][1]' in reply["error"]


def reply_to(
    server: ServerProcess, body: typing.Any, **headers: str
) -> tuple[dict[str, str], typing.Any]:
    with contextlib.closing(http.client.HTTPConnection(server.http)) as connection:
        connection.request("POST", "/v1/models/echo:predict", json.dumps(body), headers)
        reply = connection.getresponse()
        assert reply.status == 200
        return {name.lower(): value for name, value in reply.getheaders()}, json.load(reply)


def test_who_sends_a_cloud_event_gets_one(server: ServerProcess) -> None:
    attributes = {"id": "1", "source": "tests", "type": "ask", "specversion": "1.0"}
    headers, reply = reply_to(server, ROWS, **{f"ce-{name}": value for name, value in attributes.items()})  # fmt: skip
    assert reply == ANSWER
    assert headers["content-type"] == "application/json"
    assert headers["ce-source"] == "io.kserve.inference.echo"
    assert headers["ce-type"] == "io.kserve.inference.response"
    assert headers["ce-specversion"] == "1.0"
    assert {"ce-id", "ce-time"} < headers.keys()
    kind = {"Content-Type": "application/cloudevents+json"}
    headers, reply = reply_to(server, {**attributes, "data": ROWS}, **kind)
    assert headers["content-type"] == kind["Content-Type"]
    assert not any(name.startswith("ce-") for name in headers)
    assert list(reply) == ["specversion", "id", "source", "type", "time", "data"]
    assert reply["data"] == ANSWER
    status, refused = post(server, "echo:predict", {**attributes}, **kind)
    assert status == 400
    assert "CloudEvent without 'data'" in refused["error"]


def test_the_id_of_a_request_is_in_the_access_log(server: ServerProcess) -> None:
    post(server, "echo:predict", ROWS, **{"X-Request-Id": "seven-of-nine"})
    wait_until(lambda: "request id: seven-of-nine" in server.output(), what="no line in the log")
    line = next(line for line in server.output().splitlines() if "seven-of-nine" in line)
    assert "POST /v1/models/echo:predict 200" in line
    assert "model=echo version=1" in line


def test_a_client_that_goes_cancels_its_prediction(
    server: ServerProcess, tmp_path: pathlib.Path
) -> None:
    connection = http.client.HTTPConnection(server.http)
    body = json.dumps({"instances": [str(tmp_path)]})
    connection.request("POST", "/v1/models/waits:predict", body)
    wait_until((tmp_path / "began").exists, what="the request in the model")
    connection.close()
    wait_until((tmp_path / "cancelled").exists, what="the end of the request")
    assert post(server, "echo:predict", ROWS) == (200, ANSWER)


@pytest.mark.parametrize("engine", ["native", "uvicorn"])
def test_tokens_and_restrictions_guard_it_as_v2(
    models: pathlib.Path, tmp_path: pathlib.Path, engine: str
) -> None:
    token = tmp_path / "token"
    token.write_text("secret\n")
    options = (
        f"--http-engine={engine}",
        "--model-control-mode=explicit",
        "--load-model=add",
        f"--auth-token-file={token}",
        "--http-restricted-api=inference:key=hush",
        "--http-base-path=/api",
    )
    body = {"instances": [[1, 2, 3, 4]]}
    with launched(models, tmp_path, *options) as server:
        for base in ("", "/api"):

            def ask(
                method: str,
                path: str,
                content: typing.Any = None,
                base: str = base,
                **headers: str,
            ) -> int:
                return call(server.http, method, base + path, content, **headers)[0]

            known = {"Authorization": "secret"}
            assert ask("GET", "/v1/models/add") == 200
            assert ask("GET", "/v1/models") == 401
            assert ask("GET", "/v1/models", **known) == 200
            for verb in ("predict", "explain"):
                path = f"/v1/models/add:{verb}"
                assert ask("POST", path, body) == 401
                assert ask("POST", path, body, **known) == 403
            assert ask("POST", "/v1/models/add:predict", body, key="hush", **known) == 200
            assert ask("POST", "/v1/models/add%3Apredict", body, **known) == 403
        # Without a token the readiness of a model says nothing of other models.
        assert "add" not in get(server.http, "/v1/models/other")[1].decode()


@pytest.mark.parametrize("engine", ["native", "uvicorn"])
def test_it_can_be_turned_off(models: pathlib.Path, tmp_path: pathlib.Path, engine: str) -> None:
    options = (
        f"--http-engine={engine}",
        "--model-control-mode=explicit",
        "--load-model=add",
        "--allow-kserve-v1=false",
    )
    with launched(models, tmp_path, *options) as server:
        for path in ("/v1/models", "/v1/models/add"):
            assert get(server.http, path)[0] == 404
        status, text = call(
            server.http, "POST", "/v1/models/add:predict", {"instances": [[1, 2, 3, 4]]}
        )
        assert status == 404
        assert "this server has no path" in json.loads(text)["error"]
        assert get(server.http, "/v2/health/live")[0] == 200

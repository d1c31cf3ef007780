"""A real server with `--http-base-path`, as clients behind a gateway that keeps its prefix call it (PAI-EAS: /api/predict/NAME)."""

import collections.abc
import http.client
import json
import pathlib
from typing import Any

import numpy as np
import pytest
import tritonclient.http as http_client
import tritonclient.utils

from tests.reference.process import ServerProcess
from tests.wire.plain_http import call, get
from tests.wire.process.test_process import ADD, launched

BASE = "/api/predict/demo"
TOKEN = {"Authorization": "secret"}
ADMINISTRATOR = {**TOKEN, "admin-key": "hush"}
BODY = {
    "inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1.0, 2.0, 3.0, 4.0]}]
}


@pytest.fixture(scope="module")
def server(
    models: pathlib.Path, tmp_path_factory: pytest.TempPathFactory
) -> collections.abc.Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("server")
    token = folder / "token"
    token.write_text("secret\n")
    options = (
        *ADD,
        f"--http-base-path={BASE}/",
        f"--auth-token-file={token}",
        "--http-restricted-api=model-repository:admin-key=hush",
    )
    with launched(models, folder, *options) as running:
        yield running


@pytest.fixture
def client(
    server: ServerProcess,
) -> collections.abc.Iterator[http_client.InferenceServerClient]:
    with http_client.InferenceServerClient(server.http + BASE) as made:
        yield made


def error_of(reply: tuple[int, bytes]) -> str:
    text = json.loads(reply[1])["error"]
    assert isinstance(text, str)
    return text


def test_the_official_client_calls_every_route_below_the_prefix(
    client: http_client.InferenceServerClient,
) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("add", "1")
    assert client.get_server_metadata(headers=TOKEN)["name"]
    assert client.get_model_metadata("add", headers=TOKEN)["name"] == "add"
    assert client.get_model_config("add", headers=TOKEN)["name"] == "add"
    assert client.get_inference_statistics("add", headers=TOKEN)["model_stats"]
    index = client.get_model_repository_index(headers=ADMINISTRATOR)
    assert {model["name"] for model in index} >= {"add"}
    client.load_model("add", headers=ADMINISTRATOR)


def test_the_official_client_infers_below_the_prefix(
    client: http_client.InferenceServerClient,
) -> None:
    values = np.arange(8, dtype=np.float32).reshape(2, 4)
    for binary in (True, False, True):
        entry = http_client.InferInput("x", [2, 4], "FP32")
        entry.set_data_from_numpy(values, binary_data=binary)
        result = client.infer("add", [entry], headers=dict(TOKEN))  # the client writes into it
        assert np.array_equal(result.as_numpy("y"), values + values)


@pytest.mark.parametrize("prefix", ["", BASE])
def test_every_path_works_with_and_without_the_prefix(server: ServerProcess, prefix: str) -> None:
    for path in ("/v2/health/live", "/v2/health/ready", "/v2/models/add/ready"):
        assert get(server.http, prefix + path)[0] == 200
    status, reply = call(server.http, "POST", f"{prefix}/v2/models/add/infer", BODY, **TOKEN)
    assert (status, json.loads(reply)["outputs"][0]["data"]) == (200, [2.0, 4.0, 6.0, 8.0])
    generate: dict[str, Any] = {"x": [1.0, 2.0, 3.0, 4.0]}
    status, reply = call(server.http, "POST", f"{prefix}/v2/models/add/generate", generate, **TOKEN)
    assert (status, json.loads(reply)["y"]) == (200, [2.0, 4.0, 6.0, 8.0])
    assert get(server.http, f"{prefix}/docs", **TOKEN)[0] == 200
    servers = json.loads(get(server.http, f"{prefix}/openapi.json", **TOKEN)[1])["servers"]
    assert servers == [{"url": BASE}, {"url": "/"}]


@pytest.mark.parametrize("path", ["/v2", "/v2/models/add", "/v2/models/add/infer", "/docs"])
def test_a_token_is_required_below_the_prefix(server: ServerProcess, path: str) -> None:
    assert get(server.http, BASE + path)[0] == 401
    assert get(server.http, BASE + path, **TOKEN)[0] != 401


@pytest.mark.parametrize("path", ["/v2/repository/index", "/v2/repository/nothing"])
def test_a_restriction_holds_below_the_prefix(server: ServerProcess, path: str) -> None:
    assert call(server.http, "POST", BASE + path, **TOKEN)[0] == 403
    assert call(server.http, "POST", BASE + path, **ADMINISTRATOR)[0] != 403


def test_a_prefix_given_twice_leads_nowhere(server: ServerProcess) -> None:
    reply = call(server.http, "POST", f"{BASE}{BASE}/v2/repository/index", **TOKEN)
    assert reply[0] == 404


def test_unknown_paths_are_answered_with_the_prefix(server: ServerProcess) -> None:
    reply = get(server.http, f"{BASE}/v2/models/ad/config", **TOKEN)
    assert "unknown model: 'ad'" in error_of(reply)
    reply = get(server.http, f"{BASE}/v2/models/add/confg", **ADMINISTRATOR)
    assert reply[0] == 404
    assert error_of(reply).startswith(
        f"Not Found: this server has no path {BASE}/v2/models/add/confg; did you mean {BASE}/v2/models/add/config?"
    )
    assert error_of(reply).endswith(f"GET {BASE}/docs shows every path")


@pytest.mark.parametrize("prefix", ["/api/predict/demo2", "/api/predict", "/gateway"])
def test_another_prefix_is_not_served_and_the_message_says_how(
    server: ServerProcess, prefix: str
) -> None:
    reply = get(server.http, f"{prefix}/v2/models/add", **TOKEN)
    assert reply[0] == 404
    assert (
        f"did you mean /v2/models/add? --http-base-path={prefix} serves it here, too"
        in error_of(reply)
    )


def test_a_large_body_below_the_prefix_has_the_limit_of_the_route(server: ServerProcess) -> None:
    """A binary tensor may be larger than `--http-max-input-size`, a probe's body may not."""
    connection = http.client.HTTPConnection(server.http, timeout=120)
    connection.putrequest("GET", f"{BASE}/v2/health/live")
    connection.putheader("Content-Length", str(1 << 20))
    connection.endheaders()
    reply = connection.getresponse()
    assert reply.status == 400
    assert "exceeds the maximum" in reply.read().decode()
    connection.close()


def test_the_official_client_gets_the_error_of_an_unknown_model(
    client: http_client.InferenceServerClient,
) -> None:
    with pytest.raises(tritonclient.utils.InferenceServerException, match="unknown model"):
        client.get_model_metadata("nothing", headers=TOKEN)

"""A real server with `--auth-token-file`: both protocols ask, health and the metrics port do not, a new token counts."""

import collections.abc
import contextlib
import http.client
import pathlib

import pytest
import tritonclient.grpc as grpc_client
import tritonclient.utils

from tests.reference.process import ServerProcess
from tests.support.waiting import wait_until
from tests.wire.plain_http import get
from tests.wire.process.test_process import ADD, launched

TOKEN = {"Authorization": "Bearer first"}


@pytest.fixture(scope="module")
def token_file(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    path = tmp_path_factory.mktemp("auth") / "token"
    path.write_text("first\n")
    return path


@pytest.fixture(scope="module")
def server(
    models: pathlib.Path, token_file: pathlib.Path, tmp_path_factory: pytest.TempPathFactory
) -> collections.abc.Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("server")
    with launched(models, folder, *ADD, f"--auth-token-file={token_file}") as running:
        yield running


@pytest.mark.parametrize(
    "path", ["/v2", "/v2/models/add", "/v2/repository/index", "/docs", "/nothing"]
)
@pytest.mark.slow
def test_http_asks_for_a_token(server: ServerProcess, path: str) -> None:
    assert get(server.http, path)[0] == 401
    assert get(server.http, path, Authorization="wrong")[0] == 401
    assert get(server.http, path, **TOKEN)[0] != 401


def test_health_and_the_metrics_port_stay_open(server: ServerProcess) -> None:
    for path in ("/v2/health/live", "/v2/health/ready", "/v2/models/add/ready"):
        assert get(server.http, path)[0] == 200
    for path in ("/metrics", "/status"):
        assert get(server.metrics, path)[0] == 200


def test_grpc_asks_for_a_token(server: ServerProcess) -> None:
    with grpc_client.InferenceServerClient(server.grpc) as client:
        assert client.is_server_ready()
        assert client.is_model_ready("add")
        with pytest.raises(tritonclient.utils.InferenceServerException, match="UNAUTHENTICATED"):
            client.get_server_metadata()
        for token in ("first", "Bearer first"):
            assert client.get_server_metadata(headers={"authorization": token}).name


@pytest.mark.slow
def test_a_new_token_counts_on_a_connection_that_was_there(
    models: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    path = tmp_path / "token"
    path.write_text("first")
    with launched(models, tmp_path, *ADD, f"--auth-token-file={path}") as server:
        connection = http.client.HTTPConnection(server.http, timeout=60)

        def infer() -> int:
            """The same bytes each time: the server knows their head and their handler by now."""
            body = '{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}]}'
            connection.request("POST", "/v2/models/add/infer", body, headers=TOKEN)
            reply = connection.getresponse()
            reply.read()
            return reply.status

        with contextlib.closing(connection):
            assert infer() == 200
            other = tmp_path / "new"
            other.write_text("second")
            other.replace(path)
            wait_until(lambda: infer() == 401)
        assert get(server.http, "/v2/models/add", **TOKEN)[0] == 401
        assert get(server.http, "/v2/models/add", Authorization="second")[0] == 200


def test_a_missing_file_stops_the_start(models: pathlib.Path, tmp_path: pathlib.Path) -> None:
    server = launched(models, tmp_path, f"--auth-token-file={tmp_path / 'none'}")
    with pytest.raises(Exception, match="name a file with one token per line"), server:
        pass

"""No spelling of a path gets around `--http-restricted-api` or `--auth-token-file`."""

import collections.abc
import json
import pathlib

import pytest

from tests.reference.process import ServerProcess
from tests.support.http_engine import INVALID, UVICORN
from tests.wire.plain_http import call
from tests.wire.process.test_process import launched
from tests.wire.protocol.raw_http import exchange

PATHS = {
    "/v2": "GET",
    "/v2/models/stats": "GET",
    "/v2/models/add": "GET",
    "/v2/models/add/config": "GET",
    "/v2/models/add/versions/1/stats": "GET",
    "/v2/models/add/infer": "POST",
    "/v2/repository/index": "POST",
    "/v2/repository/models/add/unload": "POST",
    "/v2/repository/models/add/load": "POST",
    "/v2/systemsharedmemory/status": "GET",
    "/v2/logging": "GET",
    "/v2/trace/setting": "GET",
}
_ODD = (
    "%0A",
    "%0D",
    "%00",
    "%0B",
    "%0C",
    "%09",
    "%20",
    "%85",
    "%C2%85",
    "%E2%80%A8",
    "%2F",
    "/",
    "//",
    "/.",
    "/..",
    "/%2e",
    ";x",
    "%3F",
    "%23",
    "\x85",
)


def spellings(path: str) -> collections.abc.Iterator[str]:
    """Targets that a careless reader could take for `path`."""
    for odd in _ODD:
        yield path + odd
        yield odd + path
        yield path.replace("/v2", "/v2" + odd, 1)
        yield path.replace("/v2", "/" + odd + "v2", 1)
    yield path.upper()
    yield path.replace("v2", "V2")
    yield path.replace("/v2", "/v2/../v2", 1)
    yield path.replace("/v2", "/%76%32", 1)
    yield path.replace("/", "%2F")
    yield "/x/.." + path
    yield path + "?x=%0A"
    yield path + "#x"
    yield "http://localhost" + path
    yield "http://localhost" + path + "%0A"
    yield "HTTP://u:p@localhost:1" + path + "/"
    yield "//localhost" + path


CATEGORIES = (
    "health,metadata,inference,shared-memory,model-config,model-repository,statistics,trace,logging"
)


@pytest.fixture(scope="module")
def restricted(
    models: pathlib.Path, tmp_path_factory: pytest.TempPathFactory
) -> collections.abc.Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("restricted")
    options = (
        f"--http-restricted-api={CATEGORIES}:key=open",
        "--model-control-mode=explicit",
        "--load-model=add",
    )
    with launched(models, folder, *options) as server:
        yield server


@pytest.fixture(scope="module")
def with_tokens(
    models: pathlib.Path, tmp_path_factory: pytest.TempPathFactory
) -> collections.abc.Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("tokens")
    (folder / "token").write_text("open\n")
    options = (
        f"--auth-token-file={folder / 'token'}",
        "--model-control-mode=explicit",
        "--load-model=add",
    )
    with launched(models, folder, *options) as server:
        yield server


def refused(server: ServerProcess, method: str, target: str) -> None:
    head = (
        f"{method} {target} HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    )
    status, body = exchange(server.http, head.encode("latin-1"), method=method)
    assert status in (400, 401, 403, 404), (method, target, status, body)
    if method != "HEAD" and not (UVICORN and body == INVALID):
        assert set(json.loads(body)) == {"error"}, (method, target, body)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.slow
def test_no_spelling_of_a_path_passes_a_restriction(restricted: ServerProcess, path: str) -> None:
    for target in spellings(path):
        for method in dict.fromkeys((PATHS[path], "HEAD", "OPTIONS", "POST")):
            refused(restricted, method, target)


@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS)
def test_no_spelling_of_a_path_passes_the_tokens(with_tokens: ServerProcess, path: str) -> None:
    for target in spellings(path):
        refused(with_tokens, PATHS[path], target)


@pytest.mark.slow
def test_the_model_is_still_loaded(restricted: ServerProcess, with_tokens: ServerProcess) -> None:
    """Runs behind the others: none of their calls unloaded it."""
    for server, headers in (
        (restricted, {"key": "open"}),
        (with_tokens, {"Authorization": "open"}),
    ):
        assert call(server.http, "GET", "/v2/models/add/ready", **headers)[0] == 200


def test_with_the_key_a_control_character_is_still_refused_and_an_unknown_path_is_not_found(
    restricted: ServerProcess,
) -> None:
    status, body = call(restricted.http, "GET", "/v2/models/add/config%0A", key="open")
    assert (status, "control character" in json.loads(body)["error"]) == (400, True)
    assert call(restricted.http, "GET", "/v2/nothing", key="open")[0] == 404
    assert call(restricted.http, "GET", "/v2/nothing")[0] == 403


@pytest.mark.parametrize("target", ["/metrics%0A", "/status%0A", "/%0Ametrics"])
def test_the_metrics_port_takes_no_control_characters_either(
    restricted: ServerProcess, target: str
) -> None:
    assert call(restricted.metrics, "GET", target)[0] == 400

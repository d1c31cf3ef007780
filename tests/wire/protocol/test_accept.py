"""Odd `Accept` headers on every route of both engines of HTTP and on the metrics port: they are read where they choose something, and fail no request."""

import collections.abc
import json
import pathlib

import pytest

from tests.reference.process import ServerProcess
from tests.wire.plain_http import call
from tests.wire.process.test_process import ADD, launched

ODD = [
    "*/*;q=0",
    "application/octet-stream",
    "text/html, application/json;q=0.1, */*;q=0",
    "application/json;q=2, text/plain;q=-1;q=x",
    ",;=,;;q=,\xff\xfe",
    '"',
    "*",
    "",
    'text/event-stream;q=0, application/openmetrics-text;version="',
    "a/b;c=d, " * 800,
]  # fmt: skip
V2 = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}]}
ROUTES: list[tuple[str, str, object]] = [
    ("POST", "/v2/models/add/infer", V2),
    ("POST", "/v1/models/add:predict", {"instances": [[1, 2, 3, 4]]}),
    ("GET", "/v1/models", None),
    ("GET", "/v1/models/add", None),
    ("GET", "/v2", None),
    ("GET", "/v2/health/ready", None),
    ("GET", "/v2/models/add", None),
    ("GET", "/v2/models/add/config", None),
    ("GET", "/v2/models/add/stats", None),
    ("POST", "/v2/repository/index", {}),
    ("GET", "/v2/trace/setting", None),
    ("GET", "/v2/models/add/trace/setting", None),
    ("POST", "/v2/trace/setting", {"trace_count": "5"}),
    ("GET", "/v2/logging", None),
    ("POST", "/v2/logging", {"log_verbose_level": 0}),
    ("GET", "/docs", None),
    ("GET", "/openapi.json", None),
    ("GET", "/nowhere", None),
]


@pytest.fixture(scope="module", params=["native", "uvicorn"])
def server(
    request: pytest.FixtureRequest,
    models: pathlib.Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> collections.abc.Iterator[ServerProcess]:
    options = (*ADD, f"--http-engine={request.param}", "--metrics-config=exemplars=true")
    with launched(models, tmp_path_factory.mktemp("server"), *options) as running:
        yield running


@pytest.mark.parametrize(("method", "path", "body"), ROUTES, ids=lambda value: str(value)[:30])
def test_no_accept_header_changes_an_answer_that_has_one_form(
    server: ServerProcess, method: str, path: str, body: object
) -> None:
    status, _ = call(server.http, method, path, body)
    assert status in (200, 404)
    for accept in ODD:
        assert call(server.http, method, path, body, Accept=accept)[0] == status, accept


def test_metrics_and_status_are_text_and_json_whatever_is_accepted(server: ServerProcess) -> None:
    for accept in ODD:
        status, page = call(server.metrics, "GET", "/metrics", Accept=accept)
        assert (status, page.endswith(b"# EOF\n")) == (200, False)
        status, page = call(server.metrics, "GET", "/status", Accept=accept)
        assert (status, json.loads(page)["models"][0]["name"]) == (200, "add")

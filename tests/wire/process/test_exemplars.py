"""`--metrics-config=exemplars=true` of a real server: from a bucket of a histogram to the trace of a request in it."""

import pathlib

import httpx
import pytest
import tritonclient.grpc as grpc_client
import tritonclient.http as http_client
from prometheus_client.openmetrics import parser

from tests.wire.process.test_access_log import TRACE_ID, infer
from tests.wire.process.test_process import ADD, launched

OPEN_METRICS = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.3"


def page(address: str, accept: str = "*/*") -> httpx.Response:
    return httpx.get(f"http://{address}/metrics", headers={"Accept": accept}, trust_env=False)


def traces(text: str, family: str) -> set[str]:
    """The trace ids of a family's exemplars."""
    families = parser.text_string_to_metric_families(text)  # type: ignore[no-untyped-call] # it has no types
    [found] = [each for each in families if each.name == family]
    return {each.exemplar.labels["trace_id"] for each in found.samples if each.exemplar is not None}


@pytest.mark.parametrize("traces_too", [False, True])
def test_a_scraper_that_asks_for_openmetrics_gets_trace_ids(
    models: pathlib.Path, tmp_path: pathlib.Path, *, traces_too: bool
) -> None:
    options = ["--metrics-config=exemplars=true"]
    if traces_too:
        options += (
            f"--trace-config=triton,file={tmp_path / 'trace.json'}",
            "--trace-config=level=TIMESTAMPS",
            "--trace-config=rate=1",
        )
    with launched(models, tmp_path, *ADD, *options) as server:
        assert TRACE_ID not in page(server.metrics, OPEN_METRICS).text
        with http_client.InferenceServerClient(server.http) as client:
            infer(client, http_client)
        over_http = page(server.metrics, OPEN_METRICS)
        with grpc_client.InferenceServerClient(server.grpc) as client:
            infer(client, grpc_client)
        text = page(server.metrics, OPEN_METRICS).text
        plain = page(server.metrics)
    assert (
        over_http.headers["Content-Type"]
        == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    )
    for family in ("naiad_request_duration_seconds", "naiad_queue_duration_seconds"):
        assert traces(over_http.text, family) == {TRACE_ID}
        assert traces(text, family) == {TRACE_ID}
    assert text.endswith("# EOF\n")
    assert plain.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert TRACE_ID not in plain.text


def test_without_the_setting_there_is_only_text(
    models: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    with launched(models, tmp_path, *ADD) as server:
        with http_client.InferenceServerClient(server.http) as client:
            infer(client, http_client)
        answer = page(server.metrics, OPEN_METRICS)
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert "# EOF" not in answer.text

"""What loading a model took of memory, as clients see it on the real server."""

import json
import re
import typing

import pytest

from tests.reference.process import ServerProcess
from tests.wire.plain_http import call
from tests.wire.test_clients import CLIENTS, client

MB = 1_000_000


@pytest.mark.parametrize("protocol", CLIENTS)
def test_tritonclient_reads_the_memory_of_a_model(server: ServerProcess, protocol: str) -> None:
    with client(protocol, server) as (asked, _):
        if protocol == "grpc":
            found = asked.get_inference_statistics("add", as_json=True)
        else:
            found = asked.get_inference_statistics("add")
    (usage,) = found["model_stats"][0]["memory_usage"]
    assert usage["type"] == "CPU"
    assert 0 < int(usage["byte_size"]) < 1000 * MB


def test_statistics_metrics_and_index_agree(server: ServerProcess) -> None:
    _, statistics = call(server.http, "GET", "/v2/models/stats")
    of_statistics = {
        model["name"]: usage["byte_size"]
        for model in json.loads(statistics)["model_stats"]
        for usage in model["memory_usage"]
    }
    _, page = call(server.metrics, "GET", "/metrics")
    of_metrics = {
        name: int(value)
        for name, value in re.findall(
            r'^naiad_model_memory_bytes{.*model="([^"]+)",type="CPU",.*} (\d+)$',
            page.decode(),
            re.MULTILINE,
        )
    }
    assert of_statistics == of_metrics != {}
    plain = index(server)
    assert not any("memory_usage" in entry for entry in plain)
    asked = index(server, memory=True)
    of_index = {
        entry["name"]: usage["byte_size"]
        for entry in asked
        for usage in entry.pop("memory_usage", ())
    }
    assert of_index == of_statistics
    assert asked == plain


def index(server: ServerProcess, **wanted: bool) -> list[dict[str, typing.Any]]:
    status, body = call(server.http, "POST", "/v2/repository/index", wanted)
    assert status == 200
    entries = json.loads(body)
    assert isinstance(entries, list)
    return entries

"""Trace and log settings over HTTP: what a change does, and what is refused in which words."""

import collections.abc
import json
import typing

import httpx
import pytest

from naiad.protocol.http.admin.control_plane import ControlPlane
from naiad.protocol.http.routes import HttpOptions, Routes
from tests.server.protocol.http.scripted_engine import ScriptedEngine

LOG_FILE = "log file location can not be updated through network protocol"
TRACE_FILE = "trace file location can not be updated through network protocol"
TRACE = {
    "trace_level": ["OFF"],
    "trace_rate": "1000",
    "trace_count": "-1",
    "log_frequency": "0",
    "trace_file": "t.json",
    "trace_mode": "triton",
}
LOG = {
    "log_file": "",
    "log_info": True,
    "log_warning": True,
    "log_error": True,
    "log_verbose_level": 0,
    "log_format": "default",
}

Browse = collections.abc.Callable[..., collections.abc.Awaitable[httpx.Response]]


@pytest.fixture(scope="module")
def plane() -> tuple[ScriptedEngine, ControlPlane]:
    """Its application takes longer to build than a request."""
    engine = ScriptedEngine()
    return engine, ControlPlane(engine, Routes(engine, HttpOptions()), {})


@pytest.fixture
def browse(plane: tuple[ScriptedEngine, ControlPlane]) -> Browse:
    """Calls the control plane of an engine that is as new."""
    engine, app = plane
    fresh = ScriptedEngine()
    engine.tracer, engine.logs = fresh.tracer, fresh.logs
    client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://server")

    async def browse(verb: str, path: str, **more: typing.Any) -> httpx.Response:
        return await client.request(verb, path, **more)

    return browse


async def test_the_settings_are_shown(browse: Browse) -> None:
    assert (await browse("GET", "/v2/trace/setting")).json() == TRACE
    assert (await browse("GET", "/v2/models/m/trace/setting")).json() == TRACE
    assert (await browse("GET", "/v2/logging")).json() == LOG


async def test_a_change_responds_with_all_settings(browse: Browse) -> None:
    change = {"trace_level": ["TENSORS", "bogus"], "trace_rate": "5", "other": 1}
    reply = await browse("POST", "/v2/models/m/trace/setting", content=json.dumps(change))
    assert reply.json() == TRACE | {"trace_level": ["TENSORS"], "trace_rate": "5"}
    assert (await browse("GET", "/v2/trace/setting")).json() == TRACE
    reply = await browse("POST", "/v2/models/m/trace/setting", content='{"trace_rate":null}')
    assert reply.json() == TRACE | {"trace_level": ["TENSORS"]}
    reply = await browse(
        "POST", "/v2/logging", content='{"log_info":false,"log_format":"ISO8601","log_error":null}'
    )
    assert reply.json() == LOG | {"log_info": False, "log_format": "ISO8601"}


@pytest.mark.parametrize("path", ["/v2/trace/setting", "/v2/logging"])
async def test_a_change_of_nothing_is_a_question(browse: Browse, path: str) -> None:
    shown = (await browse("GET", path)).json()
    for body in ("{}", "[]", "5"):
        assert (await browse("POST", path, content=body)).json() == shown
    assert (await browse("POST", path, content=b"")).status_code == 500
    assert (await browse("PUT", path, content=b"")).status_code == 405


async def test_an_unknown_model_has_no_trace_setting(browse: Browse) -> None:
    for method in ("GET", "POST"):
        assert (await browse(method, "/v2/models/n/trace/setting", content="{}")).status_code == 404


@pytest.mark.parametrize(
    ("change", "status", "message"),
    [
        ({"trace_file": None}, 501, TRACE_FILE),
        ({"trace_level": "OFF"}, 500, "attempt to access JSON non-array as array"),
        ({"trace_level": [1]}, 500, "attempt to access JSON non-string as string"),
        ({"trace_level": ["OFF", "TENSORS"]}, 400, "Expect only one trace level 'OFF' is specified"),
        ({"trace_rate": 5}, 500, "attempt to access JSON non-string as string"),
        ({"trace_rate": "x"}, 400, "Unable to parse 'trace_rate', got: x"),
        ({"trace_count": "-2"}, 400, "Unable to parse 'trace_count'. Expecting value >= -1, got:-2"),
        ({"trace_level": ["TENSORS"], "trace_rate": "0"}, 400, "Attempting to set invalid trace setting :sample rate must be non-zero"),
    ],
)  # fmt: skip
async def test_trace_settings_that_are_refused(
    browse: Browse, change: dict[str, typing.Any], status: int, message: str
) -> None:
    reply = await browse("POST", "/v2/trace/setting", content=json.dumps(change))
    assert (reply.status_code, reply.json()) == (status, {"error": message})
    assert (await browse("GET", "/v2/trace/setting")).json() == TRACE


@pytest.mark.parametrize(
    ("change", "status", "message"),
    [
        ({"log_file": "x"}, 501, LOG_FILE),
        ({"log_info": 1}, 500, "attempt to access JSON non-boolean as boolean"),
        ({"log_verbose_level": -1}, 500, "attempt to access JSON non-unsigned-integer as unsigned-integer"),
        ({"log_verbose_level": True}, 500, "attempt to access JSON non-unsigned-integer as unsigned-integer"),
        ({"log_format": 1}, 500, "attempt to access JSON non-string as string"),
        ({"log_error": False, "log_format": "json"}, 503, "invalid argument for --log_format, got: json"),
    ],
)  # fmt: skip
async def test_log_settings_that_are_refused_change_nothing(
    browse: Browse, change: dict[str, typing.Any], status: int, message: str
) -> None:
    reply = await browse("POST", "/v2/logging", content=json.dumps(change))
    assert (reply.status_code, reply.json()) == (status, {"error": message})
    assert (await browse("GET", "/v2/logging")).json() == LOG

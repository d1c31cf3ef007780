"""Trace and log settings over both protocols (9.1 to 9.9, 9.20 to 9.24, 10.41): what a change does, and what is refused in which words."""

import json
from typing import Any

import pytest
from google.protobuf import json_format
from tritonclient.grpc import service_pb2 as pb

from tests.conformance.conftest import Ask
from tests.conformance.scenarios.scenario import Scenario
from tests.conformance.scenarios.wire import Answer, Target

_SERVER = "traced"
_ALL = "/v2/trace/setting"
_CLEARED = dict.fromkeys(("trace_level", "trace_rate", "trace_count", "log_frequency"))

Step = tuple[str, Any]
"""A path, and the body of a POST; without a body it is a GET."""


def of(model: str) -> str:
    """The path of a model's trace settings."""
    return f"/v2/models/{model}/trace/setting"


def cleared(target: Target) -> None:
    """The settings as at the start; those of models first, as the reference refuses a global change if a model's count is used up."""
    for model in ("first", "second"):
        target.http("POST", of(model), json.dumps(_CLEARED))
    target.http("POST", _ALL, json.dumps(_CLEARED))


def _shown(status: int, body: bytes) -> Any:
    try:
        found = json.loads(body)
    except ValueError:
        return {"status": status, "body": body.decode()}
    if status == 404:  # ours names what there is
        found = {}
    if isinstance(found, dict):
        found.pop("trace_file", None)
    return {"status": status, "body": found}


def _steps(target: Target, steps: tuple[Step, ...]) -> Answer:
    cleared(target)
    answers = []
    for path, body in steps:
        sent = body if isinstance(body, bytes | None) else json.dumps(body)
        reply = target.http("GET" if body is None else "POST", path, sent)
        answers.append(_shown(reply.status, reply.body))
    cleared(target)
    return {"answers": answers}


def http(name: str, rows: str, *steps: Step, server: str = _SERVER, **expect: Any) -> Scenario:
    """A scenario of several calls; `status` is that of the last one."""
    last = len(steps) - 1
    stated = {f"answers.{last}.{key.replace('__', '.')}": leaf for key, leaf in expect.items()}
    return Scenario(
        name=f"trace settings: {name}",
        rows=tuple(rows.split()),
        ask=lambda target: _steps(target, steps),
        expect=stated,
        server=server,
    )


ON = {"trace_level": ["TIMESTAMPS"]}

TRACE = [
    http("as at the start", "9.1 9.2", (_ALL, None), status=200, body__trace_rate="7", body__trace_count="-1", body__trace_mode="triton"),
    http("of a model", "9.1", (of("first"), None), status=200, body__trace_rate="7"),
    http("with a version", "9.1", ("/v2/models/first/versions/1/trace/setting", None), status=404),
    http("nothing", "9.3", (_ALL, {}), status=200),
    http("an array", "9.3", (_ALL, []), status=200),
    http("an unknown member", "9.3", (_ALL, {"bogus": "1"}), status=200),
    http("the mode", "9.3", (_ALL, {"trace_mode": "opentelemetry"}), status=200, body__trace_mode="triton"),
    http("a level", "9.3", (_ALL, ON), status=200, body__trace_level__0="TIMESTAMPS"),
    http("two levels", "9.3", (_ALL, {"trace_level": ["TENSORS", "TIMESTAMPS"]}), status=200, body__trace_level__1="TENSORS"),
    http("a level twice", "9.3", (_ALL, {"trace_level": ["TENSORS", "TENSORS"]}), status=200),
    http("an unknown level", "9.3", (_ALL, {"trace_level": ["LOUD"]}), status=200, body__trace_level__0="OFF"),
    http("a known level beside an unknown one", "9.3", (_ALL, {"trace_level": ["LOUD", "TENSORS"]}), status=200),
    http("no level", "9.3", (_ALL, ON), (_ALL, {"trace_level": []}), status=200, body__trace_level__0="TIMESTAMPS"),
    http("off", "9.3", (_ALL, ON), (_ALL, {"trace_level": ["OFF"]}), status=200, body__trace_level__0="OFF"),
    http("off beside a level", "9.3", (_ALL, {"trace_level": ["TENSORS", "OFF"]}), status=400),
    http("off twice", "9.3", (_ALL, {"trace_level": ["OFF", "OFF"]}), status=400),
    http("a level as text", "9.3", (_ALL, {"trace_level": "TIMESTAMPS"}), status=500),
    http("a level as a number", "9.3", (_ALL, {"trace_level": [1]}), status=500),
    http("a rate as a number", "9.3", (_ALL, {"trace_rate": 5}), status=500),
    http("a rate", "9.3", (_ALL, {"trace_rate": "5"}), status=200, body__trace_rate="5"),
    http("a rate with more behind it", "9.3", (_ALL, {"trace_rate": " 5x"}), status=200, body__trace_rate="5"),
    http("a negative rate", "9.7", (_ALL, {"trace_rate": "-1"}), status=200, body__trace_rate="4294967295"),
    http("a rate that is not a number", "9.7", (_ALL, {"trace_rate": "x"}), status=400),
    http("an empty rate", "9.7", (_ALL, {"trace_rate": ""}), status=400),
    http("a rate out of range", "9.7", (_ALL, {"trace_rate": "2147483648"}), status=400),
    http("a rate of 0 while it is off", "9.7", (_ALL, {"trace_rate": "0"}), status=200, body__trace_rate="0"),
    http("a rate of 0 while it is on", "9.7", (_ALL, ON), (_ALL, {"trace_rate": "0"}), status=400),
    http("a count", "9.3", (_ALL, {"trace_count": "12"}), status=200, body__trace_count="12"),
    http("a count of 0 while it is off", "9.7", (_ALL, {"trace_count": "0"}), status=200),
    http("a count of 0 while it is on", "9.7", (_ALL, {**ON, "trace_count": "0"}), status=400),
    http("a count of -1", "9.7", (_ALL, {"trace_count": "-1"}), status=200),
    http("a count of -2", "9.7", (_ALL, {"trace_count": "-2"}), status=400),
    http("a count that is not a number", "9.7", (_ALL, {"trace_count": "many"}), status=400),
    http("a count out of range", "9.7", (_ALL, {"trace_count": "99999999999"}), status=400),
    http("a frequency", "9.3", (_ALL, {"log_frequency": "3"}), status=200, body__log_frequency="3"),
    http("a frequency that is not a number", "9.7", (_ALL, {"log_frequency": "x"}), status=400),
    http("a frequency out of range", "9.7", (_ALL, {"log_frequency": "-2147483649"}), status=400),
    http("what is refused changes nothing", "9.7", (_ALL, {"trace_rate": "3", "trace_count": "x"}), (_ALL, None), status=200, body__trace_rate="7"),
    http("null clears", "9.4", (_ALL, {"trace_rate": "3", "trace_count": "4"}), (_ALL, {"trace_rate": None}), status=200, body__trace_rate="7", body__trace_count="4"),
    http("a model's own", "9.9", (of("first"), {"trace_rate": "3"}), (of("second"), None), status=200, body__trace_rate="7"),
    http("a model follows", "9.9", (of("first"), {"trace_rate": "3"}), (_ALL, {"trace_count": "9", "trace_rate": "4"}), (of("first"), None),
         status=200, body__trace_rate="3", body__trace_count="9"),
    http("null of a model", "9.4", (_ALL, {"trace_rate": "4"}), (of("first"), {"trace_rate": "3", "log_frequency": "2"}), (of("first"), {"trace_rate": None}),
         status=200, body__trace_rate="4", body__log_frequency="2"),
    http("all of a model cleared", "9.4", (of("first"), {"trace_rate": "3"}), (of("first"), _CLEARED), (_ALL, {"trace_rate": "6"}), (of("first"), None),
         status=200, body__trace_rate="6"),
    http("the file", "9.5", (_ALL, {"trace_file": "elsewhere.json"}), status=501),
    http("the file, null", "9.5", (_ALL, {"trace_file": None}), status=501),
    http("of an unknown model", "9.8", (of("nonesuch"), None), status=404),
    http("on without a file", "9.6", (_ALL, ON), status=400, server="main"),
    http("a change of an unknown model", "9.8", (of("nonesuch"), {"trace_rate": "3"}), status=404),
]  # fmt: skip


def _call(target: Target, method: str, message: Any, response: Any) -> Answer:
    reply = target.call(method, message)
    found: Answer = {"code": reply.code}
    if reply.code != "OK":
        return {**found, "text": reply.message}
    settings = json_format.MessageToDict(response.FromString(reply.body)).get("settings", {})
    settings.pop("trace_file", None)
    return {**found, "settings": settings}


def _trace_call(target: Target, model: str, settings: dict[str, list[str]]) -> Answer:
    cleared(target)
    message = pb.TraceSettingRequest(model_name=model)
    for name, values in settings.items():
        message.settings[name].value.extend(values)
        message.settings[name].SetInParent()
    answer = _call(target, "TraceSetting", message, pb.TraceSettingResponse)
    cleared(target)
    return answer


def rpc(name: str, rows: str, code: str, /, model: str = "", **settings: list[str]) -> Scenario:
    """A scenario of one TraceSetting."""
    return Scenario(
        name=f"TraceSetting: {name}",
        rows=("10.41", *rows.split()),
        ask=lambda target: _trace_call(target, model, settings),
        expect={"code": code},
        server=_SERVER,
    )


CALLS = [
    rpc("nothing", "9.1", "OK"),
    rpc("of a model", "9.1", "OK", model="first"),
    rpc("several", "9.3", "OK", trace_level=["TENSORS", "TIMESTAMPS"], trace_rate=["3"], trace_count=["4"], log_frequency=["5"]),
    rpc("of a model, several", "9.9", "OK", model="second", trace_rate=["3"], log_frequency=["5"]),
    rpc("cleared", "9.4", "OK", trace_rate=[], trace_level=[]),
    rpc("an unknown one", "9.3", "OK", bogus=["1"]),
    rpc("two rates", "9.3", "INVALID_ARGUMENT", trace_rate=["3", "4"]),
    rpc("two counts", "9.3", "INVALID_ARGUMENT", trace_count=["3", "4"]),
    rpc("two frequencies", "9.3", "INVALID_ARGUMENT", log_frequency=["3", "4"]),
    rpc("off beside a level", "9.3", "INVALID_ARGUMENT", trace_level=["OFF", "TENSORS"]),
    rpc("a rate that is not a number", "9.7", "INVALID_ARGUMENT", trace_rate=["x"]),
    rpc("a rate of 0 while it is on", "9.7", "INVALID_ARGUMENT", trace_rate=["0"], trace_level=["TENSORS"]),
    rpc("a count of -2", "9.7", "INVALID_ARGUMENT", trace_count=["-2"]),
    rpc("a frequency out of range", "9.7", "INVALID_ARGUMENT", log_frequency=["99999999999"]),
    rpc("the file", "9.5", "UNIMPLEMENTED", trace_file=["x"]),
]  # fmt: skip


def _log(target: Target, *steps: Any) -> Answer:
    """Changes of the log settings, then what they are; at the end as at the start."""
    answers = []
    for body in (*steps, None):
        sent = body if isinstance(body, bytes | None) else json.dumps(body)
        reply = target.http("GET" if body is None else "POST", "/v2/logging", sent)
        answers.append({"status": reply.status, "body": json.loads(reply.body)})
    start = {"log_info": True, "log_warning": True, "log_error": True, "log_verbose_level": 0, "log_format": "default"}  # fmt: skip
    target.http("POST", "/v2/logging", json.dumps(start))
    return {"answers": answers}


def log(name: str, rows: str, *steps: Any, status: int = 200) -> Scenario:
    """A scenario of changes over HTTP; `status` is that of the last one."""
    last = max(len(steps) - 1, 0)
    return Scenario(
        name=f"log settings: {name}",
        rows=tuple(rows.split()),
        ask=lambda target: _log(target, *steps),
        expect={f"answers.{last}.status": status},
        server=_SERVER,
    )


def _log_call(target: Target, **settings: Any) -> Answer:
    message = pb.LogSettingsRequest()
    for name, (kind, content) in settings.items():
        setattr(message.settings[name], kind, content)
    answer = _call(target, "LogSettings", message, pb.LogSettingsResponse)
    _log(target)
    return answer


def log_rpc(name: str, rows: str, code: str, /, **settings: Any) -> Scenario:
    """A scenario of one LogSettings."""
    return Scenario(
        name=f"LogSettings: {name}",
        rows=("10.41", *rows.split()),
        ask=lambda target: _log_call(target, **settings),
        expect={"code": code},
        server=_SERVER,
    )


LOG = [
    log("as at the start", "9.20"),
    log("nothing", "9.24", {}),
    log("an array", "9.24", []),
    log("null", "9.24", dict.fromkeys(("log_file", "log_info", "log_verbose_level", "log_format"))),
    log("an unknown member", "9.24", {"bogus": 1}),
    log("all of them", "9.20 9.24", {"log_info": False, "log_warning": False, "log_error": False, "log_verbose_level": 3, "log_format": "ISO8601"}),
    log("the format back", "9.24", {"log_format": "ISO8601"}, {"log_format": "default"}),
    log("the file", "9.21", {"log_file": "x"}, status=501),
    log("an unknown format", "9.21", {"log_format": "x"}, status=503),
    log("a format in other case", "9.21", {"log_format": "iso8601"}, status=503),
    log("a format as a number", "9.23", {"log_format": 1}, status=500),
    log("info as text", "9.23", {"log_info": "true"}, status=500),
    log("error as a number", "9.23", {"log_error": 1}, status=500),
    log("a negative level", "9.23", {"log_verbose_level": -1}, status=500),
    log("a level as text", "9.23", {"log_verbose_level": "1"}, status=500),
    log("a level with a fraction", "9.23", {"log_verbose_level": 1.5}, status=500),
    log_rpc("nothing", "9.20", "OK"),
    log_rpc("all of them", "9.20 9.24", "OK", log_info=("bool_param", False), log_warning=("bool_param", True), log_error=("bool_param", True),
            log_verbose_level=("uint32_param", 2), log_format=("string_param", "ISO8601")),
    log_rpc("an unknown one", "9.24", "OK", bogus=("bool_param", True)),
    log_rpc("the file", "9.21", "UNIMPLEMENTED", log_file=("string_param", "x")),
    log_rpc("an unknown format", "9.21", "INVALID_ARGUMENT", log_format=("string_param", "x")),
    log_rpc("info as text", "9.23", "INVALID_ARGUMENT", log_info=("string_param", "x")),
    log_rpc("a level as a boolean", "9.23", "INVALID_ARGUMENT", log_verbose_level=("bool_param", True)),
    log_rpc("a format as a boolean", "9.23", "INVALID_ARGUMENT", log_format=("bool_param", True)),
]  # fmt: skip


@pytest.mark.parametrize("scenario", [*TRACE, *CALLS, *LOG], ids=lambda scenario: scenario.name)
def test_settings(ask: Ask, scenario: Scenario) -> None:
    ask(scenario)

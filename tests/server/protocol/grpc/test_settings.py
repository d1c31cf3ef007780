"""TraceSetting and LogSettings: what a change does, and what is refused in which words."""

import typing

import pytest

from naiad.core.messages import service_pb2
from naiad.protocol.grpc.call import RpcStatus
from tests.server.protocol.grpc.test_methods import call, served

INVALID_ARGUMENT, NOT_FOUND, UNIMPLEMENTED = 3, 5, 12
Trace = service_pb2.TraceSettingRequest.SettingValue
Log = service_pb2.LogSettingsRequest.SettingValue


def trace(**settings: list[str]) -> dict[str, typing.Any]:
    return {name: Trace(value=value) for name, value in settings.items()}


def shown(response: typing.Any) -> dict[str, list[str]]:
    return {name: list(setting.value) for name, setting in response.settings.items()}


async def test_trace_settings_are_shown_changed_and_cleared() -> None:
    methods = served()
    start = shown(await call(methods, "TraceSetting"))
    assert start == {
        "trace_level": ["OFF"], "trace_rate": ["1000"], "trace_count": ["-1"], "log_frequency": ["0"], "trace_file": ["t.json"],
        "trace_mode": ["triton"],
    }  # fmt: skip
    change = trace(trace_level=["TENSORS", "TIMESTAMPS"], trace_rate=["5"])
    changed = start | {"trace_level": ["TIMESTAMPS", "TENSORS"], "trace_rate": ["5"]}
    assert shown(await call(methods, "TraceSetting", model_name="m", settings=change)) == changed
    assert shown(await call(methods, "TraceSetting")) == start
    cleared = await call(
        methods, "TraceSetting", model_name="m", settings=trace(trace_level=[], trace_rate=[])
    )
    assert shown(cleared) == start


@pytest.mark.parametrize(
    ("settings", "status", "message"),
    [
        (trace(trace_file=[]), UNIMPLEMENTED, "trace file location can not be updated through network protocol"),
        (trace(trace_level=["OFF", "OFF"]), INVALID_ARGUMENT, "Expect only one trace level 'OFF' is specified"),
        (trace(trace_rate=["1", "2"]), INVALID_ARGUMENT, "expect only 1 value for 'trace_rate'"),
        (trace(log_frequency=["x"]), INVALID_ARGUMENT, "Unable to parse 'log_frequency', got: x"),
        (trace(trace_count=["-2"]), INVALID_ARGUMENT, "Unable to parse 'trace_count'. Expecting value >= -1, got: -2"),
    ],
)  # fmt: skip
async def test_trace_settings_that_are_refused(
    settings: dict[str, typing.Any], status: int, message: str
) -> None:
    refused = await call(served(), "TraceSetting", settings=settings)
    assert isinstance(refused, RpcStatus)
    assert (refused.status, refused.message) == (status, message)


async def test_an_unknown_model_has_no_trace_setting() -> None:
    assert (await call(served(), "TraceSetting", model_name="n")).status == NOT_FOUND


async def test_log_settings_are_shown_and_changed() -> None:
    methods = served()
    response = await call(methods, "LogSettings")
    assert response.settings["log_info"].bool_param
    assert response.settings["log_file"].WhichOneof("parameter_choice") == "string_param"
    change = {
        "log_info": Log(bool_param=False),
        "log_verbose_level": Log(uint32_param=2),
        "log_format": Log(string_param="ISO8601"),
        "other": Log(),
    }
    response = await call(methods, "LogSettings", settings=change)
    assert not response.settings["log_info"].bool_param
    assert response.settings["log_verbose_level"].uint32_param == 2
    assert response.settings["log_format"].string_param == "ISO8601"
    assert "other" not in response.settings


@pytest.mark.parametrize(
    ("name", "value", "status", "message"),
    [
        ("log_file", Log(), UNIMPLEMENTED, "log file location can not be updated through network protocol"),
        ("log_error", Log(string_param="x"), INVALID_ARGUMENT, "expect boolean for 'log_error'"),
        ("log_verbose_level", Log(bool_param=True), INVALID_ARGUMENT, "expect int32 for 'log_verbose_level'"),
        ("log_format", Log(bool_param=True), INVALID_ARGUMENT, "expect string for 'log_format'"),
        ("log_format", Log(string_param="x"), INVALID_ARGUMENT, "invalid argument for log_format, got: x"),
    ],
)  # fmt: skip
async def test_log_settings_that_are_refused(
    name: str, value: typing.Any, status: int, message: str
) -> None:
    refused = await call(served(), "LogSettings", settings={name: value})
    assert isinstance(refused, RpcStatus)
    assert (refused.status, refused.message) == (status, message)

"""The messages of trace and log settings (rows 9.3 to 9.7, 9.20 to 9.24, 10.41). Pure."""

import typing

from naiad.core.messages import service_pb2
from naiad.errors import invalid, unsupported
from naiad.logs import FORMATS
from naiad.tracing.settings import Change, level, number


def trace_change(request: typing.Any) -> Change:
    """Read a TraceSettingRequest; unknown settings have no effect.

    Raises:
        InferenceError: UNSUPPORTED for `trace_file`, INVALID_ARG for a value that is not valid.
    """
    given = {name: list(setting.value) for name, setting in request.settings.items()}
    if "trace_file" in given:
        raise unsupported("trace file location can not be updated through network protocol")
    change: dict[str, int | None] = {}
    if "trace_level" in given:
        names = given["trace_level"]
        bits = level(names)
        if not names or bits is not None:
            change["level"] = bits
    for field in ("rate", "count", "log_frequency"):
        name = field if field == "log_frequency" else f"trace_{field}"
        if name not in given:
            continue
        values = given[name]
        if len(values) > 1:
            raise invalid(f"expect only 1 value for '{name}'")
        change[field] = number(name, values[0], spaced=True) if values else None
    return change


def trace_response(shown: dict[str, str | list[str]]) -> typing.Any:
    """A TraceSettingResponse."""
    response = service_pb2.TraceSettingResponse()
    for name, value in shown.items():
        response.settings[name].value.extend([value] if isinstance(value, str) else value)
    return response


_KINDS = {
    "log_info": ("bool_param", "boolean"),
    "log_warning": ("bool_param", "boolean"),
    "log_error": ("bool_param", "boolean"),
    "log_verbose_level": ("uint32_param", "int32"),
    "log_format": ("string_param", "string"),
}


def log_change(request: typing.Any) -> dict[str, bool | int | str]:
    """Read a LogSettingsRequest; unknown settings have no effect.

    Raises:
        InferenceError: UNSUPPORTED for `log_file`, INVALID_ARG for a value of a wrong type and an unknown format.
    """
    given = request.settings
    if "log_file" in given:
        raise unsupported("log file location can not be updated through network protocol")
    change: dict[str, bool | int | str] = {}
    for name, (kind, title) in _KINDS.items():
        if name not in given:
            continue
        choice = given[name].WhichOneof("parameter_choice")
        if choice != kind:
            raise invalid(f"expect {title} for '{name}'")
        change[name] = getattr(given[name], kind)
    line_format = change.get("log_format", FORMATS[0])
    if line_format not in FORMATS:
        raise invalid(f"invalid argument for log_format, got: {line_format}")
    return change


def log_response(shown: dict[str, bool | int | str]) -> typing.Any:
    """A LogSettingsResponse."""
    response = service_pb2.LogSettingsResponse()
    for name, value in shown.items():
        setting = response.settings[name]
        if isinstance(value, bool):
            setting.bool_param = value
        elif isinstance(value, int):
            setting.uint32_param = value & 0xFFFFFFFF
        else:
            setting.string_param = value
    return response

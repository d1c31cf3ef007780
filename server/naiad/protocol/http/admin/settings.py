"""The JSON of trace and log settings (rows 9.1 to 9.7, 9.20 to 9.24). Pure."""

import typing

from naiad.errors import internal, unavailable, unsupported
from naiad.logs import FORMATS
from naiad.protocol.http.codec.json_document import parse
from naiad.tracing.settings import Change, level, number

_MAX_LEVEL = 2**64 - 1


def trace_change(body: bytes) -> Change:
    """Read the body of a change of trace settings; unknown members have no effect.

    Raises:
        InferenceError: UNSUPPORTED for `trace_file`, INVALID_ARG for a value that is not valid, INTERNAL for one of a wrong type.
    """
    given = _members(body)
    if "trace_file" in given:
        raise unsupported("trace file location can not be updated through network protocol")
    change: dict[str, int | None] = {}
    if "trace_level" in given:
        names = given["trace_level"]
        bits = None if names is None else level(_names(names))
        if names is None or bits is not None:
            change["level"] = bits
    for field in ("rate", "count", "log_frequency"):
        name = field if field == "log_frequency" else f"trace_{field}"
        if name in given:
            value = given[name]
            change[field] = None if value is None else number(name, _text(value))
    return change


def log_change(body: bytes) -> dict[str, bool | int | str]:
    """Read the body of a change of log settings; unknown members, and null, have no effect.

    Raises:
        InferenceError: UNSUPPORTED for `log_file`, UNAVAILABLE for an unknown format, INTERNAL for a wrong type.
    """
    given = {name: value for name, value in _members(body).items() if value is not None}
    if "log_file" in given:
        raise unsupported("log file location can not be updated through network protocol")
    change: dict[str, bool | int | str] = {}
    for name in ("log_info", "log_warning", "log_error"):
        if name in given:
            if type(given[name]) is not bool:
                raise internal("attempt to access JSON non-boolean as boolean")
            change[name] = given[name]
    if "log_verbose_level" in given:
        verbose = given["log_verbose_level"]
        if type(verbose) is not int or not 0 <= verbose <= _MAX_LEVEL:
            raise internal("attempt to access JSON non-unsigned-integer as unsigned-integer")
        change["log_verbose_level"] = verbose
    if "log_format" in given:
        line_format = _text(given["log_format"])
        if line_format not in FORMATS:
            raise unavailable(f"invalid argument for --log_format, got: {line_format}")
        change["log_format"] = line_format
    return change


def _members(body: bytes) -> dict[str, typing.Any]:
    root = parse(body)
    return root if type(root) is dict else {}


def _text(value: typing.Any) -> str:
    if type(value) is not str:
        raise internal("attempt to access JSON non-string as string")
    return value


def _names(value: typing.Any) -> list[str]:
    if type(value) is not list:
        raise internal("attempt to access JSON non-array as array")
    return [_text(name) for name in value]

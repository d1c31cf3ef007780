"""The `parameters` of an infer request, and headers that are forwarded as such (rows 1.17, 1.18, 3.23, 3.26, 3.27). Pure."""

import typing

from naiad.core.request import (
    SEQUENCE_END,
    SEQUENCE_START,
    Parameters,
    ParameterValue,
    RequestSettings,
)
from naiad.errors import internal, invalid
from naiad.protocol.header_pattern import RESERVED_PREFIX, HeaderPattern, is_reserved
from naiad.protocol.http.codec.json_document import require_utf8
from naiad.protocol.http.message import Headers, spelling_of

MAX_INT64 = 2**63 - 1
MIN_INT64 = -(2**63)
MAX_UINT64 = 2**64 - 1


KNOWN = frozenset(
    ("sequence_id", "sequence_start", "sequence_end", "priority", "timeout", "binary_data_output")
)
"""The parameters that are for the server."""


class HttpRequestSettings(RequestSettings, frozen=True):
    """What the parameters say; `binary_data_output`: whether outputs that are not listed come as binary data (row 3.30)."""

    binary_data_output: bool


def read(members: typing.Any) -> HttpRequestSettings:
    """Read the `parameters` of a request.

    Raises:
        InferenceError: INTERNAL for a known parameter of a wrong type (row 3.23), INVALID_ARG for a reserved name (row 3.27)
            and for a value that is not a scalar (row 3.26).
    """
    if type(members) is not dict:
        raise internal(
            "failed to get request params.: attempt to get members for non-object: send 'parameters' as an object"
        )
    own: Parameters = {}
    priority = timeout = flags = 0
    correlation: int | str = 0
    binary = False
    for key, value in members.items():
        if key not in KNOWN:
            own[key] = _custom(key, value)
            continue
        match key:
            case "sequence_id":
                correlation = _correlation_id(value)
            case "sequence_start":
                flags |= SEQUENCE_START if _boolean(key, value) else 0
            case "sequence_end":
                flags |= SEQUENCE_END if _boolean(key, value) else 0
            case "priority":
                priority = _unsigned(key, value)
            case "timeout":
                timeout = _unsigned(key, value)
            case _:
                binary = _boolean(key, value)
    return HttpRequestSettings(own, priority, timeout, correlation, flags, binary)


def _correlation_id(value: typing.Any) -> int | str:
    if type(value) is str:
        require_utf8(value, "sequence_id")
        return value
    if type(value) is int and 0 <= value <= MAX_UINT64:
        return value
    raise internal(
        "Unable to parse 'sequence_id': attempt to access JSON non-string as string: send a non-negative integer or a string"
    )


def _boolean(key: str, value: typing.Any) -> bool:
    if type(value) is bool:
        return value
    raise internal(
        f"Unable to parse '{key}': attempt to access JSON non-boolean as boolean: send true or false"
    )


def _unsigned(key: str, value: typing.Any) -> int:
    if type(value) is int and 0 <= value <= MAX_UINT64:
        return value
    raise internal(
        f"Unable to parse '{key}': attempt to access JSON non-unsigned-integer as unsigned-integer: send a non-negative integer"
    )


def _custom(key: str, value: typing.Any) -> bool | int | float | str:
    if not key.isascii():
        require_utf8(key, "parameters")
    if key.startswith(RESERVED_PREFIX):
        raise invalid(
            "parameter keys starting with 'triton_' are reserved for Triton usage and should not be specified: "
            f"rename '{key[:80]}'"
        )
    known = scalar(key, value)
    if known is None:
        raise invalid(
            f"parameter '{key[:80]}' has invalid type. It should be either 'int', 'bool', 'string' or 'double'"
        )
    return known


def scalar(key: str, value: typing.Any) -> ParameterValue | None:
    """The value of a request parameter: integers beyond 64 bits become floats; None for what is not a scalar.

    Raises:
        InferenceError: INTERNAL: text that is not valid.
    """
    kind = type(value)
    if kind is str:
        if not value.isascii():
            require_utf8(value, key)
    elif kind is int:
        return value if MIN_INT64 <= value <= MAX_INT64 else float(value)
    elif kind is not float and kind is not bool:
        return None
    return typing.cast("ParameterValue", value)


def forward_headers(headers: Headers, pattern: HeaderPattern, parameters: Parameters) -> None:
    """Add the headers whose name the pattern finds to `parameters`, as strings (row 1.17).

    A name is forwarded as the client spelled it, as Triton does, and the pattern sees it so.

    Raises:
        InferenceError: a reserved name (row 1.18).
    """
    for raw, value in headers.items():
        name = spelling_of(headers, raw).decode("latin-1")
        if not pattern.matches(name):
            continue
        if is_reserved(name):
            raise invalid(
                f"Header '{name}' is reserved for Triton usage and cannot be forwarded: rename it, or have "
                "--http-header-forward-pattern leave it out"
            )
        parameters[name] = value.decode("utf-8", "replace")

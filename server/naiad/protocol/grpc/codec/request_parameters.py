"""The parameters of a request for the server and for the model, and metadata that become parameters (rows 1.18, 10.16-10.21). Pure."""

import typing

from naiad.core.request import SEQUENCE_END, SEQUENCE_START, Parameters, RequestSettings
from naiad.errors import invalid
from naiad.protocol.grpc.call import Metadata
from naiad.protocol.header_pattern import RESERVED_PREFIX, HeaderPattern, is_reserved

EMPTY_FINAL_RESPONSE = "triton_enable_empty_final_response"
_UINT64 = 2**64 - 1


class RequestParameters(RequestSettings, frozen=True):
    """The parameters of one request; `empty_final`: on a stream, an empty final response is sent as well (row 10.30)."""

    empty_final: bool = False


NONE = RequestParameters({}, 0, 0, 0, 0)
"""The parameters of a request without any; must not be changed."""


def read(parameters: typing.Any) -> RequestParameters:
    """Read a map of InferParameter.

    Raises:
        InferenceError: INVALID_ARG for a value of a type that the parameter cannot have (rows 10.16, 10.20) and for a
            reserved name (row 10.19).
    """
    custom: Parameters = {}
    priority = timeout_us = flags = 0
    correlation_id: int | str = 0
    empty_final = False
    for name, value in parameters.items():
        match name:
            case "sequence_id":
                correlation_id = _value_of(name, value, "int64_param", "string_param")
                if isinstance(correlation_id, int):
                    correlation_id &= _UINT64
            case "sequence_start":
                flags |= SEQUENCE_START if _value_of(name, value, "bool_param") else 0
            case "sequence_end":
                flags |= SEQUENCE_END if _value_of(name, value, "bool_param") else 0
            case "priority":
                priority = _priority(value)
            case "timeout":
                # Negative ones become huge, as in C, and a huge timeout overrides nothing (row 12.14).
                timeout_us = _value_of(name, value, "int64_param") & _UINT64
            case _ if name == EMPTY_FINAL_RESPONSE:
                empty_final = _value_of(name, value, "bool_param")
            case _ if name.startswith(RESERVED_PREFIX):
                raise invalid(
                    "parameter keys starting with 'triton_' are reserved for Triton usage. Only the following keys starting with "
                    f"'triton_' are allowed: {EMPTY_FINAL_RESPONSE}; rename '{name}'"
                )
            case _:
                custom[name] = _value_of(
                    name, value, "int64_param", "bool_param", "string_param", "double_param"
                )
    return RequestParameters(custom, priority, timeout_us, correlation_id, flags, empty_final)


def forward_metadata(
    metadata: Metadata | None, pattern: HeaderPattern, parameters: Parameters
) -> None:
    """Add the metadata whose key the pattern finds to `parameters`, as strings (row 10.21); the last value of a key counts.

    Raises:
        InferenceError: INVALID_ARG for a reserved name (row 1.18).
    """
    for key, value in metadata or ():
        if not pattern.matches(key):
            continue
        if is_reserved(key):
            raise invalid(
                f"Header '{key}' is reserved for Triton usage and cannot be forwarded. Send it under another name, or "
                "start the server with a --grpc-header-forward-pattern that does not match it"
            )
        parameters[key] = value if isinstance(value, str) else value.decode("utf-8", "replace")


def _priority(value: typing.Any) -> int:
    number: int = _value_of("priority", value, "int64_param", "uint64_param")
    if number < 0:
        raise invalid(f"invalid value for 'priority', expected value >= 0, got {number}.")
    return number


def _value_of(name: str, value: typing.Any, *allowed: str) -> typing.Any:
    """The value of an InferParameter, which has one of the allowed types."""
    choice = value.WhichOneof("parameter_choice")
    if choice not in allowed:
        expected = " or ".join(filter(None, (", ".join(allowed[:-1]), allowed[-1])))
        raise invalid(
            f"invalid value type for '{name}' parameter, expected {expected}, got {choice or 'no value'}."
        )
    return getattr(value, choice)

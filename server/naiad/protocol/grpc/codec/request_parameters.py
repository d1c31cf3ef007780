"""The parameters of a ModelInferRequest, separated into those for the server and those for the model (rows 10.16-10.20). Pure."""

import typing

from naiad.core.record import Record
from naiad.core.request import SEQUENCE_END, SEQUENCE_START, Parameters
from naiad.errors import InferenceError, invalid
from naiad.protocol import reserved

EMPTY_FINAL_RESPONSE = "triton_enable_empty_final_response"
_UINT64 = 2**64 - 1


class RequestParameters(Record, frozen=True):
    """The parameters of one request.

    Attributes:
        custom: for the model.
        priority, timeout_us, correlation_id, flags: as in `InferRequest`.
        empty_final: on a stream, an empty final response is sent as well (row 10.30).
    """

    custom: Parameters
    priority: int
    timeout_us: int
    correlation_id: int | str
    flags: int
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
                correlation_id = _correlation_id(value)
            case "sequence_start":
                flags |= SEQUENCE_START if _boolean(name, value) else 0
            case "sequence_end":
                flags |= SEQUENCE_END if _boolean(name, value) else 0
            case "priority":
                priority = _priority(value)
            case "timeout":
                # Negative ones become huge, as in C, and a huge timeout overrides nothing (row 12.14).
                timeout_us = _value_of(name, value, ("int64_param",)) & _UINT64
            case _ if name.startswith(reserved.PREFIX):
                empty_final = _reserved(name, value)
            case _:
                custom[name] = _value_of(
                    name, value, ("int64_param", "bool_param", "string_param", "double_param")
                )
    return RequestParameters(custom, priority, timeout_us, correlation_id, flags, empty_final)


def _correlation_id(value: typing.Any) -> int | str:
    number: int | str = _value_of("sequence_id", value, ("int64_param", "string_param"))
    return number & _UINT64 if isinstance(number, int) else number


def _boolean(name: str, value: typing.Any) -> bool:
    number: bool = _value_of(name, value, ("bool_param",))
    return number


def _priority(value: typing.Any) -> int:
    number: int = _value_of("priority", value, ("int64_param", "uint64_param"))
    if number < 0:
        raise invalid(f"invalid value for 'priority', expected value >= 0, got {number}.")
    return number


def _reserved(name: str, value: typing.Any) -> bool:
    if name != EMPTY_FINAL_RESPONSE:
        raise invalid(
            "parameter keys starting with 'triton_' are reserved for Triton usage. Only the following keys starting with "
            f"'triton_' are allowed: {EMPTY_FINAL_RESPONSE}; rename '{name}'"
        )
    return _boolean(name, value)


def _value_of(name: str, value: typing.Any, allowed: tuple[str, ...]) -> typing.Any:
    choice = value.WhichOneof("parameter_choice")
    if choice not in allowed:
        raise _wrong_type(name, choice, allowed)
    return getattr(value, choice)


def _wrong_type(name: str, choice: str | None, allowed: tuple[str, ...]) -> InferenceError:
    expected = allowed[0] if len(allowed) == 1 else f"{', '.join(allowed[:-1])} or {allowed[-1]}"
    return invalid(
        f"invalid value type for '{name}' parameter, expected {expected}, got {choice or 'no value'}."
    )

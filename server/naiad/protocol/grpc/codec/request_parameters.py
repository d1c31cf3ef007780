"""The parameters of a ModelInferRequest: which Triton understands itself, and which are for the model (rows 10.16-10.20). Pure."""

import typing

from naiad.core.record import Record
from naiad.core.request import SEQUENCE_END, SEQUENCE_START, Parameters
from naiad.errors import InferenceError, invalid
from naiad.protocol import reserved

EMPTY_FINAL_RESPONSE = "triton_enable_empty_final_response"
_UINT64 = 2**64 - 1


class RequestParameters(Record, frozen=True):
    """Parameters, sorted.

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
"""Of a request without parameters; nobody adds to it."""


def read(parameters: typing.Any) -> RequestParameters:
    """Sort a map of InferParameter.

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
                timeout_us = _one_of(name, value, ("int64_param",)) & _UINT64
            case _ if name.startswith(reserved.PREFIX):
                empty_final = _reserved(name, value)
            case _:
                custom[name] = _one_of(
                    name, value, ("int64_param", "bool_param", "string_param", "double_param")
                )
    return RequestParameters(custom, priority, timeout_us, correlation_id, flags, empty_final)


def _correlation_id(value: typing.Any) -> int | str:
    found: int | str = _one_of("sequence_id", value, ("int64_param", "string_param"))
    return found & _UINT64 if isinstance(found, int) else found


def _boolean(name: str, value: typing.Any) -> bool:
    found: bool = _one_of(name, value, ("bool_param",))
    return found


def _priority(value: typing.Any) -> int:
    found: int = _one_of("priority", value, ("int64_param", "uint64_param"))
    if found < 0:
        raise invalid(f"invalid value for 'priority', expected value >= 0, got {found}.")
    return found


def _reserved(name: str, value: typing.Any) -> bool:
    if name != EMPTY_FINAL_RESPONSE:
        raise invalid(
            "parameter keys starting with 'triton_' are reserved for Triton usage. Only the following keys starting with "
            f"'triton_' are allowed: {EMPTY_FINAL_RESPONSE}; rename '{name}'"
        )
    return _boolean(name, value)


def _one_of(name: str, value: typing.Any, allowed: tuple[str, ...]) -> typing.Any:
    choice = value.WhichOneof("parameter_choice")
    if choice not in allowed:
        raise _wrong_type(name, choice, allowed)
    return getattr(value, choice)


def _wrong_type(name: str, choice: str | None, allowed: tuple[str, ...]) -> InferenceError:
    expected = allowed[0] if len(allowed) == 1 else f"{', '.join(allowed[:-1])} or {allowed[-1]}"
    return invalid(
        f"invalid value type for '{name}' parameter, expected {expected}, got {choice or 'no value'}."
    )

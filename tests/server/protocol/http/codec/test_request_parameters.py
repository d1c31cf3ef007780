import typing

import pytest

from naiad.core.request import Parameters
from naiad.errors import ErrorCode, InferenceError
from naiad.protocol.header_pattern import HeaderPattern
from naiad.protocol.http.codec import request_parameters


def refused(members: typing.Any) -> InferenceError:
    with pytest.raises(InferenceError) as caught:
        request_parameters.read(members)
    return caught.value


def test_scalars_go_to_the_backend_with_their_types() -> None:
    members = {"i": -(2**63), "b": True, "s": "x", "d": 1.5, "headers": "ok"}
    assert request_parameters.read(members).parameters == members


def test_an_integer_beyond_int64_becomes_a_double() -> None:
    value = request_parameters.read({"u": 2**63}).parameters["u"]
    assert repr(value) == repr(float(2**63))


@pytest.mark.parametrize("value", [0, 2**64 - 1, "", "abc"])
def test_a_sequence_id_is_a_number_or_a_string(value: int | str) -> None:
    assert request_parameters.read({"sequence_id": value}).correlation_id == value


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("sequence_id", -1), ("sequence_id", 1.5), ("sequence_id", True), ("sequence_start", 1), ("sequence_end", "true"),
        ("priority", -1), ("priority", "1"), ("timeout", 1.5), ("timeout", True), ("binary_data_output", 1),
    ],
)  # fmt: skip
def test_a_known_parameter_of_a_wrong_type_is_an_internal_error(
    key: str, value: typing.Any
) -> None:
    error = refused({key: value})
    assert error.code is ErrorCode.INTERNAL
    assert error.message.startswith(f"Unable to parse '{key}': attempt to access JSON non-")


@pytest.mark.parametrize("value", [None, [1], {"a": 1}])
def test_a_value_that_is_not_a_scalar_is_refused_by_name(value: typing.Any) -> None:
    error = refused({"mine": value})
    assert error.code is ErrorCode.INVALID_ARG
    assert "parameter 'mine' has invalid type" in error.message


def test_names_that_begin_with_triton_are_reserved() -> None:
    error = refused({"triton_enable_empty_final_response": True})
    assert error.code is ErrorCode.INVALID_ARG
    assert "parameter keys starting with 'triton_' are reserved" in error.message


def forwarded(headers: dict[bytes, bytes], pattern: str) -> Parameters:
    parameters: Parameters = {"mine": 1}
    request_parameters.forward_headers(headers, HeaderPattern(pattern, option="--p"), parameters)
    return parameters


def test_headers_whose_name_the_pattern_finds_are_forwarded_as_strings() -> None:
    headers = {b"my_user": b"ann", b"host": b"x", b"my_raw": b"\xff"}
    assert forwarded(headers, "MY_") == {"mine": 1, "my_user": "ann", "my_raw": "�"}


@pytest.mark.parametrize("name", [b"priority", b"headers", b"sequence_id", b"triton_x"])
def test_a_reserved_header_that_would_be_forwarded_is_refused(name: bytes) -> None:
    with pytest.raises(
        InferenceError, match="is reserved for Triton usage and cannot be forwarded"
    ) as caught:
        forwarded({name: b"1"}, ".*")
    assert caught.value.code is ErrorCode.INVALID_ARG


def test_a_reserved_header_that_the_pattern_excludes_is_not_checked() -> None:
    assert forwarded({b"priority": b"u=1"}, "^my_") == {"mine": 1}

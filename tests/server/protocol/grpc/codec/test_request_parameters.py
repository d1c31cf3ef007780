"""Which parameters Triton understands itself, and which it refuses."""

import typing

import pytest

from naiad.core.messages import service_pb2
from naiad.core.request import Parameters
from naiad.errors import ErrorCode, InferenceError
from naiad.protocol.grpc.call import Metadata
from naiad.protocol.grpc.codec import request_parameters
from naiad.protocol.grpc.codec.request_parameters import RequestParameters, forward_metadata
from naiad.protocol.header_pattern import HeaderPattern


def read(name: str, **value: typing.Any) -> RequestParameters:
    request = service_pb2.ModelInferRequest()
    request.parameters[name].CopyFrom(service_pb2.InferParameter(**value))
    return request_parameters.read(request.parameters)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sequence_id", {"bool_param": True}),
        ("sequence_id", {"uint64_param": 1}),
        ("sequence_start", {"int64_param": 1}),
        ("sequence_end", {"string_param": "true"}),
        ("priority", {"string_param": "1"}),
        ("timeout", {"uint64_param": 1}),
        ("triton_enable_empty_final_response", {"int64_param": 1}),
        ("mine", {"uint64_param": 1}),
        ("mine", {}),
    ],
)
def test_a_value_of_a_wrong_type_is_refused(name: str, value: dict[str, typing.Any]) -> None:
    with pytest.raises(InferenceError, match=f"invalid value type for '{name}'") as caught:
        read(name, **value)
    assert caught.value.code is ErrorCode.INVALID_ARG


def test_a_negative_priority_is_refused() -> None:
    with pytest.raises(InferenceError, match="invalid value for 'priority', expected value >= 0"):
        read("priority", int64_param=-1)


def test_other_names_of_triton_are_refused() -> None:
    with pytest.raises(InferenceError, match="starting with 'triton_' are reserved"):
        read("triton_something", string_param="x")


def test_a_sequence_is_named_by_number_or_text() -> None:
    assert read("sequence_id", int64_param=7).correlation_id == 7
    assert read("sequence_id", int64_param=-1).correlation_id == 2**64 - 1
    assert read("sequence_id", string_param="seven").correlation_id == "seven"


def test_a_false_flag_sets_nothing() -> None:
    assert read("sequence_start", bool_param=False).flags == 0


def test_priority_and_timeout_are_not_for_the_model() -> None:
    found = read("priority", int64_param=2)
    assert (found.priority, found.parameters) == (2, {})
    found = read("timeout", int64_param=5)
    assert (found.timeout_us, found.parameters) == (5, {})


def forwarded(pattern: str, metadata: Metadata | None) -> Parameters:
    parameters: Parameters = {}
    rule = HeaderPattern(pattern, option="--grpc-header-forward-pattern")
    forward_metadata(metadata, rule, parameters)
    return parameters


def test_keys_that_the_pattern_finds_become_string_parameters() -> None:
    metadata: Metadata = [("prefix_a", "1"), ("my-prefix_b", "2"), ("other", "3"), ("x-bin", b"x")]
    assert forwarded("PREFIX_.*", metadata) == {"prefix_a": "1", "my-prefix_b": "2"}
    assert forwarded("PREFIX_.*", None) == {}


def test_binary_values_become_text() -> None:
    assert forwarded("bin", [("a-bin", "é".encode())]) == {"a-bin": "é"}


@pytest.mark.parametrize("key", ["timeout", "sequence_id", "headers", "triton_anything"])
def test_keys_that_triton_uses_are_refused(key: str) -> None:
    with pytest.raises(
        InferenceError, match=f"Header '{key}' is reserved for Triton usage and cannot be forwarded"
    ) as caught:
        forwarded(".*", [(key, "1")])
    assert caught.value.code is ErrorCode.INVALID_ARG

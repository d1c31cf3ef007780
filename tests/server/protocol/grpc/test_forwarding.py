"""Metadata that become parameters."""

import pytest

from naiad.errors import ErrorCode, InferenceError
from naiad.protocol.grpc.forwarding import compiled
from naiad.protocol.grpc.settings import CannotServeError
from tests.server.protocol.grpc.scripted_engine import SentMetadata


def test_keys_that_the_pattern_finds_become_string_parameters() -> None:
    rule = compiled("PREFIX_.*")
    assert rule is not None
    metadata = SentMetadata(
        ("prefix_a", "1"), ("my-prefix_b", "2"), ("other", "3"), ("x-bin", b"x")
    )
    assert rule.parameters(metadata.invocation_metadata()) == {"prefix_a": "1", "my-prefix_b": "2"}


def test_binary_values_become_text() -> None:
    rule = compiled("bin")
    assert rule is not None
    assert rule.parameters([("a-bin", "é".encode())]) == {"a-bin": "é"}


def test_no_pattern_forwards_nothing() -> None:
    assert compiled("") is None


@pytest.mark.parametrize("key", ["timeout", "sequence_id", "headers", "triton_anything"])
def test_keys_that_triton_uses_are_refused(key: str) -> None:
    rule = compiled(".*")
    assert rule is not None
    with pytest.raises(
        InferenceError, match=f"Header '{key}' is reserved for Triton usage and cannot be forwarded"
    ) as caught:
        rule.parameters([(key, "1")])
    assert caught.value.code is ErrorCode.INVALID_ARG


def test_the_error_of_an_invalid_pattern_names_its_option() -> None:
    with pytest.raises(CannotServeError, match="--grpc-header-forward-pattern="):
        compiled("(")

import math
import sys
import types
import typing

import pytest

from naiad.errors import ErrorCode, InferenceError
from naiad.protocol.http.codec.json_document import parse, visit_objects


def refused(document: bytes) -> InferenceError:
    with pytest.raises(InferenceError) as caught:
        parse(document)
    return caught.value


@pytest.mark.parametrize(
    ("document", "value"),
    [
        (b'{"a": [1, 2.5, null, true, "x"]}', {"a": [1, 2.5, None, True, "x"]}),
        (b"\xef\xbb\xbf{}", {}),
        (b'{"a": 1, "a": 2}', {"a": 2}),
        (b"[18446744073709551615, -9223372036854775808]", [2**64 - 1, -(2**63)]),
        (b"[18446744073709551616]", [float(2**64)]),
        (b"[18446744073709551616, 18446744073709551615, -9223372036854775809, Infinity]",
         [float(2**64), 2**64 - 1, -float(2**63), math.inf]),
        (b"[Infinity, -Infinity]", [math.inf, -math.inf]),
        (b'"a\\u0000b"', "a\0b"),
    ],
)  # fmt: skip
def test_a_text_is_read_as_triton_reads_it(document: bytes, value: typing.Any) -> None:
    read = parse(document)
    assert read == value
    assert repr(read) == repr(value)


def test_nan_is_read_as_a_bare_literal() -> None:
    (value,) = parse(b"[NaN]")
    assert math.isnan(value)


def test_bytes_that_are_not_utf_8_survive_as_surrogate_escapes() -> None:
    assert parse(b'["a\xff\xfeb"]') == ["a\udcff\udcfeb"]


@pytest.mark.parametrize(
    "document",
    [b"{", b"nul", b"{} {}", b"[1,]", b"[01]", b"[NaN", b"[-NaNa]", b'["\xff', b"\xef\xbb\xbf", b"[1e400]"],
)  # fmt: skip
def test_invalid_json_is_an_internal_error_in_tritons_words(document: bytes) -> None:
    error = refused(document)
    assert error.code is ErrorCode.INTERNAL
    assert error.message.startswith("failed to parse the request JSON buffer: ")


@pytest.mark.parametrize("tail", [b"", b"{}", b"[NaN]", b'["\xff"]', b"[" * 300_000])
@pytest.mark.parametrize("marks", [2, 3, 80_000])
def test_a_second_byte_order_mark_is_not_skipped(marks: int, tail: bytes) -> None:
    assert refused(b"\xef\xbb\xbf" * marks + tail).code is ErrorCode.INTERNAL


def test_a_megabyte_of_byte_order_marks_is_read_in_a_fixed_number_of_calls() -> None:
    calls: list[str] = []

    def count(frame: types.FrameType, event: str, _: object) -> None:
        if event == "call":
            calls.append(frame.f_code.co_name)

    sys.setprofile(count)
    try:
        refused(b"\xef\xbb\xbf" * 350_000 + b"{}")
    finally:
        sys.setprofile(None)
    assert len(calls) < 30


def test_visitors_get_every_object_with_its_repeated_names() -> None:
    seen: list[list[tuple[str, typing.Any]]] = []

    def visit(members: list[tuple[str, typing.Any]]) -> str:
        seen.append(members)
        return "object"

    visit_objects(b'\xef\xbb\xbf{"a": 1, "a": {"b": NaN}, "c": 11111111111111111111111}', visit)
    assert [[name for name, _ in members] for members in seen] == [["b"], ["a", "a", "c"]]
    assert seen[1][1:] == [("a", "object"), ("c", 11111111111111111111111.0)]


def test_an_empty_document_is_named_as_such() -> None:
    assert "The document is empty" in refused(b"").message


@pytest.mark.parametrize(
    "document",
    [
        b"[" * 300_000,
        b"[" * 300_000 + b"]" * 300_000,
        b'{"a":' * 300_000 + b"1" + b"}" * 300_000,
        b"[NaN," + b"[" * 300_000 + b"]" * 300_001,
        b'["\xff",' + b"[" * 300_000,
    ],
)
def test_hundreds_of_thousands_of_brackets_are_refused_and_end_nothing(document: bytes) -> None:
    error = refused(document)
    assert error.code is ErrorCode.INVALID_ARG
    assert "JSON nesting depth exceeds maximum allowed limit (100)" in error.message


def test_a_number_of_a_million_digits_is_refused_at_once() -> None:
    assert refused(b"[NaN," + b"1" * 1_000_000 + b"x]").code is ErrorCode.INTERNAL

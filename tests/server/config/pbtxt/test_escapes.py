"""The escapes inside quoted texts, as Triton's C++ parser takes them."""

import pytest

from naiad.config.pbtxt.escapes import unescape


def test_all_escapes_of_the_format_are_undone() -> None:
    data, flaws = unescape(r"\a\b\f\n\r\t\v\\\?\'\" \1\12\101\377 \x4\x41\X42 \u00e9\U0001F600 é")

    assert flaws == []
    assert data == b"\a\b\f\n\r\t\v\\?'\" \x01\x0a\x41\xff \x04\x41\x42 " + "é😀 é".encode()


@pytest.mark.parametrize(
    ("text", "start", "width", "message"),
    [
        (r"C:\models", 2, 2, r"there is no escape \m"),
        (r"a\400", 1, 4, r"the escape \400 is larger than a byte: octal escapes end at \377"),
        (r"\xg", 0, 2, r"the escape \x needs one or two hexadecimal digits"),
        (r"\u12", 0, 2, r"the escape \u needs four hexadecimal digits"),
        (r"\U1234", 0, 2, r"the escape \U needs eight hexadecimal digits"),
        (r"\ud800", 0, 6, r"\ud800 is not a character"),
        (r"\U00110000", 0, 10, r"\U00110000 is not a character"),
    ],
)
def test_a_wrong_escape_is_named_with_its_place(
    text: str, start: int, width: int, message: str
) -> None:
    data, (flaw,) = unescape(text)

    assert (flaw.start, flaw.width, flaw.message) == (start, width, message)
    assert data == text.encode()


def test_every_wrong_escape_is_found() -> None:
    _, flaws = unescape(r"\m\n\l")

    assert [flaw.start for flaw in flaws] == [0, 4]

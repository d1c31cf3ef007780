r"""The escapes inside a quoted text: C's, with octal, hex and Unicode numbers (protobuf's text format).

As in Triton's C++ parser an unknown escape is an error, although Python's official parser keeps it as it stands: a
Windows path written `"C:\models"` fails in Triton, and here it says how to write it.
"""

import re

import msgspec

_SIMPLE = dict(zip("abfnrtv\\?'\"", b"\a\b\f\n\r\t\v\\?'\"", strict=True))
_ESCAPE = re.compile(
    r"""
    \\ (?: (?P<simple>[abfnrtv\\?'"])
         | (?P<octal>[0-7]{1,3})
         | [xX](?P<hex>[0-9a-fA-F]{1,2})
         | (?P<point>u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})
         | .?
       )
    """,
    re.VERBOSE | re.DOTALL,
)


class Flaw(msgspec.Struct, frozen=True, kw_only=True):
    """An invalid escape: its offset and width in the text, and what is wrong with it."""

    start: int
    width: int
    message: str


def unescape(text: str) -> tuple[bytes, list[Flaw]]:
    """Undo the escapes of a text without its quotes.

    Returns:
        The bytes, which need not be UTF-8 yet (a character may be written as several escapes, or over several quoted
        texts in a row), and everything that is wrong; a wrong escape is kept as it stands.
    """
    if "\\" not in text and text.isascii():
        return text.encode(), []
    result = bytearray()
    flaws: list[Flaw] = []
    at = 0
    for escape in _ESCAPE.finditer(text):
        result += text[at : escape.start()].encode("utf-8", "surrogatepass")
        at = escape.end()
        try:
            result += _bytes_of(escape)
        except (ValueError, OverflowError):
            flaws.append(Flaw(start=escape.start(), width=len(escape[0]), message=_reason(escape)))
            result += escape[0].encode("utf-8", "surrogatepass")
    result += text[at:].encode("utf-8", "surrogatepass")
    return bytes(result), flaws


def _bytes_of(escape: re.Match[str]) -> bytes:
    """What an escape stands for.

    Raises:
        ValueError: there is no such escape, byte or character.
        OverflowError: likewise.
    """
    kind = escape.lastgroup
    if kind is None:
        raise ValueError(escape[0])
    digits = escape[kind]
    if kind == "point":
        return chr(int(digits[1:], 16)).encode()
    if kind == "simple":
        return bytes([_SIMPLE[digits]])
    return bytes([int(digits, 8 if kind == "octal" else 16)])


def _reason(escape: re.Match[str]) -> str:
    written = escape[0]
    if escape["octal"]:
        return f"the escape {written} is larger than a byte: octal escapes end at \\377"
    if escape["point"]:
        return f"{written} is not a character"
    if written[1:] in {"x", "X", "u", "U"}:
        digits = {"x": "one or two", "X": "one or two", "u": "four", "U": "eight"}[written[1]]
        return f"the escape {written} needs {digits} hexadecimal digits"
    return f"there is no escape {written}"

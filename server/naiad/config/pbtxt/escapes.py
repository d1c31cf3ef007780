r"""The escapes inside a quoted text: C's, with octal, hex and Unicode numbers (protobuf's text format).

As in Triton's C++ parser an unknown escape is an error, although Python's official parser keeps it as it stands: a
Windows path written `"C:\models"` fails in Triton, and here it says how to write it.
"""

import re

import msgspec

_SIMPLE = {
    "a": 7,
    "b": 8,
    "f": 12,
    "n": 10,
    "r": 13,
    "t": 9,
    "v": 11,
    "\\": 92,
    "?": 63,
    "'": 39,
    '"': 34,
}
_OCTAL = re.compile(r"[0-7]{1,3}")
_HEX = re.compile(r"[xX]([0-9a-fA-F]{1,2})")
_UNICODE = re.compile(r"u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})")
_LARGEST_BYTE = 255
_LARGEST_CODE_POINT = 0x10FFFF


class Flaw(msgspec.Struct, frozen=True, kw_only=True):
    """An invalid escape in a text.

    Attributes:
        start: offset within the text.
        width: how many characters it takes.
        message: what is wrong.
    """

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
    while at < len(text):
        slash = text.find("\\", at)
        plain = text[at:] if slash < 0 else text[at:slash]
        result += plain.encode("utf-8", "surrogatepass")
        if slash < 0:
            break
        at = _escape(text, slash, result, flaws)
    return bytes(result), flaws


def _escape(text: str, slash: int, result: bytearray, flaws: list[Flaw]) -> int:
    """Undo the escape at `slash`; returns the offset after it."""
    letter = text[slash + 1 : slash + 2]
    if letter in _SIMPLE:
        result.append(_SIMPLE[letter])
        return slash + 2
    octal = _OCTAL.match(text, slash + 1)
    if octal is not None and int(octal[0], 8) <= _LARGEST_BYTE:
        result.append(int(octal[0], 8))
        return octal.end()
    hexadecimal = _HEX.match(text, slash + 1)
    if hexadecimal is not None:
        result.append(int(hexadecimal[1], 16))
        return hexadecimal.end()
    point = _UNICODE.match(text, slash + 1)
    if point is not None:
        code = int(point[1] or point[2], 16)
        if code <= _LARGEST_CODE_POINT and not 0xD800 <= code <= 0xDFFF:  # noqa: PLR2004 - surrogates
            result += chr(code).encode()
            return point.end()
    match = octal or point
    end = match.end() if match is not None else min(slash + 2, len(text))
    written = text[slash:end]
    flaws.append(
        Flaw(
            start=slash,
            width=end - slash,
            message=_reason(written, octal=octal is not None, point=point is not None),
        )
    )
    result += written.encode("utf-8", "surrogatepass")
    return end


def _reason(written: str, *, octal: bool, point: bool) -> str:
    if octal:
        return f"the escape {written} is larger than a byte: octal escapes end at \\377"
    if point:
        return f"{written} is not a character"
    if written[1:2] in set("xXuU"):
        digits = {"x": "one or two", "X": "one or two", "u": "four", "U": "eight"}[written[1]]
        return f"the escape {written} needs {digits} hexadecimal digits"
    return f"there is no escape {written}"

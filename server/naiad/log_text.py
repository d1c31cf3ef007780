"""Text in log lines: what a client or a model chose can neither begin a line, nor hide or turn round a part of one.

A record is one line. The arguments of its message are shown with escapes in place of control characters, line ends among them, and of characters that
change the direction of text or cannot be seen. Only what is wrapped in `Lines` has several lines, and those behind the first are indented, so that
none looks like a record.

Limits: those of `backends/instance.py`, whose worker processes use it: the standard library, Python 3.8.
"""

import logging
import re
from typing import Any

_HIDDEN = (
    "\x00-\x1f\x7f-\x9f"  # controls
    "\xad\u180e\u200b-\u200d\u2060-\u2064\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff"  # not seen
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u206f"  # direction of text
    "\u2028\u2029"  # line ends
    "\ud800-\udfff"  # halves of a surrogate pair
)
_find_hidden = re.compile(f"[{_HIDDEN}]").search
_replace_hidden = re.compile(f"[{_HIDDEN}]").sub

_INDENT = "    "


def escaped(text: str) -> str:
    """A text on one line, all of whose characters are seen; most are so already."""
    return text if text.isprintable() else _replace_hidden(_escape, text)


def is_plain(text: str) -> bool:
    """Whether `escaped` leaves a text as it is."""
    return text.isprintable() or _find_hidden(text) is None


def _escape(match: "re.Match[str]") -> str:
    return match[0].encode("unicode_escape").decode("ascii")


class Lines(str):
    """An argument of a log message whose line ends are kept, such as a traceback or an error that points into a file."""

    __slots__ = ()


def message_of(record: logging.LogRecord) -> str:
    """The message of a record: it has line ends only where a `Lines` has them."""
    message: str = record.getMessage()
    if not record.args or is_plain(message):
        return message
    arguments: Any = record.args  # a dict where the message asks for names
    if isinstance(arguments, dict):
        arguments = {key: _shown(value) for key, value in arguments.items()}
    else:
        arguments = tuple(map(_shown, arguments))
    shown: str = str(record.msg) % arguments
    return shown


def indented(text: str) -> "list[str]":
    """The lines of a text as they stand below the first line of a record."""
    return [(_INDENT + escaped(line.expandtabs(4))).rstrip() for line in text.split("\n")]


class _Escaped:
    """Any argument, which is escaped where it becomes text."""

    def __init__(self, value: object) -> None:
        self._value = value

    def __str__(self) -> str:  # type: ignore[explicit-override]  # `override` is in no standard library of 3.8
        return escaped(str(self._value))

    def __repr__(self) -> str:  # type: ignore[explicit-override]  # as above
        return escaped(repr(self._value))


def _shown(value: object) -> object:
    if isinstance(value, Lines):
        return "\n".join(map(escaped, value.split("\n")))
    return value if isinstance(value, (int, float)) else _Escaped(value)

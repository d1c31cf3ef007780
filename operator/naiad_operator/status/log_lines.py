"""Finds in the last lines of a container's log the one that explains its end, in the formats of the server's `--log-format` and in any other."""

import json
import re
import typing

_TEXT = re.compile(
    r"(?:([IWEF])\d{4} \d\d:\d\d:\d\d\.\d+|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ ([IWEF])) +\d+ [^\]\s]+:\d+\] (.*)",
    re.ASCII,
)
"""A line of the formats default and ISO8601: level, time, process, place in the source, message. Only the level and the message are the same after a restart."""
_ERRORS = frozenset(("E", "F", "error", "critical", "fatal", "panic"))


class _Line(typing.NamedTuple):
    """One line.

    Attributes:
        text: the message, or the whole line when its format is not known.
        level: as it is written; "" when the line has none.
    """

    text: str
    level: str = ""

    @property
    def mentions_error(self) -> bool:
        return "error" in self.text.lower()

    @property
    def is_error(self) -> bool:
        return self.level in _ERRORS if self.level else self.mentions_error


def error_line(log: str) -> str:
    """The message of the log line that explains a failure: the last error, else the last that contains "error", else the last one; "" without any."""
    # An indented line belongs to the record above it, whatever it looks like.
    lines = [_read(line.rstrip()) for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if line.is_error]
    telling = errors or [line for line in lines if line.mentions_error] or lines
    return telling[-1].text if telling else ""


def _read(line: str) -> _Line:
    if line[0].isspace():
        return _Line(line.strip())
    match = _TEXT.fullmatch(line)
    if match:
        return _Line(_unquoted(match[3]), match[1] or match[2])
    entry = _json(line) if line.startswith("{") else None
    if not isinstance(entry, dict):
        return _Line(line)
    message, level = entry.get("message") or entry.get("msg"), entry.get("level")
    return _Line(
        message if isinstance(message, str) else line,
        level.lower() if isinstance(level, str) else "",
    )


def _unquoted(text: str) -> str:
    message = _json(text)
    return message if isinstance(message, str) else text


def _json(text: str) -> typing.Any:
    """A JSON value; None for any other text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None

"""Which headers become request parameters: `--http-header-forward-pattern` and `--grpc-header-forward-pattern` (rows 1.17, 10.21).

The patterns are RE2's, as Triton's are: searched in the name of a header, and case-insensitive unless the pattern itself says `(?-i)`.
The package is imported only when an option sets a pattern.
"""

import typing

_MOST_NAMES = 1024
_LONGEST_NAME = 128


class HeaderPattern:
    """A compiled pattern.

    A search by RE2 from Python takes several microseconds and clients send the same names again, so that answers are remembered: at most
    1,024, and only of names of at most 128 characters, because clients choose the names.

    Args:
        pattern: a regular expression in RE2's syntax.
        option: the option that it comes from, for the error.

    Raises:
        ValueError: it is not a regular expression; the message says where and why.
    """

    def __init__(self, pattern: str, *, option: str) -> None:
        import re2  # noqa: PLC0415 - only those pay for it who forward headers

        encoded = pattern.encode("utf-8", "surrogateescape")
        options = re2.Options()
        options.case_sensitive = False
        options.log_errors = False
        try:
            self._search: typing.Any = re2.compile(encoded, options).search
        except re2.error as error:
            raise ValueError(_why_not(encoded, error.args[0], option)) from None
        self._known: dict[str, bool] = {}

    def matches(self, name: str) -> bool:
        """Whether a header of this name is forwarded."""
        found = self._known.get(name)
        if found is None:
            found = self._search(name.encode()) is not None
            if len(name) <= _LONGEST_NAME:
                if len(self._known) >= _MOST_NAMES:
                    self._known.clear()
                self._known[name] = found
        return found


def compiled(pattern: str, *, option: str) -> HeaderPattern | None:
    """The pattern of an option's value; None for "", which forwards nothing.

    Raises:
        ValueError: see `HeaderPattern`.
    """
    return HeaderPattern(pattern, option=option) if pattern else None


def _why_not(pattern: bytes, reason: bytes, option: str) -> str:
    """The error, with the character at which the part begins that RE2 complains of; it names no position, but repeats that part."""
    text = pattern.decode("utf-8", "replace")
    what, _, part = reason.decode("utf-8", "replace").partition(": ")
    where = text.find(part) if part and part != text else -1
    if what == "missing )":
        at = " at its end"
    elif where >= 0:
        at = f" at character {where + 1}, '{part}'"
    else:
        at = ""
    return (
        f"{option}={text}: not a regular expression that RE2 accepts: {what}{at}. "
        "Write it in RE2's syntax: it has no look-around and no backreferences"
    )

"""Which headers become request parameters: `--http-header-forward-pattern` and `--grpc-header-forward-pattern` (rows 1.17, 1.18, 10.21).

The patterns are RE2's, as Triton's are: searched in the name of a header, and case-insensitive unless the pattern itself says `(?-i)`.
The package is imported only when an option sets a pattern.
"""

import typing

RESERVED_PREFIX = "triton_"
"""Begins the names of request parameters that only the server itself understands: no header may set one (row 1.18)."""

_RESERVED = frozenset((
    "sequence_id", "sequence_start", "sequence_end", "priority", "timeout", "headers", "binary_data_output",
))  # fmt: skip
"""The other names of such parameters."""

_MAX_NAMES = 1024
_MAX_NAME_LENGTH = 128


class HeaderPattern:
    """A compiled pattern.

    A search by RE2 from Python takes several microseconds and clients send the same names again, so that results are remembered: at most
    1,024, and only for names of at most 128 characters, because clients choose the names.

    Raises:
        ValueError: it is not a regular expression; the message says where and why.
    """

    def __init__(self, pattern: str, *, option: str) -> None:
        import re2  # noqa: PLC0415 - only servers that forward headers pay for it

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
        matches = self._known.get(name)
        if matches is None:
            matches = self._search(name.encode()) is not None
            if len(name) <= _MAX_NAME_LENGTH:
                if len(self._known) >= _MAX_NAMES:
                    self._known.clear()
                self._known[name] = matches
        return matches


def compiled(pattern: str, *, option: str) -> HeaderPattern | None:
    """The pattern of an option's value; None for "", which forwards nothing.

    Raises:
        ValueError: see `HeaderPattern`.
    """
    return HeaderPattern(pattern, option=option) if pattern else None


def is_reserved(name: str) -> bool:
    """Whether a name, in any case, is a parameter of the protocol's own (row 1.18)."""
    lowered = name.lower()
    return lowered in _RESERVED or lowered.startswith(RESERVED_PREFIX)


def _why_not(pattern: bytes, reason: bytes, option: str) -> str:
    """The error, with the character at which the wrong part begins; RE2 gives no position, but repeats that part."""
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

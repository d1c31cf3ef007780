"""How much of what costs us more than the client one connection may send (RFC 9113, section 10.5), as a table. Pure."""

import enum

from naiad.protocol.transport.http2.errors import ConnectionFault, ErrorCode


class Cheap(enum.IntEnum):
    """What a client sends for a few bytes, and we handle for a few microseconds."""

    SETTINGS = 0
    PING = 1
    RESET = 2
    PRIORITY = 3
    EMPTY_DATA = 4
    WINDOW_UPDATE = 5
    UNKNOWN = 6
    FAULT = 7
    GOAWAY = 8


PER_SECOND: dict[Cheap, tuple[int, str]] = {
    Cheap.SETTINGS: (100, "SETTINGS frames"),
    Cheap.PING: (1_000, "PING frames"),
    Cheap.RESET: (4_096, "streams that the client resets"),
    Cheap.PRIORITY: (4_096, "PRIORITY frames"),
    Cheap.EMPTY_DATA: (1_000, "DATA frames without data"),
    Cheap.WINDOW_UPDATE: (100_000, "WINDOW_UPDATE frames"),
    Cheap.UNKNOWN: (1_000, "frames of unknown kinds"),
    Cheap.FAULT: (200, "streams with errors"),
    Cheap.GOAWAY: (100, "GOAWAY frames"),
}
"""How many of each a connection may send between two calls of `Floods.tick`, a second apart. A client that cancels all its calls at once resets as
many streams as it may have open, and no more."""

MAX_CONTINUATIONS = 32
"""Frames of one header block."""


class Floods:
    """The counts of one connection."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts = [0] * len(Cheap)

    def add(self, what: Cheap) -> None:
        """One more.

        Raises:
            ConnectionFault: that is too many.
        """
        counts = self._counts
        counts[what] += 1
        most, name = PER_SECOND[what]
        if counts[what] > most:
            raise ConnectionFault(
                ErrorCode.ENHANCE_YOUR_CALM, f"more than {most} {name} in a second (section 10.5)"
            )

    def tick(self) -> None:
        """A second has passed."""
        self._counts = [0] * len(Cheap)

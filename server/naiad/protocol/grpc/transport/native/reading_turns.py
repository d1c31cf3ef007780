"""Divides what a client sends among iterations of the loop, so that other clients are served in between.

uvloop reads a socket up to 32 times in one iteration as long as each read fills its buffer: 8 MB, and small frames and header blocks take much longer to handle than to send.
"""

import asyncio
import typing

FULL_READ_BYTES = 256_000
"""What uvloop reads at once: behind such a read it reads on."""


class Reading(typing.Protocol):
    """A connection, as its turns use it."""

    def go_on_reading(self) -> None:
        """Handle what waits, and read again."""


class ReadingTurns:
    """The turns of one connection. `waits`: the next one begins in the next iteration."""

    __slots__ = ("_connection", "_loop", "_transport", "waits")

    def __init__(
        self, connection: Reading, loop: asyncio.AbstractEventLoop, transport: asyncio.Transport
    ) -> None:
        self._connection = connection
        self._loop = loop
        self._transport = transport
        self.waits = False

    def end(self) -> None:
        """Read no more in this iteration. Idempotent."""
        if not self.waits:
            self.waits = True
            if not self._transport.is_closing():
                self._transport.pause_reading()
            self._loop.call_soon(self._begin)

    def _begin(self) -> None:
        self.waits = False
        self._connection.go_on_reading()

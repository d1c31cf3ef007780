"""A header block that comes in several frames: HEADERS, then CONTINUATION (RFC 9113, sections 4.3 and 6.10)."""

from naiad.protocol.transport.http2.errors import ConnectionFault, ErrorCode
from naiad.protocol.transport.http2.floods import MAX_CONTINUATIONS
from naiad.protocol.transport.http2.header_blocks import MAX_BLOCK_BYTES


class OpenBlock:
    """What has come of it. `flags` are those of its HEADERS."""

    __slots__ = ("_bytes", "_parts", "flags", "stream_id")

    def __init__(self, stream_id: int, flags: int, first: bytes) -> None:
        self.stream_id = stream_id
        self.flags = flags
        self._parts = [first]
        self._bytes = len(first)

    def add(self, part: bytes) -> None:
        """One more frame.

        Raises:
            ConnectionFault: that is one too many, or the block gets too long.
        """
        self._parts.append(part)
        self._bytes += len(part)
        if len(self._parts) > MAX_CONTINUATIONS or self._bytes > MAX_BLOCK_BYTES:
            raise ConnectionFault(
                ErrorCode.ENHANCE_YOUR_CALM,
                f"a header block in more than {MAX_CONTINUATIONS} frames, or of more than {MAX_BLOCK_BYTES} bytes (section 10.5.1)",
            )

    def whole(self) -> bytes:
        """The block."""
        return b"".join(self._parts)

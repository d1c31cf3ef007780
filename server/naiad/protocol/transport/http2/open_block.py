"""A header block that comes in several frames: HEADERS, then CONTINUATION (RFC 9113, sections 4.3 and 6.10)."""

from naiad.protocol.transport.http2.errors import ConnectionFault, ErrorCode
from naiad.protocol.transport.http2.floods import MAX_CONTINUATIONS
from naiad.protocol.transport.http2.header_blocks import MAX_BLOCK_BYTES


class OpenBlock:
    """What has come of it. `flags` are those of its HEADERS."""

    __slots__ = ("_bytes", "_frames", "_parts", "flags", "stream_id")

    def __init__(self, stream_id: int, flags: int, first: bytes) -> None:
        self.stream_id = stream_id
        self.flags = flags
        self._parts = [first]
        self._frames = 1
        self._bytes = len(first)

    def add(self, part: bytes) -> None:
        """One more frame. Of a block that gets too long nothing more is kept.

        Raises:
            ConnectionFault: that is one too many.
        """
        self._frames += 1
        self._bytes += len(part)
        if self._frames > MAX_CONTINUATIONS:
            raise ConnectionFault(
                ErrorCode.ENHANCE_YOUR_CALM,
                f"a header block in more than {MAX_CONTINUATIONS} frames (section 10.5.1)",
            )
        if self.is_whole:
            self._parts.append(part)
        else:
            del self._parts[1:]

    @property
    def is_whole(self) -> bool:
        """Whether all of it is kept."""
        return self._bytes <= MAX_BLOCK_BYTES

    def content(self) -> bytes:
        """The block, or of one that is too long its first frame."""
        return b"".join(self._parts)

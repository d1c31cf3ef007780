"""Header blocks that were seen before, in parsed form: clients repeat them, and a hit costs a tenth of a parse.

Proxies add lines that differ with every request (`traceparent`, `X-Request-Id`), with which no block would ever come again. The cache finds
such headers by itself: one whose value differs from block to block is cut out of the blocks that follow, the rest is looked up, and
the values that were cut out are put into the headers again. What a request means must not depend on a header that is cut out, so those on
which it depends never are. Pure: no sockets, no time.
"""

import re

from naiad.protocol.http.message import FastHandler, SpelledHeaders
from naiad.protocol.http.transport.framing import HttpError
from naiad.protocol.http.transport.head import RequestHead, parse_head

_DECIDING = frozenset(
    (
        b"accept",
        b"connection",
        b"content-encoding",
        b"content-length",
        b"expect",
        b"host",
        b"inference-header-content-length",
        b"transfer-encoding",
        b"upgrade",
    )
)
"""Headers that the transport and the choice of a handler look at."""

_CHANGES = 32
"""A header that has had so many new values is taken for one that differs with every request."""

_MOST_VARYING = 16
_MOST_NAMES = 256

_VALUE = rb"[\x21-\x7e\x80-\xff](?:[\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?"
_LINE = rb"\r\n(%b):[ \t]*(" + _VALUE + rb")(?=\r\n[^ \t])"
"""A whole header line, with which no folded line goes on (RFC 9112 5.2). What does not look so stays in the block and is parsed."""


class HeadCache:
    """Parsed header blocks by their bytes, bounded.

    Args:
        entries: how many; when full it is cleared (no order is kept: a hit must cost one lookup).
        entry_bytes: longer blocks are not kept.

    Attributes:
        known: the blocks, without the lines of varying headers.
        handlers: who answers requests with a remembered head; `HttpService` fills it in.
    """

    def __init__(self, *, entries: int, entry_bytes: int) -> None:
        self._entries = entries
        self._entry_bytes = entry_bytes
        self.known: dict[bytes, RequestHead] = {}
        self.handlers: dict[RequestHead, FastHandler] = {}
        self._last: dict[bytes, bytes] = {}
        self._changes: dict[bytes, int] = {}
        self._varying: frozenset[bytes] = frozenset()
        self._lines: re.Pattern[bytes] | None = None

    @property
    def varying(self) -> frozenset[bytes]:
        """The headers, in lower case, that differ with every request."""
        return self._varying

    def __len__(self) -> int:
        """How many blocks are remembered."""
        return len(self.known)

    def remember(self, block: bytes, head: RequestHead) -> None:
        """Keep a plain head; any other is parsed each time."""
        if head.plain and self._entries and len(block) <= self._entry_bytes:
            if len(self.known) >= self._entries:
                self.known.clear()
                self.handlers.clear()
            self.known[block] = head
            self._watch(head)

    def keep_handler(self, head: RequestHead, handler: FastHandler) -> None:
        """Keep who answers a head, bounded as the heads are."""
        if len(self.handlers) >= self._entries:
            self.handlers.clear()
        if self._entries:
            self.handlers[head] = handler

    def learn(self, block: bytes) -> tuple[RequestHead | None, RequestHead | None]:
        """Read a block that is not known, and remember it.

        Returns:
            Its head, and the remembered head that stands for it where a handler is asked for; None twice when the block is not plain
            or not right, for a closer look.
        """
        try:
            head, base = self.read(block)
        except HttpError:
            return None, None
        return (head, base) if head.plain else (None, None)

    def read(self, block: bytes) -> tuple[RequestHead, RequestHead]:
        """The same for any block that is complete.

        Raises:
            HttpError: as `parse_head`.
        """
        if self._lines is not None and len(block) <= self._entry_bytes:
            parts = self._lines.split(block)
            if len(parts) > 1:
                found = self._completed(b"".join(parts[::3]), parts)
                if found is not None:
                    return found
        head = parse_head(block)
        self.remember(block, head)
        return head, head

    def _completed(self, rest: bytes, parts: list[bytes]) -> tuple[RequestHead, RequestHead] | None:
        """A head from what is left of its block and the lines that were cut out.

        None when a header was cut out in one line and stayed in another: their order is lost, so the block has to be parsed.
        """
        base = self.known.get(rest)
        if base is None:
            base = parse_head(rest)
            self.remember(rest, base)
        if not self._varying.isdisjoint(base.headers):
            return None
        headers = SpelledHeaders()
        headers.update(base.headers)
        if isinstance(base.headers, SpelledHeaders):
            headers.spelling.update(base.headers.spelling)
        for spelled, value in zip(parts[1::3], parts[2::3], strict=True):
            name = spelled.lower()
            if spelled != name:
                headers.spelling.setdefault(name, spelled)
            if name in headers:
                headers[name] += b", " + value
            else:
                headers[name] = value
        return base.with_headers(headers), base

    def _watch(self, head: RequestHead) -> None:
        """Count which headers of a new block have a new value."""
        if len(self._last) > _MOST_NAMES:
            self._last.clear()
            self._changes.clear()
        for name, value in head.headers.items():
            if name in _DECIDING:
                continue
            if self._last.get(name, value) != value:
                changes = self._changes[name] = self._changes.get(name, 0) + 1
                if changes >= _CHANGES:
                    self._cut_out(name)
            self._last[name] = value

    def _cut_out(self, name: bytes) -> None:
        """From now on a header is cut out of blocks. Sixteen at most: a client that makes up more names clears it."""
        self._changes.clear()
        names = self._varying if len(self._varying) < _MOST_VARYING else frozenset[bytes]()
        self._varying = names | {name}
        among = b"|".join(re.escape(each) for each in sorted(self._varying))
        self._lines = re.compile(_LINE % among, re.IGNORECASE)

"""Header blocks like those that were seen before: clients repeat them but for a few values, and a known one costs a tenth of a parse.

Measured with the head of a common client: what the connection does for a request takes 1.6 µs with a block that is repeated and 3.6 with one whose length and two ids
change; with httptools alone it takes 7.4 and 8.5. The 5 to 6 µs are a fifth of the processor time of a small JSON request, sockets included.

Blocks are remembered as templates (`head_template.py`), by all their bytes but the values of headers that are known to change. Clients and
proxies have changing headers of their own, with which no block would ever come again: the cache finds such headers by itself. One whose value differs
from block to block is cut out of the blocks that follow. Pure: no sockets, no time.
"""

from naiad.protocol.http.message import FastHandler, FastRoutes
from naiad.protocol.http.transport.framing import HttpError
from naiad.protocol.http.transport.head import CHUNKED, RequestHead, parse_head
from naiad.protocol.http.transport.head_template import DECIDING, HeadTemplate, Varying

_CHANGES = 32
"""A header that has had so many new values is taken for one that differs with every request."""

_WORTH = 8
"""A template that so many requests had, but for values, is compiled: that takes as long as ten requests."""

_MOST_COMPILED = 128
"""A compiled template takes up to 16 KiB."""

_END = b"\r\n\r\n"
_MOST_VARYING = 16
_MOST_NAMES = 256


class HeadCache:
    """Templates of header blocks, bounded.

    Args:
        entries: how many templates; when full it is cleared (no order is kept: a hit must cost one lookup).
        entry_bytes: longer blocks are not kept.

    Attributes:
        recent: the template that the fast lane found last: a new connection's first request is probably like it.
        found: the template of a block that `read` gets soon; None when there is none.
    """

    def __init__(self, routes: FastRoutes, *, entries: int, entry_bytes: int) -> None:
        self._routes = routes
        self._entries = entries
        self._entry_bytes = entry_bytes
        self._templates: dict[bytes, HeadTemplate] = {}
        self._uses: dict[bytes, int] = {}
        self._compiled = 0
        self._varying = Varying()
        self._last: dict[bytes, bytes] = {}
        self._changes: dict[bytes, int] = {}
        self._parsed: tuple[bytes, RequestHead] | None = None
        self.recent: HeadTemplate | None = None
        self.found: HeadTemplate | None = None

    @property
    def varying(self) -> frozenset[bytes]:
        """The headers, in lower case, that were found to differ with every request."""
        return self._varying.more

    def __len__(self) -> int:
        """How many templates are remembered."""
        return len(self._templates)

    def find(self, data: bytes, longest: int) -> HeadTemplate | None:
        """The template for a request that begins `data`, if the fast lane answers it.

        None also for a head that is incomplete, invalid, or has more than `longest` bytes.
        """
        end = data.find(_END) + len(_END)
        if not len(_END) <= end <= min(longest, self._entry_bytes):
            return None
        template = self.found = self._template(data[:end])
        if template is None or template.handler is None:
            return None
        self.recent = template
        return template

    def read(self, block: bytes) -> RequestHead:
        """The head of any complete block.

        Raises:
            HttpError: as `parse_head`.
        """
        if self.found is not None and len(block) <= self._entry_bytes:
            head = self.found.head_of(block)
            if head is not None:
                return head
        parsed, self._parsed = self._parsed, None
        return parsed[1] if parsed is not None and parsed[0] == block else parse_head(block)

    def _template(self, block: bytes) -> HeadTemplate | None:
        rest = self._varying.cut(block).rest
        template = self._templates.get(rest)
        if template is None:
            try:
                head = parse_head(block)
            except HttpError:
                return None  # `read` says why
            self._parsed = block, head
            return self._remember(block, head)
        if template.match is None and template.block != block:
            uses = self._uses[rest] = self._uses.get(rest, 0) + 1
            if uses >= _WORTH:
                template = self._compile(rest, template)
        return template

    def _remember(self, block: bytes, head: RequestHead) -> HeadTemplate | None:
        """Keep the template of a block; any but an ordinary one is parsed each time."""
        ordinary = head.minor and not (head.expects_continue or head.head_only)
        if not ordinary or head.length == CHUNKED or not self._entries:
            return None
        self._watch(head)
        try:
            limit = self._routes.body_limit(head.path, head.headers)
            handler = self._handler_of(head)
        except Exception:  # noqa: BLE001 - the connection gets it as well, logs it and responds
            return None
        cut = self._varying.cut(block)  # again: which headers change may just have been found out
        template = self._varying.template(block, cut, head, handler=handler, limit=limit)
        if template is not None:
            if len(self._templates) >= self._entries:
                self._clear()
            self._templates[cut.rest] = template
        return template

    def _compile(self, rest: bytes, template: HeadTemplate) -> HeadTemplate:
        if self._compiled >= _MOST_COMPILED:
            self._clear()
        self._compiled += 1
        self._templates[rest] = compiled = template.compiled()
        return compiled

    def _clear(self) -> None:
        self._templates.clear()
        self._uses.clear()
        self._compiled = 0

    def _handler_of(self, head: RequestHead) -> FastHandler | None:
        handler = self._routes.find(head.method, head.path, head.headers)
        if handler is None or self._routes.may_stream(head.path, head.headers):
            return None
        return handler

    def _watch(self, head: RequestHead) -> None:
        """Count which headers of a new block have a new value."""
        if len(self._last) > _MOST_NAMES:
            self._last.clear()
            self._changes.clear()
        for name, value in head.headers.items():
            if name in DECIDING or name in self._varying:
                continue
            if self._last.get(name, value) != value:
                changes = self._changes[name] = self._changes.get(name, 0) + 1
                if changes >= _CHANGES:
                    self._cut_out(name)
            self._last[name] = value

    def _cut_out(self, name: bytes) -> None:
        """From now on a header is cut out of blocks. Sixteen at most: a client that makes up more names clears it."""
        self._changes.clear()
        names = (
            self._varying.more if len(self._varying.more) < _MOST_VARYING else frozenset[bytes]()
        )
        self._varying = Varying(names | {name})
        self._clear()

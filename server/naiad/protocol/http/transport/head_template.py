"""A header block with its changing values left out: what is the same in all requests of a client, and where the rest stands.

Requests of one client differ in the values of a few headers: Content-Length, `traceparent`, request ids, cookies. `Varying` cuts these out of
a block by name; `HeadTemplate` reads further blocks that are the same but for such values, at a tenth of the cost of a parse.

A template never changes what a block means. It is made from a block that `head.parse_head` took, and only when it gives the same headers and length as
that. Another block is read with it only when all its other bytes are equal and each value holds nothing but visible characters, spaces and tabs, or
digits where a length stands; everything else is parsed. A header on which more than its own value depends (Connection, Transfer-Encoding,
…) is never cut out. Pure: no sockets, no time.
"""

import itertools
import re
import typing

import msgspec

from naiad.core.record import Record
from naiad.protocol.http.message import FastHandler, Headers, HttpRequest, SpelledHeaders
from naiad.protocol.http.transport.head import RequestHead

_CUT = b"\0"
"""Stands for a value that was cut out; no block that is parsed without an error holds this byte."""

_VALUE = rb"[\x21-\x7e\x80-\xff](?:[\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?"
_LENGTH = rb"[0-9]{1,18}"
_JSON_LENGTH = rb"[1-9][0-9]{0,8}"
"""A length of 0 asks for another kind of body, with another limit (row 3.4)."""

_CONTENT_LENGTH = b"content-length"

_CHANGING = (
    b"b3", b"baggage", b"cookie", b"date", b"forwarded", b"request-id", b"traceparent", b"tracestate", b"uber-trace-id",
    b"x-amzn-trace-id", b"x-b3-parentspanid", b"x-b3-spanid", b"x-b3-traceid", b"x-cloud-trace-context", b"x-correlation-id",
    b"x-datadog-parent-id", b"x-datadog-trace-id", b"x-forwarded-for", b"x-real-ip", b"x-request-id", b"x-request-start",
)  # fmt: skip
_ALWAYS = {
    _CONTENT_LENGTH: _LENGTH,
    b"inference-header-content-length": _JSON_LENGTH,
    **dict.fromkeys(_CHANGING, _VALUE),
}

DECIDING = frozenset((
    b"accept", b"connection", b"content-encoding", b"expect", b"host", b"keep-alive", b"proxy-connection", b"te", b"trailer",
    b"transfer-encoding", b"upgrade", *_ALWAYS,
))  # fmt: skip
"""Headers that may not be added: what a request is, or who handles it, depends on them. Lengths are checked for each request."""


PARTIAL = HttpRequest(b"", "", {}, b"")
"""In place of a request that is not whole."""


class Cut(typing.NamedTuple):
    """A block with a NUL in place of each value that was cut out, and these values with the headers, in lower case, that had them."""

    rest: bytes
    names: list[bytes]
    values: list[bytes]


class Varying:
    """The headers whose values are cut out.

    Args:
        more: names in lower case beside those that are known to change; none of `DECIDING`.
    """

    def __init__(self, more: frozenset[bytes] = frozenset()) -> None:
        self._values = {**_ALWAYS, **dict.fromkeys(more, _VALUE)}
        self._lines = {
            name: re.compile(rb"([^:]*:[ \t]*)(%b)([ \t]*)" % value).fullmatch
            for name, value in self._values.items()
        }
        self.more = more

    def __contains__(self, name: bytes) -> bool:
        """Whether the values of a header, in lower case, are cut out."""
        return name in self._values

    def cut(self, block: bytes) -> Cut:
        """Cut a block. A value that is not as it should be stays."""
        lines = block.split(b"\r\n")
        names: list[bytes] = []
        values: list[bytes] = []
        for at, line in enumerate(lines):
            name = line.partition(b":")[0].lower()
            pattern = self._lines.get(name)
            match = None if pattern is None else pattern(line)
            if match is not None:
                lines[at] = match[1] + _CUT + match[3]
                names.append(name)
                values.append(match[2])
        return Cut(b"\r\n".join(lines), names, values)

    def template(
        self, block: bytes, cut: Cut, head: RequestHead, *, handler: FastHandler | None, limit: int
    ) -> "HeadTemplate | None":
        """The template of a block; None if a header that is cut out came several times, or does not have the value that the head has.

        `handler` is None if it has to be found out for each request; `limit` is the bytes that a body may have.
        """
        headers = head.headers
        same = [headers.get(name) for name in cut.names] == cut.values
        length = int(headers.get(_CONTENT_LENGTH, b"0"))
        parts = [re.escape(part) for part in cut.rest.split(_CUT)]
        if not same or length != head.length or length > limit or len(parts) != len(cut.names) + 1:
            return None
        values = [b"(%b)" % self._values[name] for name in cut.names]
        pattern = b"".join(itertools.chain(*zip(parts, values, strict=False), parts[-1:]))
        spelling = headers.spelling if isinstance(headers, SpelledHeaders) else {}
        return HeadTemplate(
            block, len(block), pattern, None, tuple(cut.names), head, spelling, handler, limit
        )


class HeadTemplate(Record, frozen=True):
    """What the blocks of many requests have in common.

    Attributes:
        pattern: a regular expression of all such blocks, with a group for each value that was cut out.
        match: the pattern, compiled, which takes longer than ten requests; None before it is worth that.
        head: of `block`. What it says but for headers and length is true of all of them.
        spelling: of all their headers.
        limit: bytes that a body may have.
    """

    block: bytes
    size: int
    pattern: bytes
    match: typing.Callable[[bytes], re.Match[bytes] | None] | None
    names: tuple[bytes, ...]
    head: RequestHead
    spelling: dict[bytes, bytes]
    handler: FastHandler | None
    limit: int

    def compiled(self) -> "HeadTemplate":
        """This template, ready for blocks with other values."""
        return msgspec.structs.replace(self, match=re.compile(self.pattern).match)

    def read(self, data: bytes, longest: int) -> HttpRequest | None:
        """The only request in some bytes.

        Returns:
            PARTIAL when its body is incomplete, above the limit, or followed by more; None for a head of another template, an incomplete
            one, and one of more than `longest` bytes.
        """
        head = self.head
        if data.startswith(self.block):
            at, headers, length = self.size, head.headers, head.length
        else:
            match = None if self.match is None else self.match(data)
            if match is None or (at := match.end()) > longest:
                return None
            # As `_headers`, whose call would take as long again.
            headers = SpelledHeaders(head.headers)
            headers.spelling = self.spelling
            headers.update(zip(self.names, match.groups()))  # noqa: B905  as there
            length = int(headers.get(_CONTENT_LENGTH, b"0"))
        if at + length != len(data) or length > self.limit:
            return PARTIAL
        return HttpRequest(head.method, head.path, headers, data[at:])

    def head_of(self, block: bytes) -> RequestHead | None:
        """The head of a complete block; None for one of another template."""
        if block == self.block:
            return self.head
        match = None if self.match is None else self.match(block)
        if match is None:
            return None
        headers = self._headers(match)
        length = int(headers.get(_CONTENT_LENGTH, b"0"))
        return msgspec.structs.replace(self.head, headers=headers, length=length)

    def _headers(self, match: re.Match[bytes]) -> Headers:
        headers = SpelledHeaders(self.head.headers)
        headers.spelling = self.spelling
        headers.update(zip(self.names, match.groups()))  # noqa: B905  the pattern has a group for each name; asking for it costs as much as a value
        return headers

"""What follows requests from their first byte to the last byte of their response: the access log, and whatever else records them.

Both protocols have one observer or none, and without one do not even read the clock.
"""

import collections.abc
import re
import typing

from naiad.core.inference import RequestContext, TraceParent
from naiad.core.record import Record

HeaderLookup = collections.abc.Callable[[bytes], bytes | str | None]
"""The value of a request's header or metadata by its name in lower case; None if it has none."""

TRACEPARENT, TRACESTATE = b"traceparent", b"tracestate"

_TRACEPARENT = re.compile(
    # Versions after 00 may have further fields, which are passed over (W3C Trace Context, "Versioning of traceparent").
    r"(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:(?<!\A00.{53})-.*)?",
    re.ASCII,
)
_INVALID_TRACE_ID, _INVALID_SPAN_ID = "0" * 32, "0" * 16
_TRACESTATE = re.compile(r"[\x20-\x7e]{1,512}", re.ASCII)


class Ended(Record, frozen=True):
    """A request that got its response.

    Attributes:
        peer: the client's address, "" when the socket had none any more.
        method: HTTP's, as the client sent it, or the name of the RPC; "-" when the request could not be read.
        target: path and query as the client sent them, not decoded; for gRPC the whole path of the RPC.
        status: of the response: a number for HTTP, a name such as "OK" for gRPC.
    """

    protocol: str
    peer: str
    method: str
    target: str
    status: int | str
    context: RequestContext

    @property
    def seconds(self) -> float:
        """From the end of the request's headers to the response."""
        return (self.context.sent_ns - self.context.received_ns) / 1e9


class Observer(typing.Protocol):
    """Follows requests. Loop only; no method raises.

    Attributes:
        records: whether `end` reads more than the context; if not, `finish` is enough.
    """

    records: bool

    def follows(self, header: HeaderLookup) -> bool:
        """Whether the request that begins now is followed; the others need no context."""

    def now_ns(self) -> int:
        """Now, in monotonic nanoseconds."""

    def follow(
        self, headers: collections.abc.Mapping[bytes, bytes], received_ns: int, read_ns: int = 0
    ) -> RequestContext | None:
        """`follows` and `begin` in one call; the caller sets the size of the body, if `records`.

        `read_ns` is when the request was whole, if that is known.
        """

    def begin(self, header: HeaderLookup, received_ns: int, size: int) -> RequestContext:
        """The context of a request, also of one that comes on a stream; `size`: bytes of its body. Its inference may be read from it at the end."""

    def end(self, ended: Ended) -> None:
        """The response was sent now, or will never be. Called once per context of a whole request, call or stream."""

    def finish(self, context: RequestContext) -> None:
        """As `end`, of a request of which no more than the context is recorded."""


def trace_parent(
    traceparent: str | bytes, tracestate: str | bytes | None = None
) -> TraceParent | None:
    """The parts of the two headers; None if the first is not valid: then it counts as not sent. The second one is left out if it is not."""
    match = _TRACEPARENT.fullmatch(_text(traceparent))
    if match is None or match[1] == _INVALID_TRACE_ID or match[2] == _INVALID_SPAN_ID:
        return None
    state = "" if tracestate is None else _text(tracestate)
    if _TRACESTATE.fullmatch(state) is None:
        state = ""
    return TraceParent(match[1], match[2], int(match[3], 16), state)


def _text(header: str | bytes) -> str:
    return header if isinstance(header, str) else header.decode("latin-1")

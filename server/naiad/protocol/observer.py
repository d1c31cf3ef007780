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

TRACEPARENT = b"traceparent"

_TRACEPARENT = re.compile(
    r"(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})", re.ASCII
)
_INVALID_TRACE_ID = "0" * 32


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
    """Follows requests. Loop only; no method raises."""

    @property
    def active(self) -> bool:
        """Whether requests that begin now are followed; the others need no context."""
        ...

    def now_ns(self) -> int:
        """Now, in monotonic nanoseconds."""

    def begin(self, header: HeaderLookup, received_ns: int, size: int) -> RequestContext:
        """The context of a request, also of one that comes on a stream; `size`: bytes of its body. Its inference may be read from it at the end."""

    def end(self, ended: Ended) -> None:
        """The response was sent now, or will never be. Called once per context of a whole request, call or stream."""


def trace_parent(traceparent: str | bytes) -> TraceParent | None:
    """The header's parts; None if it is not valid: then it counts as not sent."""
    text = traceparent if isinstance(traceparent, str) else traceparent.decode("latin-1")
    match = _TRACEPARENT.fullmatch(text)
    if match is None or match[1] == _INVALID_TRACE_ID:
        return None
    return TraceParent(match[1], match[2], int(match[3], 16))

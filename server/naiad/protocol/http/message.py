"""The types between the HTTP connection and its handlers: requests and replies.

The connection (`connection.py`) handles bytes and sockets, and not inference; a handler handles inference, and not sockets.
Paths that no `FastRoutes` claims go to the ASGI application through `bridge.py`.
"""

import collections.abc
import typing
from typing import Any

from naiad.core.inference import Cancellable, RequestContext
from naiad.core.record import Record

Headers = dict[bytes, bytes]
"""Names in lower case; a header that came several times is joined by b", ".

Requests with the same header block share one dict, which is read only."""


class SpelledHeaders(dict[bytes, bytes]):
    """Headers with the client's spelling of their names, which forwarded headers keep (row 1.17).

    Attributes:
        spelling: lower case name -> the name as it came; only names that came otherwise. To be set by the maker: a constructor
            would cost a request more than all the rest of it.
    """

    __slots__ = ("spelling",)

    spelling: dict[bytes, bytes]


def spelling_of(headers: Headers, name: bytes) -> bytes:
    """A header's name as the client wrote it, from its name in lower case."""
    return headers.spelling.get(name, name) if isinstance(headers, SpelledHeaders) else name


Message = collections.abc.MutableMapping[str, Any]
Scope = collections.abc.MutableMapping[str, Any]
Receive = collections.abc.Callable[[], collections.abc.Awaitable[Message]]
Send = collections.abc.Callable[[Message], collections.abc.Awaitable[None]]
AsgiApp = collections.abc.Callable[[Scope, Receive, Send], collections.abc.Awaitable[None]]
"""An ASGI 3 application."""


class HttpRequest(Record, frozen=True):
    """A request with its whole body.

    Attributes:
        path: percent-decoded path without the query.
        body: the body after transfer decoding, still compressed when Content-Encoding says so. Empty if it is `shared`.
        context: for the engine; None if nothing reads it.
        shared: the body in shared memory, read-only, where it is large and `FastRoutes.tensors_from` allows it.
    """

    method: bytes
    path: str
    headers: Headers
    body: bytes
    context: RequestContext | None = None
    shared: memoryview | None = None


class BodyWriter(typing.Protocol):
    """Writes a streamed body. Loop only."""

    def write(self, data: bytes | memoryview) -> None:
        """Send a piece now. After `pause`, only a little more may follow."""

    def end(self) -> None:
        """The body is complete. Called once; nothing is written after it."""

    def cut(self) -> None:
        """The body cannot be completed: abort the connection, so that the client notices."""


class BodyStream(typing.Protocol):
    """A body that is produced while it is sent."""

    def begin(self, writer: BodyWriter) -> None:
        """The head was sent: send the body."""

    def pause(self) -> None:
        """The client does not read."""

    def resume(self) -> None:
        """The client reads again."""

    def probe(self) -> None:
        """Send something that the client ignores, if the format has it, to find out whether the client is still there."""

    def cancel(self) -> None:
        """The client has gone, perhaps before `begin`. Idempotent."""


class HttpReply(Record, frozen=True):
    """A reply with its whole body, or with one that is streamed; the connection adds Content-Length or chunks, and Connection.

    Attributes:
        status: e.g. 200.
        headers: in the order they are written, names as they are written.
        body: the parts, written one after the other without joining large ones.
        request_id: the client's id of the request, for the access log; "" if there is none.
        stream: a body that is produced while it is sent; `body` is empty then.
    """

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: tuple[bytes | memoryview, ...]
    request_id: str = ""
    stream: BodyStream | None = None


OnReply = collections.abc.Callable[[HttpReply], None]
FastHandler = collections.abc.Callable[[HttpRequest, OnReply], Cancellable | None]
"""Called on the loop; calls back exactly once, now or later; the handle is cancelled if the client has gone before."""


class FastRoutes(typing.Protocol):
    """The paths that do not go through ASGI."""

    def find(self, method: bytes, path: str, headers: Headers) -> FastHandler | None:
        """The handler of a path, or None for the ASGI application. Called once the headers are complete.

        The result depends on nothing else, and is cached.
        """

    def refusal(self, method: bytes, path: str, headers: Headers) -> HttpReply | None:
        """The error of a request that its head alone decides (token, verb, model), or None if its body is needed.

        Called for a request of the fast lane before its body is received, so that a body is received only if it is needed. The handler
        checks again.
        """

    def body_limit(self, path: str, headers: Headers) -> int:
        """How many body bytes to take for this request; a longer one is refused before it is read (row 1.11).

        Depends on nothing else, as `find`.
        """

    def too_large(self, path: str, headers: Headers, size: int | None) -> str:
        """The error message of a body above its limit: of `size` bytes, or None if that is unknown, because it comes in chunks (row 1.11)."""

    def tensors_from(self, path: str, headers: Headers) -> int:
        """Where in a body its tensors begin, if the handler takes one that is `shared`; 0 if it does not. What begins there is aligned in memory.

        Depends on nothing else, as `find`; a number that the client chose, perhaps beyond the body.
        """

    def may_stream(self, path: str, headers: Headers) -> bool:
        """Whether the reply may be a stream. Such a request is begun only when all earlier ones have their replies.

        A stream that waits behind another reply would have to pause its model, and the other reply may need that model.
        Depends on nothing else, as `find`.
        """

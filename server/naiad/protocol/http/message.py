"""What passes between the HTTP connection and whoever answers: a whole request in, a whole reply out.

The connection (`connection.py`) knows bytes and sockets and nothing of inference; a handler knows inference and nothing of sockets.
Paths that no `FastRoutes` claims go to the ASGI application through `bridge.py`.
"""

import collections.abc
import typing

from naiad.core.record import Record

Headers = dict[bytes, bytes]
"""Names in lower case; a header that came several times is joined by b", ".

Requests with the same header block share one dict: nobody may change it."""


class SpelledHeaders(dict[bytes, bytes]):
    """Headers that remember how the client spelled their names, for whoever passes them on (row 1.17).

    Attributes:
        spelling: lower case name -> the name as it came; only names that came otherwise.
    """

    __slots__ = ("spelling",)

    def __init__(self) -> None:
        super().__init__()
        self.spelling: dict[bytes, bytes] = {}


def spelling_of(headers: Headers, name: bytes) -> bytes:
    """A header's name as the client wrote it, from its name in lower case."""
    return headers.spelling.get(name, name) if isinstance(headers, SpelledHeaders) else name


class HttpRequest(Record, frozen=True):
    """A request with its whole body.

    Attributes:
        method: upper case, e.g. b"POST".
        path: percent-decoded path without the query.
        headers: all of them.
        body: the body after transfer decoding, still compressed when Content-Encoding says so.
    """

    method: bytes
    path: str
    headers: Headers
    body: bytes


class Outlet(typing.Protocol):
    """Where a streamed body goes. Loop only."""

    def write(self, data: bytes | memoryview) -> None:
        """Send a piece now. Whoever is told to `pause` should not go on for long."""
        ...

    def end(self) -> None:
        """The body is complete. Called once; nothing is written after it."""
        ...

    def cut(self) -> None:
        """The body cannot be completed: drop the connection, so that the client sees that it is cut."""
        ...


class BodyStream(typing.Protocol):
    """A body that is made while it is sent: what the connection tells it."""

    def begin(self, outlet: Outlet) -> None:
        """The head is out: send what is there, and whatever comes, until the end."""
        ...

    def pause(self) -> None:
        """The client does not take what it is sent."""
        ...

    def resume(self) -> None:
        """It does again."""
        ...

    def probe(self) -> None:
        """Send something that means nothing to the client, if there is such a thing: whether it arrives tells if anybody is there."""
        ...

    def cancel(self) -> None:
        """The client is gone, perhaps before `begin`. Safe at any time, any number of times."""
        ...


class HttpReply(Record, frozen=True):
    """A reply with its whole body, or with one that is streamed; the connection adds Content-Length or chunks, and Connection.

    Attributes:
        status: e.g. 200.
        headers: in the order they are written, names as they are written.
        body: the parts, written one after the other without joining large ones.
        request_id: the client's own name for the request, for the access log; "" when it gave none.
        stream: the rest of the body, made while it is sent; `body` is empty then.
    """

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: tuple[bytes | memoryview, ...]
    request_id: str = ""
    stream: BodyStream | None = None


class Cancellable(typing.Protocol):
    """A handle on work under way."""

    def cancel(self) -> None:
        """The client is gone. Safe at any time, any number of times."""
        ...


OnReply = collections.abc.Callable[[HttpReply], None]
FastHandler = collections.abc.Callable[[HttpRequest, OnReply], Cancellable | None]
"""Called on the loop; calls back exactly once, now or later; the handle is cancelled when the client leaves before."""


class FastRoutes(typing.Protocol):
    """The paths that do not go through ASGI."""

    def find(self, method: bytes, path: str, headers: Headers) -> FastHandler | None:
        """The handler of a path, or None when the ASGI application shall answer. Called once the headers are complete.

        The answer depends on nothing else, and is remembered.
        """
        ...

    def refusal(self, method: bytes, path: str, headers: Headers) -> HttpReply | None:
        """The answer to a request that its head alone decides (token, verb, model), or None when its body is needed.

        Asked for a request of the fast lane whose body is still to come, so that no body is collected in vain. The handler
        judges again.
        """
        ...

    def body_limit(self, path: str, headers: Headers) -> int:
        """How many body bytes to take for this request; a longer one is refused before it is read (row 1.11).

        Depends on nothing else, as `find`.
        """
        ...

    def may_stream(self, path: str, headers: Headers) -> bool:
        """Whether the reply may be a stream. Such a request is begun only when it is its turn to be answered.

        A stream that waited behind another reply would have to hold its model, and the other reply may be that model's work.
        Depends on nothing else, as `find`.
        """
        ...

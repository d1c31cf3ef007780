"""The receiving side of a connection: turns the bytes that were read into heads and pieces of bodies. Pure: no sockets, no time, no loop.

The connection takes one head or one piece after the other, and leaves the rest here while a request has to wait (one read of the socket
at most, because the connection stops reading). It decides who handles a request.
"""

import re
import typing

from naiad.protocol.http.transport.body import Body, DirectBody
from naiad.protocol.http.transport.framing import HttpError
from naiad.protocol.http.transport.head import RequestHead, find_end, glimpse
from naiad.protocol.http.transport.head_cache import HeadCache
from naiad.protocol.http.transport.service import HttpSettings

_BLANK = re.compile(rb"(?:\r\n)+")
"""Empty lines before a request are skipped (RFC 9112 2.2)."""


class BodySink(typing.Protocol):
    """Where the body of a request goes."""

    head: RequestHead
    started_ns: int

    def feed(self, piece: bytes) -> None:
        """The next piece."""

    def end(self) -> None:
        """The body is complete."""


class RequestReceiver:
    """The unused input of a connection, and the body that is being received.

    Attributes:
        body: the body that is being received; None between requests.
        sink: where it goes; None if it is skipped.
        body_held: the application has enough of that body for now.
        owes_continue: the client waits for `100 Continue` before it sends that body.
        unread: whether there are bytes that were not taken.
    """

    __slots__ = (
        "_at", "_data", "_heads", "_next", "_searched", "_settings", "body", "body_held", "eof", "owes_continue",
        "sink", "unread",
    )  # fmt: skip

    def __init__(self, settings: HttpSettings, heads: HeadCache) -> None:
        self._settings = settings
        self._heads = heads
        self.sink: BodySink | None = None
        self._data = b""
        self._at = 0  # where the unread bytes begin
        self._next = 0  # where they begin once the head that was read last is taken
        self._searched = 0
        self.body: Body | None = None
        self.body_held = False
        self.owes_continue = False
        self.eof = False
        self.unread = False

    def add(self, data: bytes) -> None:
        """Add received bytes."""
        self._data = self._data[self._at :] + data if self.unread else data
        self._at = 0
        self.unread = bool(self._data)

    def read_head(self) -> RequestHead | None:
        """The next request, or None when its head is incomplete. It stays unread until `take_head`.

        Raises:
            HttpError: an invalid request; the rest of the input cannot be used.
        """
        data, at = self._data, self._at
        if data.startswith(b"\r\n", at) and (blank := _BLANK.match(data, at)):
            count, at = blank.end() - at, blank.end()
            self._at = at
            self.unread = at < len(data)
            if count > self._settings.max_line_bytes:
                raise HttpError(
                    400, f"{count} bytes of empty lines came in place of a request: send a request line."
                )  # fmt: skip
        if at == len(data) or (data.endswith(b"\r", at) and len(data) == at + 1):
            return None  # perhaps one of these
        end = find_end(
            data,
            at,
            at + self._searched,
            max_head=self._settings.max_head_bytes,
            max_line=self._settings.max_line_bytes,
        )
        self._searched = len(data) - at if end < 0 else 0
        if end < 0:
            return None
        self._next = end
        return self._heads.read(data[at:end])

    def take_head(self) -> None:
        """The request is begun: what follows is its body, or the next request."""
        self._at = self._next
        self.unread = self._at < len(self._data)

    def expect_body(self, body: Body, sink: BodySink | None) -> None:
        """A body follows; without a sink it is skipped."""
        self.body = body
        self.sink = sink

    def wait_to_continue(self) -> None:
        """The client sends the body after `100 Continue`, unless some of it came already."""
        self.owes_continue = not self.unread

    def read_body(self) -> None:
        """Hand some of the unread bytes to the sink, not more than takes little time.

        Raises:
            HttpError: as `Body.take`.
        """
        body = self.body
        assert body is not None
        self.owes_continue = False
        self._at = body.take(self._data, self._at, _skip if self.sink is None else self.sink.feed)
        self.unread = self._at < len(self._data)
        if body.done():
            self.end_body()

    def end_body(self) -> None:
        """All of the body was received."""
        sink, self.sink, self.body, self.body_held = self.sink, None, None, False
        if sink is not None:
            sink.end()

    def direct(self) -> DirectBody | None:
        """The body whose next bytes are to be read from the socket straight into its memory; None if there is none, or if bytes before them wait here."""
        sink = self.sink
        return sink if type(sink) is DirectBody and sink.rest and not self.unread else None

    def in_question(self, now_ns: int) -> tuple[RequestHead, int]:
        """The request that is being received, as far as it is known, for the access log of an error: its head and `RequestContext.received_ns`."""
        if self.sink is not None:
            return self.sink.head, self.sink.started_ns
        return glimpse(self._data[self._at :]), now_ns

    def drop(self) -> None:
        """Drop all input and the body that is being received."""
        self.drop_unread()
        self.body = self.sink = None
        self.body_held = self.owes_continue = False

    def drop_unread(self) -> None:
        """Drop what came behind the last request that was begun."""
        self._data, self._at, self._searched, self.unread = b"", 0, 0, False

    def want_body(self) -> bool:
        """The body is wanted: resume it. Returns whether the client waits for `100 Continue`, which is then to be sent."""
        self.body_held = False
        owes, self.owes_continue = self.owes_continue, False
        return owes

    def ignore_body(self) -> None:
        """The request has its reply: skip the rest of the body."""
        self.sink = None
        self.body_held = self.owes_continue = False

    def ignores_body(self) -> bool:
        """Whether the rest of a body is being skipped."""
        return self.body is not None and self.sink is None

    def small_rest(self) -> bool:
        """Whether the rest of the body is small enough to skip."""
        if self.body is None:
            return True
        left = self.body.left()
        return left is not None and left <= self._settings.discard_bytes and not self.owes_continue

    def waits_for_client(self, *, in_progress: bool) -> bool:
        """Whether a request is incomplete that the client could continue."""
        if self.body is not None:
            return not (self.body_held or self.owes_continue)
        return bool(self.unread) and not in_progress

    def overdue(self, waited: float) -> HttpError | None:
        """The error if the client sent nothing of a body for `waited` seconds, or began a head that long ago."""
        settings = self._settings
        if self.body is None:
            if waited >= settings.head_timeout:
                text = f"The request headers did not come within {settings.head_timeout:g} s."
                return HttpError(408, f"{text} Send the request again.")
        elif waited >= settings.body_idle_timeout:
            text = f"The request body stopped coming for {settings.body_idle_timeout:g} s."
            return HttpError(408, f"{text} Send the request again.")
        return None


def _skip(piece: bytes) -> None:
    """Nothing wants the rest of a body."""

"""The end of a connection in order (RFC 9113, section 6.8): its client is asked to go, and the last call that is served is named once no more come."""

import typing

from naiad.protocol.grpc.transport.native.keepalive import Keepalive
from naiad.protocol.grpc.transport.native.service import GrpcService
from naiad.protocol.transport.http2.connection import Http2Server
from naiad.protocol.transport.http2.open_streams import DRAIN_PING

FINISH_S = 5.0
"""How long a client has to answer the first GOAWAY until the second one goes out all the same."""

ON_THE_WAY_S = 0.25
"""How long no call must have come, after a client has answered the first GOAWAY, until the second one, which names the last call that is served: Go's client
numbers a call a moment before it writes it, so that one may come behind that answer, and sends no call twice that has a message."""

_BEGIN_S = 1.0
"""How long a client that is asked to go has for its preface, if that has not come: one that only holds a connection open has sent no call."""


class Leaves(typing.Protocol):
    """A connection, as its departure uses it.

    Attributes:
        h2: its HTTP/2.
    """

    h2: Http2Server

    def finish(self) -> None:
        """Take no more calls. Idempotent."""


class Departure:
    """What follows from the first GOAWAY of a connection.

    Args:
        keepalive: knows when the client has sent something last.
        owes: the client waits for something now: it is not gone only because it is silent.
    """

    __slots__ = ("_asked", "_connection", "_keepalive", "_knows", "_owes", "_service")

    def __init__(
        self, connection: Leaves, service: GrpcService, keepalive: Keepalive, *, owes: bool
    ) -> None:
        self._connection = connection
        self._service = service
        self._keepalive = keepalive
        self._owes = owes
        self._asked = service.registry.now
        self._knows = False

    def begin(self, why: str) -> None:
        """Put GOAWAY into the output, and set the times at which no more is waited for."""
        h2, loop = self._connection.h2, self._service.loop
        h2.go_away(why)
        loop.call_later(FINISH_S, self._connection.finish)
        if not h2.began:
            loop.call_later(_BEGIN_S, self._finish_unbegun)

    def answered(self, ping: bytes) -> None:
        """The client has answered a ping; that of the GOAWAY says that it knows."""
        if ping == DRAIN_PING and not self._knows:
            self._knows = True
            self._finish_when_quiet(-1)

    def is_client_gone(self) -> bool:
        """Whether a tick or more has passed since the client was asked to go, and it has sent nothing and waited for nothing: a response may be slow."""
        now, asked = self._service.registry.now, self._asked
        return (
            not (self._knows or self._owes)
            and now > asked
            and self._keepalive.silent_s(now) >= now - asked
        )

    def _finish_when_quiet(self, last: int) -> None:
        """Take no more calls once none has come for a while; `last` was the last one then."""
        if last == (now := self._connection.h2.streams.last_id):
            self._connection.finish()
        else:
            self._service.loop.call_later(ON_THE_WAY_S, self._finish_when_quiet, now)

    def _finish_unbegun(self) -> None:
        if not self._connection.h2.began:
            self._connection.finish()

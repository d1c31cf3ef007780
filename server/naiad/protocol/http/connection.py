"""One HTTP connection: requests in, replies out, in order.

The fast lane: a request whose path `FastRoutes` claims is answered by callback, without ASGI, task or future. All
other requests go to the ASGI application, one at a time, after everything before them was answered and before anything
behind them is begun. What a request costs here is mostly two dictionary look-ups: its header block (`head.py`) and the
prefix of its reply (`framing.py`); whatever is not a whole, known request in one read goes through `intake.py`. Replies leave
through `outgoing.py`. Here is what both sides share: who may begin, and when the connection ends.

Reading stops while a client does not take its replies, while too many of its requests wait, and while the application does
not take a body. Nothing a client sends raises out of here: it is answered, or the connection is closed.
"""

import asyncio
import collections
import logging
import typing

from typing_extensions import override

from naiad.protocol.http import replies
from naiad.protocol.http.bridge import AsgiExchange
from naiad.protocol.http.exchange import Exchange, LoggedExchange
from naiad.protocol.http.framing import Refusal
from naiad.protocol.http.head import NO_HEAD, RequestHead
from naiad.protocol.http.intake import Intake
from naiad.protocol.http.message import FastHandler, HttpReply, HttpRequest
from naiad.protocol.http.outgoing import Outgoing
from naiad.protocol.http.peer import Peer
from naiad.protocol.http.service import HttpService

_logger = logging.getLogger(__name__)


class Connection(asyncio.Protocol):
    """The protocol of one accepted socket.

    Args:
        service: what it shares with the others.
    """

    def __init__(self, service: HttpService) -> None:
        self._service = service
        self._settings = service.settings
        self._roster = service.roster
        self._known = service.heads.known
        self._learn = service.heads.learn
        self._short = min(service.settings.known_head_bytes, service.settings.max_line_bytes)
        self._handlers = service.heads.handlers
        self._handler_of = service.handler_of
        self._recorder = service.recorder
        self._room = service.settings.max_pipelined
        self._intake = Intake(service, self)
        self._bridge: AsgiExchange | None = None
        # until the connection is made
        self._transport = typing.cast("asyncio.Transport", None)
        self._peer = typing.cast("Peer", None)
        self._out = typing.cast("Outgoing", None)
        self._pipeline: collections.deque[Exchange] = collections.deque()
        self._ready = True  # only replies are under way: the next bytes begin a request
        self._read_paused = False
        self.resting = False  # others have the event loop first, then this one goes on
        self._no_more = False  # no further request is taken
        self._deaf = False  # whatever comes is thrown away
        self._must_linger = False  # the client may still send: a plain close destroys the reply
        self._lingering = self._closing = self._eof = False

    # What the event loop calls

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client connected."""
        self._transport = typing.cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=self._settings.write_high_bytes)
        self._peer = Peer(self._transport)
        self._out = Outgoing(self._service, self, transport=self._transport, peer=self._peer)
        self._pipeline = self._out.pipeline
        self._roster.enter(self)
        self._peer.since = self._roster.now
        self._out.ending = self._roster.draining

    @override
    def data_received(self, data: bytes) -> None:
        """Bytes came. First the usual case: one whole request, plain, short of head, and room for it."""
        if self._ready and len(self._pipeline) < self._room:
            end = data.find(b"\r\n\r\n") + 4
            head = base = self._known.get(data[:end])
            if head is None and end <= self._short:
                head, base = self._learn(data[:end])
            if head is not None and base is not None and end + head.length == len(data):
                handler = self._handlers.get(base) or self._handler_of(base)
                if handler is not None:
                    self._peer.since = self._roster.now
                    body = data[end:] if head.length else b""
                    self.dispatch(head, handler, body, self.stamp() if self._recorder else 0)
                    return
        if self._deaf:
            return
        if self._intake.body is not None or not self._intake.unread:
            self._peer.since = self._roster.now  # but a head in drops is timed from its first byte
        self._intake.add(data)
        self._take()

    @override
    def eof_received(self) -> bool:
        """The client sends no more. What came whole is answered, if it still listens."""
        self._eof = True
        if self._intake.body is not None:
            if self._bridge is not None:
                self._bridge.disconnect()
                self._bridge = None
            self._intake.drop()
        waits = bool(self._intake.unread) and (self._out.paused or self.resting)
        if not (self._under_way() or waits):
            return False
        self._probe_peer()
        self._settle()
        return True

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone: whatever is under way for it is cancelled."""
        self._roster.leave(self)
        self._deaf = self._no_more = self._closing = True
        self._ready = False
        self._intake.drop()
        self._out.abandon()
        if self._bridge is not None:
            self._bridge.disconnect()
            self._bridge = None
        self._peer.drained()

    @override
    def pause_writing(self) -> None:
        """The client does not take its replies: take no more of its requests."""
        self._out.pause()
        self._settle()

    @override
    def resume_writing(self) -> None:
        """It does again."""
        self._out.resume()
        self._take()

    # What the roster and the listener call

    def check(self, now: float) -> None:
        """Act if the client made us wait too long."""
        settings = self._settings
        waited = now - self._peer.since - self._roster.tick
        if self._lingering:
            if waited >= settings.linger_timeout:
                self._transport.abort()
        elif self._out.paused or self._closing:
            if self._peer.is_stuck(now, settings.write_stall_timeout + self._roster.tick):
                self.cut()
        elif self._intake.waits_for_client(under_way=self._under_way()):
            late = self._intake.overdue(waited)
            if late is not None:
                self._refuse(late)
        elif self._under_way():
            if self._eof:
                self._peer.abort_if_gone()
        elif waited >= settings.keep_alive_timeout:
            self._close(linger=False)

    def drain(self, *, close_idle: bool) -> None:
        """Close after the reply to what is under way; without anything under way, close now if `close_idle`."""
        self._out.ending = True
        unwanted = self._intake.ignores_body()
        if self._under_way() or (self._intake.body is not None and not unwanted):
            self._no_more = True
            self._ready = False
        elif close_idle and not self._intake.unread:
            self._close(linger=unwanted)

    def give_up(self, refusal: Refusal) -> None:
        """Answer so what has no reply yet, and close; a reply that has begun is not touched. After `drain`."""
        self._out.refuse_all(replies.refusal(refusal.status, refusal.message))
        asks = self._bridge is not None or self._intake.body is not None or self._intake.unread
        if asks and not (self._closing or self._lingering):
            self._refuse(refusal)

    def cut(self) -> None:
        """Drop the connection and end what runs for it."""
        if self._bridge is not None:
            self._bridge.cancel()
        self._transport.abort()

    def may_take(self) -> bool:
        """Whether the next request may be begun now."""
        return not (
            self._no_more
            or self.resting
            or self._out.barred
            or self._out.paused
            or self._bridge is not None
            or len(self._pipeline) >= self._room
        )

    def unsent(self) -> int:
        """Reply bytes that were written and not sent yet."""
        return self._transport.get_write_buffer_size()

    def rest(self) -> None:
        """Take nothing more in this turn of the event loop, and go on in the next."""
        self.resting = True
        self._roster.loop.call_soon(self._next_turn)

    def is_clear(self) -> bool:
        """Whether every request before has its reply; if not, nothing is taken until they have."""
        return self._out.is_clear()

    def is_last(self) -> None:
        """The client wants the connection closed after the request that is taken now."""
        self._no_more = self._out.ending = True

    def dispatch(self, head: RequestHead, handler: FastHandler, body: bytes, now: int) -> None:
        """Call the handler of a complete request."""
        if self._recorder is None:
            exchange = Exchange(self._out, head, now)
        else:
            exchange = LoggedExchange(self._out, head, now, received=len(body))
        self._pipeline.append(exchange)
        if self._out.ending:
            self._no_more, self._ready = True, False
        try:
            exchange.handle = handler(
                HttpRequest(head.method, head.path, head.headers, body), exchange.reply
            )
        except Exception:
            _logger.exception("%s failed", head.path)
            exchange.reply(replies.server_fault())

    def bridge(self, head: RequestHead) -> AsgiExchange:
        """Begin a request in the application."""
        self._bridge = AsgiExchange(
            self._service.app,
            head,
            {"client": self._peer.address(), "server": self._peer.address("sockname")},
            carrier=self,
            body_high=self._settings.body_high_bytes,
            started_ns=self.stamp(),
        )
        self._bridge.start(self._roster.loop)
        return self._bridge

    def write(self, data: bytes | memoryview) -> None:
        """Send bytes now."""
        self._out.write(data)

    def stamp(self) -> int:
        """Monotonic nanoseconds, 0 when nobody needs them."""
        return 0 if self._recorder is None else self._recorder.stamp()

    def drained(self) -> asyncio.Future[None] | None:
        """What to await before the next write; None when the client keeps up."""
        return self._peer.wait(self._roster.loop) if self._out.paused else None

    def want_body(self) -> None:
        """The application waits for body bytes."""
        self._peer.since = self._roster.now
        self._intake.want_body()
        self._settle()

    def hold_body(self) -> None:
        """The application has enough of the body: read no more of it."""
        self._intake.body_held = True
        self._settle()

    def may_stay(self) -> bool:
        """Whether the connection can be kept after a reply that begins now."""
        return not self._out.ending and self._intake.small_rest()

    def finished(self, *, status: int, size: int, keep: bool) -> None:
        """The application's reply is complete."""
        bridge, self._bridge = self._bridge, None
        assert bridge is not None
        self._peer.since = self._roster.now
        if self._recorder is not None:
            reply, peer = HttpReply(status, (), ()), self._peer.address()
            since_ns, received = bridge.started_ns, bridge.received
            self._recorder.record(bridge.head, peer, reply, size, since_ns, received=received)
        self._must_linger = self._must_linger or self._intake.body is not None
        self._intake.ignore_body()
        if keep:
            self._take()
        else:
            self.sent_last()

    def in_body(self) -> bool:
        """Whether the body of a request is under way."""
        return self._intake.body is not None

    def sent(self) -> None:
        """Replies went out: go on with what was read and had to wait for that."""
        if (self._eof or self._intake.unread) and not self._intake.working:
            self._take()

    def stream_ended(self) -> None:
        """A reply that came bit by bit is over, and the connection stays: go on."""
        self._take()

    def take_no_more(self) -> None:
        """A reply has said, or will say, that no further request is taken."""
        self._no_more = True

    def sent_last(self) -> None:
        """The reply that says Connection: close is out."""
        self._deaf = self._no_more = self._out.ending = True
        self._must_linger = self._must_linger or self._intake.body is not None
        if not self._intake.working:
            self._close(linger=self._must_linger or bool(self._intake.unread))
        self._settle()

    def _take(self) -> None:
        if self._intake.working:
            return
        try:
            self._intake.take()
        except Refusal as refusal:
            self._refuse(refusal)
        except Exception:
            _logger.exception("taking a request failed")
            self._refuse(Refusal(500, replies.SERVER_FAULT.message))
        if self._no_more and self._intake.body is None and self._intake.unread:
            self._must_linger = True
            self._intake.unread = b""
        if not self._under_way() and not self._closing:
            if self._deaf:
                self._close(linger=self._must_linger)
            elif self._eof and not (self._out.paused or self.resting):
                self._close(linger=False)
        self._settle()

    def _next_turn(self) -> None:
        self.resting = False
        if not self._closing:
            self._take()

    def _under_way(self) -> bool:
        return bool(self._pipeline) or self._bridge is not None

    def _settle(self) -> None:
        """Read or not, fast or not, after something has changed."""
        intake = self._intake
        may_take = self.may_take()
        self._ready = may_take and not (intake.unread or intake.body or self._eof)
        full = bool(intake.unread) and (intake.body is not None or not may_take)
        pause = (full or intake.body_held) and not self._deaf
        if pause != self._read_paused and not (self._eof or self._transport.is_closing()):
            self._read_paused = pause
            if pause:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    def _refuse(self, refusal: Refusal) -> None:
        """Answer what cannot be served, behind what was asked before, and close. Nothing more is taken."""
        if self._intake.ignores_body():
            self._close(linger=False)  # that request has its reply
            return
        bridge, self._bridge = self._bridge, None
        head, started_ns = self._intake.in_question()
        self._intake.drop()
        self._deaf = self._no_more = self._out.ending = self._must_linger = True
        if bridge is not None:
            bridge.cancel()
            if bridge.begun:
                self._transport.abort()
                return
        exchange = Exchange(self._out, head, started_ns)
        self._pipeline.append(exchange)
        exchange.reply(refusal.reply or replies.refusal(refusal.status, refusal.message))
        self._settle()

    def _close(self, *, linger: bool) -> None:
        """Close once what was sent is out; with `linger`, not before the client has stopped sending, or some seconds."""
        self._deaf = self._no_more = True
        self._ready = False
        if self._closing or self._lingering:
            return
        if linger and not self._eof and self._transport.can_write_eof():
            self._lingering = True
            self._peer.since = self._roster.now
            self._transport.write_eof()
            self._settle()
        else:
            self._closing = True
            self._transport.close()

    def _probe_peer(self) -> None:
        """See `Peer.probe`; a reply that has begun finds it out by itself."""
        if self._out.probe_stream():
            self._peer.look_soon(self._roster.loop)
            return
        bridge = self._bridge
        head = self._pipeline[0].head if self._pipeline else bridge.head if bridge else NO_HEAD
        if head.minor and not (bridge and bridge.begun):
            self._peer.probe(self._roster.loop)

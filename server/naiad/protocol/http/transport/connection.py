"""One HTTP connection: receives requests and sends replies in order.

The fast lane: a request whose path `FastRoutes` claims is handled by callback, without ASGI, task or future. All
other requests go to the ASGI application, one at a time, after all earlier ones have their replies and before any
later one is begun. The cost of a request here is mostly two dictionary look-ups: its header block (`head.py`) and the
prefix of its reply (`framing.py`); everything except a whole, known request in one read goes through `request_receiver.py`. Replies leave
through `response_sender.py`. This module holds what both sides share: whether a request may begin, and when the connection closes.

Reading stops while a client does not read its replies, while too many of its requests wait, and while the application does
not read a body. No input raises out of this module: it gets a reply, or the connection closes.
"""

import asyncio
import collections
import logging
import typing

from typing_extensions import override

from naiad.protocol.http import replies
from naiad.protocol.http.message import FastHandler, HttpReply, HttpRequest
from naiad.protocol.http.transport.bridge import AsgiExchange
from naiad.protocol.http.transport.exchange import Exchange, LoggedExchange
from naiad.protocol.http.transport.framing import HttpError
from naiad.protocol.http.transport.head import NO_HEAD, RequestHead
from naiad.protocol.http.transport.peer import Peer
from naiad.protocol.http.transport.request_receiver import RequestReceiver
from naiad.protocol.http.transport.response_sender import ResponseSender
from naiad.protocol.http.transport.service import HttpService

_logger = logging.getLogger(__name__)


class Connection(asyncio.Protocol):
    """The protocol of one accepted socket.

    Args:
        service: what all connections share.
    """

    def __init__(self, service: HttpService) -> None:
        self._service = service
        self._settings = service.settings
        self._registry = service.registry
        self._known = service.heads.known
        self._learn = service.heads.learn
        self._short = min(service.settings.known_head_bytes, service.settings.max_line_bytes)
        self._handlers = service.heads.handlers
        self._handler_of = service.handler_of
        self._recorder = service.recorder
        self._max_pipelined = service.settings.max_pipelined
        self._receiver = RequestReceiver(service, self)
        self._bridge: AsgiExchange | None = None
        # until the connection is made
        self._transport = typing.cast("asyncio.Transport", None)
        self._peer = typing.cast("Peer", None)
        self._sender = typing.cast("ResponseSender", None)
        self._pipeline: collections.deque[Exchange] = collections.deque()
        self._ready = True  # the next bytes begin a request
        self._read_paused = False
        self.resting = False  # the loop runs other connections first, then this one continues
        self._no_more = False  # takes no further request
        self._deaf = False  # drops all input
        self._must_linger = False  # the client may still send: a plain close destroys the reply
        self._lingering = self._closing = self._eof = False

    # Called by the event loop

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client connected."""
        self._transport = typing.cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=self._settings.write_high_bytes)
        self._peer = Peer(self._transport)
        self._sender = ResponseSender(
            self._service, self, transport=self._transport, peer=self._peer
        )
        self._pipeline = self._sender.pipeline
        self._registry.add(self)
        self._peer.since = self._registry.now
        self._sender.ending = self._registry.draining

    @override
    def data_received(self, data: bytes) -> None:
        """Process input. First the usual case: one whole, plain request with a short head, and a pipeline that is not full."""
        if self._ready and len(self._pipeline) < self._max_pipelined:
            end = data.find(b"\r\n\r\n") + 4
            head = base = self._known.get(data[:end])
            if head is None and end <= self._short:
                head, base = self._learn(data[:end])
            if head is not None and base is not None and end + head.length == len(data):
                handler = self._handlers.get(base) or self._handler_of(base)
                if handler is not None:
                    self._peer.since = self._registry.now
                    body = data[end:] if head.length else b""
                    self.dispatch(head, handler, body, self.stamp() if self._recorder else 0)
                    return
        if self._deaf:
            return
        if self._receiver.body is not None or not self._receiver.unread:
            self._peer.since = (
                self._registry.now
            )  # but an incomplete head is timed from its first byte
        self._receiver.add(data)
        self._take()

    @override
    def eof_received(self) -> bool:
        """The client has finished sending. Complete requests get their replies if it still reads."""
        self._eof = True
        if self._receiver.body is not None:
            if self._bridge is not None:
                self._bridge.disconnect()
                self._bridge = None
            self._receiver.drop()
        waits = bool(self._receiver.unread) and (self._sender.paused or self.resting)
        if not (self._under_way() or waits):
            return False
        self._probe_peer()
        self._update_reading()
        return True

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        """The client has gone: cancel its requests."""
        self._registry.remove(self)
        self._deaf = self._no_more = self._closing = True
        self._ready = False
        self._receiver.drop()
        self._sender.abandon()
        if self._bridge is not None:
            self._bridge.disconnect()
            self._bridge = None
        self._peer.drained()

    @override
    def pause_writing(self) -> None:
        """The client does not read its replies: take no more of its requests."""
        self._sender.pause()
        self._update_reading()

    @override
    def resume_writing(self) -> None:
        """The client reads again."""
        self._sender.resume()
        self._take()

    # Called by the registry and the listener

    def check(self, now: float) -> None:
        """Apply the timeouts."""
        settings = self._settings
        waited = now - self._peer.since - self._registry.tick
        if self._lingering:
            if waited >= settings.linger_timeout:
                self._transport.abort()
        elif self._sender.paused or self._closing:
            if self._peer.is_stuck(now, settings.write_stall_timeout + self._registry.tick):
                self.cut()
        elif self._receiver.waits_for_client(under_way=self._under_way()):
            late = self._receiver.overdue(waited)
            if late is not None:
                self._refuse(late)
        elif self._under_way():
            if self._eof:
                self._peer.abort_if_gone()
        elif waited >= settings.keep_alive_timeout:
            self._close(linger=False)

    def drain(self, *, close_idle: bool) -> None:
        """Close after the replies to the requests in progress; without any, close now if `close_idle`."""
        self._sender.ending = True
        unwanted = self._receiver.ignores_body()
        if self._under_way() or (self._receiver.body is not None and not unwanted):
            self._no_more = True
            self._ready = False
        elif close_idle and not self._receiver.unread:
            self._close(linger=unwanted)

    def fail(self, error: HttpError) -> None:
        """Send this response to every request without one, and close; a reply that has begun continues. After `drain`."""
        self._sender.refuse_all(replies.refusal(error.status, error.message))
        waiting = (
            self._bridge is not None or self._receiver.body is not None or self._receiver.unread
        )
        if waiting and not (self._closing or self._lingering):
            self._refuse(error)

    def cut(self) -> None:
        """Abort the connection and cancel its requests."""
        if self._bridge is not None:
            self._bridge.cancel()
        self._transport.abort()

    def may_take(self) -> bool:
        """Whether the next request may be begun now."""
        return not (
            self._no_more
            or self.resting
            or self._sender.barred
            or self._sender.paused
            or self._bridge is not None
            or len(self._pipeline) >= self._max_pipelined
        )

    def unsent(self) -> int:
        """Reply bytes that were written and not sent yet."""
        return self._transport.get_write_buffer_size()

    def rest(self) -> None:
        """Take nothing more in this iteration of the event loop, and continue in the next."""
        self.resting = True
        self._registry.loop.call_soon(self._next_iteration)

    def is_clear(self) -> bool:
        """Whether all earlier requests have their replies; if not, nothing is taken until they have."""
        return self._sender.is_clear()

    def is_last(self) -> None:
        """The client has requested that the connection closes after this request."""
        self._no_more = self._sender.ending = True

    def dispatch(self, head: RequestHead, handler: FastHandler, body: bytes, now: int) -> None:
        """Call the handler of a complete request."""
        if self._recorder is None:
            exchange = Exchange(self._sender, head, now)
        else:
            exchange = LoggedExchange(self._sender, head, now, received=len(body))
        self._pipeline.append(exchange)
        if self._sender.ending:
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
            callbacks=self,
            body_high=self._settings.body_high_bytes,
            started_ns=self.stamp(),
        )
        self._bridge.start(self._registry.loop)
        return self._bridge

    def write(self, data: bytes | memoryview) -> None:
        """Send bytes now."""
        self._sender.write(data)

    def stamp(self) -> int:
        """Monotonic nanoseconds; 0 without an access log."""
        return 0 if self._recorder is None else self._recorder.stamp()

    def drained(self) -> asyncio.Future[None] | None:
        """The future to await before the next write; None if the client reads fast enough."""
        return self._peer.wait(self._registry.loop) if self._sender.paused else None

    def want_body(self) -> None:
        """The application waits for body bytes."""
        self._peer.since = self._registry.now
        self._receiver.want_body()
        self._update_reading()

    def hold_body(self) -> None:
        """The application has enough of the body: read no more of it."""
        self._receiver.body_held = True
        self._update_reading()

    def may_stay(self) -> bool:
        """Whether the connection can be kept after a reply that begins now."""
        return not self._sender.ending and self._receiver.small_rest()

    def finished(self, *, status: int, size: int, keep: bool) -> None:
        """The application's reply is complete."""
        bridge, self._bridge = self._bridge, None
        assert bridge is not None
        self._peer.since = self._registry.now
        if self._recorder is not None:
            reply, peer = HttpReply(status, (), ()), self._peer.address()
            since_ns, received = bridge.started_ns, bridge.received
            self._recorder.record(bridge.head, peer, reply, size, since_ns, received=received)
        self._must_linger = self._must_linger or self._receiver.body is not None
        self._receiver.ignore_body()
        if keep:
            self._take()
        else:
            self.sent_last()

    def in_body(self) -> bool:
        """Whether the body of a request is being received."""
        return self._receiver.body is not None

    def sent(self) -> None:
        """Replies were sent: continue with the input that waited for that."""
        if (self._eof or self._receiver.unread) and not self._receiver.working:
            self._take()

    def stream_ended(self) -> None:
        """A streamed reply has ended and the connection stays open: continue."""
        self._take()

    def take_no_more(self) -> None:
        """A reply says that the connection closes: take no further request."""
        self._no_more = True

    def sent_last(self) -> None:
        """The reply with Connection: close was sent."""
        self._deaf = self._no_more = self._sender.ending = True
        self._must_linger = self._must_linger or self._receiver.body is not None
        if not self._receiver.working:
            self._close(linger=self._must_linger or bool(self._receiver.unread))
        self._update_reading()

    def _take(self) -> None:
        if self._receiver.working:
            return
        try:
            self._receiver.take()
        except HttpError as error:
            self._refuse(error)
        except Exception:
            _logger.exception("taking a request failed")
            self._refuse(HttpError(500, replies.SERVER_FAULT.message))
        if self._no_more and self._receiver.body is None and self._receiver.unread:
            self._must_linger = True
            self._receiver.unread = b""
        if not self._under_way() and not self._closing:
            if self._deaf:
                self._close(linger=self._must_linger)
            elif self._eof and not (self._sender.paused or self.resting):
                self._close(linger=False)
        self._update_reading()

    def _next_iteration(self) -> None:
        self.resting = False
        if not self._closing:
            self._take()

    def _under_way(self) -> bool:
        return bool(self._pipeline) or self._bridge is not None

    def _update_reading(self) -> None:
        """Pause or resume reading, and enable or disable the fast path, after a change of state."""
        receiver = self._receiver
        may_take = self.may_take()
        self._ready = may_take and not (receiver.unread or receiver.body or self._eof)
        full = bool(receiver.unread) and (receiver.body is not None or not may_take)
        pause = (full or receiver.body_held) and not self._deaf
        if pause != self._read_paused and not (self._eof or self._transport.is_closing()):
            self._read_paused = pause
            if pause:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    def _refuse(self, error: HttpError) -> None:
        """Send an error after the replies to earlier requests, and close. Take nothing more."""
        if self._receiver.ignores_body():
            self._close(linger=False)  # that request has its reply
            return
        bridge, self._bridge = self._bridge, None
        head, started_ns = self._receiver.in_question()
        self._receiver.drop()
        self._deaf = self._no_more = self._sender.ending = self._must_linger = True
        if bridge is not None:
            bridge.cancel()
            if bridge.begun:
                self._transport.abort()
                return
        exchange = Exchange(self._sender, head, started_ns)
        self._pipeline.append(exchange)
        exchange.reply(error.reply or replies.refusal(error.status, error.message))
        self._update_reading()

    def _close(self, *, linger: bool) -> None:
        """Close once all replies are sent; with `linger`, wait some seconds for the client to stop sending."""
        self._deaf = self._no_more = True
        self._ready = False
        if self._closing or self._lingering:
            return
        if linger and not self._eof and self._transport.can_write_eof():
            self._lingering = True
            self._peer.since = self._registry.now
            self._transport.write_eof()
            self._update_reading()
        else:
            self._closing = True
            self._transport.close()

    def _probe_peer(self) -> None:
        """See `Peer.probe`; a streamed reply probes by itself."""
        if self._sender.probe_stream():
            self._peer.look_soon(self._registry.loop)
            return
        bridge = self._bridge
        head = self._pipeline[0].head if self._pipeline else bridge.head if bridge else NO_HEAD
        if head.minor and not (bridge and bridge.begun):
            self._peer.probe(self._registry.loop)

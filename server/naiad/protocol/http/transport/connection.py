"""One HTTP connection: owns its parts, takes input and time to them, and closes. `docs/architecture.md` draws who holds whom.

The fast lane: a request whose path `FastRoutes` claims is handled by callback, without ASGI, task or future. All
other requests go to the ASGI application, one at a time, after all earlier ones have their responses and before any
later one is begun. The cost of a request here is mostly to compare its header block with that of the request before it (`head_template.py`) and
to look up the prefix of its response (`framing.py`); everything except a whole, known request in one read goes through `request_receiver.py`.
`request_dispatcher.py` calls the handlers, and responses
leave through `response_sender.py`. `lifecycle.py` is the table of states through which the connection closes.

Reading stops while a client does not read its responses, while too many of its requests wait, and while the application does
not read a body. No input raises out of this module: it gets a response, or the connection closes.
"""

import asyncio
import collections
import contextlib
import logging
import typing

from typing_extensions import override

from naiad.protocol.http import replies
from naiad.protocol.http.transport.body import DirectBody
from naiad.protocol.http.transport.direct_reader import DirectReader
from naiad.protocol.http.transport.exchange import Exchange
from naiad.protocol.http.transport.framing import CONTINUE, HttpError
from naiad.protocol.http.transport.head import NO_HEAD
from naiad.protocol.http.transport.head_template import PARTIAL
from naiad.protocol.http.transport.lifecycle import (
    DEAF,
    ENDED,
    TAKING,
    Action,
    Actions,
    Event,
    Lifecycle,
    State,
)
from naiad.protocol.http.transport.request_dispatcher import RequestDispatcher
from naiad.protocol.http.transport.request_receiver import RequestReceiver
from naiad.protocol.http.transport.response_sender import ResponseSender
from naiad.protocol.http.transport.service import HttpService
from naiad.protocol.transport.idle_reader import IDLE_S
from naiad.protocol.transport.listener import UNANSWERED
from naiad.protocol.transport.peer import Peer

_UNANSWERED = replies.error_reply(UNANSWERED)

# Looking up a member of an enum takes longer than these names.
_CLOSE, _HALF_CLOSE, _ABORT = Action.CLOSE, Action.HALF_CLOSE, Action.ABORT
_LAST_REQUEST = Event.LAST_REQUEST

_logger = logging.getLogger(__name__)


class Connection(asyncio.Protocol):
    """The protocol of one accepted socket."""

    __slots__ = (
        "__weakref__", "_direct", "_dispatcher", "_heads", "_known", "_life", "_observer", "_peer", "_pipeline", "_read_paused", "_ready", "_receiver",
        "_registry", "_sender", "_service", "_settings", "_short", "_taking", "_transport",
    )  # fmt: skip

    # from `connection_made` on
    _transport: asyncio.Transport
    _peer: Peer
    _sender: ResponseSender
    _dispatcher: RequestDispatcher
    _pipeline: collections.deque[Exchange]

    def __init__(self, service: HttpService) -> None:
        settings = service.settings
        self._service = service
        self._settings = settings
        self._registry = service.registry
        self._heads = service.heads
        self._known = service.heads.recent  # the template that the last request had
        self._short = min(settings.known_head_bytes, settings.max_line_bytes)
        self._observer = service.observer
        self._life = Lifecycle(self._entered)
        self._receiver = RequestReceiver(settings, service.heads)
        self._ready = True  # the next bytes begin a request
        self._read_paused = False
        self._direct = False  # `DirectReader` is the transport's protocol
        self._taking = False  # inside `_take`

    # Called by the event loop

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = typing.cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=self._settings.write_high_bytes)
        self._peer = Peer(self._transport)
        self._sender = ResponseSender(
            self._service,
            self._life,
            self._receiver,
            transport=self._transport,
            peer=self._peer,
            resume=self._take,
        )
        self._dispatcher = RequestDispatcher(
            self._service,
            self._life,
            self._receiver,
            self._sender,
            transport=self._transport,
            peer=self._peer,
            resume=self._take,
            update_reading=self._update_reading,
        )
        self._pipeline = self._sender.pipeline
        self._registry.add(self)
        self._peer.since = self._registry.now
        if self._registry.draining:
            self._life.on(Event.DRAIN)

    @override
    def data_received(self, data: bytes) -> None:
        """Process input. First the usual case: one whole, plain request with a short head, and a pipeline that is not full."""
        if self._ready and (not self._pipeline or self._sender.has_room()):
            known = self._known
            request = None if known is None else known.read(data, self._short)
            if request is None:
                known = self._known = self._heads.find(data, self._short)
                request = None if known is None else known.read(data, self._short)
            if request is PARTIAL:
                self._heads.found = known
            elif request is not None and known is not None and known.handler is not None:
                self._peer.since = self._registry.now
                if not known.head.keep_alive:
                    self._life.on(_LAST_REQUEST)
                now_ns = 0 if self._observer is None else self._observer.now_ns()
                self._dispatcher.dispatch(known.head, known.handler, request, now_ns, now_ns)
                return
        if self._life.state in DEAF:
            return
        if self._receiver.body is not None or not self._receiver.unread:
            self._peer.since = (
                self._registry.now
            )  # but an incomplete head is timed from its first byte
        self._receiver.add(data)
        self._take()

    @override
    def eof_received(self) -> bool:
        """The client has finished sending. Complete requests get their responses if it still reads."""
        receiver = self._receiver
        receiver.eof = True
        if receiver.body is not None:
            self._dispatcher.disconnect()
            receiver.drop()
        waits = receiver.unread and (self._sender.paused or self._dispatcher.yielding)
        if not (self._dispatcher.in_progress() or waits):
            return False
        self._probe_peer()
        self._update_reading()
        return True

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._life.on(Event.LOST)

    @override
    def pause_writing(self) -> None:
        """The client does not read its responses: take no more of its requests."""
        self._sender.pause()
        self._update_reading()

    @override
    def resume_writing(self) -> None:
        self._sender.resume()
        self._take()

    # Called by `DirectReader`

    def direct_body(self) -> DirectBody | None:
        """The large body whose next bytes come; None if none of one come."""
        return None if self._life.state in DEAF else self._receiver.direct()

    def direct_ended(self) -> None:
        """All of it came."""
        self._take()

    def read_as_usual(self) -> None:
        """No large body came behind another one: have the socket read as before."""
        if self._receiver.direct() is None and self._direct and not self._transport.is_closing():
            self._direct = False
            self._transport.set_protocol(self)

    # Called by the registry and the listener

    def check(self, now: float) -> None:
        """Apply the timeouts."""
        settings = self._settings
        state = self._life.state
        waited = now - self._peer.since - self._registry.tick
        if state is State.LINGERING:
            if waited >= settings.linger_timeout:
                self.cut()
        elif state is State.LEAVING:
            self._check_leaving(now)
        elif self._sender.paused or state is State.CLOSING:
            if self._peer.is_stuck(now, settings.write_stall_timeout + self._registry.tick):
                self.cut()
        elif self._receiver.waits_for_client(in_progress=self._dispatcher.in_progress()):
            late = self._receiver.overdue(waited)
            if late is not None:
                self._refuse(late)
        elif self._dispatcher.in_progress():
            if self._receiver.eof:
                self._peer.abort_if_gone()
        else:
            self._wait_for_request(waited)

    def _check_leaving(self, now: float) -> None:
        if self._peer.has_all():
            self._life.on(Event.EOF)
        elif self._peer.is_stuck(now, self._settings.write_stall_timeout + self._registry.tick):
            self.cut()

    def _wait_for_request(self, waited: float) -> None:
        if waited >= self._settings.keep_alive_timeout:
            self._life.on(self._sender.sent())
        elif waited >= IDLE_S:
            self._direct = False
            self._registry.rest(self, self._transport)

    def drain(self, *, close_idle: bool) -> None:
        """Close after the responses to the requests in progress; without any, close now if `close_idle`.

        A request may be on its way (RFC 9112, section 9.6): only the sending side ends now, and the rest once the client has learned that.
        """
        life, receiver = self._life, self._receiver
        life.on(Event.DRAIN)
        unwanted = receiver.ignores_body()
        if self._dispatcher.in_progress() or (receiver.body is not None and not unwanted):
            life.on(_LAST_REQUEST)
        elif close_idle and not receiver.unread and life.state not in ENDED:
            life.on(Event.SENT_EARLY if unwanted else Event.STOPPED)

    def give_up(self) -> None:
        """Send `UNANSWERED` to every request without a response, and close; a response that has begun continues. After `drain`."""
        self._sender.refuse_all(_UNANSWERED)
        receiver = self._receiver
        waiting = (
            self._dispatcher.bridge is not None or receiver.body is not None or receiver.unread
        )
        if waiting and self._life.state not in ENDED:
            self._refuse(HttpError(_UNANSWERED.status, UNANSWERED.message, reply=_UNANSWERED))

    def cut(self) -> None:
        """Abort the connection and cancel its requests."""
        self._life.on(Event.CUT)

    # What follows from a change of state

    def _entered(self, actions: Actions) -> None:
        if self._life.state not in TAKING:
            self._ready = False
        for action in actions:
            if action is _CLOSE:
                self._transport.close()
            elif action is _HALF_CLOSE:
                self._half_close()
            elif action is _ABORT:
                self._dispatcher.cancel()
                self._transport.abort()
            else:
                self._abandon()

    def _half_close(self) -> None:
        """Send the end of the stream, and wait some seconds for the client to stop sending."""
        transport = self._transport
        if self._receiver.eof or transport.is_closing() or not transport.can_write_eof():
            self._life.on(Event.EOF)
        else:
            self._peer.since = self._registry.now
            with contextlib.suppress(OSError):  # the client has gone
                transport.write_eof()
            self._update_reading()

    def _abandon(self) -> None:
        self._registry.remove(self)
        if self._receiver.unread or self._receiver.body is not None:
            self._receiver.drop()
        self._sender.abandon()
        self._dispatcher.abandon()
        self._peer.drained()

    # Requests

    def _take(self) -> None:
        """Process the input until the rest is incomplete or has to wait, or nothing of it is taken any more."""
        receiver, life = self._receiver, self._life
        if self._taking or life.state in ENDED:
            return
        self._taking = True
        try:
            self._dispatcher.take()
        except HttpError as error:
            self._refuse(error)
        except Exception:
            _logger.exception("taking a request failed")
            self._refuse(HttpError(500, replies.SERVER_FAULT.message))
        finally:
            self._taking = False
        if receiver.unread and receiver.body is None and life.state not in TAKING:
            if life.state is State.LAST:
                life.on(Event.EXCESS_INPUT)
            receiver.drop_unread()
        if receiver.body is None and not self._dispatcher.in_progress() and life.state not in ENDED:
            waits = life.state in TAKING and (self._sender.paused or self._dispatcher.yielding)
            if life.state not in TAKING or (receiver.eof and not waits):
                life.on(self._sender.sent())
        self._update_reading()

    def _refuse(self, error: HttpError) -> None:
        """Send an error after the responses to earlier requests, and close. Take nothing more."""
        receiver = self._receiver
        if receiver.ignores_body():
            self._life.on(self._sender.sent())  # that request has its response
            return
        head, started_ns = receiver.in_question(self._dispatcher.stamp())
        receiver.drop()
        self._life.on(Event.REFUSE)
        if self._dispatcher.cancel():
            self._life.on(Event.CUT)
            return
        reply = error.reply or replies.refusal(error.status, error.message)
        self._dispatcher.dispatch_refused(head, reply, started_ns)
        self._update_reading()

    def _update_reading(self) -> None:
        """Pause or resume reading, and enable or disable the fast path, after a change of state."""
        receiver = self._receiver
        may_take = self._dispatcher.may_take()
        self._ready = may_take and not (receiver.unread or receiver.body or receiver.eof)
        full = receiver.unread and (receiver.body is not None or not may_take)
        pause = (full or receiver.body_held) and self._life.state not in DEAF
        if pause != self._read_paused and not (receiver.eof or self._transport.is_closing()):
            self._read_paused = pause
            if pause:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()
        if receiver.body is not None and not self._direct:
            self._read_directly()

    def _read_directly(self) -> None:
        """Have the socket read into the memory of a large body, if one comes."""
        comes = self._receiver.direct() is not None and self._life.state not in DEAF
        if comes and not self._transport.is_closing():
            self._direct = True
            self._transport.set_protocol(
                DirectReader(self, self._receiver, self._peer, self._registry)
            )

    def _probe_peer(self) -> None:
        """Find out whether a client that sent EOF is still there: closing and half-closing look the same from here.

        An interim response does it: HTTP/1.1 clients skip those they did not ask for (RFC 9110 15.2), and the kernel of
        a client that has closed refuses it. Row 1.19 wants the request of such a client cancelled. Not for HTTP/1.0,
        which has no interim responses. A streamed response probes by itself.
        """
        if self._sender.probe_stream():
            self._peer.check_soon(self._registry.loop)
            return
        bridge = self._dispatcher.bridge
        head = self._pipeline[0].head if self._pipeline else bridge.head if bridge else NO_HEAD
        if head.minor and not (bridge and bridge.begun):
            self._transport.write(CONTINUE)
            self._peer.check_soon(self._registry.loop)

"""Begins the requests of a connection: selects the handler of each, receives its body, and calls the handler or the application.

A request of the usual case comes straight to `dispatch`, with its handler: see `Connection.data_received`. What the input of one iteration of the event
loop may take is limited, so that other connections are not kept from it.
"""

import asyncio
import collections.abc
import logging

import msgspec

from naiad.protocol.http.message import FastHandler, HttpReply, HttpRequest
from naiad.protocol.http.replies import server_fault
from naiad.protocol.http.transport.body import DirectBody, WholeBody
from naiad.protocol.http.transport.bridge import AsgiExchange
from naiad.protocol.http.transport.exchange import Exchange, FollowedExchange
from naiad.protocol.http.transport.framing import CONTINUE
from naiad.protocol.http.transport.head import CHUNKED, RequestHead
from naiad.protocol.http.transport.lifecycle import TAKING, Event, Lifecycle, State
from naiad.protocol.http.transport.request_receiver import RequestReceiver
from naiad.protocol.http.transport.response_sender import ResponseSender
from naiad.protocol.http.transport.service import HttpService, ended
from naiad.protocol.transport.peer import Peer

_ALIGNED = 64
"""As tensors in segments of workers are."""

# Looking up a member of an enum takes longer than this name.
_DRAINING = State.DRAINING

_set = msgspec.structs.force_setattr

_logger = logging.getLogger(__name__)


def _nothing() -> None:
    """The callback of a connection that is closed."""


class RequestDispatcher:
    """The requests of one connection.

    Args:
        resume: continues with the input, after a request in the application or in the next iteration of the event loop.
        update_reading: called when it has changed whether more of a body is wanted.

    Attributes:
        bridge: the request in the application, if there is one.
        yielding: other connections have the event loop first, then this one continues.
    """

    __slots__ = (
        "_life", "_observer", "_peer", "_pipeline", "_receiver", "_resume", "_sender", "_service", "_transport", "_update_reading",
        "bridge", "yielding",
    )  # fmt: skip

    def __init__(
        self,
        service: HttpService,
        life: Lifecycle,
        receiver: RequestReceiver,
        sender: ResponseSender,
        *,
        transport: asyncio.Transport,
        peer: Peer,
        resume: collections.abc.Callable[[], None],
        update_reading: collections.abc.Callable[[], None],
    ) -> None:
        self._service = service
        self._life = life
        self._receiver = receiver
        self._sender = sender
        self._pipeline = sender.pipeline
        self._observer = service.observer
        self._transport = transport
        self._peer = peer
        self._resume = resume
        self._update_reading = update_reading
        self.bridge: AsgiExchange | None = None
        self.yielding = False

    def dispatch(
        self,
        head: RequestHead,
        handler: FastHandler,
        request: HttpRequest,
        now_ns: int,
        read_ns: int = 0,
    ) -> None:
        """Call the handler of a complete request; headers and length of `head` may be those of another request like it.

        `now_ns` is as in `RequestContext.received_ns`; 0 without an observer. `read_ns` is the same for a request that came in one piece, 0 for others.
        """
        observer, context = self._observer, None
        if observer is not None:
            context = observer.follow(request.headers, now_ns, read_ns)
            if context is not None:
                if observer.records:
                    shared = request.shared
                    context.request_bytes = len(request.body) if shared is None else len(shared)
                # It was made just now, for this call: a copy would cost as much as the context.
                _set(request, "context", context)
        kind = Exchange if context is None else FollowedExchange
        exchange = kind(self._sender, head, context)
        self._pipeline.append(exchange)
        if self._life.state is _DRAINING:
            self._life.on(Event.LAST_REQUEST)
        try:
            exchange.handle = handler(request, exchange.reply)
        except Exception:
            _logger.exception("%s failed", head.path)
            exchange.reply(server_fault())

    def dispatch_refused(self, head: RequestHead, reply: HttpReply, now_ns: int) -> None:
        """Send a response to a request that no handler gets, after the responses to earlier ones."""
        observer = self._observer
        context = (
            None
            if observer is None or not observer.follows(head.headers.get)
            else observer.begin(head.headers.get, now_ns, max(head.length, 0))
        )
        kind = Exchange if context is None else FollowedExchange
        exchange = kind(self._sender, head, context)
        self._pipeline.append(exchange)
        exchange.reply(reply)

    def take(self) -> None:
        """Begin requests and receive bodies, as much as one iteration of the event loop allows, and at least one step.

        Raises:
            HttpError: an invalid request; the rest of the input cannot be used.
        """
        receiver = self._receiver
        if receiver.body is not None and receiver.body.done():
            receiver.end_body()
        began_ns, first = self._service.clock.monotonic_ns(), True
        while receiver.unread:
            if not first and self._iteration_is_over(began_ns):
                self.yielding = True
                self._service.registry.loop.call_soon(self._next_iteration)
            first = False
            if receiver.body is not None:
                if self.yielding:
                    return
                receiver.read_body()
                continue
            head = receiver.read_head() if self.may_take() else None
            if head is None or not self._begin(head):
                return

    def _iteration_is_over(self, began_ns: int) -> bool:
        settings = self._service.settings
        if self._receiver.body is None:
            unsent = self._transport.get_write_buffer_size()
            if unsent >= settings.iteration_bytes:
                return True
        return self._service.clock.monotonic_ns() - began_ns >= settings.iteration_seconds * 1e9

    def _next_iteration(self) -> None:
        self.yielding = False
        self._resume()

    def may_take(self) -> bool:
        """Whether the next request may be begun now."""
        sender = self._sender
        return not (
            self._life.state not in TAKING
            or self.yielding
            or sender.barred
            or sender.paused
            or self.bridge is not None
            or not sender.has_room()
        )

    def _begin(self, head: RequestHead) -> bool:
        """Begin a request; False if it waits for the responses to earlier ones.

        Raises:
            HttpError: it is refused before its body is received.
        """
        service, receiver = self._service, self._receiver
        handler = service.find(head)
        if service.waits(head, handler) and not self._sender.is_clear():
            return False
        if not head.keep_alive:
            self._life.on(Event.LAST_REQUEST)
        if head.length:
            self._begin_with_body(head, handler)
            return True
        receiver.take_head()
        if handler is None:
            self._begin_in_application(head).end()
        else:
            self.dispatch(head, handler, head.request(b""), self.stamp())
        return True

    def _begin_with_body(self, head: RequestHead, handler: FastHandler | None) -> None:
        service, receiver, sender = self._service, self._receiver, self._sender
        refused = None
        if handler is not None:
            refused = service.refusal(head, may_stay=sender.may_stay())
        body = service.body_of(head)
        receiver.take_head()
        if refused is not None:
            receiver.expect_body(body, None)
            self.dispatch_refused(head, refused, self.stamp())
            return
        if head.expects_continue:
            receiver.wait_to_continue()
        if handler is None:
            receiver.expect_body(body, self._begin_in_application(head))
        else:
            sink = self._sink(head, handler)
            receiver.expect_body(sink if type(sink) is DirectBody else body, sink)
            if receiver.owes_continue:
                self._read_body(True)

    def _sink(self, head: RequestHead, handler: FastHandler) -> WholeBody | DirectBody:
        """What collects the body of a request of the fast lane: a large one with tensors in shared memory."""
        service, now_ns = self._service, self.stamp()
        chunked = head.length == CHUNKED
        if chunked or head.length >= service.settings.direct_bytes:
            tensors_from = service.routes.tensors_from(head.path, head.headers)
            if tensors_from:
                size = (
                    service.routes.body_limit(head.path, head.headers) if chunked else head.length
                )

                def direct() -> DirectBody | None:
                    # The first tensor begins at a multiple of what any type needs.
                    at = -tensors_from % _ALIGNED
                    lease = service.registry.memory.take(at + size, head.path)
                    if lease is None:
                        return None
                    memory = lease.data[: at + size]
                    return DirectBody(head, handler, now_ns, self.dispatch, memory=memory, at=at)

                if chunked:
                    return WholeBody(head, handler, now_ns, self.dispatch, spill=direct)
                body = direct()
                if body is not None:
                    return body
        return WholeBody(head, handler, now_ns, self.dispatch)

    def _begin_in_application(self, head: RequestHead) -> AsgiExchange:
        self.bridge = AsgiExchange(
            self._service.app,
            head,
            {"client": self._peer.address(), "server": self._peer.address("sockname")},
            sender=self._sender,
            read_body=self._read_body,
            finished=self._finished,
            body_high=self._service.settings.body_high_bytes,
            started_ns=self.stamp(),
        )
        self.bridge.start(self._service.registry.loop)
        return self.bridge

    def _read_body(self, wanted: bool) -> None:  # noqa: FBT001 - a callback
        """Receive more of the body, or no more of it for now."""
        if not wanted:
            self._receiver.body_held = True
        elif self._receiver.want_body():
            self._sender.write(CONTINUE)
        else:
            self._peer.since = self._service.registry.now
        self._update_reading()

    def _finished(self, keep: bool) -> None:  # noqa: FBT001 - a callback
        """The application's response is complete."""
        bridge, self.bridge = self.bridge, None
        assert bridge is not None
        self._peer.since = self._service.registry.now
        observer = self._observer
        if observer is not None and observer.follows(bridge.head.headers.get):
            context = observer.begin(bridge.head.headers.get, bridge.started_ns, bridge.received)
            context.response_bytes = bridge.sent
            reply = HttpReply(bridge.status, (), ())
            observer.end(ended(bridge.head, self._peer.address(), reply, context))
        self._receiver.ignore_body()
        if keep:
            self._resume()
        else:
            self._sender.all_sent()
            self._update_reading()

    def disconnect(self) -> None:
        """The client has gone, or does not send the rest of the body: the application learns it."""
        if self.bridge is not None:
            self.bridge.disconnect()
            self.bridge = None

    def abandon(self) -> None:
        """The connection is closed: nothing more begins."""
        self.disconnect()
        self._resume = self._update_reading = _nothing  # it is freed without the garbage collector

    def cancel(self) -> bool:
        """Cancel the request in the application. Returns whether its response has begun."""
        bridge, self.bridge = self.bridge, None
        if bridge is None:
            return False
        begun = bridge.begun
        bridge.cancel()
        return begun

    def stamp(self) -> int:
        """Monotonic nanoseconds; 0 without an access log."""
        return 0 if self._observer is None else self._observer.now_ns()

    def in_progress(self) -> bool:
        """Whether a request was begun whose response was not sent yet."""
        return bool(self._pipeline) or self.bridge is not None

"""The responses of a connection: sends them in the order of the requests, and decides which is the last.

A response that is ready early waits in the pipeline, and so does one for a client that does not read; a streamed one stays at
the front of the pipeline until it has ended. No input, no handlers, no timeouts.
"""

import asyncio
import collections
import collections.abc
import logging

from naiad.core.inference import RequestContext
from naiad.protocol.http.message import HttpReply
from naiad.protocol.http.replies import server_fault
from naiad.protocol.http.transport.exchange import Exchange
from naiad.protocol.http.transport.framing import KEEP, StreamedReply, bytes_of, ending
from naiad.protocol.http.transport.lifecycle import Event, Lifecycle, State
from naiad.protocol.http.transport.request_receiver import RequestReceiver
from naiad.protocol.http.transport.service import HttpService, ended
from naiad.protocol.transport.peer import Peer

# Looking up a member of an enum takes longer than this name.
_OPEN = State.OPEN

_logger = logging.getLogger(__name__)


def _nothing() -> None:
    """The callback of a connection that is closed."""


def _size_of(exchange: Exchange) -> int:
    """Bytes of the body of a response."""
    response = exchange.response
    return 0 if response is None else sum(map(bytes_of, response.body))


class ResponseSender:
    """The responses of one connection.

    Args:
        resume: continues with the input that waited for responses.

    Attributes:
        pipeline: requests of the fast lane without a sent response, oldest first.
        barred: the next request waits until the pipeline is empty.
        paused: the client does not read.
    """

    __slots__ = (
        "_finished", "_frame", "_held_bytes", "_largest", "_life", "_now_ns", "_observer", "_peer", "_receiver", "_records", "_registry",
        "_resume", "_settings", "_streamed", "_transport", "barred", "paused", "pipeline",
    )  # fmt: skip

    def __init__(
        self,
        service: HttpService,
        life: Lifecycle,
        receiver: RequestReceiver,
        *,
        transport: asyncio.Transport,
        peer: Peer,
        resume: collections.abc.Callable[[], None],
    ) -> None:
        self._life = life
        self._receiver = receiver
        self._transport = transport
        self._peer = peer
        self._resume = resume
        self._registry = service.registry
        self._frame = service.framer.frame
        observer = self._observer = service.observer
        # What each response reads of it.
        self._now_ns = service.clock.monotonic_ns if observer is None else observer.now_ns
        self._records = observer is not None and observer.records
        # the response to the first request of the pipeline, if it is streamed
        self._streamed: StreamedReply | None = None
        self.pipeline: collections.deque[Exchange] = collections.deque()
        self.barred = False
        self.paused = False
        self._settings = service.settings
        # of the responses that wait for an earlier one
        self._finished = 0
        self._held_bytes = 0
        self._largest = 0

    def is_clear(self) -> bool:
        """Whether every request has its response; if not, no request is taken until they have."""
        self.barred = bool(self.pipeline)
        return not self.barred

    def may_stay(self) -> bool:
        """Whether the connection can be kept after a response that begins now."""
        return self._life.state is _OPEN and self._receiver.small_rest()

    def responded(self, exchange: Exchange) -> None:
        """A response without a context is ready: send it and those that wait behind it, unless it has to wait itself."""
        pipeline = self.pipeline
        response, head = exchange.response, exchange.head
        if (
            len(pipeline) == 1
            and not self.paused
            and response is not None
            and response.stream is None
            and head.plain
            and self._life.state is _OPEN
        ):
            # The usual case: as below, in half as many steps.
            try:
                first, rest = self._frame(response, KEEP)
            except ValueError:
                pass  # `_send` meets it as well
            else:
                self._peer.since = self._registry.now
                pipeline.clear()
                if rest:
                    self._transport.writelines((first, *rest))
                else:
                    self._transport.write(first)
                self.barred = False
                receiver = self._receiver
                if receiver.unread or receiver.eof:
                    self._resume()
                return
        self._respond(exchange)

    def followed(self, exchange: Exchange, context: RequestContext) -> None:
        """As `responded`, of a request with a context, which gets the times."""
        pipeline = self.pipeline
        response, head = exchange.response, exchange.head
        if (
            self._records
            or len(pipeline) != 1
            or self.paused
            or response is None
            or response.stream is not None
            or not head.plain
            or self._life.state is not _OPEN
        ):
            self._respond(exchange)
            return
        now_ns = self._now_ns
        context.send_ns = now_ns()
        try:
            first, rest = self._frame(response, KEEP)
        except ValueError:
            self._respond(exchange)
            return
        self._peer.since = self._registry.now
        pipeline.clear()
        if rest:
            self._transport.writelines((first, *rest))
        else:
            self._transport.write(first)
        # What `observer.finish` does, without the call.
        exchange.context = None
        context.sent_ns = now_ns()
        context.finish()
        self.barred = False
        receiver = self._receiver
        if receiver.unread or receiver.eof:
            self._resume()

    def _respond(self, exchange: Exchange) -> None:
        """As `responded`, of any response."""
        pipeline, response = self.pipeline, exchange.response
        if pipeline[0] is not exchange or (
            self.paused and (response is None or response.stream is None)
        ):
            self._hold(exchange)
            return
        self._peer.since = self._registry.now
        pipeline.popleft()
        self._send(exchange)
        if pipeline:
            self._send_held()
        else:
            self.barred = False
        receiver = self._receiver
        if receiver.unread or receiver.eof:
            self._resume()

    def _hold(self, exchange: Exchange) -> None:
        """A response waits for an earlier one, or for a client that does not read: what the transport has is given back at once when that goes."""
        size = _size_of(exchange)
        self._finished += 1
        self._held_bytes += size
        self._largest = max(self._largest, size)

    def _send_held(self) -> None:
        """Send the responses that have waited, up to the first request without one, as far as the client reads."""
        pipeline = self.pipeline
        while pipeline and pipeline[0].response is not None and not self.paused:
            exchange = pipeline.popleft()
            self._finished -= 1
            self._held_bytes -= _size_of(exchange)
            self._send(exchange)
        if not pipeline:
            self.barred = False

    def has_room(self) -> bool:
        """Whether the pipeline takes another request, whose response may be as large as the largest that had to wait."""
        settings, begun = self._settings, len(self.pipeline)
        unanswered = begun - self._finished
        held = self._held_bytes + unanswered * self._largest
        return not begun or (
            begun < settings.max_pipelined
            and unanswered < settings.max_unanswered
            and held < settings.held_bytes
        )

    def write(self, data: bytes | memoryview) -> None:
        """Send bytes now."""
        self._peer.since = self._registry.now
        self._transport.write(data)

    def write_parts(self, parts: collections.abc.Sequence[bytes | memoryview]) -> None:
        """Send bytes now, by one system call."""
        self._peer.since = self._registry.now
        self._transport.writelines(parts)

    def drained(self) -> asyncio.Future[None] | None:
        """The future to await before the next write; None if the client reads fast enough."""
        return self._peer.wait(self._registry.loop) if self.paused else None

    def cut(self) -> None:
        """A response cannot be completed: abort the connection, so that the client notices."""
        self._life.on(Event.CUT)

    def all_sent(self) -> None:
        """The last response was sent: close the connection."""
        early = self._receiver.body is not None or self._receiver.unread
        self._life.on(Event.SENT_EARLY if early else self.sent())

    def sent(self) -> Event:
        """The event of a connection that has sent everything, and whose client sends nothing more."""
        return Event.STOPPED if self._registry.draining else Event.ALL_SENT

    def pause(self) -> None:
        """The client does not read."""
        self.paused = True
        if self._streamed is not None:
            self._streamed.stream.pause()

    def resume(self) -> None:
        """The client reads again."""
        self.paused = False
        self._peer.since = self._registry.now
        self._peer.drained()
        if self._streamed is not None:
            self._streamed.stream.resume()
        self._send_held()

    def probe_stream(self) -> bool:
        """Have the streamed response probe whether the client is still there; False if there is none."""
        if self._streamed is None:
            return False
        self._streamed.stream.probe()
        return True

    def refuse_all(self, reply: HttpReply) -> None:
        """Send this response to every request without one, unless a streamed response is being sent."""
        if self._streamed is None:
            for exchange in tuple(self.pipeline):
                exchange.refuse(reply)

    def abandon(self) -> None:
        """The client has gone: send nothing more and cancel all its requests."""
        self._resume = _nothing  # the connection is freed without the garbage collector
        if self._streamed is not None:
            self._streamed.abandon()
            self._streamed = None
        abandoned = tuple(self.pipeline)
        self.pipeline.clear()
        responses = [exchange.abandon() for exchange in abandoned]
        self._registry.disposal.add(filter(None, responses))

    def _send(self, exchange: Exchange) -> None:
        head, reply = exchange.head, exchange.response
        close, tail = False, KEEP
        assert reply is not None
        context = exchange.context
        if context is not None:
            context.send_ns = self._now_ns()
        if reply.stream is not None:
            self._begin_stream(exchange, reply)
            return
        if self._life.state is not _OPEN or not head.plain:
            close = not head.keep_alive or self._is_last()
            tail = ending(keep=not close, minor=head.minor)
        try:
            first, rest = self._frame(reply, tail, head_only=head.head_only)
        except ValueError:
            _logger.exception("the reply to %s cannot be sent", head.path)
            reply = server_fault()
            first, rest = self._frame(reply, tail, head_only=head.head_only)
        if rest:  # one system call: `write` would send the head at once
            self._transport.writelines((first, *rest))
        else:
            self._transport.write(first)
        if context is not None:
            if self._records:
                size = 0 if head.head_only else sum(map(bytes_of, reply.body))
                self._record(exchange, reply, size)
            else:
                # What `observer.finish` does, without the call.
                exchange.context = None
                context.sent_ns = self._now_ns()
                context.finish()
        if close:
            self.all_sent()

    def _is_last(self) -> bool:
        """Whether no request is left to which another response follows."""
        return not (self._life.state is _OPEN or self.pipeline or self._receiver.body is not None)

    def _begin_stream(self, exchange: Exchange, reply: HttpReply) -> None:
        """Begin a streamed response, which stays at the front of the pipeline until it has ended."""
        exchange.response = None
        self.pipeline.appendleft(exchange)
        keep = exchange.head.keep_alive and self._life.state is _OPEN
        self._streamed = StreamedReply(
            reply, minor=exchange.head.minor, keep=keep, write=self.write, write_parts=self.write_parts, ended=self._end_stream,
        )  # fmt: skip
        if not self._streamed.keeps:
            self._life.on(Event.LAST_REQUEST)
        self._streamed.start()
        if self.paused and self._streamed is not None:
            self._streamed.stream.pause()

    def _end_stream(self, streamed: StreamedReply, *, whole: bool) -> None:
        """A streamed response has ended: continue with the responses behind it, or abort if it is not whole."""
        if not whole:
            self.cut()
            return
        self._streamed = None
        pipeline = self.pipeline
        exchange = pipeline.popleft()
        exchange.handle = None
        self._record(exchange, streamed.reply, streamed.size)
        if not streamed.keeps:
            for behind in pipeline:
                behind.abandon()
            pipeline.clear()
            self.all_sent()
        elif self._is_last():
            self.all_sent()
        else:
            self._send_held()
            self._resume()

    def _record(self, exchange: Exchange, reply: HttpReply, size: int) -> None:
        context, exchange.context = exchange.context, None
        observer = self._observer
        if observer is None or context is None:
            return
        context.response_bytes = size
        if not observer.records:
            observer.finish(context)
        else:
            observer.end(ended(exchange.head, self._peer.address(), reply, context))

"""The sending side of a connection: sends the replies in the order of their requests, and decides which is the last.

`request_receiver.py` is the other side. A reply that is ready early waits in the pipeline; a streamed one stays at
the front of the pipeline until it has ended. It decides whether a reply says that the connection closes; the
connection closes it. No timeouts, no requests.
"""

import asyncio
import collections
import logging
import typing

from naiad.protocol.http.message import HttpReply
from naiad.protocol.http.replies import server_fault
from naiad.protocol.http.transport.exchange import Exchange
from naiad.protocol.http.transport.framing import CLOSE, KEEP, KEEP_1_0
from naiad.protocol.http.transport.peer import Peer
from naiad.protocol.http.transport.service import HttpService
from naiad.protocol.http.transport.streamed import StreamedReply

_logger = logging.getLogger(__name__)


class SenderCallbacks(typing.Protocol):
    """The callbacks of the sender to its connection."""

    def in_body(self) -> bool:
        """Whether the body of a request is being received."""
        ...

    def sent(self) -> None:
        """Replies were sent: continue with the input that waited for that."""
        ...

    def stream_ended(self) -> None:
        """A streamed reply has ended and the connection stays open: continue."""
        ...

    def take_no_more(self) -> None:
        """A reply says that the connection closes: take no further request."""
        ...

    def sent_last(self) -> None:
        """The reply with Connection: close was sent."""
        ...

    def cut(self) -> None:
        """A reply cannot be completed: abort the connection."""
        ...


class ResponseSender:
    """The replies of one connection.

    Args:
        service: what all connections share.
        callbacks: the connection.
        transport: its socket.
        peer: notes the time of the last write.

    Attributes:
        pipeline: requests of the fast lane without a sent reply, oldest first.
        barred: the next request waits until the pipeline is empty.
        ending: the last reply says Connection: close.
        paused: the client does not read.
    """

    __slots__ = (
        "_callbacks",
        "_frame",
        "_peer",
        "_recorder",
        "_registry",
        "_streamed",
        "_transport",
        "barred",
        "ending",
        "paused",
        "pipeline",
    )

    def __init__(
        self,
        service: HttpService,
        callbacks: SenderCallbacks,
        *,
        transport: asyncio.Transport,
        peer: Peer,
    ) -> None:
        self._callbacks = callbacks
        self._transport = transport
        self._peer = peer
        self._registry = service.registry
        self._frame = service.framer.frame
        self._recorder = service.recorder
        self._streamed: StreamedReply | None = (
            None  # the reply to the first request of the pipeline
        )
        self.pipeline: collections.deque[Exchange] = collections.deque()
        self.barred = False
        self.ending = False
        self.paused = False

    def is_clear(self) -> bool:
        """Whether every request has its reply; if not, no request is taken until they have."""
        self.barred = bool(self.pipeline)
        return not self.barred

    def answered(self, exchange: Exchange) -> None:
        """A reply is ready: send it and those that wait behind it, unless it has to wait itself."""
        pipeline = self.pipeline
        if pipeline[0] is not exchange:
            return
        self._peer.since = self._registry.now
        while True:
            pipeline.popleft()
            self._send(exchange)
            if not pipeline:
                self.barred = False
                break
            exchange = pipeline[0]
            if exchange.answer is None:
                break
        self._callbacks.sent()

    def write(self, data: bytes | memoryview) -> None:
        """Send bytes now."""
        self._peer.since = self._registry.now
        self._transport.write(data)

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

    def probe_stream(self) -> bool:
        """Have the streamed reply probe whether the client is still there; False if there is none."""
        if self._streamed is None:
            return False
        self._streamed.stream.probe()
        return True

    def refuse_all(self, reply: HttpReply) -> None:
        """Send this reply to every request without one, unless a streamed reply is being sent."""
        if self._streamed is None:
            for exchange in tuple(self.pipeline):
                exchange.refuse(reply)

    def abandon(self) -> None:
        """The client has gone: send nothing more and cancel all its requests."""
        if self._streamed is not None:
            self._streamed.abandon()
            self._streamed = None
        abandoned = tuple(self.pipeline)
        self.pipeline.clear()
        for exchange in abandoned:
            exchange.abandon()

    def streamed(self, exchange: Exchange, *, reply: HttpReply, size: int, keep: bool) -> None:
        """A streamed reply is complete: continue with the replies behind it."""
        self._streamed = None
        exchange.handle = None
        pipeline = self.pipeline
        pipeline.popleft()
        self._record(exchange, reply, size)
        if not keep:
            for behind in pipeline:
                behind.abandon()
            pipeline.clear()
            self._callbacks.sent_last()
        elif self.ending and not pipeline and not self._callbacks.in_body():
            self._callbacks.sent_last()
        elif pipeline and pipeline[0].answer is not None:
            self.answered(pipeline[0])
        else:
            self.barred = self.barred and bool(pipeline)
            self._callbacks.stream_ended()

    def cut(self) -> None:
        """A streamed reply cannot be completed."""
        self._callbacks.cut()

    def _send(self, exchange: Exchange) -> None:
        head, reply, close, tail = exchange.head, exchange.answer, False, KEEP
        assert reply is not None
        if reply.stream is not None:
            self._stream(exchange, reply)
            return
        if self.ending or not head.plain:
            is_end = self.ending and not self.pipeline and not self._callbacks.in_body()
            close = is_end or not head.keep_alive
            tail = CLOSE if close else KEEP if head.minor else KEEP_1_0
        try:
            first, rest = self._frame(reply, tail, head_only=head.head_only)
        except ValueError:
            _logger.exception("the reply to %s cannot be sent", head.path)
            reply = server_fault()
            first, rest = self._frame(reply, tail, head_only=head.head_only)
        self._transport.write(first)
        if rest:
            self._transport.writelines(rest)
        if self._recorder is not None:
            size = 0 if head.head_only else sum(memoryview(part).nbytes for part in reply.body)
            self._record(exchange, reply, size)
        if close:
            self._callbacks.sent_last()

    def _stream(self, exchange: Exchange, reply: HttpReply) -> None:
        """Begin a streamed reply, which stays at the front of the pipeline until it has ended."""
        exchange.answer = None
        self.pipeline.appendleft(exchange)
        keep = exchange.head.keep_alive and not self.ending
        self._streamed = StreamedReply(self, exchange, reply, keep=keep)
        if not self._streamed.keeps:
            self._callbacks.take_no_more()
        self._streamed.start()
        if self.paused and self._streamed is not None:
            self._streamed.stream.pause()

    def _record(self, exchange: Exchange, reply: HttpReply, size: int) -> None:
        if self._recorder is not None:
            peer = self._peer.address()
            self._recorder.record(
                exchange.head,
                peer,
                reply,
                size,
                exchange.started_ns,
                received=exchange.received,
                inference=exchange.inference,
            )

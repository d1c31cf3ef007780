"""The sending side of a connection: replies in the order of their requests, and which of them is the last.

`intake.py` is the other side. A reply that is there before its turn waits in the pipeline; one whose body comes bit by bit keeps
the front of it until it has ended. It decides what a reply says of the connection (stays open, or closes), and tells the
connection, which closes it. No timeouts, no requests.
"""

import asyncio
import collections
import logging
import typing

from naiad.protocol.http.exchange import Exchange
from naiad.protocol.http.framing import CLOSE, KEEP, KEEP_1_0
from naiad.protocol.http.message import HttpReply
from naiad.protocol.http.peer import Peer
from naiad.protocol.http.replies import server_fault
from naiad.protocol.http.service import HttpService
from naiad.protocol.http.streamed import StreamedReply

_logger = logging.getLogger(__name__)


class Line(typing.Protocol):
    """What the sending side asks of its connection."""

    def in_body(self) -> bool:
        """Whether the body of a request is under way."""
        ...

    def sent(self) -> None:
        """Replies went out: go on with what was read and had to wait for that."""
        ...

    def stream_ended(self) -> None:
        """A reply that came bit by bit is over, and the connection stays: go on."""
        ...

    def take_no_more(self) -> None:
        """A reply has said, or will say, that no further request is taken."""
        ...

    def sent_last(self) -> None:
        """The reply that says Connection: close is out."""
        ...

    def cut(self) -> None:
        """A reply cannot be completed: drop the connection."""
        ...


class Outgoing:
    """The replies of one connection.

    Args:
        service: what the connection shares with others.
        line: the connection.
        transport: its socket.
        peer: who is told when something went out.

    Attributes:
        pipeline: requests of the fast lane whose replies were not sent yet, oldest first.
        barred: the next request waits until the pipeline is empty.
        ending: the last reply says Connection: close.
        paused: the client does not take what it is sent.
    """

    __slots__ = (
        "_frame",
        "_line",
        "_peer",
        "_recorder",
        "_roster",
        "_streamed",
        "_transport",
        "barred",
        "ending",
        "paused",
        "pipeline",
    )

    def __init__(
        self, service: HttpService, line: Line, *, transport: asyncio.Transport, peer: Peer
    ) -> None:
        self._line = line
        self._transport = transport
        self._peer = peer
        self._roster = service.roster
        self._frame = service.framer.frame
        self._recorder = service.recorder
        self._streamed: StreamedReply | None = None  # answers the first of the pipeline
        self.pipeline: collections.deque[Exchange] = collections.deque()
        self.barred = False
        self.ending = False
        self.paused = False

    def is_clear(self) -> bool:
        """Whether every request has its reply; if not, none is taken until they have."""
        self.barred = bool(self.pipeline)
        return not self.barred

    def answered(self, exchange: Exchange) -> None:
        """A reply is there: send it, and those that waited behind it, unless it has to wait itself."""
        pipeline = self.pipeline
        if pipeline[0] is not exchange:
            return
        self._peer.since = self._roster.now
        while True:
            pipeline.popleft()
            self._send(exchange)
            if not pipeline:
                self.barred = False
                break
            exchange = pipeline[0]
            if exchange.answer is None:
                break
        self._line.sent()

    def write(self, data: bytes | memoryview) -> None:
        """Send bytes now."""
        self._peer.since = self._roster.now
        self._transport.write(data)

    def pause(self) -> None:
        """The client does not take what it is sent."""
        self.paused = True
        if self._streamed is not None:
            self._streamed.stream.pause()

    def resume(self) -> None:
        """It does again."""
        self.paused = False
        self._peer.since = self._roster.now
        self._peer.drained()
        if self._streamed is not None:
            self._streamed.stream.resume()

    def probe_stream(self) -> bool:
        """Let a body that is being sent find out whether the client still listens; False when there is none."""
        if self._streamed is None:
            return False
        self._streamed.stream.probe()
        return True

    def refuse_all(self, reply: HttpReply) -> None:
        """Answer whatever has no reply yet. A body that is being sent keeps what is behind it from that."""
        if self._streamed is None:
            for exchange in tuple(self.pipeline):
                exchange.refuse(reply)

    def abandon(self) -> None:
        """The client is gone: nothing will be sent, and all work for it may stop."""
        if self._streamed is not None:
            self._streamed.abandon()
            self._streamed = None
        abandoned = tuple(self.pipeline)
        self.pipeline.clear()
        for exchange in abandoned:
            exchange.abandon()

    def streamed(self, exchange: Exchange, *, reply: HttpReply, size: int, keep: bool) -> None:
        """A streamed reply is complete: on with what waited behind it."""
        self._streamed = None
        exchange.handle = None
        pipeline = self.pipeline
        pipeline.popleft()
        self._record(exchange, reply, size)
        if not keep:
            for behind in pipeline:
                behind.abandon()
            pipeline.clear()
            self._line.sent_last()
        elif self.ending and not pipeline and not self._line.in_body():
            self._line.sent_last()
        elif pipeline and pipeline[0].answer is not None:
            self.answered(pipeline[0])
        else:
            self.barred = self.barred and bool(pipeline)
            self._line.stream_ended()

    def cut(self) -> None:
        """A streamed reply cannot be completed."""
        self._line.cut()

    def _send(self, exchange: Exchange) -> None:
        head, reply, close, tail = exchange.head, exchange.answer, False, KEEP
        assert reply is not None
        if reply.stream is not None:
            self._stream(exchange, reply)
            return
        if self.ending or not head.plain:
            is_end = self.ending and not self.pipeline and not self._line.in_body()
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
            self._line.sent_last()

    def _stream(self, exchange: Exchange, reply: HttpReply) -> None:
        """Begin a reply whose body comes bit by bit; it has the front of the pipeline until it has ended."""
        exchange.answer = None
        self.pipeline.appendleft(exchange)
        keep = exchange.head.keep_alive and not self.ending
        self._streamed = StreamedReply(self, exchange, reply, keep=keep)
        if not self._streamed.keeps:
            self._line.take_no_more()
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

"""One request of the fast lane on its way through a connection's pipeline, and the body it waits for."""

import io
import logging
import typing

from typing_extensions import override

from naiad.core.inference import Inference
from naiad.protocol.access_log import inference_of
from naiad.protocol.http.message import Cancellable, FastHandler, HttpReply
from naiad.protocol.http.transport.head import RequestHead

_logger = logging.getLogger(__name__)


class Pipeline(typing.Protocol):
    """What an exchange knows of its connection."""

    def answered(self, exchange: "Exchange") -> None:
        """`exchange.answer` was set: send it when it is its turn."""
        ...


class Exchange:
    """A request that was handed to its handler and whose reply was not sent yet.

    Attributes:
        head: the request's head.
        answer: the reply, once there is one; it waits here for the replies before it.
        handle: on the work under way, when the handler gave one.
        started_ns: when its headers were complete (monotonic); 0 when nobody asked for an access log.
    """

    __slots__ = ("_pipeline", "answer", "handle", "head", "started_ns")

    def __init__(self, pipeline: Pipeline, head: RequestHead, started_ns: int) -> None:
        self._pipeline: Pipeline | None = pipeline
        self.head = head
        self.answer: HttpReply | None = None
        self.handle: Cancellable | None = None
        self.started_ns = started_ns

    def reply(self, reply: HttpReply) -> None:
        """The handler's callback. A second reply, or one after the client left, is dropped."""
        pipeline = self._pipeline
        if pipeline is None or self.answer is not None:
            return
        self.answer = reply
        # It holds this callback: without a cycle the request ends here, not in the garbage collector. A stream goes on.
        self.handle = reply.stream
        pipeline.answered(self)

    @property
    def received(self) -> int:
        """Bytes of the request's body."""
        return max(self.head.length, 0)

    @property
    def inference(self) -> Inference | None:
        """What it asked of a model, where that is kept."""
        return None

    def refuse(self, reply: HttpReply) -> None:
        """Answer in place of the handler and stop its work, unless it has answered."""
        if self.answer is None:
            handle = self.handle
            self.reply(reply)
            self._cancel(handle)

    def abandon(self) -> None:
        """The client is gone: nothing will be sent, and the work may stop."""
        self._pipeline = None
        if self.answer is None or self.answer.stream is not None:
            self._cancel(self.handle)

    def _cancel(self, handle: Cancellable | None) -> None:
        try:
            if handle is not None:
                handle.cancel()
        except Exception:
            _logger.exception("cancelling %s failed", self.head.path)


class LoggedExchange(Exchange):
    """One that keeps what the access log says of it.

    Args:
        pipeline, head, started_ns: as in `Exchange`.
        received: bytes of the request's body.
    """

    __slots__ = ("_inference", "_received")

    def __init__(
        self, pipeline: Pipeline, head: RequestHead, started_ns: int, *, received: int
    ) -> None:
        super().__init__(pipeline, head, started_ns)
        self._received = received
        self._inference: Inference | None = None

    @property
    @override
    def received(self) -> int:
        return self._received

    @property
    @override
    def inference(self) -> Inference | None:
        return self._inference

    @override
    def reply(self, reply: HttpReply) -> None:
        if self.answer is None:
            self._inference = inference_of(self.handle)
        super().reply(reply)


class WholeBody:
    """Collects the body of a fast-lane request: a single piece is kept as it came, several are copied once.

    Args:
        head: the request that the body belongs to.
        handler: who gets them both.
        started_ns: as in `Exchange`.
    """

    __slots__ = ("_buffer", "_first", "handler", "head", "started_ns")

    def __init__(self, head: RequestHead, handler: FastHandler, started_ns: int) -> None:
        self.head = head
        self.handler = handler
        self.started_ns = started_ns
        self._first = b""
        self._buffer: io.BytesIO | None = None

    def feed(self, piece: bytes) -> None:
        """The next piece."""
        if self._buffer is not None:
            self._buffer.write(piece)
        elif not self._first:
            self._first = piece
        else:
            self._buffer = io.BytesIO()
            self._buffer.write(self._first)
            self._buffer.write(piece)

    def whole(self) -> bytes:
        """All pieces together."""
        # getvalue hands the buffer itself over when nobody writes any more: no second copy
        return self._first if self._buffer is None else self._buffer.getvalue()

"""The answers to one request as server-sent events: `data: <JSON>` and an empty line each (row 6.10).

The status is that of the first answer, and there is no mark of the end but the end. What a client does not take stays bounded: once its
connection is full the model is held (`core/flow.py`); a client that takes nothing for the transport's stall time is cut, which
cancels the request.
"""

import collections
import collections.abc
import functools
import logging

from naiad.core.flow import Flow
from naiad.core.inference import Cancellable, Inference, OnResponse
from naiad.core.record import Record
from naiad.core.response import InferResponse
from naiad.errors import InferenceError
from naiad.protocol.codec.pool import Codec
from naiad.protocol.http.accept import offers
from naiad.protocol.http.message import BodyWriter, Headers, HttpReply, OnReply
from naiad.protocol.http.replies import CONTENT_TYPE, SERVER_FAULT, error_body, error_reply
from naiad.protocol.offload import OffloadedCall
from naiad.protocol.status import http_status

log = logging.getLogger(__name__)

EVENTS_TYPE = b"text/event-stream"
EVENTS_HEADERS = ((CONTENT_TYPE, EVENTS_TYPE + b"; charset=utf-8"),)

Ask = collections.abc.Callable[[OnResponse, Flow], Inference | None]
"""Asks the engine."""

Event = bytes | memoryview

Encode = collections.abc.Callable[[InferResponse], bytes]
"""A successful response as one line of JSON; raises InferenceError."""


def takes_events(headers: Headers) -> bool:
    """Whether a client asks for events: `Accept` names their type, and not with q=0. `*/*` does not."""
    accept = headers.get(b"accept", b"")
    if EVENTS_TYPE not in accept.lower():  # nearly always: most clients take anything
        return False
    named = next((offer for offer in offers(accept) if offer.media == EVENTS_TYPE), None)
    return named is not None and named.weight > 0


class EventStream:
    """Implements `BodyStream`, and is the handle on its request."""

    __slots__ = (
        "_begun", "_behind", "_encode", "_ended", "_flow", "_inference", "_large", "_on_reply", "_paused",
        "_refused", "_waiting", "_writer", "_writing",
    )  # fmt: skip

    def __init__(
        self, encode: Encode, on_reply: OnReply, large: "LargeEvents | None" = None
    ) -> None:
        self._encode = encode
        self._large = large
        self._writing: Cancellable | None = None  # the response that a codec process writes
        self._behind: collections.deque[InferResponse] = collections.deque()
        self._on_reply: OnReply | None = on_reply
        self._flow = Flow()
        self._inference: Inference | None = None
        self._writer: BodyWriter | None = None
        self._waiting: list[Event] = []
        self._paused = False  # the connection is full
        self._begun = False
        self._ended = False
        self._refused: InferResponse | None = None

    def run(self, ask: Ask) -> Cancellable | None:
        """Ask, and answer. A request that is refused on the spot gets an ordinary error reply (row 6.12)."""
        inference = ask(self._on_response, self._flow)
        if self._refused is not None:
            self._refuse()
            return None
        if not self._ended:
            self._inference = inference
        return self

    def _refuse(self) -> None:
        refused, self._refused = self._refused, None
        on_reply, self._on_reply = self._on_reply, None
        assert refused is not None
        assert refused.error is not None
        assert on_reply is not None
        on_reply(error_reply(refused.error, request_id=refused.id))

    def begin(self, writer: BodyWriter) -> None:
        """See `BodyStream`."""
        self._writer = writer
        waiting, self._waiting = self._waiting, []
        if len(waiting) == 1:
            writer.write(waiting[0])
        elif waiting:
            writer.write(b"".join(waiting))
        if self._ended:
            self._writer = None
            writer.end()

    def pause(self) -> None:
        """See `BodyStream`."""
        self._paused = True
        self._flow.pause()

    def resume(self) -> None:
        """See `BodyStream`."""
        self._paused = False
        self._go_on()

    def probe(self) -> None:
        """See `BodyStream`: a comment, which readers of events skip."""
        if self._writer is not None:
            self._writer.write(b":\n\n")

    def cancel(self) -> None:
        """See `BodyStream`."""
        self._writer = self._on_reply = None
        self._waiting.clear()
        self._behind.clear()
        if self._writing is not None:
            self._writing.cancel()
        self._flow.close()
        inference, self._inference = self._inference, None
        if inference is not None:
            inference.cancel()

    def _on_response(self, response: InferResponse) -> None:
        """The engine's callback."""
        if self._on_reply is None:
            return  # the client is gone
        if response.error is not None and self._inference is None and not self._begun:
            self._refused = response
            return
        if self._writing is not None:
            self._behind.append(response)
            self._flow.pause()  # a model may send faster than a codec process writes
        elif self._large is not None and self._large.takes_long(response):
            self._write_large(self._large, response)
        else:
            self._give(response, *self._event(response))

    def _write_large(self, large: "LargeEvents", response: InferResponse) -> None:
        """Have a codec process write a response; those behind it wait."""

        def written(event: Event) -> None:
            self._writing = None
            self._give(response, event, 200)
            self._go_on()

        def failed(error: InferenceError) -> None:
            self._writing = None
            self._give(response, *_error_event(error))
            self._go_on()

        work = functools.partial(large.encode, large.codec, response)
        self._writing = OffloadedCall(large.codec, work, proceed=written, fail=failed)

    def _go_on(self) -> None:
        """Write what had to wait, and let the model go on once nothing waits and the connection has room."""
        while self._behind and self._writing is None:
            self._on_response(self._behind.popleft())
        if not (self._behind or self._paused):
            self._flow.resume()

    def _give(self, response: InferResponse, event: Event, status: int) -> None:
        """Send an event, after those before it."""
        if self._on_reply is None:
            return
        if response.final:
            self._ended = True
            self._inference = None
        writer = self._writer
        if writer is None:
            self._waiting.append(event)
        else:
            writer.write(event)
            if self._flow.overran():
                log.warning(
                    "a client of model '%s' does not read what it is sent: its stream is cut off",
                    response.model_name,
                )
                writer.cut()
                return
            if response.final:
                self._writer = None
                writer.end()
        if not self._begun:
            self._begun = True
            self._on_reply(HttpReply(status, EVENTS_HEADERS, (), response.id, self))

    def _event(self, response: InferResponse) -> tuple[bytes, int]:
        """A response as an event, and the status of a reply that begins with it."""
        if response.empty:
            return b"", 200
        error = response.error
        if error is None:
            try:
                return b"data: %b\n\n" % self._encode(response), 200
            except InferenceError as failure:
                error = failure
            except Exception:  # the model's other answers may be fine, and so are other requests
                log.exception("a response of model '%s' could not be written", response.model_name)
                error = SERVER_FAULT
        return _error_event(error)


def _error_event(error: InferenceError) -> tuple[bytes, int]:
    return b"data: %b\n\n" % error_body(error.message), http_status(error.code)


class LargeEvents(Record, frozen=True):
    """How large responses are written as whole events in codec processes; `encode` blocks."""

    codec: Codec
    takes_long: collections.abc.Callable[[InferResponse], bool]
    encode: collections.abc.Callable[[Codec, InferResponse], memoryview]

"""The answers to one request as server-sent events: `data: <JSON>` and an empty line each (row 6.10).

The status is that of the first answer, and there is no mark of the end but the end. What a client does not take stays bounded: once its
connection is full the model is held (`core/flow.py`); a client that takes nothing for the transport's stall time is cut, which
cancels the request.
"""

import collections.abc
import logging
import re

from naiad.core.flow import Flow
from naiad.core.inference import Inference, OnResponse
from naiad.core.response import InferResponse
from naiad.errors import InferenceError
from naiad.protocol.http.message import Cancellable, Headers, HttpReply, OnReply, Outlet
from naiad.protocol.http.replies import CONTENT_TYPE, SERVER_FAULT, error_body, error_reply
from naiad.protocol.status import http_status

log = logging.getLogger(__name__)

EVENTS_TYPE = b"text/event-stream"
_REFUSING = re.compile(rb"q\s*=\s*0(\.0*)?")
EVENTS_HEADERS = ((CONTENT_TYPE, EVENTS_TYPE + b"; charset=utf-8"),)

Ask = collections.abc.Callable[[OnResponse, Flow], Inference | None]
"""Asks the engine."""

Encode = collections.abc.Callable[[InferResponse], bytes]
"""A response that is no error as one line of JSON; raises InferenceError."""


def takes_events(headers: Headers) -> bool:
    """Whether a client asks for events: `Accept` names their type, and not with q=0. `*/*` does not."""
    for offer in headers.get(b"accept", b"").lower().split(b","):
        media, *details = [part.strip() for part in offer.split(b";")]
        if media == EVENTS_TYPE:
            return not any(_REFUSING.fullmatch(detail) for detail in details)
    return False


class EventStream:
    """Implements `BodyStream`, and is the handle on its request.

    Args:
        encode: writes a response.
        on_reply: takes the reply once its status is known.
    """

    __slots__ = (
        "_begun",
        "_encode",
        "_ended",
        "_flow",
        "_inference",
        "_on_reply",
        "_outlet",
        "_refused",
        "_waiting",
    )

    def __init__(self, encode: Encode, on_reply: OnReply) -> None:
        self._encode = encode
        self._on_reply: OnReply | None = on_reply
        self._flow = Flow()
        self._inference: Inference | None = None
        self._outlet: Outlet | None = None
        self._waiting: list[bytes] = []
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

    def begin(self, outlet: Outlet) -> None:
        """See `BodyStream`."""
        self._outlet = outlet
        waiting, self._waiting = self._waiting, []
        if waiting:
            outlet.write(b"".join(waiting))
        if self._ended:
            self._outlet = None
            outlet.end()

    def pause(self) -> None:
        """See `BodyStream`."""
        self._flow.hold()

    def resume(self) -> None:
        """See `BodyStream`."""
        self._flow.go_on()

    def probe(self) -> None:
        """See `BodyStream`: a comment, which readers of events skip."""
        if self._outlet is not None:
            self._outlet.write(b":\n\n")

    def cancel(self) -> None:
        """See `BodyStream`."""
        self._outlet = self._on_reply = None
        self._waiting.clear()
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
        event, status = self._event(response)
        if response.final:
            self._ended = True
            self._inference = None
        outlet = self._outlet
        if outlet is None:
            self._waiting.append(event)
        else:
            outlet.write(event)
            if self._flow.overran():
                log.warning(
                    "a client of model '%s' does not read what it is sent: its stream is cut off",
                    response.model_name,
                )
                outlet.cut()
                return
            if response.final:
                self._outlet = None
                outlet.end()
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
        return b"data: %b\n\n" % error_body(error.message), http_status(error.code)

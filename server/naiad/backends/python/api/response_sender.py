"""Response senders, for deferred responses: many to a request, or one, from any thread (rows 15.9, 15.16, 15.17, 15.29).

A sender that its model drops with its request unanswered notifies the host, so that no client waits for ever: this
ends a request whose background thread died.
"""

import threading
from typing import Any, Protocol

from naiad.backends.python.api.errors import TritonModelException
from naiad.backends.python.api.response import InferenceResponse

TRITONSERVER_RESPONSE_COMPLETE_FINAL = 1


class ResponseChannel(Protocol):
    """The host's side of the response senders of a model instance.

    Attributes:
        all_outputs: the model's outputs.
        decoupled: the model may send any number of responses to a request.
        begun_ns: when the running batch began (monotonic).
        has_senders: set once a sender is made.
        has_rescheduled: set when a model reschedules a request.
    """

    all_outputs: "frozenset[str]"
    decoupled: bool
    begun_ns: int
    has_senders: bool
    has_rescheduled: bool

    def send(
        self, call: Any, response: "InferenceResponse | None", *, final: bool, begun_ns: int
    ) -> None:
        """Respond to a request in progress; without a response only the end is sent. Safe in any thread."""
        ...

    def pace(self, call: Any) -> None:
        """Wait while the client of a request cannot take more responses."""
        ...

    def lost(self, call: Any, begun_ns: int) -> None:
        """A request can get no further response: its sender was dropped. Safe in any thread."""
        ...


class InferenceResponseSender:
    """Sends the responses of one request; made by `InferenceRequest.get_response_sender()`.

    Args:
        call: the request in progress.
        channel: the host's side.
    """

    __slots__ = (
        "__weakref__",
        "_begun_ns",
        "_call",
        "_channel",
        "_closed",
        "_decoupled",
        "_lock",
        "_sent",
    )  # fmt: skip

    def __init__(self, call: Any, channel: ResponseChannel) -> None:
        self._call = call
        self._channel = channel
        self._decoupled = channel.decoupled
        self._begun_ns = channel.begun_ns
        self._closed = False
        self._sent = False
        self._lock = threading.Lock()
        channel.has_senders = True

    def send(self, response: "InferenceResponse | None" = None, flags: int = 0) -> None:
        """Send a response, or with TRITONSERVER_RESPONSE_COMPLETE_FINAL alone say that no more will come.

        Waits while the client takes its responses more slowly than they are sent and a megabyte of them is in flight; not after the
        client has gone.

        Args:
            response: what to send; it is copied, so the model may go on using its arrays.
            flags: 0, or TRITONSERVER_RESPONSE_COMPLETE_FINAL with or after the last response.

        Raises:
            TritonModelException: another flag, nothing to send, or the request has its answers already.
        """
        if flags not in (0, TRITONSERVER_RESPONSE_COMPLETE_FINAL):
            raise TritonModelException(
                "Unable to send response. Unsupported flag provided. Send with flags=0 or with "
                f"pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL, not {flags!r}"
            )
        if response is None and flags == 0:
            raise TritonModelException(
                "Inference Response object must be provided when the response flags is set to zero."
            )
        if response is not None and not isinstance(response, InferenceResponse):
            raise TypeError(
                f"send(response, flags) takes a pb_utils.InferenceResponse, not a {type(response).__name__}"
            )
        with self._lock:
            if not self._decoupled:
                self._send_the_one(response, flags)
                return
            self._check_open()
            final = flags == TRITONSERVER_RESPONSE_COMPLETE_FINAL
            self._channel.send(self._call, response, final=final, begun_ns=self._begun_ns)
            self._closed = final
        if not final:
            # Without the lock: the host may have to close this sender while its thread waits.
            self._channel.pace(self._call)

    def is_cancelled(self) -> bool:
        """Whether the client does not want the answers any more."""
        return bool(self._call.cancelled)

    def _send_the_one(self, response: "InferenceResponse | None", flags: int) -> None:
        """A model that is not decoupled has one response a request: it is the last, whatever its flags (row 15.17)."""
        if response is not None and self._sent:
            raise TritonModelException(
                "Unable to send response. Non-decoupled model cannot send more than one response."
            )
        if response is None and not self._sent:
            raise TritonModelException(
                "Unable to send response. Non-decoupled model cannot send complete final before sending a response."
            )
        self._check_open()
        if response is not None:
            self._channel.send(self._call, response, final=True, begun_ns=self._begun_ns)
            self._sent = True
        self._closed = flags == TRITONSERVER_RESPONSE_COMPLETE_FINAL

    def _check_open(self) -> None:
        if self._closed:
            raise TritonModelException("Unable to send response. Response sender has been closed.")

    def __del__(self) -> None:
        if not (self._closed or self._sent):
            self._channel.lost(self._call, self._begun_ns)


def close(sender: InferenceResponseSender) -> None:
    """For hosts: its request is answered in another way; what the model sends from now on is refused."""
    with sender._lock:  # noqa: SLF001 - kept beside the class, out of models' sight
        sender._closed = True  # noqa: SLF001


def is_open(sender: InferenceResponseSender) -> bool:
    """For hosts: whether its request still waits for its last answer."""
    return not (sender._closed or sender._sent)  # noqa: SLF001 - as above


def has_sent(sender: InferenceResponseSender) -> bool:
    """For hosts: whether the one response of a model that is not decoupled was sent."""
    return sender._sent  # noqa: SLF001 - as above

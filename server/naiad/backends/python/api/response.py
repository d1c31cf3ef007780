"""Responses (rows 15.13, 15.14), and the senders of deferred ones: many to a request, or one, from any thread (rows 15.9, 15.16, 15.17, 15.29).

A sender that its model drops with its request unanswered notifies the host, so that no client waits for ever: this
ends a request whose background thread died.
"""

import json
import operator
import threading
from collections.abc import Sequence
from typing import Any, Protocol

from naiad.backends.python.api.errors import TritonError, TritonModelException
from naiad.backends.python.api.tensor import Tensor

TRITONSERVER_RESPONSE_COMPLETE_FINAL = 1

_NONE: "dict[str, Any]" = {}


class InferenceResponse:
    """A response.

    Args:
        output_tensors: in any order; those that the request did not ask for are dropped.
        error: the request failed; outputs are ignored.
        parameters: by name; bool, int or str.

    Raises:
        TritonModelException: an output that is None, or a parameter of another type.
        TypeError: an output that is not a tensor, or an error that is not a TritonError.
    """

    __slots__ = ("_error", "_outputs", "_parameters")

    def __init__(
        self,
        output_tensors: "Sequence[Tensor]" = (),
        error: "TritonError | None" = None,
        parameters: "dict[str, Any] | None" = None,
    ) -> None:
        # A list of its own: the model may fill the one that it gave for the next response.
        outputs = list(output_tensors)
        for tensor in outputs:
            if not isinstance(tensor, Tensor):
                raise _not_a_tensor(tensor)
        if error is not None and not isinstance(error, TritonError):
            raise TypeError(
                f"InferenceResponse(error=…) takes a TritonError, not a {type(error).__name__}; write "
                "pb_utils.TritonError(str(error))"
            )
        self._outputs = outputs
        self._error = error
        self._parameters = _NONE if parameters is None else checked_parameters(parameters)

    def output_tensors(self) -> "list[Tensor]":
        """Its outputs."""
        return list(self._outputs)

    def has_error(self) -> bool:
        """Whether the request failed."""
        return self._error is not None

    def error(self) -> "TritonError | None":
        """Why it failed."""
        return self._error

    def parameters(self) -> str:
        """Its parameters as JSON."""
        return json.dumps(self._parameters)


contents_of = operator.attrgetter("_outputs", "_error", "_parameters")
"""A response's tensors, error and parameters (a dict), for hosts."""


def _not_a_tensor(value: Any) -> Exception:
    if value is None:
        return TritonModelException("Output tensor for inference response should not be empty.")
    return TypeError(
        f"InferenceResponse(output_tensors=[…]) takes pb_utils.Tensor objects, not {type(value).__name__}"
    )


def checked_parameters(parameters: "dict[str, Any]") -> "dict[str, Any]":
    """Parameters that a request or a response may have, as they are now: the dict is the model's to go on with.

    Raises:
        TritonModelException: not a dict, a name or a value of another type, an int that takes more than 64 bits, or text that is not valid Unicode.
    """
    if not isinstance(parameters, dict):
        raise TritonModelException(f"Expect parameters to be a dict, got {type(parameters)}")
    for key, value in parameters.items():
        if not isinstance(key, str):
            raise TritonModelException(
                f"Expect parameters keys to have type str, found type {type(key)}"
            )
        require_text("parameters", key)
        if isinstance(value, str):
            require_text(f"parameters['{key}']", value)
        elif not isinstance(value, int):  # as bool is
            raise TritonModelException(
                f"Expect parameters values to have type bool/int/str, found type {type(value)} ('{key}')"
            )
        elif not -_INT64 <= value < _INT64:
            raise TritonModelException(
                f"parameters['{key}'] is {value}, which takes more than 64 bits: give it as a str"
            )
    return dict(parameters)


_INT64 = 1 << 63


def require_text(what: str, text: str) -> None:
    """Check that a str can be sent as UTF-8: half a surrogate pair (from a file name that is not UTF-8) cannot.

    Raises:
        TritonModelException: it cannot.
    """
    if text.isascii():
        return
    try:
        text.encode()
    except UnicodeEncodeError:
        raise TritonModelException(
            f"{what}: {text!r} is not valid text (it holds half a surrogate pair): text.encode('utf-8', 'replace').decode() is"
        ) from None


class ResponseChannel(Protocol):
    """The host's side of the response senders of a model instance.

    Attributes:
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

    def pace(self, call: Any) -> None:
        """Wait while the client of a request cannot take more responses."""

    def lost(self, call: Any, begun_ns: int) -> None:
        """A request can get no further response: its sender was dropped. Safe in any thread."""


class InferenceResponseSender:
    """Sends the responses of one request; made by `InferenceRequest.get_response_sender()`."""

    __slots__ = (
        "__weakref__", "_begun_ns", "_call", "_channel", "_closed", "_decoupled", "_lock", "_sent",
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

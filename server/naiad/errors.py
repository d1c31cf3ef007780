"""What can go wrong, without a word of HTTP or gRPC.

Every failure a client can see is one `InferenceError`: a code (what kind of failure, the eight codes of
Triton's C API), a message that says what to do, and a reason (which failure counter it belongs to, row 8.15).
`protocol/status.py` turns codes into wire statuses where an answer leaves the process, and nowhere else.

Limits: those of `backends/instance.py`, whose worker processes use it: the standard library, Python 3.8.
"""

import enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Self


class ErrorCode(enum.Enum):
    """The kind of a failure; the wire statuses are rows 1.1 and 10.6."""

    UNKNOWN = "UNKNOWN"
    INTERNAL = "INTERNAL"
    NOT_FOUND = "NOT_FOUND"
    INVALID_ARG = "INVALID_ARG"
    UNAVAILABLE = "UNAVAILABLE"
    UNSUPPORTED = "UNSUPPORTED"
    ALREADY_EXISTS = "ALREADY_EXISTS"
    CANCELLED = "CANCELLED"


class FailureReason(enum.Enum):
    """The `reason` label of nv_inference_request_failure (rows 8.15, 8.16)."""

    REJECTED = "REJECTED"
    CANCELED = "CANCELED"
    BACKEND = "BACKEND"
    OTHER = "OTHER"


class InferenceError(Exception):
    """A failure that is reported to a client.

    Args:
        message: what was wrong, where, what was expected and what to send instead. Half a surrogate pair (from
            a file name that is not UTF-8) becomes a question mark: no protocol can carry it.
        reason: the failure counter that it raises when it ends an inference.

    Attributes:
        lost_device: the `DeviceError` that caused it, of an error without its cause (`bare`).
    """

    lost_device: "object | None" = None

    def __init__(
        self, code: ErrorCode, message: str, *, reason: FailureReason = FailureReason.OTHER
    ) -> None:
        if not message.isascii():
            message = message.encode("utf-8", "replace").decode()
        super().__init__(message)
        self.code = code
        self.message = message
        self.reason = reason

    def bare(self) -> "Self":
        """Itself, without what it remembers of where it was raised: for a response.

        The frames of a traceback hold the request and the callback that waits for its answer, and each frame holds its caller. A cycle
        of these through a response would never be freed: the garbage collector does not look into a `Record`.
        """
        self.__traceback__ = self.__cause__ = self.__context__ = None
        return self


def invalid(message: str) -> InferenceError:
    """An INVALID_ARG error: the client sent something that it can correct."""
    return InferenceError(ErrorCode.INVALID_ARG, message)


def internal(message: str) -> InferenceError:
    """An INTERNAL error; also what Triton answers to malformed JSON (row 3.7)."""
    return InferenceError(ErrorCode.INTERNAL, message)


def not_found(message: str) -> InferenceError:
    """A NOT_FOUND error: no such model, version or region."""
    return InferenceError(ErrorCode.NOT_FOUND, message)


def unavailable(message: str, *, reason: FailureReason = FailureReason.OTHER) -> InferenceError:
    """An UNAVAILABLE error: it may work when tried again."""
    return InferenceError(ErrorCode.UNAVAILABLE, message, reason=reason)


def unsupported(message: str) -> InferenceError:
    """An UNSUPPORTED error: this server does not do that."""
    return InferenceError(ErrorCode.UNSUPPORTED, message)

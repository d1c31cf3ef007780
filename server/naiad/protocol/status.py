"""An error's code as wire statuses: HTTP numbers (row 1.1) and gRPC numbers (row 10.6).

The only place that defines either. The matches are exhaustive, so that a ninth `ErrorCode` does not type-check until
both protocols have a status for it. gRPC statuses are plain numbers here, so that this module does not import grpc.
"""

from naiad.errors import ErrorCode

RETRY_AFTER_S = 1
"""When a client may retry after UNAVAILABLE: Retry-After of HTTP, RetryInfo of gRPC. Within this time a dead worker is replaced, and a full
queue has space again."""


def http_status(code: ErrorCode) -> int:
    """The HTTP status of a failure (row 1.1).

    CANCELLED, ALREADY_EXISTS and UNKNOWN have no status of their own over HTTP and share 400, as in Triton.
    """
    match code:
        case ErrorCode.INTERNAL:
            return 500
        case ErrorCode.NOT_FOUND:
            return 404
        case ErrorCode.UNAVAILABLE:
            return 503
        case ErrorCode.UNSUPPORTED:
            return 501
        case (
            ErrorCode.UNKNOWN
            | ErrorCode.INVALID_ARG
            | ErrorCode.ALREADY_EXISTS
            | ErrorCode.CANCELLED
        ):
            return 400


def grpc_status(code: ErrorCode) -> int:  # noqa: PLR0911 - one return per code, so that mypy sees a missing one
    """The number of the gRPC status of a failure (row 10.6), e.g. 3 for INVALID_ARGUMENT."""
    match code:
        case ErrorCode.CANCELLED:
            return 1
        case ErrorCode.UNKNOWN:
            return 2
        case ErrorCode.INVALID_ARG:
            return 3
        case ErrorCode.NOT_FOUND:
            return 5
        case ErrorCode.ALREADY_EXISTS:
            return 6
        case ErrorCode.UNSUPPORTED:
            return 12
        case ErrorCode.INTERNAL:
            return 13
        case ErrorCode.UNAVAILABLE:
            return 14

"""Why a request of a sequence is refused, in the reference's words and with what to send instead (rows 13.1 to 13.18)."""

from naiad.core.request import InferRequest
from naiad.errors import ErrorCode, FailureReason, InferenceError, invalid, unavailable
from naiad.metrics.statistics import SequenceEnd

_NS_PER_S = 1e9


class UnknownSequenceError(InferenceError):
    """The request's sequence is not open here. The version that is being replaced may have it."""


def unknown_sequence(
    request: InferRequest, model: str, ended: SequenceEnd | None, idle_ns: int
) -> InferenceError:
    """The error of a request without START whose sequence is not open (row 13.3); `ended`: why it was ended early, if it was."""
    why = {
        None: "the first request was never sent, the last one had END, or it ended with a version of the model that was unloaded since",
        SequenceEnd.IDLE: f"it had no request for more than {idle_ns / _NS_PER_S:g} s (max_sequence_idle_microseconds in the model's config)",
        SequenceEnd.TIMEOUT: "the timeout of one of its requests was over before it got a slot",
        SequenceEnd.CANCELLED: "one of its requests was cancelled, or the client that sent them has gone",
        SequenceEnd.INSTANCE: "the worker process that had it ended, and its state with it",
        SequenceEnd.UNLOAD: "the version of the model that had it was unloaded",
    }[ended]
    return UnknownSequenceError(
        ErrorCode.INVALID_ARG,
        f"inference request for sequence {request.correlation_id} to model '{model}' must specify the START flag on the first "
        f"request of the sequence: there is no such sequence, because {why}. Begin it again with sequence_start",
    )


def without_id(model: str) -> InferenceError:
    """The error of a request that names no sequence (row 13.2)."""
    return invalid(
        f"inference request to model '{model}' must specify a non-zero or non-empty correlation ID: send sequence_id, a number from 1 "
        "or a string, with every request, and sequence_start with the first one of a sequence"
    )


def batched(model: str, rows: int) -> InferenceError:
    """The error of a request with several rows (row 13.1)."""
    return invalid(
        f"inference request to model '{model}' must specify batch-size 1 due to requirements of sequence batcher; it has {rows} rows: "
        "send one row per request, those of other sequences are batched with it"
    )


def timed_out(request: InferRequest, model: str) -> InferenceError:
    """The error of the requests of a sequence that got no slot in time (row 13.13)."""
    return unavailable(
        f"{request.label}timeout of the corresponding sequence has been expired: no slot of model '{model}' was free in time. Send the "
        "sequence again later; more instances, or a larger max_batch_size or max_candidate_sequences, give more slots",
        reason=FailureReason.REJECTED,
    )


def cancelled() -> InferenceError:
    """The error of a request whose sequence is over because a client has gone (row 13.17)."""
    return InferenceError(ErrorCode.CANCELLED, "", reason=FailureReason.CANCELED)


def stopping(request: InferRequest, model: str) -> InferenceError:
    """The error of a request that starts a sequence while the model is unloaded (row 13.18)."""
    return unavailable(
        f"{request.label}Server is stopping, scheduler for model has stopped accepting new inference requests: model '{model}' is being "
        "shut down and only finishes sequences that have begun. Send it to another server, or again later."
    )


def instance_lost(model: str) -> InferenceError:
    """The error of requests that wait for an instance whose worker ended."""
    return unavailable(
        f"model '{model}': the worker process that had this sequence ended, and its state with it. Begin the sequence again",
        reason=FailureReason.BACKEND,
    )

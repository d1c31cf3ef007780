"""The errors of requests that a scheduler does not execute. Pure."""

from naiad.core.inference import Inference
from naiad.errors import ErrorCode, FailureReason, InferenceError, unavailable
from naiad.metrics.statistics import MICROSECOND


def timed_out(inference: Inference, *, model: str, now: int) -> InferenceError:
    """The error of a request whose timeout ended in the queue (row 12.14); `now`: monotonic nanoseconds."""
    waited_ms = (now - inference.queued_ns) / (1_000 * MICROSECOND)
    allowed_ms = (inference.deadline_ns - inference.queued_ns) / (1_000 * MICROSECOND)
    return InferenceError(
        ErrorCode.UNAVAILABLE,
        f"Request timeout expired: it waited {waited_ms:.1f} ms for a free instance of model '{model}' and may wait "
        f"{allowed_ms:.1f} ms. Send it again later, or to another server; more instances or a larger "
        "default_timeout_microseconds in the model's queue policy let more requests through.",
        reason=FailureReason.REJECTED,
    )


def no_instance(model: str) -> InferenceError:
    """The error of a request while no instance of its model runs."""
    return unavailable(
        f"model '{model}' has no running instance: its worker process ended and is being restarted. Send the request "
        "again later, or to another server.",
        reason=FailureReason.BACKEND,
    )


def stopping(inference: Inference, *, model: str) -> InferenceError:
    """The error of a request to a model that is being unloaded."""
    return unavailable(
        f"{inference.request.label}Server is stopping, scheduler for model has stopped accepting new inference "
        f"requests: model '{model}' is being shut down. Send it to another server, or again later."
    )

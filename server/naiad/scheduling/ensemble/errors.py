"""The errors of requests of ensembles. Pure."""

from naiad.core.request import InferRequest
from naiad.errors import ErrorCode, FailureReason, InferenceError
from naiad.scheduling.ensemble.plan import PlannedStep


def cancelled(ensemble: str) -> InferenceError:
    """The client has gone."""
    return InferenceError(
        ErrorCode.CANCELLED,
        f"in ensemble '{ensemble}', the request was cancelled",
        reason=FailureReason.CANCELED,
    )


def of_step(ensemble: str, step: PlannedStep, error: InferenceError) -> InferenceError:
    """A step failed: its status, and which one it is (row 14)."""
    return InferenceError(
        error.code,
        f"in ensemble '{ensemble}', {error.message or 'the request was cancelled'} "
        f"(step {step.index}: model '{step.model}')",
        reason=FailureReason.CANCELED if error.code is ErrorCode.CANCELLED else FailureReason.OTHER,
    )


def incomplete(ensemble: str, request: InferRequest) -> InferenceError:
    """Nothing runs any more, and an output is missing."""
    return InferenceError(
        ErrorCode.INVALID_ARG,
        f"in ensemble '{ensemble}', {request.label}unexpected deadlock, at least one output is "
        "not set while no more ensemble steps can be made",
    )

"""The request parameter `naiad_deadline_ms`: a request that cannot be answered within this time, as far as is known, is refused when it comes. Pure."""

from naiad.core.request import InferRequest
from naiad.errors import ErrorCode, FailureReason, InferenceError, invalid
from naiad.scheduling.speed.estimate import Estimate

DEADLINE_PARAMETER = "naiad_deadline_ms"

_NS_PER_MS = 1e6
LONGEST_MS = 1e12
"""Thirty years: a longer deadline counts as this one, because the nanoseconds of any longer one may be more than a float has."""


def deadline_of(request: InferRequest, value: object) -> int:
    """How long a request may take, in nanoseconds.

    Raises:
        InferenceError: INVALID_ARG: the parameter is not a number above 0.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
        raise invalid(
            f"{request.label}parameter '{DEADLINE_PARAMETER}' is {value!r}: expected the milliseconds in which the response is needed, a number above 0, "
            "e.g. 50"
        )
    return round(min(value, LONGEST_MS) * _NS_PER_MS)


def too_late(
    request: InferRequest,
    *,
    model: str,
    deadline_ns: int,
    estimate: Estimate,
    waiting: int,
    instances: int,
) -> InferenceError:
    """The error of a request that would be answered too late."""
    allowed, wait, response = (
        each / _NS_PER_MS for each in (deadline_ns, estimate.wait_ns, estimate.response_ns)
    )
    return InferenceError(
        ErrorCode.UNAVAILABLE,
        f"{request.label}The deadline of {allowed:g} ms ({DEADLINE_PARAMETER}) cannot be met: model '{model}' would begin the request in about {wait:.1f} ms "
        f"and respond after about {response:.1f} ms (requests that wait: {waiting}, instances: {instances}). Send it to another server, or allow more time.",
        reason=FailureReason.REJECTED,
    )

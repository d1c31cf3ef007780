"""The deadline of a request to an ensemble (`naiad_deadline_ms`): each step has what is left of it when the step is called. Pure."""

import collections.abc
import typing

from naiad.core.inference import Inference
from naiad.core.request import InferRequest
from naiad.scheduling.speed.deadline import DEADLINE_PARAMETER, LONGEST_MS

_NS_PER_MS = 1e6
_OVER_MS = 0.001
"""What a step has of a deadline that is over: the parameter is above 0, and no model is as fast."""


def pass_on(whole: Inference, request: InferRequest, now: int) -> None:
    """Write into a step's request, whose parameters are its own, how much time is left.

    Args:
        whole: the request to the ensemble.
        request: that of the step.
        now: monotonic nanoseconds.
    """
    given: collections.abc.Mapping[str, typing.Any] = whole.request.parameters
    value = given.get(DEADLINE_PARAMETER)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
        return  # there is none, or the step says what is wrong with it
    left_ms = min(value, LONGEST_MS) - (now - whole.queued_ns) / _NS_PER_MS
    request.parameters[DEADLINE_PARAMETER] = max(round(left_ms, 3), _OVER_MS)

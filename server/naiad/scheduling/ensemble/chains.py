"""Chains of steps: when a batch of a step ends, all its requests go on to the next step together, with one hand-over to its scheduler.

A request that ends with this step, or whose response is not what it usually is, takes its response by itself. All of it belongs to the event loop.
"""

import collections.abc
import logging

from naiad.core.clock import Clock
from naiad.core.response import InferResponse
from naiad.errors import internal
from naiad.scheduling.ensemble.plan import PlannedStep
from naiad.scheduling.ensemble.steps import StepCall, StepCalls

_log = logging.getLogger(__name__)


class Chains:
    """Implements `TakesTogether` for all requests of an ensemble without decoupled steps and limits.

    Args:
        calls: makes the calls.
        runs: the requests of the ensemble that are in progress.
        clock: gives the time.
    """

    def __init__(self, calls: StepCalls, *, runs: collections.abc.Sized, clock: Clock) -> None:
        self._calls = calls
        self._runs = runs
        self._now = clock.monotonic_ns

    @property
    def in_progress(self) -> int:
        """See `TakesTogether`."""
        return len(self._runs)

    def take(self, answered: collections.abc.Sequence[tuple[StepCall, InferResponse]]) -> None:
        """See `TakesTogether`."""
        now = self._now()
        following: dict[PlannedStep, list[StepCall]] = {}
        for call, response in answered:
            try:
                step = call.owner.goes_on(call, response, now)
                if step is None:
                    if not call.owner.ends_with(call, response, now):
                        call.respond(response)
                elif step in following:
                    following[step].append(call)
                else:
                    following[step] = [call]
            except Exception as failure:  # noqa: BLE001  the other requests of the batch still wait
                self._failed(call, failure)
        for calls in following.values():
            try:
                self._calls.go_on(calls)
            except Exception as failure:  # noqa: BLE001  the same
                for call in calls:
                    self._failed(call, failure)

    def _failed(self, call: StepCall, failure: Exception) -> None:
        """Whatever happened, its request ends."""
        _log.exception("the response of model '%s' could not be taken", call.request.model_name)
        call.fail(internal(f"the response of its model could not be taken: {failure}"))

"""The steps of an ensemble in execution, over all of its requests: calls of other models, as many at the same time as the config allows (row 14.12).

Every call ends with its model's final response, and every wait for a free place with that place, or because its request has ended.
"""

import collections.abc
import typing

from typing_extensions import override

from naiad.core.clock import Clock
from naiad.core.inference import Inference
from naiad.core.response import InferResponse
from naiad.metrics.statistics import StepTimes
from naiad.scheduling.ensemble import deadline
from naiad.scheduling.ensemble.plan import Key, PlannedStep
from naiad.scheduling.relays.calls import Caller, CallInProgress, Submit


class StepOwner(typing.Protocol):
    """The request of the ensemble that a call belongs to.

    Attributes:
        model: the ensemble.
        batch: the request, as in `Occupancy.executions`.
    """

    batch: list[Inference]

    @property
    def model(self) -> str:
        """See above."""
        ...

    def begins(self, call: "StepCall") -> None:
        """A call is made that has waited for a place."""
        ...

    def responded(self, call: "StepCall", response: InferResponse) -> None:
        """A response of a step came."""
        ...

    def goes_on(self, call: "StepCall", response: InferResponse, now: int) -> PlannedStep | None:
        """See `EnsembleRun.goes_on`."""
        ...

    def ends_with(self, call: "StepCall", response: InferResponse, now: int) -> bool:
        """See `EnsembleRun.ends_with`."""
        ...


class StepCall(CallInProgress, kw_only=True, eq=False):
    """One call of a step's model, or the wait for a place to make it.

    Attributes:
        key: of the values that it works on.
        batch_size: of its request; 0 without a batch dimension.
        sequence: id and flags of its request.
        count: responses with tensors so far.
    """

    owner: StepOwner
    step: PlannedStep
    key: Key
    batch_size: int
    sequence: tuple[int | str, int]
    count: int = 0

    @override
    def made_by(self) -> Caller:
        owner = self.owner
        return Caller(owner.model, owner.model, owner.batch, blocks=True)

    @override
    def take(self, response: InferResponse) -> None:
        self.owner.responded(self, response)


class StepCalls:
    """The calls in progress of all steps of an ensemble.

    Args:
        steps: how many it has.
        limit: calls of each step at the same time; 0 for no limit.
        submit: makes the calls.
        clock: gives the time.

    Attributes:
        limit: as given.
        now: monotonic nanoseconds.
        times: of each step.
    """

    def __init__(
        self, *, models: collections.abc.Sequence[str], limit: int, submit: Submit, clock: Clock
    ) -> None:
        self.limit = limit
        self._submit = submit
        self.now = clock.monotonic_ns
        self._running = [0] * len(models)
        self._waiting: list[dict[StepCall, None]] = [{} for _ in models]
        self._filling = set[int]()
        self.times = [StepTimes(model=model) for model in models]

    def is_full(self, step: PlannedStep) -> bool:
        """Whether a call has to wait."""
        return 0 < self.limit <= self._running[step.index]

    def wait(self, call: StepCall) -> None:
        """Make a call once another one of its step has ended."""
        self._waiting[call.step.index][call] = None

    def withdraw(self, call: StepCall) -> None:
        """A call that waits is not needed any more."""
        self._waiting[call.step.index].pop(call, None)

    def ended(self, call: StepCall) -> None:
        """A call that was made has its final response: another one may be made."""
        if not self.limit:
            return
        index = call.step.index
        self._running[index] -= 1
        waiting = self._waiting[index]
        if not waiting or index in self._filling:
            return
        self._filling.add(index)  # a call may end before `make` returns
        while waiting and not self.is_full(call.step):
            following = next(iter(waiting))
            del waiting[following]
            following.owner.begins(following)
            self.make(following)
        self._filling.discard(index)

    def go_on(self, calls: list[StepCall]) -> None:
        """Make calls again that have a response, each for the same further step; there is no limit."""
        self._submit(*calls, namespace=calls[0].step.namespace)

    def make(self, call: StepCall) -> None:
        """Make a call now."""
        if self.limit:
            self._running[call.step.index] += 1
        now = call.received_ns = self.now()
        if call.request.parameters:
            deadline.pass_on(call.owner.batch[0], call.request, now)
        self._submit(call, namespace=call.step.namespace)

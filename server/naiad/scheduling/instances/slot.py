"""One instance of a model version, as its pool sees it: the batches that it has, and the inferences that wait for its responses."""

import collections.abc
import functools

from naiad.backends.instance import Execution
from naiad.core.inference import Inference
from naiad.core.response import InferResponse
from naiad.hosts.host import BatchOutcome, HostedInstance, OnOutcome
from naiad.scheduling.speed.times import BatchTimes


class InstanceSlot:
    """An instance in a pool. Implements `ResourceUser`.

    Args:
        instance: what it is, and what runs its batches.
        limited: whether it needs resources for each batch.
        times: those of the batches of its group.
        came_back: gets this instance and the outcome of a batch.
        retry: gets this instance when its resources may be available.

    Attributes:
        spec: what it is.
        host: runs its batches.
        name: the instance's name, for messages.
        limited: whether it needs resources for each batch.
        times: how long the batches of its group take.
        began_ns: when its batch was sent, or begun after another one.
        batch: the batch in execution; None if there is none.
        ticket: the position of that batch in the order of all batches.
        prefetched: the batch that begins when that one has ended; None if there is none.
        prefetched_ticket: the position of this one.
        usable: whether it can run batches.
        removed: whether it is to be closed.
        deferred: the inferences whose batch came back before their responses.
        on_outcome: gets the outcome of its batch.
        retry: called when its resources may be available.
    """

    __slots__ = (
        "batch", "began_ns", "deferred", "host", "limited", "name", "on_outcome", "prefetched", "prefetched_ticket", "removed", "retry", "spec", "ticket", "times", "usable",
    )  # fmt: skip

    def __init__(
        self,
        instance: HostedInstance,
        *,
        limited: bool,
        times: BatchTimes,
        came_back: collections.abc.Callable[["InstanceSlot", BatchOutcome], None],
        retry: collections.abc.Callable[["InstanceSlot"], None],
    ) -> None:
        self.spec, self.host = instance
        self.name = self.spec.name
        self.limited = limited
        self.times = times
        self.began_ns = 0
        self.batch: list[Inference] | None = None
        self.ticket = 0
        self.prefetched: list[Inference] | None = None
        self.prefetched_ticket = 0
        self.usable = True
        self.removed = False
        self.deferred = set[Inference]()
        self.on_outcome: OnOutcome = functools.partial(came_back, self)
        self.retry = functools.partial(retry, self)

    def ran(self, outcome: BatchOutcome, execution: Execution[InferResponse]) -> None:
        """A batch was executed: keep its duration, and which responses come later."""
        self.times.record(outcome.compute_end_ns - outcome.compute_start_ns)
        if None in execution.responses:
            self.deferred.update(deferred_of(outcome))


def deferred_of(outcome: BatchOutcome) -> list[Inference]:
    """The inferences of a batch whose responses come later. One that is rescheduled is not among them: it is its scheduler's again."""
    execution = outcome.execution
    assert execution is not None
    return [
        inference
        for index, (inference, response) in enumerate(
            zip(outcome.batch, execution.responses, strict=True)
        )
        if response is None and not inference.completed and index not in execution.rescheduled
    ]

"""A loaded version of a model with sequences: its open sequences go on while it is unloaded, also behind a version that has taken its place (row 13.18)."""

import collections.abc
from typing import Any

from typing_extensions import override

from naiad.core.flow import Flow
from naiad.core.inference import Inference, OnResponse, RequestContext
from naiad.core.request import LATEST, SEQUENCE_START, InferRequest
from naiad.engine.model import Model
from naiad.scheduling.relays.calls import CallInProgress
from naiad.scheduling.scheduler import Scheduler
from naiad.scheduling.sequence.scheduler import SequenceScheduler

Unloading = collections.abc.Callable[[], collections.abc.Iterable[Model]]
"""Gives the versions that are being unloaded."""


class SequenceModel(Model):
    """A loaded version.

    Args:
        scheduler: the model's.
        unloading: one of these may have the sequence of a request.
        more: see `Model`.
    """

    def __init__(self, *, scheduler: SequenceScheduler, unloading: Unloading, **more: Any) -> None:
        super().__init__(scheduler=scheduler, **more)
        self._sequences = scheduler
        self._unloading = unloading

    @override
    def infer(
        self,
        request: InferRequest,
        on_response: OnResponse,
        flow: Flow | None = None,
        context: RequestContext | None = None,
    ) -> Inference | None:
        key = request.correlation_id
        if key and not request.flags & SEQUENCE_START and not self.has_sequence(key):
            found = with_sequences(self._unloading(), self.config.name, request.model_version, key)
            if found is not None and found.namespace == self.namespace:
                return found.infer(request, on_response, flow, context)
        return super().infer(request, on_response, flow, context)

    @override
    def run_calls(self, calls: collections.abc.Sequence[CallInProgress]) -> None:
        for call in calls:
            call.begin(self)

    def has_sequence(self, correlation_id: int | str | None) -> bool:
        """Whether a sequence is open here; None: any."""
        return self._sequences.has_sequence(correlation_id)

    def end_sequence(self, correlation_id: int | str) -> None:
        """End a sequence whose client has gone."""
        self._sequences.end_sequence(correlation_id)

    async def finish_sequences(self, seconds: float) -> None:
        """Let open sequences end, and start none; those that are open after that time are over."""
        await self._sequences.finish_sequences(seconds)


def make_model(*, scheduler: Scheduler, unloading: Unloading, **more: Any) -> Model:
    """A loaded version with this scheduler; `more`: see `Model`."""
    if isinstance(scheduler, SequenceScheduler):
        return SequenceModel(scheduler=scheduler, unloading=unloading, **more)
    return Model(scheduler=scheduler, **more)


def with_sequences(
    models: collections.abc.Iterable[Model],
    name: str,
    version: int,
    correlation_id: int | str | None = None,
) -> SequenceModel | None:
    """The one of these versions of a model that has this sequence; None for any sequence. `version`: that of the request."""
    for model in models:
        if (
            isinstance(model, SequenceModel)
            and model.config.name == name
            and version in (LATEST, model.version)
            and model.has_sequence(correlation_id)
        ):
            return model
    return None

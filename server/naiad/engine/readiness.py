"""When the server is ready, by the states of its models: `--readiness-policy` (rows 2.4, 2.5, and ours beside them)."""

import asyncio
import collections.abc
import typing

from naiad.engine.readiness_policy import ReadinessPolicy
from naiad.repository.lifecycle import State
from naiad.repository.version import EVICTED, UNLOADED_REASONS, VersionState

if typing.TYPE_CHECKING:
    from naiad.engine.model import Model
    from naiad.repository.manager import Repository
    from naiad.repository.requests.namespaces import Namespaces


class Readiness:
    """Decides whether the models of a repository make the server ready.

    Args:
        repository: the models.
        policy: which of them must be ready.
    """

    def __init__(
        self, repository: "Repository[Model] | Namespaces[Model]", policy: ReadinessPolicy
    ) -> None:
        self._repository = repository
        self._policy = policy

    async def holds(self) -> bool:
        """Whether the policy holds now. Calls only instances whose readiness is not known without a call."""
        states = self._repository.states()
        if self._policy.rule == "all" and not all(map(_counts_as_ready, states)):
            return False
        waiting: list[list[Model]] = []
        for group in self._groups(states):
            known = [model.ready_now() for model in group]
            if True in known:
                continue
            unknown = [model for model, ready in zip(group, known, strict=True) if ready is None]
            if not unknown:
                return False
            waiting.append(unknown)
        # Most models are known to be ready: a probe starts no task and no thread for these.
        models = [model for group in waiting for model in group]
        answers = await asyncio.gather(*(model.ready() for model in models))
        if all(answers):
            return True
        ready = {id(model) for model, is_ready in zip(models, answers, strict=True) if is_ready}
        if self._policy.rule == "all":
            # One that is unloaded meanwhile does not count.
            served = {id(model) for _, _, model in self._repository.served()}
            ready |= {id(model) for model in models if id(model) not in served}
        return all(any(id(model) in ready for model in group) for group in waiting)

    def _groups(self, states: collections.abc.Iterable[VersionState]) -> list[list["Model"]]:
        """The models in groups, of each of which one must be ready."""
        served = self._repository.served()
        if self._policy.rule == "all":
            return [[model] for _, _, model in served]
        # A request for an evicted model loads it again.
        evicted = {state.name for state in states if state.reason == EVICTED}
        if self._policy.rule == "any":
            return [] if evicted else [[model for _, _, model in served]]
        return [
            [model for served_name, _, model in served if served_name == name]
            for name in self._policy.models
            if name not in evicted
        ]


def _counts_as_ready(state: VersionState) -> bool:
    return state.state is State.READY or state.reason in UNLOADED_REASONS

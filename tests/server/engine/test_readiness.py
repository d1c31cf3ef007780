"""Which models make the server ready, by policy."""

import typing

import pytest

from naiad.engine.readiness import Readiness
from naiad.engine.readiness_policy import ReadinessPolicy
from naiad.repository.lifecycle import State
from naiad.repository.manager import VersionState


class Model:
    """A model whose readiness is known, or only after a call."""

    def __init__(self, *, ready: bool, known: bool = True) -> None:
        self._ready = ready
        self._known = known
        self.calls = 0

    def ready_now(self) -> bool | None:
        return self._ready if self._known else None

    async def ready(self) -> bool:
        self.calls += 1
        return self._ready


class Repository:
    """Models that serve, by name, and the states of others."""

    def __init__(self, served: dict[str, Model], *states: VersionState) -> None:
        self._served = served
        self._states = states

    def served(self) -> list[tuple[str, int, Model]]:
        return [(name, 1, model) for name, model in self._served.items()]

    def states(self) -> list[VersionState]:
        ready = [
            VersionState(name=name, version=1, state=State.READY, reason="")
            for name in self._served
        ]
        return [*ready, *self._states]


def state(name: str, reason: str) -> VersionState:
    return VersionState(name=name, version=1, state=State.UNAVAILABLE, reason=reason)


FAILED = state("bad", "no such file")
UNLOADED = state("gone", "unloaded")
EVICTED = state("cold", "evicted")
ALL, ANY = ReadinessPolicy(), ReadinessPolicy(rule="any")


def named(*models: str) -> ReadinessPolicy:
    return ReadinessPolicy(rule="models", models=models)


async def holds(policy: ReadinessPolicy, served: dict[str, Model], *states: VersionState) -> bool:
    repository: typing.Any = Repository(served, *states)
    return await Readiness(repository, policy).holds()


@pytest.mark.parametrize(
    ("policy", "served", "states", "wanted"),
    [
        (ALL, {"a": True}, (FAILED,), False),
        (ALL, {}, (), True),
        (ANY, {"a": True}, (FAILED,), True),
        (ANY, {"a": False, "b": True}, (), True),
        (ANY, {"a": False}, (), False),
        (ANY, {}, (), False),
        (ANY, {}, (FAILED, UNLOADED), False),
        (ANY, {}, (EVICTED,), True),
        (named("a"), {"a": True}, (FAILED,), True),
        (named("a", "b"), {"a": True}, (), False),
        (named("a", "b"), {"a": True, "b": False}, (), False),
        (named("bad"), {"a": True}, (FAILED,), False),
        (named("gone"), {"a": True}, (UNLOADED,), False),
        (named("cold"), {"a": True}, (EVICTED,), True),
    ],
)
async def test_ready(
    policy: ReadinessPolicy,
    served: dict[str, bool],
    states: tuple[VersionState, ...],
    *,
    wanted: bool,
) -> None:
    models = {name: Model(ready=ready) for name, ready in served.items()}
    assert await holds(policy, models, *states) is wanted


@pytest.mark.parametrize("ready", [True, False])
async def test_models_whose_readiness_is_not_known_are_called(*, ready: bool) -> None:
    for policy in (ALL, ANY, named("a")):
        model = Model(ready=ready, known=False)
        assert await holds(policy, {"a": model}) is ready
        assert model.calls == 1


async def test_one_model_that_is_known_to_be_ready_is_enough_for_any() -> None:
    slow = Model(ready=False, known=False)
    assert await holds(ANY, {"a": slow, "b": Model(ready=True)})
    assert slow.calls == 0

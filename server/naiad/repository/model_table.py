"""The table of all models that the repository knows: their versions, the ones that serve, and what is left of those that failed or were unloaded.

It holds and looks up; loads and unloads are the manager's. All of it belongs to the event loop.

A server may load ever new names, one per tenant for example. So an unloaded version leaves only its state, which the index shows, and only
for a bounded number of models (row 7.3).
"""

import collections
import collections.abc
import typing

import msgspec

from naiad.core.request import LATEST
from naiad.repository.errors import Versions, not_served
from naiad.repository.lifecycle import Event, State
from naiad.repository.plan import LoadedFrom, ModelPlan
from naiad.repository.version import (
    EVICTED,
    REMOVED,
    UNLOADED,
    S,
    Version,
    VersionState,
    failed_plan_state,
)

KEPT_MODELS = 1_000
"""For models that were unloaded before these, the index shows the name only, as for a model that was never loaded."""

KEPT_VERSIONS = 16
"""Per model, the highest ones."""


_SERVING = frozenset((State.LOADING, State.READY))


class ModelTable(typing.Generic[S]):
    """Every model that is loaded, was loaded, or failed.

    Attributes:
        latest: the version of each model that serves requests without a version. Read only.
        loaded_from: what each model is loaded from, if all its versions are.
    """

    def __init__(self) -> None:
        self._models: dict[str, dict[int, Version[S]]] = {}
        self.latest: dict[str, S] = {}
        self.loaded_from: dict[str, LoadedFrom] = {}
        self._failed_plans: dict[str, ModelPlan] = {}
        self._unloaded = UnloadedVersions()
        self._removed = set[str]()
        """Models that are in no repository any more, and still finish requests."""

    def get(self, name: str, version: int = LATEST) -> S:
        """The served version of a model; without a version the highest READY one (row 2.8).

        Raises:
            InferenceError: NOT_FOUND or UNAVAILABLE, with the message of row 2.8.
        """
        if version == LATEST:
            latest = self.latest.get(name)
            if latest is not None:
                return latest
        else:
            known = self._models.get(name, {}).get(version)
            if known is not None and known.served is not None:
                return known.served
        versions: Versions = {**self._unloaded.of(name), **self._models.get(name, {})}
        raise not_served(name, version, versions, plan=self.failed_plan(name), ready=self.latest)

    def names(self) -> list[str]:
        """The models with versions that are loaded, are being loaded or unloaded, or failed."""
        return list(self._models)

    def versions(self, name: str) -> collections.abc.Mapping[int, Version[S]]:
        """The versions of a model by number, except unloaded ones; empty for an unknown model."""
        return self._models.get(name, {})

    def unloaded(self, name: str) -> collections.abc.Mapping[int, VersionState]:
        """The versions of a model by number that were unloaded, as far as they are remembered."""
        return self._unloaded.of(name)

    def failed_plan(self, name: str) -> ModelPlan | None:
        """Why a model's config cannot be used; None if it can, or if there is no such model."""
        return self._failed_plans.get(name)

    def failures(self, name: str) -> str:
        """Why a model does not serve, as far as it is known."""
        plan = self.failed_plan(name)
        reasons = [] if plan is None else [plan.reason]
        reasons += [
            f"version {number} is at {version.state.value} state: {version.reason}"
            for number, version in sorted(self.versions(name).items())
        ]
        return "; ".join(reasons) or "it is unloaded"

    def ready(self, name: str) -> dict[int, Version[S]]:
        """The READY versions of a model by number, ascending; empty for an unknown model."""
        return {
            number: version
            for number, version in sorted(self.versions(name).items())
            if version.state is State.READY
        }

    def served(self) -> list[tuple[str, int, S]]:
        """Every READY version with its name and number, sorted."""
        return [
            (name, number, version.served)
            for name, versions in sorted(self._models.items())
            for number, version in sorted(versions.items())
            if version.served is not None
        ]

    def states(self) -> list[VersionState]:
        """Every version that is loaded or failed, those unloaded last, and every model whose config cannot be used, by name and version."""
        known = [
            version.snapshot()
            for versions in self._models.values()
            for version in versions.values()
        ]
        known += [state for state in self._unloaded.states() if state.reason != REMOVED]
        known += [failed_plan_state(plan) for plan in self._failed_plans.values()]
        return sorted(known, key=lambda state: (state.name, state.version or 0))

    def put(self, version: Version[S]) -> None:
        """Add a version, in place of another one of the same number."""
        name, number = version.plan.config.name, version.plan.version
        before = self.versions(name).get(number) or self._unloaded.of(name).get(number)
        version.was_evicted = before is not None and before.reason == EVICTED
        self._models.setdefault(name, {})[number] = version
        self._unloaded.forget(name, number)
        self._removed.discard(name)

    def choose_latest(self, name: str) -> None:
        """Find the version that serves requests without a version; call it after a change of state."""
        ready = self.ready(name)
        latest = ready[max(ready)].served if ready else None
        if latest is None:
            self.latest.pop(name, None)
        else:
            self.latest[name] = latest

    def put_failed_plan(self, plan: ModelPlan) -> None:
        """Add a model whose config cannot be used."""
        self._failed_plans[plan.name] = plan

    def drop_failed_plan(self, name: str) -> None:
        """Forget that a model's config could not be used, if so."""
        self._failed_plans.pop(name, None)

    def clear_failures(self, name: str, *, reason: str = UNLOADED) -> None:
        """Mark failed versions as unloaded: once it is no longer requested, a version does not make the server unready (row 2.4)."""
        for version in tuple(self.versions(name).values()):
            if version.state is State.UNAVAILABLE:
                version.apply(Event.UNLOADED, reason=reason)
                self.drop_unloaded(version)

    def end_eviction(self, name: str) -> None:
        """Mark the evicted versions of a model as unloaded: it is no longer wanted."""
        for number, state in tuple(self._unloaded.of(name).items()):
            if state.reason == EVICTED:
                self._unloaded.remember(number, msgspec.structs.replace(state, reason=UNLOADED))

    def drop_unloaded(self, version: Version[S]) -> None:
        """Keep only the state of an unloaded version, unless another one of the same number has taken its place."""
        name, number = version.plan.config.name, version.plan.version
        versions = self._models.get(name, {})
        if versions.get(number) is not version or version.state is not State.UNAVAILABLE:
            return
        del versions[number]
        if not versions:
            del self._models[name]
        self._unloaded.remember(number, version.snapshot())
        if name in self._removed and not versions:
            self._removed.remove(name)
            self.drop_missing(name)

    def drop_missing(self, name: str) -> None:
        """Drop a model that is no longer in the repository, unless it still serves: requests get the reason, and the index does not show it."""
        if {version.state for version in self.versions(name).values()} & _SERVING:
            return
        self._failed_plans.pop(name, None)
        self.clear_failures(name)
        for number, state in tuple(self._unloaded.of(name).items()):
            self._unloaded.remember(number, msgspec.structs.replace(state, reason=REMOVED))
        if self.versions(name):  # requests in flight are finished
            self._removed.add(name)


class UnloadedVersions:
    """The states of the versions that were unloaded last."""

    def __init__(self) -> None:
        self._models = collections.OrderedDict[str, dict[int, VersionState]]()

    def remember(self, version: int, state: VersionState) -> None:
        """Keep the state of a version that was unloaded."""
        versions = self._models.setdefault(state.name, {})
        versions[version] = state
        if len(versions) > KEPT_VERSIONS:
            del versions[min(versions)]
        self._models.move_to_end(state.name)
        if len(self._models) > KEPT_MODELS:
            self._models.popitem(last=False)

    def forget(self, name: str, version: int) -> None:
        """Drop a version that is loaded again."""
        versions = self._models.get(name, {})
        versions.pop(version, None)
        if not versions:
            self._models.pop(name, None)

    def of(self, name: str) -> dict[int, VersionState]:
        """The states of a model's unloaded versions, by number; read only."""
        return self._models.get(name, {})

    def states(self) -> list[VersionState]:
        """Every state that is kept."""
        return [state for versions in self._models.values() for state in versions.values()]

"""What the index still shows of versions that were unloaded, for a bounded number of models (row 7.3).

A server may see ever new names, one per tenant for example. So an unloaded version leaves nothing behind but its state, and only
the models that were unloaded last are remembered.
"""

import collections

from naiad.repository.version import VersionState

KEPT_MODELS = 1_000
"""Of those that were unloaded before, the index shows the name only, as of a model that was never loaded."""

KEPT_VERSIONS = 16
"""Of each model, the highest ones."""


class Unloaded:
    """The versions that were unloaded last. All of it belongs to the event loop."""

    def __init__(self) -> None:
        self._models = collections.OrderedDict[str, dict[int, VersionState]]()

    def remember(self, version: int, state: VersionState) -> None:
        """A version was unloaded."""
        versions = self._models.setdefault(state.name, {})
        versions[version] = state
        if len(versions) > KEPT_VERSIONS:
            del versions[min(versions)]
        self._models.move_to_end(state.name)
        if len(self._models) > KEPT_MODELS:
            self._models.popitem(last=False)

    def forget(self, name: str, version: int | None = None) -> None:
        """A version is loaded again, or a model (None) is not in the repository any more."""
        versions = self._models.get(name)
        if versions is None:
            return
        if version is not None:
            versions.pop(version, None)
        if version is None or not versions:
            del self._models[name]

    def of(self, name: str) -> dict[int, VersionState]:
        """The states of a model's unloaded versions, by number; do not change it."""
        return self._models.get(name, {})

    def states(self) -> list[VersionState]:
        """All that is remembered."""
        return [state for versions in self._models.values() for state in versions.values()]

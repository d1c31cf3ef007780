"""The states of unloaded versions, which the index shows, for a bounded number of models (row 7.3).

A server may load ever new names, one per tenant for example. So an unloaded version leaves only its state, and only those of
the models that were unloaded last are kept.
"""

import collections

from naiad.repository.version import VersionState

KEPT_MODELS = 1_000
"""For models that were unloaded before these, the index shows the name only, as for a model that was never loaded."""

KEPT_VERSIONS = 16
"""Per model, the highest ones."""


class Unloaded:
    """The versions that were unloaded last. All of it belongs to the event loop."""

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

    def forget(self, name: str, version: int | None = None) -> None:
        """Drop a version that is loaded again, or a model (None) that is no longer in the repository."""
        versions = self._models.get(name)
        if versions is None:
            return
        if version is not None:
            versions.pop(version, None)
        if version is None or not versions:
            del self._models[name]

    def of(self, name: str) -> dict[int, VersionState]:
        """The states of a model's unloaded versions, by number; read only."""
        return self._models.get(name, {})

    def states(self) -> list[VersionState]:
        """Every state that is kept."""
        return [state for versions in self._models.values() for state in versions.values()]

"""What a repository knows of its models: those that its stores hold, and those that it has loaded. It changes neither."""

import collections.abc
import typing

from naiad.errors import InferenceError
from naiad.repository.evictions import Evictions
from naiad.repository.model_table import ModelTable
from naiad.repository.plan import LoadedFrom
from naiad.repository.reading.reader import RepositoryReader
from naiad.repository.version import S, VersionState


class Inventory(typing.Generic[S]):
    """The models of one repository.

    Args:
        sources: see `Repository`.
    """

    def __init__(
        self,
        *,
        reader: RepositoryReader,
        table: ModelTable[S],
        evictions: Evictions[S],
        sources: collections.abc.Mapping[str, LoadedFrom | None],
    ) -> None:
        self._reader = reader
        self._table = table
        self._evictions = evictions
        self._sources = sources
        self._listed: frozenset[str] | None = None

    async def names(self) -> list[str]:
        """The models that the stores hold now, or held when they could be read last, loaded or not (row 7.2).

        Raises:
            InferenceError: no repository can be read, or could before.
        """
        if self._listed is not None:
            return sorted(self._listed)
        return (await self._reader.listing()).names()

    def list_names(self, names: collections.abc.Iterable[str]) -> None:
        """Take the names of the models that the stores held when they were polled."""
        self._listed = frozenset(names)

    async def listings(self, *, names: bool) -> list[tuple[list[VersionState], list[str]]]:
        """The states of the versions and, if `names`, the models that the stores hold: one pair per namespace.

        Raises:
            InferenceError: as `names`.
        """
        return [(self._table.states(), await self.names() if names else [])]

    def has(self, name: str) -> bool:
        """Whether a model is loaded, is being loaded or unloaded, or failed."""
        return bool(self._table.versions(name))

    def was_loaded(self, name: str) -> bool:
        """Whether a model was loaded; the table remembers those that were unloaded last."""
        return bool(self._table.unloaded(name))

    def cannot_be_read(self, name: str) -> bool:
        """Whether a model's config cannot be used."""
        return self._table.failed_plan(name) is not None

    def failed(self) -> list[str]:
        """The models of `sources` that are not loaded, although they should be."""
        return [
            name
            for name in self._sources
            if name not in self._table.loaded_from and not self._evictions.evicted(name)
        ]

    def ready_versions(self, name: str) -> list[int]:
        """The READY versions of a model, ascending; empty for an unknown model."""
        return list(self._table.ready(name))

    async def has_model(self, name: str) -> bool:
        """See `Member`."""
        if self._table.versions(name) or self._table.failed_plan(name) is not None:
            return True
        try:
            return name in await self.names()
        except InferenceError:  # the stores cannot be read, which a load of the model would say
            return False

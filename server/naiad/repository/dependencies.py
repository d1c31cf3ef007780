"""Which models depend on which others, and the order that follows from it. Pure.

A model depends on another one if it cannot work without it: while its `initialize` waits for the other one's load, and afterwards for as long as
it is loaded.
"""

import collections
import collections.abc
import graphlib

from naiad.core.cycles import cycle_through


class DependencyCycleError(Exception):
    """A dependency that would make models depend on each other.

    Attributes:
        cycle: each model depends on the next one, and the last one on the first.
    """

    def __init__(self, cycle: collections.abc.Sequence[str]) -> None:
        super().__init__(" depends on ".join(f"'{model}'" for model in (*cycle, cycle[0])))
        self.cycle = tuple(cycle)


class DependencyGraph:
    """The dependencies between models, which never form a cycle."""

    def __init__(self) -> None:
        self._needs: dict[str, collections.Counter[str]] = {}

    def add(self, model: str, needed: str) -> None:
        """Add a dependency. One that is added several times is there until it has been removed as often.

        Args:
            model: depends on the other one.
            needed: the model that it depends on.

        Raises:
            DependencyCycleError: it would close a cycle, which starts with `model`; nothing is added.
        """
        cycle = cycle_through(model, lambda node: (needed,) if node == model else self.needs(node))
        if cycle:
            raise DependencyCycleError(cycle)
        self._needs.setdefault(model, collections.Counter())[needed] += 1

    def remove(self, model: str, needed: str) -> None:
        """Remove a dependency once."""
        counts = self._needs[model]
        counts[needed] -= 1
        if not counts[needed]:
            del counts[needed]
        if not counts:
            del self._needs[model]

    def discard(self, model: str, needed: str) -> None:
        """Remove a dependency however often it was added; no effect if there is none."""
        counts = self._needs.get(model)
        if counts is not None:
            counts.pop(needed, None)
            if not counts:
                del self._needs[model]

    def drop(self, model: str) -> None:
        """Remove everything that a model depends on. Models that depend on it still do."""
        self._needs.pop(model, None)

    def needs(self, model: str) -> collections.abc.Collection[str]:
        """The models that a model depends on itself; read only."""
        return self._needs.get(model, ())

    def is_needed(self, model: str) -> bool:
        """Whether another model depends on it."""
        return any(model in needs for needs in self._needs.values())

    def unload_order(self, models: collections.abc.Iterable[str]) -> list[set[str]]:
        """Models in the order in which they can be unloaded; reversed, in an order in which they can be loaded.

        Args:
            models: the models; they may depend on each other through models that are not among them.

        Returns:
            Groups: only models of earlier groups depend on a model, so that those of one group can be unloaded at the same time.
        """
        wanted = frozenset(models)
        sorter = graphlib.TopologicalSorter[str]()
        pending, visited = list(wanted), set(wanted)
        while pending:
            model = pending.pop()
            sorter.add(model)
            for needed in self.needs(model):
                sorter.add(needed, model)
                if needed not in visited:
                    visited.add(needed)
                    pending.append(needed)
        sorter.prepare()
        groups: list[set[str]] = []
        while sorter.is_active():
            group = sorter.get_ready()
            sorter.done(*group)
            if chosen := wanted.intersection(group):
                groups.append(set(chosen))
        return groups

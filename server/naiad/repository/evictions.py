"""Models that are unloaded to make room for others, and loaded again later: which ones may be, and which ones are (`--model-memory-limit`).

An evicted model is UNAVAILABLE with the reason `evicted`; the server stays ready. All of it belongs to the event loop.
"""

import collections.abc
import functools
import typing

from naiad.repository.dependencies import DependencyGraph
from naiad.repository.lifecycle import State
from naiad.repository.model_table import ModelTable
from naiad.repository.per_model_lock import PerModelLock
from naiad.repository.plan import VersionPlan
from naiad.repository.unloads import Unloads
from naiad.repository.version import EVICTED, S, VersionState


class Evictions(typing.Generic[S]):
    """The models that are evicted.

    Args:
        table: of all models.
        unloads: unloads versions.
        locks: of the models.
        dependencies: which models need which others.
    """

    def __init__(
        self,
        *,
        table: ModelTable[S],
        unloads: Unloads[S],
        locks: PerModelLock,
        dependencies: DependencyGraph,
    ) -> None:
        self._table = table
        self._unloads = unloads
        self._locks = locks
        self._dependencies = dependencies
        self._evicted: dict[str, dict[int, VersionPlan]] = {}
        self._of_requests = set[str]()
        self.count = 0
        """Models that were evicted since the start."""

    def candidates(self) -> list[str]:
        """The models that may be evicted.

        Not one that is being loaded or unloaded, that another model needs, or that holds a config or files of a load request, which nothing could load again.
        """
        return [
            name
            for name in self._table.names()
            if name not in self._of_requests
            and self._table.ready(name)
            and not self._locks.is_busy(name)
            and not self._dependencies.is_needed(name)
        ]

    def evict(self, name: str) -> None:
        """Unload a candidate. It takes no new request from now on, and finishes those in flight."""
        self.count += 1
        versions = self._table.ready(name)
        self._evicted[name] = {number: version.plan for number, version in versions.items()}
        self._table.loaded_from.pop(name, None)
        self._dependencies.drop(name)
        for unload in self._unloads.start(versions.values(), reason=EVICTED):
            unload.add_done_callback(functools.partial(self._is_gone, name))
        self._table.choose_latest(name)

    def evicted(self, name: str) -> dict[int, VersionPlan]:
        """The versions that an evicted model had when it was loaded; empty for any other model."""
        return self._evicted.get(name, {})

    def is_ready_or_evicted(self, state: VersionState) -> bool:
        """Whether a version is READY, or was before it made room for another one."""
        return state.state is State.READY or state.reason == EVICTED

    def loaded(self, name: str, *, by_request: bool) -> None:
        """A model is loaded. `by_request`: with a config or files of the request."""
        self._evicted.pop(name, None)
        if by_request:
            self._of_requests.add(name)
        else:
            self._of_requests.discard(name)

    def unloaded(self, name: str) -> None:
        """A model is no longer wanted, or no longer in the repository."""
        self._evicted.pop(name, None)
        self._of_requests.discard(name)
        self._table.end_eviction(name)

    def load_failed(self, name: str) -> None:
        """An evicted model could not be loaded again: it stays evicted, and its requests get the error."""
        if name in self._evicted:
            self._table.drop_failed_plan(name)
            self._table.clear_failures(name, reason=EVICTED)

    def watch(self, on_change: collections.abc.Callable[[], None]) -> None:
        """Set what is called when a model may have become a candidate, or the result of `may_change` another one."""
        self._locks.on_change = on_change

    def _is_gone(self, name: str, _: object) -> None:
        if name not in self._evicted:
            # It was unloaded by request while it finished its requests.
            self._table.end_eviction(name)

    def may_change(self, waiting: set[str]) -> bool:
        """Whether memory may still become free by itself, or models candidates.

        Args:
            waiting: the models whose loads wait for memory.

        Returns:
            Whether an operation on a model is in progress that waits for none of `waiting`.
        """
        return bool(self._locks.busy_but_for(waiting))

    def is_unloading(self) -> bool:
        """Whether a version is being unloaded."""
        return self._unloads.in_progress

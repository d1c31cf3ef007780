"""Lists the stores, each in a thread of its own: one that cannot be read, or does not respond, keeps no other from being listed."""

import asyncio
import collections.abc
import concurrent.futures
import threading

import msgspec

from naiad.core.processes.inherited import be_free
from naiad.errors import InferenceError
from naiad.repository.plan import LoadedFrom
from naiad.repository.store import Store, StoredModel


class RepositoryListing(msgspec.Struct, frozen=True, kw_only=True):
    """The models that the stores hold.

    Attributes:
        models: of the stores that could be read; a name may be in several.
        failures: why the others could not be read.
        remembered: the names that those held when they could be read last.
    """

    models: list[StoredModel]
    failures: dict[Store, InferenceError]
    remembered: frozenset[str]

    def complete(self) -> list[StoredModel]:
        """The models, if every store could be read.

        Raises:
            InferenceError: why one could not be read.
        """
        for failure in self.failures.values():
            raise failure
        return self.models

    def of(self, name: str, *, current: LoadedFrom | None) -> list[StoredModel]:
        """The models of a name.

        Args:
            name: the name.
            current: what the model is loaded from; None if it is not loaded.

        Raises:
            InferenceError: a store could not be read that holds the loaded model, or that may hold one, because no other store does.
        """
        models = [model for model in self.models if model.name == name]
        if current is not None and current.model.store in self.failures:
            raise self.failures[current.model.store]
        if not models:
            self.complete()
        return models

    def names(self) -> list[str]:
        """The names of all models, those of unreadable stores as they were when they could be read last.

        Raises:
            InferenceError: nothing could be read, now or before.
        """
        names = self.remembered.union(model.name for model in self.models)
        if not names:
            self.complete()
        return sorted(names)


class StoreLister:
    """Lists one store. Calls that come while a listing runs share the next one.

    Args:
        store: the store.

    Attributes:
        store: the same.
        names: of its models, when it could be read last.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.names = frozenset[str]()
        self._thread = concurrent.futures.ThreadPoolExecutor(
            1, "repository-list", initializer=be_free
        )
        self._listing: asyncio.Future[list[str]] | None = None
        self._began = threading.Event()

    def begin(self) -> asyncio.Future[list[str]]:
        """A listing that begins now, or after the one that runs."""
        if self._listing is None or self._began.is_set():
            began = self._began = threading.Event()
            loop = asyncio.get_running_loop()
            self._listing = loop.run_in_executor(self._thread, self._list, began)
            self._listing.add_done_callback(self._listed)
        return self._listing

    def close(self) -> None:
        """Begin no further listing. One that hangs keeps its thread."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _list(self, began: threading.Event) -> list[str]:
        began.set()
        return self.store.names()

    def _listed(self, listing: asyncio.Future[list[str]]) -> None:
        # Else asyncio would log a failure that came too late for the caller.
        if not listing.cancelled() and listing.exception() is None:
            self.names = frozenset(listing.result())


def combined(
    outcomes: collections.abc.Iterable[tuple[StoreLister, list[str] | InferenceError]],
) -> RepositoryListing:
    """The listing of all stores, from the names of each or the reason why it could not be read."""
    models: list[StoredModel] = []
    failures: dict[Store, InferenceError] = {}
    remembered = frozenset[str]()
    for lister, outcome in outcomes:
        if isinstance(outcome, InferenceError):
            failures[lister.store] = outcome
            remembered |= lister.names
        else:
            models += [StoredModel(lister.store, name) for name in outcome]
    return RepositoryListing(models=models, failures=failures, remembered=remembered)

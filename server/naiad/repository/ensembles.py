"""What becomes of ensembles when a model of their steps is loaded, loaded again or unloaded (row 7.28). All of it belongs to the event loop.

An ensemble is unloaded before a model of its steps, which its requests in flight still need, and loaded again with that model. If such a model is
loaded again, the ensemble goes on with the version before until the new one is ready, and is checked against it then.
"""

import asyncio
import collections.abc
import functools
import logging
import typing

from naiad.errors import InferenceError
from naiad.repository.dependencies import DependencyGraph
from naiad.repository.model_table import ModelTable
from naiad.repository.per_model_lock import PerModelLock
from naiad.repository.plan import LoadedFrom
from naiad.repository.unloads import Unloads
from naiad.repository.version import S, Version

log = logging.getLogger("naiad.repository")

Numbers = collections.abc.Collection[int]


class Ensembles(typing.Generic[S]):
    """The ensembles that follow the models of their steps.

    Args:
        table: of all models.
        unloads: unloads versions.
        locks: of the models.
        dependencies: which models need which others.
        load: loads a model from files that were found before; its lock is held.
        namespace: of these models.
        unload_all_of: begins to unload the ensembles of all namespaces with a step of a model, of one of these versions if some are given.
    """

    def __init__(
        self,
        *,
        table: ModelTable[S],
        unloads: Unloads[S],
        locks: PerModelLock,
        dependencies: DependencyGraph,
        load: collections.abc.Callable[[LoadedFrom], collections.abc.Awaitable[None]],
        namespace: str,
        unload_all_of: collections.abc.Callable[[str, str, Numbers], set[asyncio.Task[None]]],
    ) -> None:
        self._table = table
        self._unloads = unloads
        self._locks = locks
        self._dependencies = dependencies
        self._load = load
        self._namespace = namespace
        self._unload_all_of = unload_all_of
        self._lost: dict[str, LoadedFrom] = {}
        """Those that a model of a step was unloaded under, and what they were loaded from."""
        self._outdated = set[str]()
        """Those to load again, because a model of a step was."""

    def is_loaded(self, name: str, before: collections.abc.Mapping[int, Version[S]]) -> bool:
        """A model is loaded, and what served before is given: ensembles with a step of it may have to be loaded again. Whether it has changed."""
        self._lost.pop(name, None)
        self._outdated.discard(name)
        if self._table.ready(name) == before:
            return False
        self.reload_of(name, self._namespace)
        return True

    def reload_of(self, name: str, namespace: str) -> None:
        """A model of a namespace was loaded: the ensembles with a step of it are to be loaded again."""
        self._outdated.update(self._of_model(name, namespace))
        self._outdated.update(lost for lost in self._lost if name in self._dependencies.needs(lost))

    async def load_outdated(self) -> None:
        """Load those again that have to be. One that fails serves as before, or stays without the model that it has lost."""
        while self._outdated:
            name = self._outdated.pop()
            lost = self._lost.get(name)
            source = lost or self._table.loaded_from.get(name)
            if source is None:
                continue
            before = self._table.ready(name)
            try:
                await self._locks.run(name, functools.partial(self._load_again, name, source))
            except InferenceError as error:
                log.error(  # noqa: TRY400 - the message says all
                    "ensemble '%s' could not be loaded again after a model of its steps: %s",
                    name,
                    error.message,
                )
            else:
                self.is_loaded(name, before)
                log.info("ensemble '%s' is loaded again, because a model of its steps was", name)

    async def unload_with(self, name: str) -> None:
        """Unload the ensembles with a step of a model that is to be unloaded: they take no new request from now on, and finish those in flight."""
        self._lost.pop(name, None)
        self._outdated.discard(name)
        unloads = self._unload_all_of(name, self._namespace, ())
        if unloads:
            await asyncio.wait(unloads)

    def unload_of(
        self, name: str, namespace: str, versions: Numbers = ()
    ) -> set[asyncio.Task[None]]:
        """Begin to unload the ensembles of this repository with a step of a model, and those of any with a step of these; see `unload_all_of`."""
        unloads = set[asyncio.Task[None]]()
        for ensemble in self._of_model(name, namespace, versions):
            log.warning(
                "ensemble '%s' is unloaded, because %smodel '%s' of its steps is; it is loaded again with that model",
                ensemble,
                "the version that it names of " if versions else "",
                name,
            )
            source = self._table.loaded_from.pop(ensemble, None)
            if source is not None:
                self._lost[ensemble] = source
            unloads |= self._unload_all_of(ensemble, self._namespace, ())
            unloads |= self._unloads.start(self._table.ready(ensemble).values())
            self._table.choose_latest(ensemble)
        return unloads

    async def _load_again(self, name: str, source: LoadedFrom) -> None:
        before = self._table.loaded_from.pop(name, None)  # or it would be taken as unchanged
        try:
            await self._load(source)
        except InferenceError:
            if before is not None:
                self._table.loaded_from[name] = before
            raise

    def _of_model(self, name: str, namespace: str, versions: Numbers = ()) -> list[str]:
        """The ensembles that serve and have a step of a model, of one of these versions if some are given."""
        return [
            other
            for other in self._table.names()
            if any(
                (step.model, step.namespace) == (name, namespace)
                and (not versions or step.version in versions)
                for version in self._table.ready(other).values()
                if version.plan.config.ensemble is not None
                for step in version.plan.config.ensemble.steps
            )
        ]

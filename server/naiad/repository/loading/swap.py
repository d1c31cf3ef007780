"""Replaces the versions of a model by those of a plan, in one step of the event loop (row 7.22).

New versions are loaded beside those that serve. A request finds an old version or a new one, and the old one finishes its requests. A version
for which only the number or the places of its instances change stays, and gets other instances (row 7.24). A load that fails changes nothing for
clients.
"""

import asyncio
import collections.abc
import functools
import logging
import typing

import msgspec

from naiad.config.model_config import ModelConfig
from naiad.errors import InferenceError
from naiad.repository.errors import FilesChangedError, failed_load
from naiad.repository.lifecycle import Event, State
from naiad.repository.loading.progress import LoadTable
from naiad.repository.loading.retrier import LoadRetrier
from naiad.repository.model_table import ModelTable
from naiad.repository.plan import LoadedFrom, ModelPlan, VersionPlan, untouched
from naiad.repository.polling.fingerprint import changed_paths, in_words
from naiad.repository.reading import LocalCopy, RepositoryReader
from naiad.repository.unloads import Unloads
from naiad.repository.version import UNLOADED, S, Update, Version

log = logging.getLogger("naiad.repository")

_Update = tuple[Version[S], VersionPlan, Update]


class VersionSwap(typing.Generic[S]):
    """Begins and ends the service of versions.

    Args:
        reader: of the stores.
        retrier: loads versions.
        table: of all models; changed here.
        unloads: unloads versions.
        progress: gets every change of state.
    """

    def __init__(
        self,
        *,
        reader: RepositoryReader,
        retrier: LoadRetrier[S],
        table: ModelTable[S],
        unloads: Unloads[S],
        progress: LoadTable,
    ) -> None:
        self._reader = reader
        self._retrier = retrier
        self._table = table
        self._unloads = unloads
        self._progress = progress

    async def replace(
        self,
        plan: ModelPlan,
        copy: LocalCopy,
        source: LoadedFrom,
        *,
        before: LoadedFrom | None,
        written: frozenset[str] | None,
    ) -> LoadedFrom:
        """Load the versions that changed beside those that serve; then replace these.

        Args:
            plan: the versions to serve, from `copy`.
            copy: the local folder; the caller has a use of it.
            source: the files that the plan was made from.
            before: those that the versions were loaded from that serve; None if that is not known.
            written: files that may change during the load, because the model writes them; None: do not look whether any changed.

        Returns:
            What the model is loaded from now.

        Raises:
            InferenceError: a version fails to load or to change, or its files changed meanwhile: what served before goes on serving.
        """
        name, table = plan.name, self._table
        table.drop_failed_plan(name)
        serving = table.ready(name)
        plans = {number: version.plan for number, version in serving.items()}
        # Agents may change any file.
        stay = (
            frozenset[int]()
            if plan.agents
            else untouched(plan.versions, plans, before=before, now=source)
        )
        coming = [
            Version[S](plan=version, copy=copy, replaces=bool(serving))
            for version in plan.versions
            if version.version not in stay
        ]
        self._progress.begin_versions(name, [version.plan.version for version in coming])
        updating = [
            (serving[version.version], version.config)
            for version in plan.versions
            if version.version in stay and serving[version.version].plan.config != version.config
        ]
        for version in coming:
            # The index shows the progress of a version that did not serve; one that does shows READY all the time.
            if version.plan.version not in serving:
                table.put(version)
        made = await asyncio.gather(*map(self._retrier.load, coming))
        updates: list[_Update[S]] = []
        try:
            _check_loaded(name, coming, serving=bool(serving))
            for version, config in updating:
                updates.append(await self._prepare(version, config))
            if written is not None:
                source = await self._unchanged(source, written)
        except BaseException:  # also if it is cancelled
            await asyncio.gather(*(update.discard() for _, _, update in updates))
            for version, served in zip(coming, made, strict=True):
                if served is not None:
                    # It loaded, but another version of its model did not, or not from the files that it was to be loaded from.
                    self.serve(version, served)
                    self.unload([version])
            raise
        for version, version_plan, update in updates:
            self._commit(version, version_plan, update)
        for version, served in zip(coming, made, strict=True):
            assert served is not None, "checked above"
            table.put(version)
            self.serve(version, served)
        table.choose_latest(name)
        self.unload(version for number, version in serving.items() if number not in stay)
        table.choose_latest(name)
        table.clear_failures(name)
        return source

    def serve(self, version: Version[S], served: S) -> None:
        """Begin the service of a version that is loaded."""
        version.served = served
        version.apply(Event.LOADED)
        self._progress.changed(version.snapshot())

    def unload(
        self, versions: collections.abc.Iterable[Version[S]], *, reason: str = UNLOADED
    ) -> set[asyncio.Task[None]]:
        """Unload READY versions; once a version is unloaded, only its state is kept.

        Returns:
            The task of each version, which never fails.
        """
        unloads = set[asyncio.Task[None]]()
        for version in versions:
            (task,) = self._unloads.start([version], reason=reason)
            task.add_done_callback(functools.partial(self._unloaded, version))
            unloads.add(task)
        return unloads

    def is_unloading(self) -> bool:
        """Whether a version is being unloaded."""
        return self._unloads.in_progress

    async def _prepare(self, version: Version[S], config: ModelConfig) -> "_Update[S]":
        """Prepare the update of a version that stays."""
        plan = msgspec.structs.replace(version.plan, config=config)
        try:
            return version, plan, await self._retrier.prepare(version, plan)
        except InferenceError as error:
            log.error("'%s' version %d keeps its instances: %s", config.name, plan.version, error)  # noqa: TRY400 - the message says all
            reasons = {plan.version: error.message}
            raise failed_load(config.name, reasons, serving=True, state=State.READY) from None

    def _commit(self, version: Version[S], plan: VersionPlan, update: Update) -> None:
        version.plan = plan
        words = update.commit()
        version.apply(Event.UPDATE)
        if words:
            self._progress.changed(msgspec.structs.replace(version.snapshot(), updated=words))

    def _unloaded(self, version: Version[S], _: asyncio.Task[None]) -> None:
        self._table.drop_unloaded(version)

    async def _unchanged(self, source: LoadedFrom, written: frozenset[str]) -> LoadedFrom:
        """Check that only files that the model writes changed during its load; returns what it is loaded from, with these."""
        now = await self._reader.fingerprint(source.model)
        paths = changed_paths(source.fingerprint, now)
        if paths <= written:
            return LoadedFrom(source.model, now)
        raise FilesChangedError(
            f"its files changed while it was loaded ({in_words(paths)}); it is loaded again once they have not changed for a while",
            paths=paths,
        )


def _check_loaded(
    name: str, versions: collections.abc.Iterable[Version[S]], *, serving: bool
) -> None:
    failed = {
        version.plan.version: version.reason
        for version in versions
        if version.state is State.UNAVAILABLE
    }
    if failed:
        raise failed_load(name, failed, serving=serving)

"""Polls the stores, and applies what has changed to the models that serve (control mode poll, row 7.30).

Polls follow each other and never overlap. The loads and unloads of one run in tasks of their own, so that a model whose load takes long, or hangs,
holds up no other; the polls meanwhile leave it as it is. `changes` decides what to do.

A store that cannot be read (a mount that does not respond, a bucket that is gone) changes nothing: its models stay as they are, polling goes
on, and so do the changes of other stores.
"""

import asyncio
import collections
import collections.abc
import functools
import logging
import typing

from naiad.core.clock import Clock
from naiad.errors import InferenceError
from naiad.log_text import Lines
from naiad.metrics.exposition import Sample, Series
from naiad.metrics.families import REPOSITORY_POLLS
from naiad.repository.errors import FilesChangedError
from naiad.repository.plan import LoadedFrom, ModelPlan, without_duplicates
from naiad.repository.polling.changes import (
    MAX_RETRY_NS,
    RETRY,
    Changes,
    Failure,
    Listing,
    Load,
    Waiting,
    changes,
    difference,
    failure,
    hidden,
)
from naiad.repository.polling.fingerprint import changed_paths, in_words
from naiad.repository.reading.reader import RepositoryReader
from naiad.repository.store import Store

log = logging.getLogger("naiad.repository")

_NS = 1e9

_MARGIN_SECONDS = 0.01
"""The timers of an event loop may be some milliseconds early."""


class Models(typing.Protocol):
    """The repository, as a poller changes it."""

    @property
    def sources(self) -> dict[str, LoadedFrom | None]:
        """What each model was loaded from last, failed loads included; None for one that several stores have."""
        ...

    def failed(self) -> collections.abc.Collection[str]:
        """The models of `sources` that are not loaded, although they should be."""
        ...

    def needs(self, name: str) -> collections.abc.Collection[str]:
        """The models without which a model cannot work."""
        ...

    def list_names(self, names: collections.abc.Iterable[str]) -> None:
        """Take the names of the models that the stores hold, for the index."""
        ...

    async def load_from(
        self, source: LoadedFrom, *, again: bool, written: frozenset[str]
    ) -> LoadedFrom:
        """Load a model from files that a poll has found; see `Repository.load_from`."""
        ...

    async def remove(self, name: str, *, refused: ModelPlan | None = None) -> None:
        """Unload a model that no store has any more, or that must not be served for the reason of a plan."""
        ...


class Poller:
    """Keeps the models as the stores have them.

    Args:
        reader: of the stores.
        models: the models.
        interval_seconds: from the end of a poll to the next one.
        quiet_seconds: how long the files of a changed model must stay the same before it is loaded.
        clock: measures that.
    """

    def __init__(
        self,
        *,
        reader: RepositoryReader,
        models: Models,
        interval_seconds: float,
        quiet_seconds: float,
        clock: Clock,
    ) -> None:
        self._reader = reader
        self._models = models
        self._interval_seconds = interval_seconds
        self._quiet_seconds = quiet_seconds
        self._clock = clock
        self._waiting: collections.abc.Mapping[str, Waiting] = {}
        self._unreadable: collections.abc.Mapping[str, str] = {}
        self._failures: dict[str, Failure] = {}
        self._written: dict[str, frozenset[str]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._unreadable_stores: collections.abc.Mapping[Store, InferenceError] = {}
        self._polls = collections.Counter(success=0, failure=0)
        self._polling: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to poll; on the event loop, once the models that were there at the start are loaded."""
        self._polling = asyncio.get_running_loop().create_task(self._poll_forever())

    async def aclose(self) -> None:
        """Stop polling. What the last poll has begun to change is the repository's to finish or to cancel."""
        tasks = [*self._tasks.values()]
        if self._polling is not None:
            tasks.append(self._polling)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def series(self) -> Series:
        """The number of polls."""
        return Series(
            REPOSITORY_POLLS,
            tuple(Sample((("result", result),), count) for result, count in self._polls.items()),
        )

    async def poll(self) -> None:
        """List the stores once, and begin to apply what has changed."""
        listing = await self._list()
        self._report_unreadable(listing.unreadable)
        self._models.list_names(
            {*listing.sources, *listing.refused, *listing.unreadable, *listing.hidden}
        )
        self._take_failures()
        decided = changes(
            listing,
            tried=self._models.sources,
            failures=self._failures,
            waiting=self._waiting,
            busy=self._tasks.keys(),
            needs=self._models.needs,
            now_ns=self._clock.monotonic_ns(),
            quiet_ns=round(self._quiet_seconds * _NS),
        )
        self._report_waiting(decided.waiting)
        self._waiting = decided.waiting
        self._apply(decided)

    async def applied(self) -> None:
        """Wait until everything is applied that polls have found."""
        while self._tasks:
            await asyncio.wait(self._tasks.values())

    async def _poll_forever(self) -> None:
        while True:
            # A change that has not settled yet is looked at again as soon as it can have.
            quiet = self._quiet_seconds + _MARGIN_SECONDS
            seconds = (
                min(self._interval_seconds, quiet) if self._waiting else self._interval_seconds
            )
            await asyncio.sleep(seconds)
            await self.poll()

    async def _list(self) -> Listing:
        listing = await self._reader.listing()
        unique, refused = without_duplicates(listing.models)
        scan = await self._reader.scan(unique)
        failures = listing.failures | scan.stores
        self._report_stores(failures)
        return Listing(
            sources={
                model.name: LoadedFrom(model, scan.fingerprints[model.name])
                for model in unique
                if model.name in scan.fingerprints
            },
            refused={plan.name: plan for plan in refused},
            unreadable=scan.failed,
            hidden={
                *listing.remembered,
                *(model.name for model in unique if model.store in failures),
                *hidden(self._models.sources, failures),
            },
        )

    def _report_stores(self, failures: collections.abc.Mapping[Store, InferenceError]) -> None:
        self._polls["failure" if failures else "success"] += 1
        for store in self._unreadable_stores:
            if store not in failures:
                log.info("poll: %s can be read again", store.location)
        for store, error in failures.items():
            if store not in self._unreadable_stores:
                log.error(
                    "poll: the model repository cannot be read: %s. Its models stay as they are, and polling goes on every %g s; this is logged once",
                    error.message,
                    self._interval_seconds,
                )
        self._unreadable_stores = failures

    def _take_failures(self) -> None:
        """Take the models that failed to load without this poller: at the start."""
        for name in self._models.failed():
            source = self._models.sources[name]
            if source is not None and name not in self._failures and name not in self._tasks:
                self._load_failed(source, "")
                log.warning(
                    "poll: model '%s' has failed to load; %s",
                    name,
                    self._retries(),
                    extra={"model": name},
                )

    def _load_failed(self, source: LoadedFrom, reason: str) -> None:
        name = source.model.name
        self._failures[name] = failure(
            self._failures.get(name),
            source,
            reason,
            now_ns=self._clock.monotonic_ns(),
            interval_ns=round(self._interval_seconds * _NS),
        )

    def _retries(self) -> str:
        longest = MAX_RETRY_NS / _NS
        first = min(self._interval_seconds, longest)
        return f"it is tried again when something changes, and after {first:g} s, then less and less often until every {longest:g} s"

    def _report_unreadable(self, unreadable: collections.abc.Mapping[str, str]) -> None:
        for name, reason in unreadable.items():
            if name not in self._unreadable:
                log.error("poll: model '%s' stays as it is: %s", name, Lines(reason))
        self._unreadable = unreadable

    def _report_waiting(self, waiting: collections.abc.Mapping[str, Waiting]) -> None:
        for name, entry in waiting.items():
            if name not in self._waiting:
                log.info(
                    "poll: model '%s' waits until its files have not changed for %g s, because %s",
                    name,
                    self._quiet_seconds,
                    difference(self._models.sources.get(name), entry.source),
                    extra={"model": name},
                )

    def _apply(self, decided: Changes) -> None:
        for name in decided.unloads:
            self._begin(name, self._unload(name))
        for name, plan in decided.refused.items():
            self._begin(name, self._refuse(plan))
        for name in self._in_order(decided.loads):
            load = decided.loads[name]
            first = [self._tasks[needed] for needed in load.after]
            self._begin(name, self._load(load, first))

    def _in_order(self, loads: collections.abc.Mapping[str, Load]) -> list[str]:
        """The names of models, each after those that it needs."""
        order = dict[str, None]()
        while len(order) < len(loads):
            order |= dict.fromkeys(
                name for name, load in loads.items() if load.after <= order.keys()
            )
        return list(order)

    def _begin(self, name: str, change: collections.abc.Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(change)
        self._tasks[name] = task
        task.add_done_callback(functools.partial(self._ended, name))

    def _ended(self, name: str, task: "asyncio.Task[None]") -> None:
        del self._tasks[name]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("poll: changing model '%s' failed", name, exc_info=error)

    async def _unload(self, name: str) -> None:
        del self._models.sources[name]
        self._failures.pop(name, None)
        await self._models.remove(name)
        log.info(
            "poll: model '%s' is gone from %s: unloaded",
            name,
            self._reader.locations,
            extra={"model": name},
        )

    async def _refuse(self, plan: ModelPlan) -> None:
        self._models.sources[plan.name] = None
        self._failures.pop(plan.name, None)
        await self._models.remove(plan.name, refused=plan)
        log.error(
            "poll: model '%s' is not served: %s",
            plan.name,
            Lines(plan.details),
            extra={"model": plan.name},
        )

    async def _load(
        self, load: Load, first: collections.abc.Collection["asyncio.Task[None]"]
    ) -> None:
        if first:
            await asyncio.wait(first)
        source, name = load.source, load.source.model.name
        before = self._models.sources.get(name)
        self._models.sources[name] = source
        extra = {"model": name}
        try:
            loaded = await self._models.load_from(
                source, again=load.again, written=self._written.pop(name, frozenset())
            )
        except FilesChangedError as error:
            # The next poll finds the same change again.
            if before is None:
                del self._models.sources[name]
            else:
                self._models.sources[name] = before
            self._written[name] = error.paths
            log.warning(
                "poll: model '%s' stays as it was (%s): %s",
                name,
                load.why,
                Lines(error.message),
                extra=extra,
            )
        except InferenceError as error:
            before_it = self._failures.get(name)
            self._load_failed(source, error.message)
            is_same = before_it is not None and before_it.reason in ("", error.message)
            if load.why != RETRY or not is_same:
                log.error(  # noqa: TRY400 - the message says all
                    "poll: model '%s' failed to load (%s); %s. The reason: %s",
                    name,
                    load.why,
                    self._retries(),
                    Lines(error.message),
                    extra=extra,
                )
        else:
            self._failures.pop(name, None)
            log.info("poll: model '%s' is loaded, because %s", name, load.why, extra=extra)
            if loaded != source:
                self._take_written(source, loaded)

    def _take_written(self, source: LoadedFrom, loaded: LoadedFrom) -> None:
        """A model that changes its files whenever it is loaded would be loaded again for ever."""
        name = source.model.name
        self._models.sources[name] = loaded
        log.warning(
            "poll: model '%s' changes its files whenever it is loaded (%s); they count as unchanged now. Let it write to a folder outside of "
            "the repository",
            name,
            in_words(changed_paths(source.fingerprint, loaded.fingerprint)),
            extra={"model": name},
        )

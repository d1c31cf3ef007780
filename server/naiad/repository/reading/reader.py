"""Reads the model repositories in its own threads, with a timeout: a mount that hangs blocks neither requests nor the server.

A system call into a mount that hangs cannot be cancelled. So its thread is abandoned, the number of these threads is bounded, and no
other work uses them. While one hangs, further listings and scans of its store fail at once.

It also owns the local copies of models until the last version that was loaded from a copy has been unloaded.
"""

import asyncio
import collections.abc
import concurrent.futures
import contextlib
import itertools
import logging
import pathlib
import time
import typing

import msgspec

from naiad.core.processes.inherited import be_free
from naiad.errors import InferenceError, internal, unavailable
from naiad.repository.agents.actions import AgentEvent
from naiad.repository.agents.session import AgentSession
from naiad.repository.polling.fingerprint import Fingerprint
from naiad.repository.reading.listing import RepositoryListing, StoreLister, combined
from naiad.repository.store import BatchStore, Checkout, OnBytes, Store, StoredModel, no_bytes
from naiad.repository.stores.address import DOWNLOADED_WHOLE, scheme

log = logging.getLogger("naiad.repository")

TIMEOUT_SECONDS = 30.0
"""Large repositories on slow disks take a second."""

_SCAN_THREADS = 8
_SCANNED_TOGETHER = 64
"""Models of one call of a poll: few enough for the timeout, and many enough that the event loop is woken up seldom."""

_CHECKOUT_THREADS = 64
"""More than the models that load at the same time; checkouts beyond that wait."""

_PAUSE_SECONDS = 0.0005
"""Between two models of a poll, for whose scan the interpreter lock is taken: the event loop gets it meanwhile."""

_Result = typing.TypeVar("_Result")


class Scan(msgspec.Struct, frozen=True):
    """What models consist of.

    Attributes:
        fingerprints: by name.
        failed: why models have none, by name.
        stores: why the models of a store are missing in both.
    """

    fingerprints: dict[str, Fingerprint]
    failed: dict[str, str]
    stores: dict[Store, InferenceError]


class LocalCopy:
    """A model's local folder, shared by the versions that were loaded from it. All of it belongs to the event loop.

    A copy starts with one use, which belongs to the caller of `RepositoryReader.checkout`; `share` adds one. The last `release` ends the checkout.

    Args:
        checkout: the folder.
        end: called with the last release.
        address: of the model in an object store; "" for a folder of this machine.
    """

    def __init__(
        self,
        checkout: Checkout,
        end: collections.abc.Callable[["LocalCopy"], None],
        *,
        address: str = "",
    ) -> None:
        self.folder: pathlib.Path = checkout.folder
        self.checkout = checkout
        self.agents: AgentSession | None = None
        self._end = end
        self._address = address
        self._uses = 1

    def share(self) -> "LocalCopy":
        """Add a use."""
        assert self._uses, "a copy that nothing uses any more cannot be shared"
        self._uses += 1
        return self

    def for_people(self, message: str) -> str:
        """A message about the model's files: they are to be changed in the store, and not in this folder."""
        return (
            message.replace(str(self.checkout.folder), self._address) if self._address else message
        )

    async def notify(self, event: AgentEvent) -> None:
        """Call the model's repository agents, if it has any."""
        if self.agents is not None:
            await self.agents.apply(event)

    def release(self) -> None:
        """End one use."""
        assert self._uses, "each use ends once"
        self._uses -= 1
        if not self._uses:
            self._end(self)


class RepositoryReader:
    """The stores, as the event loop sees them.

    Args:
        stores: where models live.
        timeout_seconds: limit of a listing, and of the scan of a model; None: no limit.
    """

    def __init__(
        self,
        stores: collections.abc.Sequence[Store],
        *,
        timeout_seconds: float | None = TIMEOUT_SECONDS,
    ) -> None:
        self._timeout_seconds = timeout_seconds
        self._listers = [StoreLister(store) for store in stores]
        self._scanners = concurrent.futures.ThreadPoolExecutor(
            _SCAN_THREADS, "repository-scan", initializer=be_free
        )
        self._checkouts = concurrent.futures.ThreadPoolExecutor(
            _CHECKOUT_THREADS, "repository-checkout", initializer=be_free
        )
        self._late: dict[Store, asyncio.Future[typing.Any]] = {}
        """Calls that did not end in time."""
        self._copies = set[LocalCopy]()
        self._releases = set[asyncio.Future[None]]()

    @property
    def locations(self) -> str:
        """The locations of all stores, for messages."""
        return ", ".join(lister.store.location for lister in self._listers)

    def not_found_reason(self) -> str:
        """Why a model is not loaded that no store has."""
        return f"model not found in any model repository; looked in {self.locations}"

    async def models(self) -> list[StoredModel]:
        """The models of all stores, for the start of the server; a name may be in several.

        Archives and images are downloaded first, without a timeout: their requests have one.

        Raises:
            InferenceError: a repository cannot be read; UNAVAILABLE when it does not answer in time.
        """
        return (await self.listing(at_start=True)).complete()

    async def listing(self, *, at_start: bool = False) -> RepositoryListing:
        """What the stores hold; `at_start`: see `models`."""
        listers = self._listers
        outcomes = await asyncio.gather(
            *(self._listed(lister, at_start=at_start) for lister in listers)
        )
        return combined(zip(listers, outcomes, strict=True))

    async def fingerprint(self, model: StoredModel, *, at_start: bool = False) -> Fingerprint:
        """The fingerprint of a model; `at_start`: without a timeout.

        Raises:
            InferenceError: it cannot be read; UNAVAILABLE when its store does not answer in time.
        """
        scan = self._scan(model)
        return await (scan if at_start else self._in_time(scan, model.location))

    async def scan(self, models: collections.abc.Sequence[StoredModel]) -> Scan:
        """The fingerprints of many models for a poll, in one thread at a time, with the timeout for each part of them."""
        result = Scan({}, {}, {})
        loop = asyncio.get_running_loop()
        for store, models_of_store in itertools.groupby(models, lambda model: model.store):
            names = [model.name for model in models_of_store]
            try:
                for start in range(0, len(names), _SCANNED_TOGETHER):
                    part = names[start : start + _SCANNED_TOGETHER]
                    self._check_responds(store)
                    scan = loop.run_in_executor(self._scanners, _scan_all, store, part)
                    outcomes = await self._in_time(scan, store.location, store)
                    for name, outcome in zip(part, outcomes, strict=True):
                        if isinstance(outcome, InferenceError):
                            result.failed[name] = outcome.message
                        else:
                            result.fingerprints[name] = outcome
            except Exception as error:  # noqa: BLE001 - whatever one store raises, the others are read
                result.stores[store] = _as_inference_error(error)
        return result

    async def checkout(self, model: StoredModel, on_bytes: OnBytes = no_bytes) -> LocalCopy:
        """Make a model available as a local folder; the caller has one use of it. It may take as long as a download.

        Args:
            model: the model.
            on_bytes: called in a thread during the download.

        Raises:
            InferenceError: it cannot be read.
        """
        work = self._checkouts.submit(model.store.checkout, model.name, on_bytes)
        try:
            checkout = await asyncio.wrap_future(work)
        except asyncio.CancelledError:
            work.add_done_callback(_release_unused)
            raise
        address = model.location if scheme(model.location) else ""
        copy = LocalCopy(checkout, self._end, address=address)
        self._copies.add(copy)
        return copy

    async def aclose(self) -> None:
        """Begin nothing more, and release every copy that is left; do not wait for reads that hang."""
        for copy in tuple(self._copies):
            self._end(copy)
        if self._releases:
            await asyncio.wait(self._releases)
        self.close()

    def close(self) -> None:
        """Begin nothing more: its threads end after what they do now."""
        for executor in (self._scanners, self._checkouts):
            executor.shutdown(wait=False, cancel_futures=True)
        for lister in self._listers:
            lister.close()

    def _end(self, copy: LocalCopy) -> None:
        self._copies.discard(copy)
        if copy.checkout.release is None and copy.agents is None:
            return
        work = asyncio.ensure_future(self._release(copy))
        self._releases.add(work)
        work.add_done_callback(self._releases.discard)

    async def _release(self, copy: LocalCopy) -> None:
        await copy.notify(AgentEvent.END)
        if copy.checkout.release is not None:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._checkouts, _release, copy.checkout)

    def _scan(self, model: StoredModel) -> asyncio.Future[Fingerprint]:
        loop = asyncio.get_running_loop()
        return loop.run_in_executor(self._scanners, model.store.fingerprint, model.name)

    async def _listed(self, lister: StoreLister, *, at_start: bool) -> list[str] | InferenceError:
        store = lister.store
        try:
            self._check_responds(store)
            listing = lister.begin()
            if at_start and scheme(store.location) in DOWNLOADED_WHOLE:
                await asyncio.wait({listing})
            return await self._in_time(listing, store.location, store)
        except Exception as error:  # noqa: BLE001 - whatever one store raises, the others are read
            return _as_inference_error(error)

    def _check_responds(self, store: Store) -> None:
        """Check that no call to a store hangs.

        Raises:
            InferenceError: UNAVAILABLE: one does.
        """
        late = self._late.pop(store, None)
        if late is not None and not late.done():
            self._late[store] = late
            raise self._no_response(store.location)

    async def _in_time(
        self, work: asyncio.Future[_Result], what: str, store: Store | None = None
    ) -> _Result:
        """The result of a call; `store`: none of its listings and scans is begun while this one hangs."""
        await asyncio.wait({work}, timeout=self._timeout_seconds)
        if work.done() and not work.cancelled():  # `aclose` cancels what has not begun
            return work.result()
        if store is None:
            # One that has not begun would wait behind those that hang, and each further load would add one more.
            work.cancel()
        else:
            self._late[store] = work
        raise self._no_response(what)

    def _no_response(self, what: str) -> InferenceError:
        return unavailable(
            f"{what} could not be read within {self._timeout_seconds:g} s: the disk, mount or object store does not "
            "respond; check it and try again"
        )


def _scan_all(
    store: Store, names: collections.abc.Sequence[str]
) -> list[Fingerprint | InferenceError]:
    if isinstance(store, BatchStore):
        return store.fingerprints(names)
    outcomes: list[Fingerprint | InferenceError] = []
    for name in names:
        try:
            outcomes.append(store.fingerprint(name))
        except InferenceError as error:
            outcomes.append(error)
        time.sleep(_PAUSE_SECONDS)
    return outcomes


def _as_inference_error(error: Exception) -> InferenceError:
    if isinstance(error, InferenceError):
        return error
    log.error("reading a model repository failed", exc_info=error)
    return internal(f"reading the model repository failed: {type(error).__name__}: {error}")


def _release(checkout: Checkout) -> None:
    assert checkout.release is not None, "there is something to release"
    try:
        checkout.release()
    except Exception:
        log.exception("releasing the local copy %s failed", checkout.folder)


def _release_unused(work: "concurrent.futures.Future[Checkout]") -> None:
    """Release a checkout that was completed after its caller had been cancelled; in the thread that made it."""
    with contextlib.suppress(Exception):
        checkout = work.result()
        if checkout.release is not None:
            _release(checkout)

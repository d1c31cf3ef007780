"""Reading the stores: listings are shared and fresh, and a store that hangs keeps nothing but its own calls."""

import asyncio
import collections.abc
import threading
import typing

import pytest
from typing_extensions import override

from naiad.errors import ErrorCode, InferenceError
from naiad.repository.polling.fingerprint import Fingerprint
from naiad.repository.reading.reader import RepositoryReader
from naiad.repository.store import Store, StoredModel
from tests.server.repository.stores import FakeStore
from tests.support.waiting import until

WAIT_S = 60


class SlowStore(FakeStore):
    """A store whose listings wait until they may go on."""

    def __init__(self) -> None:
        super().__init__("/mnt/slow", "a")
        self.begun = threading.Semaphore(0)
        self.may_end = threading.Semaphore(0)
        self.listings = 0

    @override
    def names(self) -> list[str]:
        self.listings += 1
        found = super().names()
        self.begun.release()
        assert self.may_end.acquire(timeout=WAIT_S)
        return found


@pytest.fixture
def store() -> collections.abc.Iterator[SlowStore]:
    store = SlowStore()
    yield store
    for _ in range(100):
        store.may_end.release()


class Impatient(RepositoryReader):
    """Waits a moment only for what hangs, which is in /mnt/slow, and for all else as long as a busy machine takes."""

    @override
    async def _in_time(
        self, work: asyncio.Future[typing.Any], what: str, store: Store | None = None
    ) -> typing.Any:
        hangs = what.startswith(("/mnt/slow", "https://"))
        self._timeout_seconds = 0.01 if hangs else WAIT_S
        return await super()._in_time(work, what, store)


async def listed(reader: RepositoryReader) -> list[StoredModel]:
    return (await reader.listing()).complete()


async def begun(store: SlowStore) -> None:
    assert await asyncio.to_thread(store.begun.acquire, timeout=WAIT_S)


async def test_calls_during_a_listing_share_one_that_begins_after_it(store: SlowStore) -> None:
    reader = RepositoryReader([store])
    first = asyncio.create_task(listed(reader))
    await begun(store)
    store.times["b"] = {}  # after the first has looked
    later = [asyncio.create_task(listed(reader)) for _ in range(5)]
    await asyncio.sleep(0)
    store.may_end.release()
    assert [model.name for model in await first] == ["a"]
    await begun(store)
    store.may_end.release()
    for each in later:
        assert [model.name for model in await each] == ["a", "b"]
    assert store.listings == 2
    await reader.aclose()


async def test_a_store_that_hangs_ends_the_call_and_keeps_one_thread(store: SlowStore) -> None:
    reader = Impatient([store])
    for _ in range(20):
        with pytest.raises(InferenceError, match="/mnt/slow could not be read within") as caught:
            await listed(reader)
        assert caught.value.code is ErrorCode.UNAVAILABLE
    await begun(store)
    assert store.listings == 1
    # Other work in threads goes on, also the scan of a model.
    assert await asyncio.to_thread(lambda: "done") == "done"
    assert await reader.fingerprint(StoredModel(FakeStore("/r", "m"), "m"))
    await reader.aclose()


async def test_an_archive_is_waited_for_at_the_start_only(store: SlowStore) -> None:
    store.location = "https://host/models.tar.gz"
    reader = Impatient([store])
    start = asyncio.create_task(reader.models())
    await begun(store)
    with pytest.raises(InferenceError, match="could not be read within"):
        await listed(reader)
    assert not start.done()
    store.may_end.release()
    assert [model.name for model in await start] == ["a"]
    store.may_end.release()
    await reader.aclose()


async def test_once_it_answers_again_so_does_the_reader(store: SlowStore) -> None:
    reader = Impatient([store])
    with pytest.raises(InferenceError):
        await listed(reader)
    for _ in range(10):
        store.may_end.release()
    patient = RepositoryReader([store])
    assert [model.name for model in await listed(patient)] == ["a"]
    while True:
        try:
            assert [model.name for model in await listed(reader)] == ["a"]
        except InferenceError:
            continue
        break
    await reader.aclose()
    await patient.aclose()


class HangingModels(FakeStore):
    """A store whose models cannot be scanned until `may_end` is set."""

    def __init__(self, location: str, *names: str) -> None:
        super().__init__(location, *names)
        self.may_end = threading.Event()
        self.scanned: list[str] = []

    @override
    def fingerprint(self, name: str) -> Fingerprint:
        self.scanned.append(name)
        assert self.may_end.wait(WAIT_S)
        return super().fingerprint(name)


async def test_the_scan_of_a_model_that_hangs_ends_too() -> None:
    store = HangingModels("/mnt/slow", "m")
    reader = Impatient([store])
    with pytest.raises(InferenceError, match="/mnt/slow/m could not be read within"):
        await reader.fingerprint(StoredModel(store, "m"))
    store.may_end.set()
    await reader.aclose()


async def test_a_poll_scans_many_models_and_one_that_cannot_be_read_stops_no_other() -> None:
    class Forbidding(FakeStore):
        @override
        def fingerprint(self, name: str) -> Fingerprint:
            if name == "m7":
                raise InferenceError(ErrorCode.INVALID_ARG, "no permission")
            return super().fingerprint(name)

    names = [f"m{number}" for number in range(150)]
    store = Forbidding("/r", *names)
    reader = RepositoryReader([store])
    scan = await reader.scan([StoredModel(store, name) for name in names])
    assert scan.failed == {"m7": "no permission"}
    assert sorted(scan.fingerprints) == sorted(set(names) - {"m7"})
    await reader.aclose()


async def test_a_poll_of_a_store_that_hangs_ends_and_scans_the_others() -> None:
    hanging, other = HangingModels("/mnt/slow", "m"), FakeStore("/r", "other")
    reader = Impatient([hanging, other])
    models = [StoredModel(hanging, "m"), StoredModel(other, "other")]
    for _ in range(20):
        scan = await reader.scan(models)
        assert "/mnt/slow could not be read within" in scan.stores[hanging].message
    await until(lambda: hanging.scanned)
    assert hanging.scanned == ["m"]
    hanging.may_end.set()
    await reader.aclose()


class BrokenStore(FakeStore):
    """A store that can be read unless `broken` says why not."""

    broken: Exception | None = None

    @override
    def names(self) -> list[str]:
        if self.broken is not None:
            raise self.broken
        return super().names()


async def test_a_store_that_cannot_be_read_does_not_keep_others_from_being_listed() -> None:
    broken, other = BrokenStore("/gone", "a", "b"), FakeStore("/r", "c")
    reader = RepositoryReader([broken, other])
    await listed(reader)
    broken.broken = RuntimeError("a defect of the store")
    listing = await reader.listing()
    assert [model.location for model in listing.models] == ["/r/c"]
    assert "a defect of the store" in listing.failures[broken].message
    assert listing.names() == ["a", "b", "c"]
    with pytest.raises(InferenceError, match="a defect of the store"):
        await reader.models()
    await reader.aclose()


async def test_no_store_waits_for_one_that_hangs(store: SlowStore) -> None:
    reader = Impatient([store, FakeStore("/r", "b")])
    for _ in range(20):
        listing = await reader.listing()
        assert [model.location for model in listing.models] == ["/r/b"]
        assert "/mnt/slow could not be read within" in listing.failures[store].message
    await begun(store)
    assert store.listings == 1
    await reader.aclose()


async def test_a_failure_reaches_every_caller_and_the_next_call_tries_again() -> None:
    class Failing(FakeStore):
        failures = 2

        @override
        def names(self) -> list[str]:
            if self.failures:
                self.failures -= 1
                raise InferenceError(ErrorCode.INVALID_ARG, "no such folder")
            return []

    reader = RepositoryReader([Failing()])
    results = await asyncio.gather(*(listed(reader) for _ in range(3)), return_exceptions=True)
    assert [str(result) for result in results] == ["no such folder"] * 3
    assert await listed(reader) == []
    await reader.aclose()


async def test_scans_that_have_not_begun_are_not_kept_behind_those_that_hang() -> None:
    names = [str(number) for number in range(20)]
    store = HangingModels("/mnt/slow", *names)
    reader = Impatient([store])
    for name in names:
        with pytest.raises(InferenceError, match="could not be read within"):
            await reader.fingerprint(StoredModel(store, name))
    await asyncio.sleep(0)  # a cancelled future tells its thread pool in the loop's next turn
    store.may_end.set()
    await asyncio.to_thread(reader._scanners.shutdown)
    assert len(store.scanned) <= 8

"""Reading the stores: listings are shared and fresh, and a store that hangs keeps nothing but its own calls."""

import asyncio
import collections.abc
import pathlib
import threading

import pytest

from naiad.errors import ErrorCode, InferenceError
from naiad.repository.fingerprint import Fingerprint
from naiad.repository.reading import RepositoryReader

WAIT_S = 60


class SlowStore:
    """A store whose listings wait until they may go on."""

    location = "/mnt/slow"

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.may_end = threading.Semaphore(0)
        self.listings = 0
        self.names = ["a"]

    def model_folders(self) -> list[pathlib.Path]:
        self.listings += 1
        found = [pathlib.Path("/mnt/slow", name) for name in self.names]
        self.begun.release()
        assert self.may_end.acquire(timeout=WAIT_S)
        return found


@pytest.fixture
def store() -> collections.abc.Iterator[SlowStore]:
    store = SlowStore()
    yield store
    for _ in range(100):
        store.may_end.release()


async def begun(store: SlowStore) -> None:
    assert await asyncio.to_thread(store.begun.acquire, timeout=WAIT_S)


async def test_calls_during_a_listing_share_one_that_begins_after_it(store: SlowStore) -> None:
    reader = RepositoryReader([store])
    first = asyncio.create_task(reader.folders())
    await begun(store)
    store.names.append("b")  # after the first has looked
    later = [asyncio.create_task(reader.folders()) for _ in range(5)]
    await asyncio.sleep(0)
    store.may_end.release()
    assert [path.name for path in await first] == ["a"]
    await begun(store)
    store.may_end.release()
    for each in later:
        assert [path.name for path in await each] == ["a", "b"]
    assert store.listings == 2
    reader.close()


async def test_a_store_that_hangs_ends_the_call_and_keeps_one_thread(store: SlowStore) -> None:
    reader = RepositoryReader([store], timeout_seconds=0.01)
    for _ in range(20):
        with pytest.raises(InferenceError, match="/mnt/slow could not be read within") as caught:
            await reader.folders()
        assert caught.value.code is ErrorCode.UNAVAILABLE
    assert store.listings == 1
    # What else runs in threads goes on, also a look at another folder.
    assert await asyncio.to_thread(lambda: "done") == "done"
    assert await RepositoryReader([]).fingerprint(pathlib.Path("/nowhere")) == {}
    reader.close()


async def test_once_it_answers_again_so_does_the_reader(store: SlowStore) -> None:
    reader = RepositoryReader([store], timeout_seconds=0.01)
    with pytest.raises(InferenceError):
        await reader.folders()
    for _ in range(10):
        store.may_end.release()
    patient = RepositoryReader([store])
    assert [path.name for path in await patient.folders()] == ["a"]
    while True:
        try:
            assert [path.name for path in await reader.folders()] == ["a"]
        except InferenceError:
            continue
        break
    reader.close()
    patient.close()


async def test_a_look_at_a_folder_that_hangs_ends_too() -> None:
    may_end = threading.Event()

    def look(folder: pathlib.Path) -> dict[str, frozenset[tuple[str, int, int]]]:
        assert may_end.wait(WAIT_S)
        return {}

    reader = RepositoryReader([], look=look, timeout_seconds=0.01)
    with pytest.raises(InferenceError, match="/m could not be read within"):
        await reader.fingerprint(pathlib.Path("/m"))
    may_end.set()
    reader.close()


async def test_a_failure_reaches_every_caller_and_the_next_call_tries_again() -> None:
    class Failing:
        location = "/mnt/gone"
        failures = 2

        def model_folders(self) -> list[pathlib.Path]:
            if self.failures:
                self.failures -= 1
                raise InferenceError(ErrorCode.INVALID_ARG, "no such folder")
            return []

    reader = RepositoryReader([Failing()])
    results = await asyncio.gather(*(reader.folders() for _ in range(3)), return_exceptions=True)
    assert [str(each) for each in results] == ["no such folder"] * 3
    assert await reader.folders() == []
    reader.close()


async def test_looks_that_have_not_begun_are_not_kept_behind_those_that_hang() -> None:
    may_end, looked = threading.Event(), list[pathlib.Path]()

    def look(folder: pathlib.Path) -> Fingerprint:
        looked.append(folder)
        assert may_end.wait(WAIT_S)
        return {}

    reader = RepositoryReader([], look=look, timeout_seconds=0.01)
    for number in range(20):
        with pytest.raises(InferenceError, match="could not be read within"):
            await reader.fingerprint(pathlib.Path(f"/mnt/slow/{number}"))
    await asyncio.sleep(0)  # a cancelled future tells its thread pool in the loop's next turn
    may_end.set()
    await asyncio.to_thread(reader._lookers.shutdown)
    assert len(looked) <= 8

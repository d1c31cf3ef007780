"""The repository with models in memory: which version serves, and the errors if none does (rows 2.8, 7.2-7.6, 7.32)."""

import asyncio
import pathlib
import threading
from collections.abc import Collection
from typing import Any

import pytest
from typing_extensions import override

from naiad.core.clock import ManualClock
from naiad.errors import ErrorCode, InferenceError, internal, invalid, unavailable
from naiad.metrics.memory import MemoryUsage
from naiad.repository.lifecycle import State
from naiad.repository.manager import Repository, VersionState
from naiad.repository.plan import DUPLICATE, ModelPlan, VersionPlan
from naiad.repository.polling.fingerprint import Fingerprint
from naiad.repository.reading.reader import RepositoryReader
from naiad.repository.requests.coordination import Coordination
from naiad.repository.requests.overrides import Value
from naiad.repository.version import Update
from tests.server.repository.stores import FakeStore
from tests.support.waiting import until


class FakeServed:
    """A served version that remembers whether it was stopped."""

    leaves_cycles = False
    memory: tuple[MemoryUsage, ...] = ()

    def __init__(self, title: str, *, fails_to_stop: bool = False) -> None:
        self.title = title
        self.stopped = False
        self._fails_to_stop = fails_to_stop

    async def prepare(self, plan: VersionPlan) -> Update:
        raise NotImplementedError

    async def stop(self) -> None:
        self.stopped = True
        if self._fails_to_stop:
            raise RuntimeError("no")


class Recorder:
    def __init__(self) -> None:
        self.seen: list[tuple[str, int | None, State]] = []

    def starting(self, models: Collection[str]) -> None:
        pass

    def planned(self, plan: ModelPlan) -> None:
        pass

    def changed(self, state: VersionState) -> None:
        self.seen.append((state.name, state.version, state.state))


class Config:
    """As much of a ModelConfig as the repository reads."""

    ensemble = None

    def __init__(self, name: str) -> None:
        self.name = name


def make(
    *stores: FakeStore,
    versions: dict[str, tuple[int, ...]] | None = None,
    failures: dict[tuple[str, int], list[Exception]] | None = None,
    refusals: dict[str, Exception | str] | None = None,
    threads: int = 4,
    retries: int = 0,
    recorder: Recorder | None = None,
) -> Repository[FakeServed]:
    """A repository of scripted models; `failures` are raised one per attempt."""

    async def resolve(folder: pathlib.Path, _: Value | None) -> ModelPlan:
        refusal = (refusals or {}).get(folder.name)
        if isinstance(refusal, Exception):
            raise refusal
        if refusal is not None:
            return ModelPlan(name=folder.name, reason=refusal)
        config: Any = Config(folder.name)
        numbers = (versions or {}).get(folder.name, (1,))
        return ModelPlan(
            name=folder.name,
            versions=tuple(
                VersionPlan(config=config, version=number, model_dir=folder) for number in numbers
            ),
        )

    async def load(plan: VersionPlan) -> FakeServed:
        waiting = (failures or {}).get((plan.config.name, plan.version), [])
        if waiting:
            raise waiting.pop(0)
        return FakeServed(f"{plan.config.name}/{plan.version}")

    return Repository(
        reader=RepositoryReader(stores, timeout_seconds=None),
        resolve=resolve,
        load=load,
        coordination=Coordination(threads),
        retry_count=retries,
        progress=recorder or Recorder(),
        clock=ManualClock(),
    )


async def test_the_highest_ready_version_is_the_default() -> None:
    repository = make(FakeStore("/r", "m"), versions={"m": (1, 2, 3)})
    await repository.load_all()
    assert repository.get("m").title == "m/3"
    assert repository.get("m", 1).title == "m/1"
    assert repository.ready_versions("m") == [1, 2, 3]
    assert [(name, number) for name, number, _ in repository.served()] == [
        ("m", 1), ("m", 2), ("m", 3),
    ]  # fmt: skip


async def test_a_model_of_which_one_version_fails_at_the_start_is_not_served() -> None:
    repository = make(
        FakeStore("/r", "m", "n"),
        versions={"m": (1, 3)},
        failures={("m", 3): [internal("broken file")]},
    )
    assert not await repository.load_all()
    expected = [
        ("m", 1, State.UNAVAILABLE, "unloaded"),
        ("m", 3, State.UNAVAILABLE, "broken file"),
        ("n", 1, State.READY, ""),
    ]
    await until(
        lambda: [(s.name, s.version, s.state, s.reason) for s in repository.states()] == expected
    )
    with pytest.raises(InferenceError, match="has no available versions") as caught:
        repository.get("m")
    assert caught.value.code is ErrorCode.NOT_FOUND


@pytest.mark.parametrize(
    ("name", "version", "code", "fragment"),
    [
        ("x", -1, ErrorCode.NOT_FOUND, "Request for unknown model: 'x' is not found"),
        ("m", 9, ErrorCode.NOT_FOUND, "'m' version 9 is not found"),
        ("m", 2, ErrorCode.UNAVAILABLE, "'m' version 2 is not at ready state"),
        ("dead", -1, ErrorCode.NOT_FOUND, "'dead' has no available versions"),
        ("bad", -1, ErrorCode.NOT_FOUND, "'bad' has no available versions: config.pbtxt:1:1: oh"),
    ],
)
async def test_the_error_explains_why_a_model_does_not_serve(
    name: str, version: int, code: ErrorCode, fragment: str
) -> None:
    repository = make(
        FakeStore("/r", "m", "dead", "bad"),
        versions={"m": (1, 2)},
        failures={("m", 2): [internal("no")], ("dead", 1): [internal("out of memory")]},
        refusals={"bad": "config.pbtxt:1:1: oh"},
    )
    await repository.load_all()
    with pytest.raises(InferenceError) as caught:
        repository.get(name, version)
    assert caught.value.code is code
    assert fragment in caught.value.message


async def test_the_name_of_two_folders_is_served_by_neither() -> None:
    repository = make(FakeStore("/a", "m", "n"), FakeStore("/b", "m"))
    await repository.load_all()
    assert [(s.name, s.version, s.state, s.reason) for s in repository.states()] == [
        ("m", None, State.UNAVAILABLE, DUPLICATE),
        ("n", 1, State.READY, ""),
    ]


async def test_a_failing_model_has_a_reason_and_the_others_serve() -> None:
    repository = make(
        FakeStore("/r", "good", "bad", "odd", "worse"),
        failures={("bad", 1): [invalid("graph has 2 inputs")]},
        refusals={"odd": ValueError("unreadable"), "worse": invalid("no config")},
    )
    await repository.load_all()
    reasons = {state.name: state.reason for state in repository.states()}
    assert reasons == {
        "good": "",
        "bad": "graph has 2 inputs",
        "odd": "ValueError: unreadable",
        "worse": "no config",
    }
    assert repository.get("good").title == "good/1"


async def test_a_failed_load_is_retried_as_often_as_configured() -> None:
    recorder = Recorder()
    repository = make(
        FakeStore("/r", "m"),
        failures={("m", 1): [internal("1"), RuntimeError("2")]},
        retries=2,
        recorder=recorder,
    )
    await repository.load_all()
    assert repository.get("m").title == "m/1"
    assert [state for _, _, state in recorder.seen] == [
        State.LOADING, State.UNAVAILABLE, State.LOADING, State.UNAVAILABLE, State.LOADING, State.READY,
    ]  # fmt: skip


async def test_unloading_stops_every_version_and_survives_one_that_fails() -> None:
    repository = make(FakeStore("/r", "a", "b"))
    await repository.load_all()
    served = [entry for _, _, entry in repository.served()]
    served[0]._fails_to_stop = True
    await repository.unload_all()
    assert all(entry.stopped for entry in served)
    assert [(s.state, s.reason) for s in repository.states()] == [
        (State.UNAVAILABLE, "unloaded"),
        (State.UNAVAILABLE, "unloaded"),
    ]
    with pytest.raises(InferenceError, match="has no available versions"):
        repository.get("a")


async def test_no_more_models_load_at_once_than_allowed() -> None:
    running = 0
    most = 0
    three_at_once = asyncio.Event()

    async def resolve(folder: pathlib.Path, _: Value | None) -> ModelPlan:
        config: Any = Config(folder.name)
        plan = VersionPlan(config=config, version=1, model_dir=folder)
        return ModelPlan(name=folder.name, versions=(plan,))

    async def load(plan: VersionPlan) -> FakeServed:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == 3:
            three_at_once.set()
        await (
            three_at_once.wait()
        )  # others may still be read, which takes one of the three places as well
        for _ in range(20):
            await asyncio.sleep(0)
        running -= 1
        return FakeServed(plan.config.name)

    repository = Repository(
        reader=RepositoryReader([FakeStore("/r", *"abcdefg")], timeout_seconds=None),
        resolve=resolve,
        load=load,
        coordination=Coordination(3),
        retry_count=0,
        progress=Recorder(),
        clock=ManualClock(),
    )
    await repository.load_all()
    assert most == 3
    assert len(repository.served()) == 7


class SlowToScan(FakeStore):
    """A store that lists the files of `slow` only when it may, and those of `gone` never."""

    def __init__(self, *names: str) -> None:
        super().__init__("/r", *names)
        self.may_scan = threading.Event()

    @override
    def fingerprint(self, name: str) -> Fingerprint:
        if name == "slow":
            self.may_scan.wait(60)
        if name == "gone":
            raise unavailable("the store does not respond")
        return super().fingerprint(name)


async def test_at_the_start_no_model_waits_for_the_listing_of_the_files_of_another() -> None:
    store = SlowToScan("a", "slow", "z")
    repository = make(store)
    start = asyncio.create_task(repository.load_all())
    await until(lambda: [name for name, _, _ in repository.served()] == ["a", "z"])
    assert not start.done()
    store.may_scan.set()
    assert await start
    assert repository.get("slow").title == "slow/1"


async def test_a_store_that_fails_after_its_listing_ends_the_start_once_the_other_loads_are_done() -> (
    None
):
    repository = make(SlowToScan("a", "gone", "z"))
    with pytest.raises(InferenceError, match="the store does not respond"):
        await repository.load_all()
    assert [name for name, _, _ in repository.served()] == ["a", "z"]

"""Models that load others in their initialize (row 15.24): no combination of such loads waits for ever."""

import asyncio
import collections.abc
import dataclasses
import pathlib
import types

import pytest

from naiad.core.clock import ManualClock
from naiad.errors import InferenceError, internal
from naiad.repository.lifecycle import State
from naiad.repository.manager import Repository
from naiad.repository.plan import ModelPlan, VersionPlan
from naiad.repository.reading.reader import RepositoryReader
from naiad.repository.requests.coordination import Coordination
from naiad.repository.requests.namespaces import Namespaces
from naiad.repository.requests.overrides import Value
from naiad.repository.store import LocalStore
from tests.server.repository.world import Progress, Served

pytestmark = pytest.mark.looptime


@dataclasses.dataclass(frozen=True)
class Config:
    """As much of a ModelConfig as the repository reads."""

    name: str
    ensemble: None = None


class World:
    """Models by name, and which others each of them loads in its initialize.

    Args:
        root: the repository.
        slots: how many load at once.
        asks: whom each one asks for; "unload x" unloads.
        plan_seconds: how long it takes to read the config of a model, if any time.
        coordination: with other repositories; by default there is none.

    Attributes:
        own: the repository.
        repository: the one that models ask.
    """

    def __init__(
        self,
        root: pathlib.Path,
        *,
        slots: int = 4,
        asks: dict[str, list[str]],
        plan_seconds: collections.abc.Mapping[str, float] = types.MappingProxyType({}),
        coordination: Coordination | None = None,
    ) -> None:
        self.asks = asks
        self._plan_seconds = plan_seconds
        self.began: list[str] = []
        self.refusals: list[str] = []
        self.made: list[Served] = []
        self.at_once = self.most_at_once = 0
        root.mkdir(exist_ok=True)
        for name in asks:
            (root / name / "1").mkdir(parents=True)
        self.own = Repository[Served](
            reader=RepositoryReader([LocalStore(str(root))], timeout_seconds=None),
            resolve=self._resolve,
            load=self._load,
            coordination=coordination or Coordination(slots),
            retry_count=0,
            progress=Progress(),
            clock=ManualClock(),
        )

        self.repository: Repository[Served] | Namespaces[Served] = self.own

    def ready(self) -> list[str]:
        return [s.name for s in self.repository.states() if s.state is State.READY]

    async def _resolve(self, folder: pathlib.Path, _: Value | None) -> ModelPlan:
        await asyncio.sleep(self._plan_seconds.get(folder.name, 0))
        plan = VersionPlan(config=Config(folder.name), version=1, model_dir=folder)  # type: ignore[arg-type] # all that is read of it
        return ModelPlan(name=folder.name, versions=(plan,))

    async def _load(self, plan: VersionPlan) -> Served:
        name = plan.config.name
        self.began.append(name)
        try:
            for other in self.asks[name]:
                if other.startswith("unload "):
                    await self.repository.unload(other.removeprefix("unload "), requested_by=name)
                else:
                    await self.repository.load(other, requested_by=name)
        except InferenceError as error:
            self.refusals.append(error.message)
            raise internal(f"initialize failed: {error.message}") from None
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(1)
        self.at_once -= 1
        served = Served(name, seconds=0)
        self.made.append(served)
        return served


async def test_a_model_loads_another_although_only_one_may_load_at_once(
    tmp_path: pathlib.Path,
) -> None:
    world = World(tmp_path, slots=1, asks={"a": ["b"], "b": ["c"], "c": []})
    await world.repository.load("a")
    assert world.began == ["a", "b", "c"]
    assert world.ready() == ["a", "b", "c"]


async def test_models_that_are_loaded_at_start_are_not_loaded_again(tmp_path: pathlib.Path) -> None:
    asks: dict[str, list[str]] = {"a": ["z"], "b": ["z"], "c": ["z"], "z": []}
    world = World(tmp_path, slots=1, asks=asks)
    assert await world.repository.load_all()
    assert sorted(world.began) == ["a", "b", "c", "z"]
    assert world.most_at_once == 1


@pytest.mark.parametrize("names", [None, ["a", "z"]], ids=["all", "some"])
async def test_a_model_that_another_one_loads_while_its_config_is_read_is_loaded_once(
    tmp_path: pathlib.Path, names: list[str] | None
) -> None:
    asks: dict[str, list[str]] = {"a": ["z"], "z": []}
    world = World(tmp_path, asks=asks, plan_seconds={"z": 4})
    assert await world.repository.load_all(names)
    assert sorted(world.began) == [
        "a",
        "z",
    ]  # once each; files are listed in threads, so either may come first
    assert world.ready() == ["a", "z"]


async def test_a_cycle_of_loads_is_refused_and_the_error_shows_it(tmp_path: pathlib.Path) -> None:
    world = World(tmp_path, slots=4, asks={"a": ["b"], "b": ["c"], "c": ["a"]})
    with pytest.raises(InferenceError):
        await world.repository.load("a")
    assert world.refusals[0] == (
        "model 'a' cannot be loaded or unloaded from initialize of model 'c', which it would wait for: "
        "'c' waits for 'a' waits for 'b' waits for 'c'"
    )
    assert world.ready() == []


async def test_a_cycle_at_start_ends_as_well(tmp_path: pathlib.Path) -> None:
    world = World(tmp_path, slots=1, asks={"a": ["b"], "b": ["a"], "c": []})
    assert not await world.repository.load_all()
    assert world.ready() == ["c"]
    assert "initialize of model" in world.refusals[0]


@pytest.mark.parametrize("what", ["a", "unload a"])
async def test_a_model_does_not_load_or_unload_itself_in_initialize(
    tmp_path: pathlib.Path, what: str
) -> None:
    world = World(tmp_path, slots=2, asks={"a": [what]})
    with pytest.raises(InferenceError, match="'a' waits for 'a'"):
        await world.repository.load("a")


async def test_a_load_that_was_refused_can_be_repeated(tmp_path: pathlib.Path) -> None:
    world = World(tmp_path, slots=1, asks={"a": ["b"], "b": ["a"]})
    with pytest.raises(InferenceError):
        await world.repository.load("a")
    world.asks["b"] = []
    await world.repository.load("a")
    assert world.ready() == ["a", "b"]


async def test_at_the_end_a_model_finishes_before_those_that_it_loaded_are_unloaded(
    tmp_path: pathlib.Path,
) -> None:
    asks: dict[str, list[str]] = {"a": ["b"], "b": ["c"], "c": [], "z": []}
    world = World(tmp_path, slots=4, asks=asks)
    for name in ("a", "z"):
        await world.repository.load(name)
    for served in world.made:
        served.seconds = 1
    stopping = asyncio.create_task(world.repository.unload_all())
    await asyncio.sleep(0.5)
    assert world.ready() == ["b", "c"]
    await asyncio.sleep(1)
    assert world.ready() == ["c"]
    assert world.repository.get("c")
    await stopping
    assert world.ready() == []
    assert asyncio.get_running_loop().time() - 0.5 > 2


async def test_a_model_that_was_unloaded_depends_on_nothing(tmp_path: pathlib.Path) -> None:
    world = World(tmp_path, slots=1, asks={"a": ["b"], "b": []})
    await world.repository.load("a")
    await world.repository.unload("a")
    world.asks = {"a": [], "b": ["a"]}
    await world.repository.unload("b")
    await world.repository.load("b")
    for served in world.made:
        served.seconds = 1
    stopping = asyncio.create_task(world.repository.unload_all())
    await asyncio.sleep(0.5)
    assert world.ready() == ["a"]
    await stopping


async def test_models_that_loaded_each_other_one_after_the_other_are_all_unloaded(
    tmp_path: pathlib.Path,
) -> None:
    world = World(tmp_path, slots=1, asks={"a": ["b"], "b": []})
    await world.repository.load("a")
    await world.repository.unload("b")
    world.asks["b"] = ["a"]
    await world.repository.load("b")
    assert world.ready() == ["a", "b"]
    await world.repository.unload_all()
    assert world.ready() == []


ASKS: dict[str, list[str]] = {"a": ["b", "c"], "b": ["d"], "c": [], "d": [], "e": ["c"]}


@pytest.mark.parametrize(
    ("loaded", "left"),
    [
        (["a"], []),
        (["a", "e"], ["c", "e"]),
        (["a", "b"], ["b", "d"]),
        (["d", "a"], ["d"]),
    ],
)
async def test_with_its_dependents_goes_what_was_loaded_only_because_of_a_model(
    loaded: list[str], left: list[str], tmp_path: pathlib.Path
) -> None:
    world = World(tmp_path, slots=1, asks=ASKS)
    for name in loaded:
        await world.repository.load(name)
    await world.repository.unload("a", with_dependents=True)
    assert world.ready() == left


async def test_without_its_dependents_only_the_model_goes(tmp_path: pathlib.Path) -> None:
    world = World(tmp_path, slots=1, asks=ASKS)
    await world.repository.load("a")
    await world.repository.unload("a")
    assert world.ready() == ["b", "c", "d"]


async def test_models_that_were_loaded_at_start_stay(tmp_path: pathlib.Path) -> None:
    world = World(tmp_path, slots=1, asks=ASKS)
    await world.repository.load_all(["a", "d"])
    await world.repository.unload("a", with_dependents=True)
    assert world.ready() == ["d"]


async def test_dependents_serve_until_the_requests_of_the_model_are_done(
    tmp_path: pathlib.Path,
) -> None:
    world = World(tmp_path, slots=1, asks=ASKS)
    await world.repository.load("a")
    world.made[-1].seconds = 60
    unload = asyncio.create_task(world.repository.unload("a", with_dependents=True))
    await asyncio.sleep(59)
    assert world.ready() == ["b", "c", "d"]
    await unload
    assert world.ready() == []


async def test_a_dependent_whose_load_waits_for_the_model_stays(tmp_path: pathlib.Path) -> None:
    asks: dict[str, list[str]] = {"a": ["b"], "b": []}
    world = World(tmp_path, slots=2, asks=asks)
    await world.repository.load("a")
    await world.repository.unload("b")
    asks.update({"a": [], "b": ["a"]})
    world.made[1].seconds = 2
    unload = asyncio.create_task(world.repository.unload("a", with_dependents=True))
    await asyncio.sleep(0.1)
    await world.repository.load("b")
    await unload
    assert world.ready() == ["a", "b"]

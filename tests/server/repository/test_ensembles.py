"""What becomes of ensembles when the models of their steps are loaded, loaded again, unloaded or broken (rows 7.27, 7.28, 14.3)."""

import asyncio
import pathlib
import shutil
import typing

import msgspec
import pytest

from naiad.config.model_config import ModelConfig
from naiad.core.clock import ManualClock
from naiad.core.messages import model_config_pb2
from naiad.errors import ErrorCode, InferenceError, internal
from naiad.repository.lifecycle import State
from naiad.repository.manager import Repository
from naiad.repository.plan import ModelPlan, VersionPlan
from naiad.repository.reading.reader import RepositoryReader
from naiad.repository.requests.coordination import Coordination
from naiad.repository.requests.overrides import Value
from naiad.repository.store import LocalStore
from tests.server.repository.world import Progress
from tests.support.ensembles import ensemble, model, step

pytestmark = pytest.mark.looptime


class Served:
    """A version of a model; `stop` waits for `may_stop`."""

    memory = ()
    leaves_cycles = False

    def __init__(self, config: ModelConfig, text: str) -> None:
        self.config = config
        self.text = text
        self.may_stop = asyncio.Event()
        self.may_stop.set()
        self.stopped = False

    async def prepare(self, plan: VersionPlan) -> typing.Any:
        raise AssertionError(plan)

    async def stop(self) -> None:
        await self.may_stop.wait()
        self.stopped = True


class World:
    """Models whose config is a line: the models of an ensemble's steps, each of which reads the output of the one before; nothing for another model.

    A step "a:1" is version 1 of a.

    A model with the text "bad" fails to load; one with the text "wide" has an input that fits no other model.
    """

    def __init__(
        self, root: pathlib.Path, *, coordination: Coordination | None = None, namespace: str = ""
    ) -> None:
        root.mkdir(exist_ok=True)
        self._root = root
        self.loads: list[str] = []
        self.repository: Repository[Served] = Repository(
            reader=RepositoryReader([LocalStore(str(root))], timeout_seconds=None),
            resolve=self._resolve,
            load=self._load,
            coordination=coordination or Coordination(1),
            retry_count=0,
            progress=Progress(),
            clock=ManualClock(),
            namespace=namespace,
        )

    def write(self, name: str, steps: str = "", *, text: str = "v1", version: int = 1) -> None:
        folder = self._root / name / f"{version}"
        folder.mkdir(parents=True, exist_ok=True)
        config = folder.parent / "steps"
        if not config.exists() or config.read_text() != steps:
            config.write_text(steps)
        (folder / "text").write_text(text)

    def remove(self, name: str, version: int) -> None:
        shutil.rmtree(self._root / name / f"{version}")

    def ready(self) -> str:
        states = self.repository.states()
        return " ".join(state.name for state in states if state.state is State.READY)

    def reason(self, name: str) -> str:
        return next(each.reason for each in self.repository.states() if each.name == name)

    async def _resolve(self, folder: pathlib.Path, given: Value | None) -> ModelPlan:
        assert given is None
        names = (folder / "steps").read_text().split()
        config = model(folder.name, "i", "o")
        if names:
            tensors = ["i", *(f"t{k}" for k in range(1, len(names))), "o"]
            steps = [
                step(
                    name.partition(":")[0],
                    f"i={tensors[k]}",
                    f"o={tensors[k + 1]}",
                    version=int(name.partition(":")[2] or -1),
                )
                for k, name in enumerate(names)
            ]
            config = ensemble("i", "o", *steps, name=folder.name)
        numbers = _versions(folder)
        message = model_config_pb2.ModelConfig(name=folder.name)
        config = msgspec.structs.replace(config, message=message)
        if (folder / f"{numbers[0]}" / "text").read_text() == "wide":
            config = msgspec.structs.replace(config, inputs=model("", "j", "").inputs)
        plans = (VersionPlan(config=config, version=number, model_dir=folder) for number in numbers)
        return ModelPlan(name=folder.name, versions=tuple(plans))

    async def _load(self, plan: VersionPlan) -> Served:
        text = (plan.version_dir / "text").read_text()
        self.loads.append(plan.config.name)
        if text == "bad":
            raise internal("cannot run it")
        return Served(plan.config, text)


def _versions(folder: pathlib.Path) -> list[int]:
    return sorted(int(each.name) for each in folder.iterdir() if each.name.isdecimal())


@pytest.fixture
def world(tmp_path: pathlib.Path) -> World:
    made = World(tmp_path)
    for name in "ab":
        made.write(name)
    made.write("E", "a b")
    made.write("F", "E a")
    return made


async def test_at_the_start_each_model_is_loaded_once_and_before_its_ensembles(
    world: World,
) -> None:
    assert await world.repository.load_all()
    assert sorted(world.loads) == ["E", "F", "a", "b"]
    assert world.loads.index("F") == 3
    assert world.loads.index("E") == 2


async def test_a_load_request_loads_the_models_of_the_steps(world: World) -> None:
    await world.repository.load("F")
    assert world.ready() == "E F a b"
    await world.repository.unload("F", with_dependents=True)
    assert world.ready() == ""


async def test_a_model_of_a_step_that_fails_fails_the_ensembles(world: World) -> None:
    world.write("b", text="bad")
    assert not await world.repository.load_all()
    assert world.ready() == "a"
    assert world.loads.count("b") == 1, "what failed at the start is not tried again"
    expected = (
        "ensemble 'E' depends on 'b' which has no loaded version. Model 'b' loading failed with error: "
        "version 1 is at UNAVAILABLE state: cannot run it"
    )
    assert world.reason("E") == expected
    assert world.reason("F").startswith("ensemble 'F' depends on 'E' which has no loaded version.")


async def test_a_model_that_is_not_there_is_named(world: World) -> None:
    world.write("E", "nowhere a gone")
    with pytest.raises(InferenceError, match="not available or ambiguous: gone, nowhere"):
        await world.repository.load("E")
    assert world.ready() == "a"


@pytest.mark.parametrize("at_start", [True, False])
async def test_ensembles_that_need_each_other_are_refused(world: World, *, at_start: bool) -> None:
    world.write("E", "a F")
    if at_start:
        assert not await world.repository.load_all()
        reasons = world.reason("E") + world.reason("F")
        assert "circular dependency between ensembles: " in reasons
    else:
        with pytest.raises(
            InferenceError, match="circular dependency between ensembles: F -> E -> F"
        ):
            await world.repository.load("E")
    await asyncio.sleep(1)
    assert "E" not in world.ready()


async def test_models_that_do_not_fit_are_refused_with_the_step(world: World) -> None:
    world.write("b", text="wide")
    with pytest.raises(InferenceError, match="mapping to non-existing input i in model b"):
        await world.repository.load("E")


async def test_an_ensemble_finishes_its_requests_before_a_model_of_its_steps_is_unloaded(
    world: World,
) -> None:
    await world.repository.load_all()
    served, step_of_it = world.repository.get("E"), world.repository.get("b")
    served.may_stop.clear()
    unload = asyncio.create_task(world.repository.unload("b"))
    await asyncio.sleep(1)
    assert (served.stopped, step_of_it.stopped, world.ready()) == (False, False, "a b")
    served.may_stop.set()
    await unload
    assert (served.stopped, step_of_it.stopped, world.ready()) == (True, True, "a")


async def test_it_is_loaded_again_with_that_model(world: World) -> None:
    await world.repository.load_all()
    await world.repository.unload("b")
    await world.repository.load("b")
    assert world.ready() == "E F a b"


async def test_one_that_was_unloaded_by_request_stays_unloaded(world: World) -> None:
    await world.repository.load_all()
    await world.repository.unload("b")
    await world.repository.unload("E")
    await world.repository.unload("F")
    await world.repository.load("b")
    assert world.ready() == "a b"


async def test_an_ensemble_is_checked_again_when_a_model_of_its_steps_is_loaded_again(
    world: World,
) -> None:
    await world.repository.load_all()
    before = world.repository.get("E")
    world.write("b", text="v2 is longer")
    await world.repository.load("b")
    assert world.repository.get("E") is not before
    before = world.repository.get("E")
    world.write("b", text="wide")
    await world.repository.load("b")
    assert world.repository.get("E") is before, "it goes on as it was"


async def test_a_load_request_of_an_ensemble_loads_changed_models_of_its_steps(
    world: World,
) -> None:
    await world.repository.load_all()
    world.write("b", text="v2 is longer")
    await world.repository.load("F")
    assert world.repository.get("b").text == "v2 is longer"
    await world.repository.load("F")
    assert world.loads.count("b") == 2


async def test_a_model_of_a_step_makes_no_room_for_others(world: World) -> None:
    await world.repository.load("E")
    assert world.repository.evictions.candidates() == ["E"]


async def test_a_load_request_that_fails_because_of_a_step_is_a_wrong_argument(
    world: World,
) -> None:
    world.write("b", text="bad")
    with pytest.raises(InferenceError) as caught:
        await world.repository.load("E")
    assert caught.value.code is ErrorCode.INVALID_ARG
    assert "ensemble 'E' depends on 'b' which has no loaded version" in caught.value.message


async def test_an_ensemble_whose_version_of_a_step_is_removed_ends_and_comes_back_with_it(
    world: World,
) -> None:
    """The version that stays is not loaded again, and is the latest one before and after."""
    world.write("a", version=2)
    world.write("pinned", "a:1")
    world.write("outer", "pinned")
    world.write("latest", "a")
    await world.repository.load("outer")
    await world.repository.load("latest")
    world.remove("a", 1)
    pinned = world.repository.get("pinned")
    pinned.may_stop.clear()
    loading = asyncio.create_task(world.repository.load("a"))
    await asyncio.sleep(1)
    assert not world.repository.get("a", 1).stopped, "requests in flight still need it"
    pinned.may_stop.set()
    await loading
    assert world.ready() == "a latest"
    assert world.reason("pinned").startswith(
        "ensemble 'pinned' depends on 'a' whose required version 1 is not loaded"
    )
    world.write("a", version=1)
    await world.repository.load("a")
    assert world.ready() == "a a latest outer pinned"
    assert world.loads.count("a") == 3


async def test_an_ensemble_that_names_a_version_which_stays_serves_on(world: World) -> None:
    world.write("a", version=2)
    world.write("pinned", "a:2")
    await world.repository.load("pinned")
    served = world.repository.get("pinned")
    world.remove("a", 1)
    await world.repository.load("a")
    assert world.ready() == "a pinned"
    assert not served.stopped or world.repository.get("pinned") is not served

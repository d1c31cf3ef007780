"""A repository on disk for tests of loading and unloading: models that are text files, and all that was done to them."""

import asyncio
import dataclasses
import os
import pathlib
import typing
from collections.abc import Collection

from naiad.core.clock import ManualClock
from naiad.errors import internal
from naiad.metrics.memory import MemoryUsage
from naiad.repository.lifecycle import State
from naiad.repository.manager import Repository, VersionState
from naiad.repository.plan import ModelPlan, VersionPlan
from naiad.repository.reading.reader import RepositoryReader
from naiad.repository.requests.coordination import Coordination
from naiad.repository.requests.overrides import Value
from naiad.repository.store import LocalStore


@dataclasses.dataclass(frozen=True)
class Config:
    """As much of a ModelConfig as the repository reads; `text` is all that the file says."""

    name: str
    text: str
    ensemble: None = None

    def needs_reload_for(self, other: "Config") -> bool:
        """What follows a comma is for the instances only."""
        return self.text.partition(",")[0] != other.text.partition(",")[0]


class Updating:
    """Instances that are prepared; `served` has them once they serve."""

    def __init__(self, served: "Served", instances: str) -> None:
        self._served = served
        self._instances = instances

    def commit(self) -> str:
        before, self._served.instances = self._served.instances, self._instances
        return f"{before} -> {self._instances}" if before != self._instances else ""

    async def discard(self) -> None:
        self._served.discarded += 1


class Served:
    """A version in service with the text of its file; stopping takes `seconds`. Instances named "bad" cannot be made, "slow" ones of v2 never are."""

    memory: tuple[MemoryUsage, ...] = ()

    def __init__(self, text: str, *, seconds: float) -> None:
        self.text = text
        self.leaves_cycles = text.startswith("cycles")
        self.stopped = False
        self.seconds = seconds
        self.instances = ""
        self.discarded = 0
        self.waits = False

    async def prepare(self, plan: VersionPlan) -> Updating:
        instances = typing.cast("Config", plan.config).text.partition(",")[2]
        if instances == "bad":
            raise internal("no such place")
        if instances == "slow" and self.text == "v2":
            self.waits = True
            await asyncio.Event().wait()
        return Updating(self, instances)

    async def stop(self) -> None:
        await asyncio.sleep(self.seconds)
        self.stopped = True


class Memory:
    """100 bytes for each version that has not stopped."""

    def __init__(self, made: list[Served]) -> None:
        self._made = made
        self.expected = 0
        self.given_back = 0
        self.collected = 0

    def resident(self) -> int:
        return 100 * sum(not served.stopped for served in self._made)

    def expect(self) -> None:
        self.expected += 1

    def give_back(self, *, collect: bool) -> None:
        self.given_back += 1
        self.collected += collect


class Progress:
    """Records every change of a state."""

    def __init__(self) -> None:
        self.seen: list[VersionState] = []

    def starting(self, models: Collection[str]) -> None:
        pass

    def planned(self, plan: ModelPlan) -> None:
        pass

    def changed(self, state: VersionState) -> None:
        self.seen.append(state)


class World:
    """A repository on disk whose versions are text files; one that begins with "bad" fails to load.

    Args:
        roots: the repositories; `write` writes into the first one.
        load_seconds: how long a version takes to load.
        stop_seconds: how long one takes to finish what it has.
    """

    def __init__(
        self,
        *roots: pathlib.Path,
        load_seconds: float = 0,
        stop_seconds: float = 0,
    ) -> None:
        root = roots[0]
        self.root = root
        self.loads: list[str] = []
        self.made: list[Served] = []
        self.progress = Progress()
        self.memory = Memory(self.made)
        self._load_seconds = load_seconds
        self._stop_seconds = stop_seconds
        self._moment = 0
        # Virtual time would run on while a thread reads.
        self.reader = RepositoryReader(
            [LocalStore(str(root)) for root in roots], timeout_seconds=None
        )
        self.clock = ManualClock()
        self.repository = Repository(
            reader=self.reader,
            resolve=self._resolve,
            load=self._load,
            coordination=Coordination(4),
            retry_count=0,
            progress=self.progress,
            clock=self.clock,
            memory=self.memory,
        )

    def write(self, model: str, text: str, *, version: int = 1, config: str = "") -> None:
        """Put a version into the repository, newer than all before."""
        folder = self.root / model / str(version)
        folder.mkdir(parents=True, exist_ok=True)
        self._moment += 1
        for path, content in ((folder / "model", text), (folder.parent / "config.pbtxt", config)):
            if not path.exists() or path.read_text() != content:
                path.write_text(content)
                os.utime(path, (self._moment, self._moment))

    def states(self) -> list[tuple[str, int | None, State, str]]:
        return [(s.name, s.version, s.state, s.reason) for s in self.repository.states()]

    async def _resolve(self, folder: pathlib.Path, given: Value | None) -> ModelPlan:
        text = str(given) if given is not None else (folder / "config.pbtxt").read_text()
        if text.startswith("bad"):
            return ModelPlan(name=folder.name, reason=f"config.pbtxt:1:1: {text}")
        config = Config(folder.name, text)
        versions = sorted(int(name) for name in os.listdir(folder) if name.isdecimal())  # noqa: PTH208 - a method of a path may not stand here
        plans = [
            VersionPlan(config=config, version=number, model_dir=folder)  # type: ignore[arg-type]  # as much of it as is read
            for number in versions
        ]
        return ModelPlan(name=folder.name, versions=tuple(plans))

    async def _load(self, plan: VersionPlan) -> Served:
        text = (plan.version_dir / "model").read_text()
        self.loads.append(text)
        await asyncio.sleep(self._load_seconds)
        if text.startswith("bad"):
            raise internal(f"cannot run {text}")
        served = Served(text, seconds=self._stop_seconds)
        self.made.append(served)
        return served

"""A repository on disk whose models take as much memory as a test says, kept within a limit by the pool."""

import asyncio
import collections.abc
import concurrent.futures
import pathlib
import types
import typing

from naiad.config.model_config import DynamicBatching
from naiad.core.clock import ManualClock
from naiad.core.inference import Inference, OnResponse, RequestContext
from naiad.core.request import LATEST, InferRequest
from naiad.core.response import NO_OUTPUTS, NO_PARAMETERS, InferResponse
from naiad.engine.memory.pool import MemoryPool
from naiad.engine.memory.sizes import HOST
from naiad.engine.model import Model, traits_of
from naiad.errors import internal
from naiad.metrics.memory import MemoryUsage
from naiad.metrics.statistics import ModelStatistics
from naiad.repository.lifecycle import State
from naiad.repository.manager import Repository
from naiad.repository.plan import ModelPlan, VersionPlan
from naiad.repository.reading.reader import RepositoryReader
from naiad.repository.requests.coordination import Coordination
from naiad.repository.requests.namespaces import NamespacedListener
from naiad.repository.requests.overrides import Value
from naiad.repository.store import LocalStore
from tests.server.repository.world import Progress
from tests.support.waiting import until

LOADER_THREADS = concurrent.futures.ThreadPoolExecutor(thread_name_prefix="load")


class Config(typing.NamedTuple):
    """As much of a ModelConfig as is read."""

    name: str
    inputs: tuple[()] = ()
    max_batch_size: int = 0
    decoupled: bool = False
    instance_groups: tuple[()] = ()
    dynamic_batching: DynamicBatching | None = None
    ensemble: None = None
    takes_device_inputs: bool = False
    response_cache: None = None
    parameters: collections.abc.Mapping[str, str] = types.MappingProxyType({})


class FakeModel:
    """A model of so many bytes; it responds at once, and `stop` waits for `may_stop`."""

    leaves_cycles = False

    def __init__(self, config: typing.Any, size: int) -> None:
        self.config = config
        self.traits = traits_of(config)
        self.statistics = ModelStatistics()
        self.statistics.memory = (MemoryUsage(type="CPU", id=0, byte_size=size, estimated=True),)
        self.requests: list[InferRequest] = []
        self.running = 0
        self.may_stop = asyncio.Event()
        self.may_stop.set()
        self.responds = True
        self.inference: Inference | None = None

    @property
    def memory(self) -> tuple[MemoryUsage, ...]:
        return self.statistics.memory

    def inflight(self) -> int:
        return self.running

    def infer(
        self,
        request: InferRequest,
        on_response: OnResponse,
        flow: object = None,
        context: RequestContext | None = None,
    ) -> Inference | None:
        self.requests.append(request)
        if not self.responds:
            self.inference = Inference(request, on_response, batch_size=1, received_ns=0)
            if context is not None:
                context.runs(self, self.inference)
            return self.inference
        on_response(InferResponse(request.model_name, 1, request.id, NO_OUTPUTS, NO_PARAMETERS))
        return None

    async def stop(self) -> None:
        await self.may_stop.wait()


async def in_the_loaders_threads(
    work: collections.abc.Callable[[typing.Any], typing.Any], argument: object
) -> typing.Any:
    """Not those of the loop, which others use."""
    return await asyncio.get_running_loop().run_in_executor(LOADER_THREADS, work, argument)


class World:
    """A pool and its repository.

    Args:
        root: holds a file with the size of each model.
        limit: bytes of the host's memory.
        slots: loads at the same time.

    Attributes:
        sizes: what a model takes, if not its files.
        nested: which model each one loads in its initialize.
        when_begun: the states when each model's last load began.
        phases: of each model's versions at that time.
        gates: what the load of a model waits for.
        responds: whether models that are loaded from now on do.
        batching: of the models.
    """

    def __init__(self, root: pathlib.Path, *, limit: int, slots: int = 4) -> None:
        self.root = root
        self.clock = ManualClock()
        self.sizes: dict[str, int] = {}
        self.nested: dict[str, str] = {}
        self.gates: dict[str, asyncio.Event] = {}
        self.failing = set[str]()
        self.responds = True
        self.batching: DynamicBatching | None = None
        self.began: list[str] = []
        self.when_begun: dict[str, dict[str, str]] = {}
        self.phases: dict[str, list[str]] = {}
        self.made: dict[str, FakeModel] = {}
        self.coordination = Coordination(slots)
        self.pool = MemoryPool(
            limits={HOST: limit},
            progress=Progress(),
            slots=self.coordination.slots,
            clock=self.clock,
            in_thread=in_the_loaders_threads,
        )
        self.repository = self.add(root)

    def add(self, root: pathlib.Path, *, namespace: str = "") -> Repository[Model]:
        """A repository whose models stay within the limit, together with those of the others."""
        repository = Repository[Model](
            reader=RepositoryReader([LocalStore(str(root))], timeout_seconds=None),
            resolve=self._resolve,
            load=self.pool.waits(self._load, namespace=namespace),
            coordination=self.coordination,
            retry_count=0,
            progress=NamespacedListener(self.pool, namespace) if namespace else self.pool,
            clock=self.clock,
        )
        self.pool.open(repository, namespace=namespace)
        return repository

    def write(self, **sizes: int) -> None:
        """Models with files of so many bytes."""
        for name, size in sizes.items():
            folder = self.root / name / "1"
            folder.mkdir(parents=True, exist_ok=True)
            with (folder / "model").open("wb") as file:
                file.truncate(size)

    def used(self, name: str) -> None:
        """A model executes a batch, later than everything before."""
        self.clock.advance(ns=1_000_000_000)
        last = self.clock.wall_ns() // 1_000_000
        self.made[name].statistics.last_inference_ms = last

    def states(self) -> dict[str, str]:
        return {
            state.name: state.reason if state.state is State.UNAVAILABLE else state.state.value
            for state in self.repository.states()
        }

    async def settled(self, condition: collections.abc.Callable[[], bool]) -> None:
        """Wait for something that threads and tasks bring about."""
        await until(condition, seconds=60)

    async def _resolve(self, folder: pathlib.Path, given: Value | None) -> ModelPlan:
        config: typing.Any = Config(folder.name, dynamic_batching=self.batching)
        plan = VersionPlan(config=config, version=1, model_dir=folder)
        return ModelPlan(name=folder.name, versions=(plan,))

    async def _load(self, plan: VersionPlan) -> Model:
        name = plan.config.name
        self.began.append(name)
        self.when_begun[name] = self.states()
        self.phases[name] = [
            load.phase.value for load in self.repository.load_progress() if load.name == name
        ]
        if name in self.gates:
            await self.gates[name].wait()
        if name in self.nested:
            await self.repository.load(self.nested[name], requested_by=name)
        if name in self.failing:
            raise internal("cannot run")
        size = self.sizes.get(name, (plan.version_dir / "model").stat().st_size)
        self.made[name] = FakeModel(plan.config, size)
        self.made[name].responds = self.responds
        self.clock.advance(ns=1_000_000_000)
        return typing.cast(Model, self.made[name])


def request(name: str, request_id: str = "", *, priority: int = 0) -> InferRequest:
    """A request without inputs."""
    return InferRequest(name, LATEST, request_id, [], [], {}, priority=priority)

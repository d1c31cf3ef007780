"""A load gives all of a model or nothing: whatever refuses it, no worker process and no instance is left."""

import asyncio
import collections.abc
import pathlib
import sys
import threading
import typing

import msgspec
import pytest

from naiad.backends.instance import InstanceSpec, LoadedModel
from naiad.backends.registry import Registry
from naiad.config.model_config import InstanceKind, ModelConfig
from naiad.core.clock import SystemClock
from naiad.core.inference import Inference
from naiad.core.messages import model_config_pb2
from naiad.core.response import InferResponse
from naiad.engine.instances import factory as instances
from naiad.engine.loader import Loader
from naiad.engine.model import Model
from naiad.errors import ErrorCode, InferenceError, invalid
from naiad.hosts.host import ClosedRpcHandler, HostedInstance
from naiad.hosts.process.spawn import ORPHAN_REAPER
from naiad.metrics.device_memory import DeviceMemory
from naiad.metrics.statistics import ModelStatistics
from naiad.repository.errors import failed_plan
from naiad.repository.plan import VersionPlan
from naiad.scheduling.factory import SchedulerFactory
from naiad.scheduling.instances.resources import UnlimitedResources
from naiad.scheduling.occupancy import Occupancy
from naiad.scheduling.relays.calls import Submit
from naiad.scheduling.scheduler import MakeScheduler, Scheduler
from naiad.scheduling.strategy import Strategy
from tests.server.backends.python.models import write
from tests.support.inferences import make_config, make_request, make_tensor
from tests.support.scheduled import no_submit

TENSORS = """
    backend: "python"
    input { name: "IN" data_type: TYPE_FP32 dims: 1 }
    output { name: "OUT" data_type: TYPE_FP32 dims: 1 }
"""

CODE = """
    import pathlib

    class TritonPythonModel:
        def initialize(self, args):
            self.folder = pathlib.Path(args["model_repository"])

        def execute(self, requests):
            return []

        def finalize(self):
            with (self.folder / "finalized").open("a") as file:
                file.write("x")
"""

GPU_0 = "instance_group { kind: KIND_GPU gpus: 0 }"
IN_A_THREAD = 'parameters { key: "naiad.host" value { string_value: "thread" } }'

FACTORY = SchedulerFactory(resources=UnlimitedResources(), clock=SystemClock())


class Devices:
    """A GPU of which so much is in use, one number per look."""

    def __init__(self, *used: int) -> None:
        self.used = list(used)

    def memory(self, uuid: str) -> tuple[int, int]:
        return self.used.pop(0) if len(self.used) > 1 else self.used[0], 100

    def memory_of_processes(self, uuid: str) -> dict[int, int]:
        return {}


class Loading:
    """A loader, and a model folder "m".

    Attributes:
        instances: those that the scheduler factory was given, at each load.
    """

    def __init__(
        self, root: pathlib.Path, config: str = "", *, devices: Devices | None = None
    ) -> None:
        self.folder = write(root / "m", {"config.pbtxt": TENSORS + config, "1/model.py": CODE})
        self.instances: list[collections.abc.Sequence[HostedInstance]] = []
        self._workers_before = set(ORPHAN_REAPER.groups())
        self.make_scheduler: MakeScheduler = FACTORY
        monitor: typing.Any = devices
        self.loader = Loader(
            registry=Registry(clock=SystemClock()),
            backend_options={},
            config_name="",
            auto_complete=False,
            gpus=() if devices is None else (0,),
            threads=1,
            clock=SystemClock(),
            make_scheduler=self._make_scheduler,
            submit=no_submit,
            rpc_handler_of=lambda _model, _instance: ClosedRpcHandler(),
            devices=None if devices is None else DeviceMemory(monitor, {0: "GPU-a"}),
            gpu_limits={} if devices is None else {0: 0.5},
        )

    async def load(self) -> Model:
        plan = await self.loader.plan(self.folder)
        assert plan.versions, plan.reason
        return await self.loader.load(plan.versions[0])

    def workers(self) -> set[int]:
        """Worker processes of this loader; those that an earlier test has left to end do not count."""
        return set(ORPHAN_REAPER.groups()) - self._workers_before

    def finalized(self) -> int:
        file = self.folder / "finalized"
        return len(file.read_text()) if file.exists() else 0

    def _make_scheduler(
        self,
        config: ModelConfig,
        *,
        version: int,
        instances: collections.abc.Sequence[HostedInstance],
        submit: Submit,
        statistics: ModelStatistics,
        strategy: Strategy | None = None,
    ) -> Scheduler:
        self.instances.append(instances)
        return self.make_scheduler(
            config, version=version, instances=instances, submit=submit, statistics=statistics
        )


def refuse(*_arguments: object, **_named: object) -> typing.NoReturn:
    raise invalid("its instances need more resources than there are")


@pytest.fixture
def loading(tmp_path: pathlib.Path) -> collections.abc.Iterator[Loading]:
    loading = Loading(tmp_path)
    yield loading
    loading.loader.close()
    assert not loading.workers(), "a worker process is left"


async def test_three_loads_that_the_scheduler_refuses_leave_no_worker_process(
    loading: Loading,
) -> None:
    loading.make_scheduler = refuse
    for _ in range(3):
        with pytest.raises(InferenceError, match="need more resources than there are"):
            await loading.load()
    specs = [[each.spec for each in made] for made in loading.instances]
    assert specs == [[InstanceSpec("m_0", InstanceKind.CPU, 0)]] * 3
    assert not loading.workers()
    assert loading.finalized() == 3
    loading.make_scheduler = FACTORY
    model = await loading.load()
    assert model.ready_now() is not False
    assert len(loading.workers()) == 1
    await model.stop()


async def test_a_refused_load_closes_an_instance_in_a_thread(tmp_path: pathlib.Path) -> None:
    loading = Loading(tmp_path, IN_A_THREAD)
    loading.make_scheduler = refuse
    with pytest.raises(InferenceError, match="need more resources than there are"):
        await loading.load()
    assert loading.finalized() == 1
    loading.loader.close()


async def test_a_model_is_released_by_a_thread_of_the_loads_and_none_of_the_loop(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compression of bodies shares the loop's."""
    threads: list[str] = []

    def closed(loaded: LoadedModel) -> None:
        threads.append(threading.current_thread().name)
        loaded.close()

    monkeypatch.setattr(instances, "_close", closed)
    loading = Loading(tmp_path, IN_A_THREAD)
    model = await loading.load()
    await model.stop()
    await model.stop()
    assert [name.startswith("load") for name in threads] == [True]
    loading.loader.close()


async def test_a_gpu_over_its_limit_after_the_load_leaves_no_worker_process(
    tmp_path: pathlib.Path,
) -> None:
    for used in ((10, 10, 10, 90), (10, 10, 90)):
        loading = Loading(tmp_path, GPU_0, devices=Devices(*used))
        with pytest.raises(InferenceError, match="memory limit set for GPU 0 has exceeded"):
            await loading.load()
        assert len(loading.instances) == 1, "refused before the instances were made"
        assert not loading.workers()
        loading.loader.close()
    assert loading.finalized() == 2


async def test_a_load_that_is_cancelled_after_its_instances_were_made_leaves_nothing(
    loading: Loading,
) -> None:
    def cancel_then_make(*arguments: typing.Any, **named: typing.Any) -> Scheduler:
        task.cancel()
        return FACTORY(*arguments, **named)

    loading.make_scheduler = cancel_then_make
    task = asyncio.ensure_future(loading.load())
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not loading.workers()
    assert loading.finalized() == 1


class Echo:
    """A scheduler without instances: it responds at once."""

    def __init__(self, statistics: ModelStatistics) -> None:
        self.statistics = statistics
        self.stopped = False

    def submit(self, inference: Inference) -> None:
        inference.completed = True
        inference.on_response(InferResponse("m", 1, inference.request.id, [], {}))

    def inflight(self) -> int:
        return 0

    def occupancy(self) -> Occupancy:
        return Occupancy([], lambda _: False)

    def ready_now(self) -> bool:
        return not self.stopped

    async def ready(self) -> bool:
        return not self.stopped

    def resize(self, added: object, removed: object) -> None:
        raise AssertionError("it has no instances")

    async def stop(self) -> None:
        self.stopped = True


def echo(
    config: ModelConfig,
    *,
    version: int,
    instances: collections.abc.Sequence[HostedInstance],
    submit: Submit,
    statistics: ModelStatistics,
    strategy: Strategy | None = None,
) -> Scheduler:
    return Echo(statistics)


async def test_a_model_without_instances_is_loaded_served_and_unloaded(loading: Loading) -> None:
    """It has no backend either, as an ensemble."""
    loading.make_scheduler = echo
    config = msgspec.structs.replace(make_config(), backend="", instance_groups=())
    model = await loading.loader.load(
        VersionPlan(config=config, version=1, model_dir=loading.folder)
    )
    assert loading.instances == [[]]
    responses: list[InferResponse] = []
    model.infer(make_request(make_tensor("x", 1, 1)), responses.append)
    assert [response.error for response in responses] == [None]
    assert model.ready_now()
    await model.stop()
    assert not model.ready_now()


async def test_a_plan_says_why_each_version_without_its_model_file_fails_to_load(
    loading: Loading,
) -> None:
    config = loading.folder / "config.pbtxt"
    config.write_text(f"{config.read_text()}version_policy {{ all {{ }} }}\n")
    (loading.folder / "2").mkdir()
    (loading.folder / "1" / "model.py").unlink()
    plan = await loading.loader.plan(loading.folder)
    assert not plan.versions
    error = failed_plan(plan, serving=False)
    assert error.code is ErrorCode.INVALID_ARG
    assert error.message.startswith("load failed for model 'm': version 1 is at UNAVAILABLE state:")
    for version in (1, 2):
        missing = f"Python model file not found in '{loading.folder}/{version}/model.py'"
        assert missing in plan.failed_versions[version]


async def test_a_refused_load_finalizes_its_batching_strategy(
    loading: Loading, tmp_path: pathlib.Path
) -> None:
    path = tmp_path / "batchstrategy.py"
    path.write_text(
        "class BatchStrategy:\n"
        "    def include(self, batch, request): return True\n"
        f"    def finalize(self): open({str(tmp_path / 'finalized')!r}, 'w').close()\n"
    )
    loading.make_scheduler = refuse
    config = msgspec.structs.replace(
        make_config(),
        backend="",
        instance_groups=(),
        message=model_config_pb2.ModelConfig(),
    )
    plan = VersionPlan(config=config, version=1, model_dir=loading.folder, strategy=path)
    with pytest.raises(InferenceError, match="more resources than there are"):
        await loading.loader.load(plan)
    assert (tmp_path / "finalized").exists()
    assert not [name for name in sys.modules if name.startswith("naiad_batch_strategy_")]

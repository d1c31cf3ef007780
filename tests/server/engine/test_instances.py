"""Where a model's instances run, and what a stop does to those that are being made."""

import asyncio
import pathlib
from typing import Any

import pytest

from naiad.backends.backend import WorkerPlan, instance_specs
from naiad.backends.instance import InstanceSpec
from naiad.config.model_config import InstanceGroup, InstanceKind, ModelConfig
from naiad.core.clock import ManualClock
from naiad.engine.instances.factory import InstanceFactory, OfVersion
from naiad.engine.instances.placement import host_of
from naiad.engine.instances.workers import processes_of
from naiad.errors import InferenceError
from naiad.hosts.host import HostedInstance
from naiad.metrics.statistics import ModelStatistics
from naiad.repository.plan import VersionPlan
from tests.server.backends.configs import model_config


def on_gpus(*gpus: int, host: str = "") -> ModelConfig:
    group = InstanceGroup(name="g", kind=InstanceKind.GPU, count=1, gpus=gpus)
    parameters = {"naiad.host": host} if host else {}
    return model_config(inputs=[], outputs=[], instance_groups=(group,), parameters=parameters)


def groups(*kinds: InstanceKind) -> ModelConfig:
    each = tuple(
        InstanceGroup(
            name=f"g{k}", kind=kind, count=1, gpus=(0,) if kind is InstanceKind.GPU else ()
        )
        for k, kind in enumerate(kinds)
    )
    return model_config(inputs=[], outputs=[], instance_groups=each)


@pytest.mark.parametrize(
    ("kinds", "host"),
    [
        ([InstanceKind.CPU], "thread"),
        ([InstanceKind.MODEL], "thread"),
        ([InstanceKind.GPU], "process"),
        ([InstanceKind.CPU, InstanceKind.GPU], "process"),
        ([], "thread"),
    ],
)
def test_a_model_with_an_instance_on_a_gpu_runs_in_processes_by_default(
    kinds: list[InstanceKind], host: str
) -> None:
    assert host_of(groups(*kinds), "thread", {}) == host
    assert host_of(groups(*kinds), "process", {}) == "process"
    assert host_of(groups(*kinds), "process", {"host": "thread"}) == "thread"


@pytest.mark.parametrize(
    ("gpus", "slices"), [((0, 1), ()), ((0,), (0, 1)), ((0, 1), (0, 1)), ((1,), (0,)), ((1,), (1,))]
)
def test_slices_change_nothing_in_that(gpus: tuple[int, ...], slices: tuple[int, ...]) -> None:
    assert host_of(on_gpus(*gpus), "thread", {}, frozenset(slices)) == "process"


def test_a_thread_that_cannot_reach_the_slice_is_refused() -> None:
    slices = frozenset((0, 1, 2))
    assert host_of(on_gpus(0, host="thread"), "process", {}, slices) == "thread"
    with pytest.raises(
        InferenceError, match=r"instances on GPU 1, 2 and host=thread: CUDA opens one MIG slice"
    ):
        host_of(on_gpus(0, 1, 2, host="thread"), "process", {}, slices)
    with pytest.raises(InferenceError, match=r"write gpus: \[ 0 \]"):
        host_of(on_gpus(1), "process", {"host": "thread"}, slices)


def test_instances_share_a_process_if_the_backend_says_so_and_they_see_the_same_devices() -> None:
    def single(name: str, device: int) -> tuple[WorkerPlan, list[InstanceSpec]]:
        spec = InstanceSpec(name, InstanceKind.GPU, device)
        seen = spec._replace(device_id=0)
        environ = {"CUDA_VISIBLE_DEVICES": str(device)}
        plan = WorkerPlan(load="m:l", settings={}, executable="python", instances=(seen,), environ=environ)  # fmt: skip
        return plan, [spec]

    each = [single("g_0", 0), single("g_0", 1), single("g_1", 0), single("g_1", 1)]
    shared = processes_of(each, shared=True)
    assert [[spec.name for spec in plan.instances] for plan, _ in shared] == [["g_0", "g_1"]] * 2
    assert [plan.environ["CUDA_VISIBLE_DEVICES"] for plan, _ in shared] == ["0", "1"]
    # The server knows the devices by their own numbers.
    assert [[(spec.name, spec.device_id) for spec in specs] for _, specs in shared] == [
        [("g_0", 0), ("g_1", 0)],
        [("g_0", 1), ("g_1", 1)],
    ]
    assert processes_of(each, shared=False) == each


def test_instances_on_different_devices_do_not_share_a_process_although_they_see_the_same() -> None:
    """As with the parameter `naiad.visible_gpus`: an error on one device must not end the instances on another."""
    each = [
        (
            WorkerPlan(load="m:l", settings={}, executable="python", instances=(spec,)),
            [spec],
        )
        for spec in (
            InstanceSpec("g_0", InstanceKind.GPU, 0),
            InstanceSpec("g_0", InstanceKind.GPU, 1),
            InstanceSpec("c_0", InstanceKind.CPU, 0),
            InstanceSpec("g_1", InstanceKind.GPU, 1),
        )
    ]
    shared = processes_of(each, shared=True)
    assert [[spec[:3] for spec in specs] for _, specs in shared] == [
        [("g_0", InstanceKind.GPU, 0)],
        [("g_0", InstanceKind.GPU, 1), ("g_1", InstanceKind.GPU, 1)],
        [("c_0", InstanceKind.CPU, 0)],
    ]


def test_the_models_setting_takes_precedence() -> None:
    assert host_of(on_gpus(0, host="process"), "thread", {"host": "thread"}) == "process"
    assert host_of(on_gpus(0), "thread", {"host": "process"}) == "process"
    with pytest.raises(InferenceError, match="is not a valid host: choose thread or process"):
        host_of(on_gpus(0, host="elsewhere"), "thread", {})


class Workers:
    """Worker processes that become ready when `may_start` is set."""

    def __init__(self) -> None:
        self.may_start = asyncio.Event()
        self.starts = 0
        self.closed = 0

    async def start(self, processes: object) -> "list[tuple[None, Workers]]":
        self.starts += 1
        await self.may_start.wait()
        return [(None, self)]

    async def close(self) -> None:
        self.closed += 1


def factory_of(workers: Workers) -> InstanceFactory:
    async def in_thread(work: Any, argument: Any) -> Any:
        return workers, []

    unused: Any = None
    return InstanceFactory(
        registry=unused,
        backend_options={},
        slices=frozenset(),
        in_thread=in_thread,
        clock=ManualClock(),
        rpc_handler_of=unused,
    )


def load(factory: InstanceFactory) -> "asyncio.Task[list[HostedInstance]]":
    plan = VersionPlan(config=on_gpus(0), version=1, model_dir=pathlib.Path("m"))
    return asyncio.create_task(
        factory._in_processes(OfVersion(ModelStatistics()), plan, instance_specs(plan.config))
    )


async def test_a_stop_ends_workers_that_are_still_loading_and_starts_no_more() -> None:
    workers = Workers()
    factory = factory_of(workers)
    loading = load(factory)
    while not workers.starts:  # noqa: ASYNC110 - there is no event to wait for
        await asyncio.sleep(0)
    factory.stop()
    for each in (loading, load(factory)):
        with pytest.raises(InferenceError, match="the server is stopping"):
            await each
    assert workers.starts == 1


async def test_workers_that_are_ready_when_their_load_is_cancelled_are_closed() -> None:
    workers = Workers()
    loading = load(factory_of(workers))
    while not workers.starts:  # noqa: ASYNC110 - there is no event to wait for
        await asyncio.sleep(0)
    workers.may_start.set()
    await asyncio.sleep(0)
    loading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await loading
    assert workers.closed == 1

"""The loads of a worker's instances, without a process: what is sent, and how each of them ends."""

import asyncio
import errno
import json
import typing

import pytest

from naiad.backends.backend import WorkerPlan
from naiad.backends.instance import InstanceSpec
from naiad.config.model_config import InstanceKind
from naiad.errors import InferenceError, unavailable
from naiad.hosts.host import LOAD, Limit, WorkerInstance
from naiad.hosts.link import kinds
from naiad.hosts.process.loads import InstanceLoads
from naiad.hosts.process.output_log import Identity
from naiad.hosts.process.worker_process import WorkerProcess
from naiad.hosts.warmup import Warmup

IDENTITY = Identity("m", 1, "m_0_0")
SPECS = {place: InstanceSpec(f"m_0_{place}", InstanceKind.CPU, 0) for place in (0, 1)}
PLAN = WorkerPlan(
    load="a.b:load", settings={}, executable="python", instances=tuple(SPECS.values())
)
LOADED = json.dumps({"threads": [7], "prefetches": True}).encode()
REFUSED = json.dumps(["INTERNAL", "it cannot"]).encode()
ONE = typing.cast("WorkerInstance", None)


class Worker:
    """A worker process as loads use it."""

    pid = 4711
    refuses = 0
    """The kind of message for which there is no descriptor."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, int]] = []
        self.done: list[tuple[str, int]] = []

    @property
    def instances(self) -> "Worker":
        """Its links."""
        return self

    def send(self, place: int, kind: int, *rest: object) -> None:
        if kind == self.refuses:
            raise OSError(errno.EMFILE, "Too many open files")
        self.sent.append((place, kind))

    def add(self, place: int, instance: WorkerInstance, header: bytes) -> None:
        self.done.append(("add", place))

    def ask_to_close(self, place: int) -> None:
        self.done.append(("close", place))

    def drop(self, place: int) -> None:
        self.done.append(("drop", place))

    def dump_and_kill(self, because: str) -> None:
        self.done.append((because, 0))


class World:
    """The loads of a process, and the process."""

    def __init__(self, seconds: float = 0, warmup: "Warmup | None" = None) -> None:
        self.process = Worker()
        self.worker = typing.cast("WorkerProcess", self.process)
        self.loads = InstanceLoads(
            IDENTITY,
            limit=Limit(LOAD, seconds),
            warmup=warmup,
            loop=asyncio.get_running_loop(),
        )

    async def first(self) -> "asyncio.Task[typing.Any]":
        """The first load, begun."""
        begun = asyncio.create_task(self.loads.first(self.worker, PLAN, SPECS))
        await asyncio.sleep(0)
        return begun

    async def further(self, place: int = 2) -> "asyncio.Task[typing.Any]":
        """Another one, begun."""
        spec = InstanceSpec("m_0_2", InstanceKind.CPU, 0)
        begun = asyncio.create_task(self.loads.further(self.worker, IDENTITY, place, spec, ONE))
        await asyncio.sleep(0)
        return begun


async def test_a_process_makes_its_first_instances_by_one_message() -> None:
    world = World()
    load = await world.first()
    assert world.process.sent == [(0, kinds.LOAD)]
    assert not world.loads.take(world.worker, 0, kinds.OUTCOME, b"{}")
    assert world.loads.take(world.worker, 0, kinds.LOADED, LOADED)
    loaded = await load
    assert (loaded.threads, loaded.prefetches, loaded.gathers_inputs) == ([7], True, True)
    assert not world.loads.take(world.worker, 0, kinds.LOADED, LOADED)  # only the first end counts


async def test_a_refusal_and_a_death_fail_the_first_load() -> None:
    world = World()
    load = await world.first()
    assert world.loads.take(world.worker, 0, kinds.REFUSED, REFUSED)
    with pytest.raises(InferenceError, match="it cannot"):
        await load
    load = await world.first()
    world.loads.fail(unavailable("it died"))
    with pytest.raises(InferenceError, match="it died"):
        await load


async def test_a_further_instance_is_loaded_beside_those_that_serve() -> None:
    world = World()
    load = await world.further()
    assert list(world.loads.places) == [2]
    assert world.loads.take(world.worker, 2, kinds.LOADED, LOADED)
    assert (await load).threads == [7]
    assert world.process.done == [("add", 2)]
    assert list(world.loads.places) == []


async def test_a_further_instance_that_is_refused_leaves_its_place() -> None:
    world = World()
    load = await world.further()
    assert world.loads.take(world.worker, 2, kinds.REFUSED, REFUSED)
    with pytest.raises(InferenceError, match="it cannot"):
        await load
    assert ("drop", 2) in world.process.done


class Samples:
    """A warmup with large samples."""

    def message(self) -> tuple[bytes]:
        return (b"[]",)


async def test_samples_that_cannot_be_sent_fail_their_load_with_words() -> None:
    # Any other error would end the restart of the worker for good, and an instance would wait for its samples for ever.
    world = World(warmup=typing.cast("Warmup", Samples()))
    world.process.refuses = kinds.WARM_UP
    with pytest.raises(InferenceError, match="Too many open files"):
        await (await world.first())
    with pytest.raises(InferenceError, match="Too many open files"):
        await (await world.further())
    assert world.process.done == [("add", 2), ("close", 2)]
    assert list(world.loads.places) == []


async def test_a_further_instance_whose_message_is_lost_fails_alone() -> None:
    # Such as a refusal with a long message, for whose segment the server has no descriptor left.
    world = World()
    first = await world.first()
    for kind, end in ((kinds.REFUSED, "drop"), (kinds.LOADED, "close")):
        load = await world.further()
        world.loads.lost(world.worker, 2, kind, unavailable("no descriptor is left"))
        with pytest.raises(InferenceError, match="no descriptor is left"):
            await load
        assert (end, 2) in world.process.done
    assert not first.done()
    world.loads.lost(world.worker, 0, kinds.REFUSED, unavailable("no descriptor is left"))
    with pytest.raises(InferenceError, match="no descriptor is left"):
        await first


@pytest.mark.looptime
async def test_a_further_instance_that_takes_too_long_is_closed_once_it_is_made() -> None:
    world = World(seconds=5)
    load = await world.further()
    await asyncio.sleep(4.9)
    assert not load.done()
    with pytest.raises(InferenceError, match=r"naiad.load_timeout \(5 s\)"):
        await load
    assert world.process.done == [("add", 2), ("close", 2)]


@pytest.mark.looptime
async def test_a_first_load_that_takes_too_long_has_the_process_killed() -> None:
    world = World(seconds=5)
    load = await world.first()
    await asyncio.sleep(5.1)
    ((because, _),) = world.process.done
    assert "naiad.load_timeout" in because
    world.loads.fail(unavailable("it was killed"))
    with pytest.raises(InferenceError):
        await load


@pytest.mark.looptime
async def test_a_load_that_ends_in_time_leaves_no_timer() -> None:
    world = World(seconds=5)
    load = await world.first()
    world.loads.take(world.worker, 0, kinds.LOADED, LOADED)
    await load
    await asyncio.sleep(10)
    assert world.process.done == []


@pytest.mark.looptime
async def test_a_closed_link_fails_a_further_instance_unless_the_process_ends_first() -> None:
    world = World()
    assert not world.loads.unreachable(IDENTITY, 0)
    load = await world.further()
    assert world.loads.unreachable(IDENTITY, 2)
    with pytest.raises(InferenceError, match="no file descriptor"):
        await load
    load = await world.further()
    assert world.loads.unreachable(IDENTITY, 2)
    world.loads.fail_further(unavailable("it died"))
    with pytest.raises(InferenceError, match="it died"):
        await load


async def test_a_cancelled_load_of_a_further_instance_closes_what_is_made() -> None:
    world = World()
    load = await world.further()
    load.cancel()
    await asyncio.wait({load})
    assert world.process.done == [("add", 2), ("close", 2)]
    assert list(world.loads.places) == []

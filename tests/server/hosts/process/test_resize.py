"""Instances that come to a worker process that serves, and leave it: the model stays loaded, and the others never notice."""

import asyncio
import pathlib
from typing import Any

import msgspec
import pytest

from naiad.backends.backend import WorkerPlan
from naiad.backends.instance import InstanceSpec
from naiad.config.model_config import InstanceKind
from naiad.errors import ErrorCode, InferenceError
from naiad.hosts.host import LOAD, Limit
from naiad.hosts.process.worker_life import State
from naiad.metrics.statistics import RestartReason
from tests.server.hosts.process.several import DEFERS, DIES, FILLS, WAITS, WHERE
from tests.server.hosts.process.test_instances import let_go, notes, plan, start
from tests.server.hosts.process.workers import (
    GIVE_UP_S,
    Hosted,
    Hosts,
    answers,
    ask,
    exists,
    open_descriptors,
    told,
)
from tests.support.waiting import until

pytestmark = pytest.mark.slow


def more(folder: pathlib.Path, *names: str) -> WorkerPlan:
    """Further instances of the process."""
    specs = tuple(InstanceSpec(name, InstanceKind.CPU, 0) for name in names)
    return msgspec.structs.replace(plan(folder), instances=specs)


async def close(hosted: Hosted, place: int) -> None:
    """Remove an instance."""
    await asyncio.wait_for(hosted.hosts[place].close(), GIVE_UP_S)


async def where(hosted: Hosted, place: int) -> tuple[float, float]:
    """The process and the thread that run an instance's batches."""
    outcome = await asyncio.wait_for(hosted.submit(ask((WHERE, 0)), to=place), GIVE_UP_S)
    values: Any = answers(outcome)[0]["OUT"]
    return values[0][0], values[0][1]


def names(hosted: Hosted) -> list[str]:
    """Those of the instances that the next process would have."""
    return [spec.name for spec, _ in hosted.worker.instances.values()]


def threads_of(pid: int) -> int:
    """How many threads a process has."""
    return len(list(pathlib.Path(f"/proc/{pid}/task").iterdir()))


async def test_an_added_instance_shares_the_process_and_what_it_loaded_and_runs_beside_the_others(
    hosts: Hosts, tmp_path: pathlib.Path
) -> None:
    hosted = await start(hosts, tmp_path, 1)
    busy = hosted.submit(ask((WAITS, 0)), to=0)
    await until((tmp_path / "begun m_0").exists)
    added = await hosted.add(more(tmp_path, "m_1", "m_2"))
    assert [host.name for host in added] == ["m_1", "m_2"]
    at = [await where(hosted, place) for place in (1, 2)]
    assert {pid for pid, _ in at} == {hosted.worker.pid}
    let_go(tmp_path, "m_0")
    answers(await asyncio.wait_for(busy, GIVE_UP_S))
    at.append(await where(hosted, 0))
    assert len({thread for _, thread in at}) == 3
    assert notes(tmp_path) == ["loaded"]
    assert hosted.usable == []
    assert all([await host.ready() for host in hosted.hosts])


async def test_the_process_keeps_the_others_when_its_first_instance_is_removed_and_ends_with_the_last(
    hosts: Hosts, tmp_path: pathlib.Path
) -> None:
    hosted = await start(hosts, tmp_path, 2)
    await hosted.add(more(tmp_path, "m_2"))
    pid = hosted.worker.pid
    await close(hosted, 0)
    assert notes(tmp_path) == ["loaded", "m_0 closed"]
    assert [(await where(hosted, place))[0] for place in (1, 2)] == [pid, pid]
    await close(hosted, 2)
    assert notes(tmp_path) == ["loaded", "m_0 closed", "m_2 closed"]
    await close(hosted, 1)
    assert notes(tmp_path)[3:] == ["m_1 closed", "model closed"]
    assert not exists(pid)


async def test_instances_come_and_go_many_times_and_nothing_is_left(
    hosts: Hosts, tmp_path: pathlib.Path
) -> None:
    hosted = await start(hosts, tmp_path, 1)
    worker = hosted.worker.worker
    assert worker is not None
    before = threads_of(worker.pid)
    await hosted.add(more(tmp_path, "a"))
    await close(hosted, 1)
    descriptors = open_descriptors()
    for _ in range(10):
        (added,) = await hosted.add(more(tmp_path, "a"))
        await where(hosted, len(hosted.hosts) - 1)
        await asyncio.wait_for(added.close(), GIVE_UP_S)
    assert list(worker.links) == [0]
    assert worker.place._threads == [worker.pid]
    await until(lambda: open_descriptors() <= descriptors)
    await until(lambda: threads_of(worker.pid) == before)


async def test_a_batch_in_execution_comes_back_before_its_instance_is_closed(
    hosts: Hosts, tmp_path: pathlib.Path
) -> None:
    hosted = await start(hosts, tmp_path, 2)
    busy = hosted.submit(ask((WAITS, 0)), to=1)
    await until((tmp_path / "begun m_1").exists)
    closing = asyncio.ensure_future(close(hosted, 1))
    await where(hosted, 0)
    assert not closing.done()
    assert notes(tmp_path) == ["loaded"]
    let_go(tmp_path, "m_1")
    answers(await asyncio.wait_for(busy, GIVE_UP_S))
    await closing
    assert notes(tmp_path) == ["loaded", "m_1 closed"]


async def test_the_process_in_place_of_one_that_died_makes_those_that_there_are_then(
    hosts: Hosts, tmp_path: pathlib.Path
) -> None:
    hosted = await start(hosts, tmp_path, 2)
    await hosted.add(more(tmp_path, "m_2"))
    await close(hosted, 0)
    first = hosted.worker.pid
    waits = hosted.submit(ask((WAITS, 0)), to=1)
    await until((tmp_path / "begun m_1").exists)
    died = hosted.submit(ask((DIES, 0)), to=2)
    for out in (waits, died):
        error = (await asyncio.wait_for(out, GIVE_UP_S)).error
        assert error is not None
        assert error.code is ErrorCode.UNAVAILABLE
    await until(lambda: hosted.usable == [False, False, True, True])
    assert hosted.restarts == [RestartReason.DIED]
    assert names(hosted) == ["m_1", "m_2"]
    pids = {(await where(hosted, place))[0] for place in (1, 2)}
    assert pids == {hosted.worker.pid} != {first}
    worker = hosted.worker.worker
    assert worker is not None
    assert list(worker.links) == [1, 2]


async def test_one_that_is_removed_while_the_process_is_restarted_is_not_made_or_closed_again(
    hosts: Hosts, tmp_path: pathlib.Path
) -> None:
    hosted = await start(hosts, tmp_path, 2)
    (tmp_path / "hold m_0").touch()
    await asyncio.wait_for(hosted.submit(ask((DIES, 0)), to=0), GIVE_UP_S)
    await until((tmp_path / "makes m_0").exists)
    await close(hosted, 1)
    (tmp_path / "hold m_0").unlink()
    await until(lambda: hosted.usable[-1:] == [True])
    await until(lambda: notes(tmp_path)[-1] == "m_1 closed")
    await where(hosted, 0)
    worker = hosted.worker.worker
    assert worker is not None
    await until(lambda: list(worker.links) == [0])


async def test_one_that_cannot_be_made_is_an_error_and_the_others_serve_on(
    hosts: Hosts, tmp_path: pathlib.Path
) -> None:
    hosted = await hosts.start("pass", worker_plan=plan(tmp_path, refuse="m_2"))
    with pytest.raises(InferenceError, match="instance 'm_2' is refused") as refused:
        await hosted.add(more(tmp_path, "m_1", "m_2", "m_3"))
    assert refused.value.code is ErrorCode.INVALID_ARG
    assert names(hosted) == ["m_0", "m_1"]
    worker = hosted.worker.worker
    assert worker is not None
    await until(lambda: list(worker.links) == [0, 1])
    await where(hosted, 0)
    assert hosted.restarts == []
    await hosted.add(more(tmp_path, "m_4"))
    await where(hosted, 2)


async def test_a_process_that_is_being_restarted_takes_none(
    hosts: Hosts, tmp_path: pathlib.Path
) -> None:
    hosted = await start(hosts, tmp_path, 1)
    (tmp_path / "hold m_0").touch()
    await asyncio.wait_for(hosted.submit(ask((DIES, 0))), GIVE_UP_S)
    await until((tmp_path / "makes m_0").exists)
    with pytest.raises(InferenceError, match="is being restarted, so that no instance"):
        await hosted.add(more(tmp_path, "m_1"))
    (tmp_path / "hold m_0").unlink()
    await until(lambda: hosted.usable[-1:] == [True])
    assert names(hosted) == ["m_0"]


async def test_a_process_that_dies_while_it_makes_one_is_an_error_and_restarted_without_it(
    hosts: Hosts, tmp_path: pathlib.Path
) -> None:
    hosted = await start(hosts, tmp_path, 1)
    (tmp_path / "hold m_1").touch()
    adding = asyncio.ensure_future(hosted.add(more(tmp_path, "m_1")))
    await until((tmp_path / "makes m_1").exists)
    await asyncio.wait_for(hosted.submit(ask((DIES, 0))), GIVE_UP_S)
    with pytest.raises(InferenceError, match="exited with status 3 while it loaded the model"):
        await adding
    await until(lambda: hosted.usable == [False, True])
    assert names(hosted) == ["m_0"]
    await where(hosted, 0)


@pytest.mark.parametrize("how", ["limit", "cancelled"])
async def test_one_that_is_not_made_in_time_or_not_wanted_any_more_is_closed_once_it_is_made(
    hosts: Hosts, tmp_path: pathlib.Path, how: str
) -> None:
    limit_s = 0.2 if how == "limit" else 0
    (tmp_path / "hold m_1").touch()
    hosted = await hosts.start("pass", worker_plan=plan(tmp_path, 1), load_timeout_s=60)
    hosted.worker.loads._limit = Limit(LOAD, limit_s)
    adding = asyncio.ensure_future(hosted.add(more(tmp_path, "m_1")))
    await until((tmp_path / "makes m_1").exists)
    if how == "cancelled":
        adding.cancel()
        with pytest.raises(asyncio.CancelledError):
            await adding
    else:
        with pytest.raises(InferenceError, match=r"'m_1' was not made within naiad\.load_timeout"):
            await adding
    await where(hosted, 0)
    (tmp_path / "hold m_1").unlink()
    await until(lambda: notes(tmp_path) == ["loaded", "m_1 closed"])
    worker = hosted.worker.worker
    assert worker is not None
    await until(lambda: list(worker.links) == [0])
    assert hosted.restarts == []


async def test_a_process_without_a_descriptor_for_one_says_so_and_serves_on(
    hosts: Hosts, tmp_path: pathlib.Path
) -> None:
    hosted = await start(hosts, tmp_path, 1)
    answers(await asyncio.wait_for(hosted.submit(ask((FILLS, 1))), GIVE_UP_S))
    with pytest.raises(InferenceError, match="has no file descriptor left for the instance"):
        await hosted.add(more(tmp_path, "m_1"))
    answers(await asyncio.wait_for(hosted.submit(ask((FILLS, 0))), GIVE_UP_S))
    await hosted.add(more(tmp_path, "m_1"))
    await where(hosted, 1)
    assert hosted.restarts == []


async def test_deferred_responses_and_cancellations_reach_an_added_instance(
    hosts: Hosts, tmp_path: pathlib.Path
) -> None:
    hosted = await start(hosts, tmp_path, 1)
    await hosted.add(more(tmp_path, "m_1"))
    await asyncio.wait_for(hosted.submit(ask((DEFERS, 7)), to=1), GIVE_UP_S)
    let_go(tmp_path, "m_1")
    await until(lambda: told(hosted) == ["7.0!"])
    (tmp_path / "go m_1").unlink()
    (tmp_path / "begun m_1").unlink()
    one = ask((WAITS, 0))
    out = hosted.submit(one, to=1)
    await until((tmp_path / "begun m_1").exists)
    one.cancel()
    assert await hosted.hosts[1].ready()  # asked behind the cancellation
    let_go(tmp_path, "m_1")
    values: Any = answers(await asyncio.wait_for(out, GIVE_UP_S))[0]["OUT"]
    assert values[0][1] == 1


async def test_an_instance_that_does_not_close_is_left_in_the_process(
    hosts: Hosts, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    monkeypatch.setattr("naiad.hosts.process.supervisor.FINALIZE_TIMEOUT_S", 0.1)
    hosted = await start(hosts, tmp_path, 2)
    (tmp_path / "stay m_1").touch()
    await close(hosted, 1)
    assert (
        "instance 'm_1' does not close within 0.1 s: it stays in its process, unused" in caplog.text
    )
    assert hosted.worker._state is State.SERVING
    await where(hosted, 0)
    (tmp_path / "stay m_1").unlink()
    worker = hosted.worker.worker
    assert worker is not None
    await until(lambda: list(worker.links) == [0])

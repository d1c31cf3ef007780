"""Several instances of a model in one worker process: what each has for itself, and what happens to all of them."""

import asyncio
import pathlib
import subprocess
import sys
from typing import Any

import pytest

from naiad.backends.backend import WorkerPlan
from naiad.backends.instance import InstanceSpec
from naiad.config.model_config import InstanceKind
from naiad.errors import ErrorCode, InferenceError
from naiad.hosts.warmup import Warmup
from naiad.metrics.statistics import RestartReason
from tests.server.hosts.process.several import DEFERS, DIES, PRINTS, RAISES, WAITS, WHERE
from tests.server.hosts.process.workers import (
    GIVE_UP_S,
    Hosted,
    Hosts,
    answers,
    ask,
    exists,
    lines,
    told,
)
from tests.support.waiting import until

ROOT = pathlib.Path(__file__).parents[4]


def plan(folder: pathlib.Path, count: int = 2, **settings: Any) -> WorkerPlan:
    """A process with so many instances."""
    return WorkerPlan(
        load="tests.server.hosts.process.several:Model",
        settings={"folder": str(folder), **settings},
        executable=sys.executable,
        instances=tuple(InstanceSpec(f"m_{k}", InstanceKind.CPU, 0) for k in range(count)),
        environ={"PYTHONPATH": str(ROOT)},
    )


async def start(
    hosts: Hosts,
    folder: pathlib.Path,
    count: int = 2,
    *,
    timeout_s: float = 0,
    warmup: Warmup | None = None,
) -> Hosted:
    """Their hosts, started."""
    worker_plan = plan(folder, count)
    return await hosts.start("pass", worker_plan=worker_plan, timeout_s=timeout_s, warmup=warmup)


async def begin(hosted: Hosted, folder: pathlib.Path) -> list["asyncio.Future[Any]"]:
    """A batch on every instance, all of which have begun."""
    outs = [hosted.submit(ask((WAITS, 0)), to=place) for place in range(len(hosted.hosts))]
    for host in hosted.hosts:
        await until((folder / f"begun {host.name}").exists)
    return outs


def let_go(folder: pathlib.Path, *names: str) -> None:
    """End the waits of instances."""
    for name in names:
        (folder / f"go {name}").touch()


def notes(folder: pathlib.Path) -> list[str]:
    """What happened to the model, in order."""
    return (folder / "notes").read_text().splitlines()


async def test_instances_share_a_process_and_what_it_loaded_and_run_at_the_same_time_in_threads_of_their_own(
    hosts: Hosts, tmp_path: pathlib.Path
) -> None:
    hosted = await start(hosts, tmp_path, 3)
    outs = await begin(hosted, tmp_path)
    let_go(tmp_path, "m_0", "m_1", "m_2")
    pids = {answers(await out)[0]["OUT"][0][0] for out in outs}  # type: ignore[index]
    assert pids == {hosted.worker.pid}
    threads = [
        answers(await asyncio.wait_for(hosted.submit(ask((WHERE, 0)), to=place), GIVE_UP_S))[0]
        for place in (0, 1, 2, 0, 1, 2)
    ]
    assert threads[:3] == threads[3:]
    assert len({str(thread) for thread in threads}) == 3
    assert notes(tmp_path) == ["loaded"]


async def test_a_batch_that_fails_fails_alone(hosts: Hosts, tmp_path: pathlib.Path) -> None:
    hosted = await start(hosts, tmp_path)
    other = hosted.submit(ask((WAITS, 0)), to=0)
    failed = await asyncio.wait_for(hosted.submit(ask((RAISES, 0)), to=1), GIVE_UP_S)
    assert failed.error is not None
    assert "as it should" in failed.error.message
    assert not other.done()
    let_go(tmp_path, "m_0")
    answers(await asyncio.wait_for(other, GIVE_UP_S))
    assert hosted.usable == []


async def test_a_late_close_of_all_instances_fails_the_batches_of_all_and_ends_the_process_once(
    hosts: Hosts, tmp_path: pathlib.Path
) -> None:
    hosted = await start(hosts, tmp_path, 3)
    outs = await begin(hosted, tmp_path)
    leaving = asyncio.create_task(hosted.hosts[0].close())  # waits for its batch
    await asyncio.sleep(0)
    late = (each.close_late("the time is over") for each in hosted.hosts)
    await asyncio.wait_for(asyncio.gather(leaving, *late), GIVE_UP_S)
    for out in outs:
        assert "was killed, because the time is over" in str(out.result().error)
    assert hosted.worker.pid == 0
    assert hosted.restarts == []


async def test_the_death_of_the_process_fails_the_batches_of_all_and_one_restart_brings_all_back(
    hosts: Hosts, tmp_path: pathlib.Path
) -> None:
    hosted = await start(hosts, tmp_path, 3)
    first = hosted.worker.pid
    waiting = hosted.submit(ask((WAITS, 0)), to=2)
    dying = hosted.submit(ask((DIES, 0)), to=1)
    for name, out in (("m_2", waiting), ("m_1", dying)):
        outcome = await asyncio.wait_for(out, GIVE_UP_S)
        assert outcome.error is not None
        assert outcome.error.code is ErrorCode.UNAVAILABLE
        assert (
            f"(instance '{name}'): its worker process exited with status 3" in outcome.error.message
        )
    await until(lambda: hosted.usable == [False] * 3 + [True] * 3)
    assert hosted.restarts == [RestartReason.DIED]
    assert hosted.worker.pid not in {0, first}
    for place in range(3):
        answers(await asyncio.wait_for(hosted.submit(ask((WHERE, 0)), to=place), GIVE_UP_S))


async def test_no_instance_is_usable_any_more_when_the_first_batch_of_a_dead_process_comes_back(
    hosts: Hosts, tmp_path: pathlib.Path
) -> None:
    """Else the scheduler would send the next batch to another instance of it."""
    hosted = await start(hosts, tmp_path)
    seen: list[list[bool]] = []
    for host in hosted.hosts:
        host.submit([ask((WAITS, 0))], lambda _: seen.append(list(hosted.usable)))
        await until((tmp_path / f"begun {host.name}").exists)
    assert hosted.worker.worker is not None
    hosted.worker.worker.kill("was ended by a test")
    await until(lambda: len(seen) == 2)
    assert [each[:2] for each in seen] == [[False, False]] * 2


@pytest.mark.slow
async def test_a_batch_that_takes_too_long_ends_the_process_and_is_found_while_others_come_and_go(
    hosts: Hosts, tmp_path: pathlib.Path
) -> None:
    hosted = await start(hosts, tmp_path, timeout_s=1.0)
    late = hosted.submit(ask((WAITS, 0)), to=1)
    while not late.done():
        await asyncio.wait_for(hosted.submit(ask((WHERE, 0)), to=0), GIVE_UP_S)
    outcome = await late
    assert outcome.error is not None
    assert "took longer than naiad.execute_timeout (1 s) and was killed" in outcome.error.message
    await until(lambda: hosted.usable == [False, False, True, True])
    assert hosted.restarts == [RestartReason.TIMEOUT]


async def test_a_cancellation_reaches_the_request_of_the_instance_that_has_it(
    hosts: Hosts, tmp_path: pathlib.Path
) -> None:
    hosted = await start(hosts, tmp_path)
    requests = [ask((WAITS, 0)), ask((WAITS, 0))]
    outs = [hosted.submit(request, to=place) for place, request in enumerate(requests)]
    for name in ("m_0", "m_1"):
        await until((tmp_path / f"begun {name}").exists)
    requests[1].cancel()
    # The answer to this comes behind the cancellation on the same socket.
    assert await asyncio.wait_for(hosted.hosts[1].ready(), GIVE_UP_S)
    let_go(tmp_path, "m_0", "m_1")
    cancelled = [answers(await asyncio.wait_for(out, GIVE_UP_S))[0]["OUT"][0][1] for out in outs]  # type: ignore[index]
    assert cancelled == [0, 1]


async def test_deferred_responses_come_from_each_instance(
    hosts: Hosts, tmp_path: pathlib.Path
) -> None:
    hosted = await start(hosts, tmp_path)
    for place in (0, 1):
        outcome = await asyncio.wait_for(
            hosted.submit(ask((DEFERS, 10 + place)), to=place), GIVE_UP_S
        )
        assert outcome.execution is not None
        assert outcome.execution.responses == [None]
    let_go(tmp_path, "m_1")
    await until(lambda: told(hosted) == ["11.0!"])
    assert hosted.worker.worker is not None
    hosted.worker.worker.kill("was ended by a test")
    await until(lambda: told(hosted) == ["11.0!", "UNAVAILABLE!"])


async def test_each_instance_says_whether_it_is_ready(hosts: Hosts, tmp_path: pathlib.Path) -> None:
    hosted = await start(hosts, tmp_path)
    (tmp_path / "unready m_0").touch()
    ready = await asyncio.wait_for(
        asyncio.gather(*(host.ready() for host in hosted.hosts)), GIVE_UP_S
    )
    assert ready == [False, True]


async def test_the_load_fails_if_one_instance_cannot_be_made(
    hosts: Hosts, tmp_path: pathlib.Path
) -> None:
    hosted = hosts.make("pass", worker_plan=plan(tmp_path, refuse="m_1"))
    with pytest.raises(InferenceError, match="instance 'm_1' is refused"):
        await asyncio.wait_for(hosted.worker.start(), GIVE_UP_S)
    assert hosted.worker.pid == 0


async def test_the_end_waits_for_the_batches_of_all_and_closes_every_instance(
    hosts: Hosts, tmp_path: pathlib.Path
) -> None:
    hosted = await start(hosts, tmp_path)
    pid = hosted.worker.pid
    outs = await begin(hosted, tmp_path)
    closing = [asyncio.ensure_future(host.close()) for host in hosted.hosts]
    let_go(tmp_path, "m_0")
    answers(await asyncio.wait_for(outs[0], GIVE_UP_S))
    assert exists(pid)
    let_go(tmp_path, "m_1")
    answers(await asyncio.wait_for(outs[1], GIVE_UP_S))
    await asyncio.wait_for(asyncio.gather(*closing), GIVE_UP_S)
    assert not exists(pid)
    assert notes(tmp_path) == ["loaded", "m_0 closed", "m_1 closed", "model closed"]
    assert hosted.usable == []


async def test_an_unload_that_gives_up_ends_the_batches_of_all(
    hosts: Hosts, tmp_path: pathlib.Path
) -> None:
    hosted = await start(hosts, tmp_path)
    outs = await begin(hosted, tmp_path)
    closing = asyncio.gather(*(host.close() for host in hosted.hosts))
    await asyncio.sleep(0)
    hosted.hosts[1].abort("a test says so")
    for out in outs:
        error = (await asyncio.wait_for(out, GIVE_UP_S)).error
        assert error is not None
        assert "was killed, because a test says so" in error.message
    await asyncio.wait_for(closing, GIVE_UP_S)
    assert hosted.worker.pid == 0


async def test_ps_and_the_log_show_the_first_instance_and_how_many_more(
    hosts: Hosts, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    hosted = await start(hosts, tmp_path, 3)
    shown = subprocess.run(  # noqa: ASYNC221 - it takes milliseconds
        ["/bin/ps", "-o", "comm=,args=", "-p", str(hosted.worker.pid)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert shown.split() == [
        "m_0+2",
        "naiad-worker",
        "--model",
        "m",
        "--version",
        "1",
        "--instance",
        "m_0+2",
    ]
    await asyncio.wait_for(hosted.submit(ask((PRINTS, 0)), to=2), GIVE_UP_S)
    await until(lambda: "[m m_0+2] from m_2" in lines(caplog, "naiad"))


async def test_an_instance_whose_thread_ends_takes_the_process_with_it(
    hosts: Hosts, tmp_path: pathlib.Path
) -> None:
    """Else its next batch would never come back."""
    hosted = await start(hosts, tmp_path)
    worker = hosted.worker.worker
    assert worker is not None
    worker.links[1]._socket.send(b"\x02")
    await until(lambda: hosted.usable == [False, False, True, True])
    assert hosted.restarts == [RestartReason.DIED]
    answers(await asyncio.wait_for(hosted.submit(ask((WHERE, 0)), to=1), GIVE_UP_S))


async def test_an_instance_that_is_removed_leaves_the_process_to_the_others_and_the_last_one_ends_it(
    hosts: Hosts, tmp_path: pathlib.Path
) -> None:
    hosted = await start(hosts, tmp_path)
    pid = hosted.worker.pid
    other = hosted.submit(ask((WAITS, 0)), to=1)
    await until((tmp_path / "begun m_1").exists)
    await asyncio.wait_for(hosted.hosts[0].close(), GIVE_UP_S)
    let_go(tmp_path, "m_1")
    answers(await asyncio.wait_for(other, GIVE_UP_S))
    assert exists(pid)
    await asyncio.wait_for(hosted.hosts[1].close(), GIVE_UP_S)
    assert not exists(pid)

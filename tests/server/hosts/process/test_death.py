"""A process host when its worker dies, hangs or is closed: every request ends, and nothing is left.

Real processes throughout; what is waited for is polled.
"""

import asyncio
import contextlib
import logging
import os
import pathlib
import signal
import socket

import pytest

from naiad.errors import ErrorCode, InferenceError
from naiad.hosts.host import BatchOutcome
from naiad.hosts.process import supervisor
from naiad.metrics.statistics import RestartReason
from tests.server.hosts.process.workers import (
    GIVE_UP_S,
    SAME,
    WAITS_FOR_A_FILE,
    Hosts,
    answers,
    ask,
    begun,
    exists,
    lines,
    open_descriptors,
)
from tests.support.waiting import until


@pytest.mark.slow
async def test_kill_9_fails_what_was_there_with_unavailable_and_the_next_worker_serves(
    hosts: Hosts, tmp_path: pathlib.Path
) -> None:
    hosted = await hosts.start(WAITS_FOR_A_FILE)
    first = hosted.worker.pid
    out = hosted.submit(ask(), ask())
    await begun(tmp_path)
    os.kill(first, signal.SIGKILL)
    outcome = await asyncio.wait_for(out, GIVE_UP_S)
    assert hosted.usable == [False], "told at once, and not when the next worker is there"
    assert outcome.error is not None
    assert outcome.error.code is ErrorCode.UNAVAILABLE
    assert "its worker process was ended by SIGKILL; it is being restarted" in outcome.error.message
    assert "model 'm'" in outcome.error.message
    assert not await hosted.host.ready()
    (tmp_path / "go").touch()
    await until(lambda: hosted.usable == [False, True])
    assert hosted.worker.pid not in {0, first}
    assert await hosted.host.ready()
    assert answers(await hosted.run()) == [{"OUT": [[1, 2]]}]
    assert hosted.restarts == [RestartReason.DIED]


@pytest.mark.slow
async def test_a_batch_that_comes_while_there_is_no_worker_fails_and_does_not_wait(
    hosts: Hosts,
) -> None:
    hosted = await hosts.start(SAME)
    loop = asyncio.get_running_loop()
    ran: asyncio.Future[BatchOutcome] = loop.create_future()

    def hand_over() -> None:
        hosted.host.submit([ask()], ran.set_result)

    def told(usable: bool) -> None:  # noqa: FBT001 - the callback's signature
        if not usable:
            loop.call_soon(hand_over)  # no worker is up again in the loop's next turn

    hosted.host.watch(told)
    os.kill(hosted.worker.pid, signal.SIGKILL)
    error = (await asyncio.wait_for(ran, GIVE_UP_S)).error
    assert error is not None
    assert error.code is ErrorCode.UNAVAILABLE


@pytest.mark.slow
async def test_the_last_outcome_of_a_dead_worker_does_not_bring_it_the_next_batch(
    hosts: Hosts,
) -> None:
    hosted = await hosts.start(SAME)
    worker = hosted.worker.worker
    assert worker is not None
    loop = asyncio.get_running_loop()
    usable_then: asyncio.Future[list[bool]] = loop.create_future()
    # The outcome stays in the socket until the process is seen to have ended.
    data = worker.links[0]
    loop.remove_reader(data.fileno())

    def has_outcome() -> bool:
        with contextlib.suppress(BlockingIOError):
            return bool(data._socket.recv(1, socket.MSG_PEEK))
        return False

    def on_outcome(outcome: BatchOutcome) -> None:
        assert outcome.error is None
        usable_then.set_result(list(hosted.usable))

    hosted.host.submit([ask()], on_outcome)
    await until(has_outcome)
    os.kill(worker.pid, signal.SIGKILL)
    assert await asyncio.wait_for(usable_then, GIVE_UP_S) == [False]
    await until(lambda: hosted.usable == [False, True])
    assert hosted.restarts == [RestartReason.DIED]


@pytest.mark.slow
async def test_a_worker_that_cannot_load_any_more_is_tried_again_and_again(
    hosts: Hosts, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("naiad.hosts.process.watchdogs.FIRST_DELAY_NS", 1_000_000)
    hosted = await hosts.start(
        """
        def initialize(self, args):
            assert not os.path.exists(args["model_repository"] + "/broken"), "broken"
        def execute(self, requests):
            return same(requests)
        """
    )
    (tmp_path / "broken").touch()
    os.kill(hosted.worker.pid, signal.SIGKILL)
    await until(lambda: len(hosted.restarts) >= 3)
    assert hosted.restarts[:3] == [RestartReason.DIED, RestartReason.LOAD, RestartReason.LOAD]
    assert hosted.usable == [False]
    (tmp_path / "broken").unlink()
    await until(lambda: hosted.usable == [False, True])
    assert answers(await hosted.run()) == [{"OUT": [[1, 2]]}]


@pytest.mark.slow
async def test_a_batch_that_takes_too_long_has_its_stack_logged_its_worker_killed_and_its_clients_told(
    hosts: Hosts, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "naiad")
    hosted = await hosts.start(
        """
        def execute(self, requests):
            if requests[0].inputs()[0].as_numpy()[0, 0]:
                self.turn_for_ever()
            return same(requests)
        def turn_for_ever(self):
            while True:
                pass
        """,
        timeout_s=1,
    )
    first = hosted.worker.pid
    outcome = await hosted.run()
    assert outcome.error is not None
    assert outcome.error.code is ErrorCode.UNAVAILABLE
    assert "took longer than naiad.execute_timeout (1 s) and was killed" in outcome.error.message
    await until(lambda: hosted.usable == [False, True])
    assert not exists(first)
    assert hosted.restarts == [RestartReason.TIMEOUT]
    assert any("in turn_for_ever" in line for line in lines(caplog, "naiad.models.m"))
    assert answers(await hosted.run(ask((0, 1)))) == [{"OUT": [[0, 1]]}]


@pytest.mark.slow
async def test_a_load_that_takes_too_long_is_ended_and_says_so(hosts: Hosts) -> None:
    hosted = hosts.make(
        """
        def initialize(self, args):
            time.sleep(1000)
        def execute(self, requests):
            return same(requests)
        """,
        load_timeout_s=0.5,
    )
    with pytest.raises(InferenceError) as failure:
        await asyncio.wait_for(hosted.worker.start(), GIVE_UP_S)
    assert failure.value.code is ErrorCode.UNAVAILABLE
    assert (
        "took longer than naiad.load_timeout (0.5 s) and was killed while it loaded the model"
        in failure.value.message
    )
    assert hosted.restarts == []


@pytest.mark.slow
async def test_a_new_worker_that_hangs_while_it_loads_shows_where_and_the_next_one_serves(
    hosts: Hosts, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "naiad")
    hosted = await hosts.start(
        """
        def initialize(self, args):
            hangs = args["model_repository"] + "/hangs"
            if os.path.exists(hangs):
                os.remove(hangs)
                self.wait_for_ever()
        def wait_for_ever(self):
            time.sleep(1000)
        def execute(self, requests):
            return same(requests)
        """,
        load_timeout_s=5,
    )
    (tmp_path / "hangs").touch()
    os.kill(hosted.worker.pid, signal.SIGKILL)
    await until(lambda: hosted.usable == [False, True])
    assert hosted.restarts == [RestartReason.DIED, RestartReason.LOAD]
    assert any("in wait_for_ever" in line for line in lines(caplog, "naiad.models.m"))
    assert answers(await hosted.run()) == [{"OUT": [[1, 2]]}]


@pytest.mark.slow
async def test_a_batch_in_time_leaves_the_watchdog_asleep(hosts: Hosts) -> None:
    hosted = await hosts.start(SAME, timeout_s=1.5)
    for _ in range(3):
        await hosted.run()
    await asyncio.sleep(1.6)  # longer than the limit: it would have bitten
    assert hosted.usable == []
    assert hosted.restarts == []


@pytest.mark.slow
async def test_a_model_that_closes_its_link_is_ended(hosts: Hosts) -> None:
    hosted = await hosts.start(
        """
        def execute(self, requests):
            os.closerange(3, os.sysconf("SC_OPEN_MAX"))
            time.sleep(60)
        """
    )
    pid = hosted.worker.pid
    error = (await hosted.run()).error
    assert error is not None
    assert error.code is ErrorCode.UNAVAILABLE
    assert "closed its link" in error.message
    await until(lambda: hosted.usable == [False, True])
    assert not exists(pid)


async def test_close_waits_for_the_batch_has_the_model_finalize_and_leaves_no_process(
    hosts: Hosts, tmp_path: pathlib.Path
) -> None:
    hosted = await hosts.start(
        WAITS_FOR_A_FILE
        + """
    def finalize(self):
        open(self.folder + "/finalized", "w").close()
"""
    )
    pid = hosted.worker.pid
    out = hosted.submit()
    await begun(tmp_path)
    closing = asyncio.create_task(hosted.host.close())
    await asyncio.sleep(0)
    assert exists(pid)
    (tmp_path / "go").touch()
    await asyncio.wait_for(closing, GIVE_UP_S)
    assert answers(out.result()) == [{"OUT": [[1, 2]]}]
    assert (tmp_path / "finalized").exists()
    assert not exists(pid)
    assert hosted.worker.pid == 0
    assert not await hosted.host.ready()
    assert hosted.usable == []
    assert hosted.restarts == []
    await hosted.host.close()


@pytest.mark.slow
async def test_a_model_that_does_not_finalize_is_killed_after_a_time(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "FINALIZE_TIMEOUT_S", 0.2)
    hosted = await hosts.start(
        """
        def execute(self, requests):
            return same(requests)
        def finalize(self):
            time.sleep(60)
        """
    )
    pid = hosted.worker.pid
    await asyncio.wait_for(hosted.host.close(), GIVE_UP_S)
    assert not exists(pid)


@pytest.mark.slow
async def test_a_worker_that_dies_while_it_finalizes_is_not_restarted(hosts: Hosts) -> None:
    hosted = await hosts.start(
        """
        def execute(self, requests):
            return same(requests)
        def finalize(self):
            os._exit(7)
        """
    )
    await asyncio.wait_for(hosted.host.close(), GIVE_UP_S)
    assert hosted.restarts == []


@pytest.mark.slow
async def test_a_close_that_comes_while_a_dead_worker_is_replaced_ends_it_all(
    hosts: Hosts, tmp_path: pathlib.Path
) -> None:
    hosted = await hosts.start(
        """
        def initialize(self, args):
            path = args["model_repository"] + "/loaded"
            again = os.path.exists(path)
            open(path, "w").close()
            if again:
                open(args["model_repository"] + "/begun", "w").close()
                time.sleep(60)
        def execute(self, requests):
            return same(requests)
        """
    )
    os.kill(hosted.worker.pid, signal.SIGKILL)
    await begun(tmp_path)
    pid = hosted.worker.pid
    await asyncio.wait_for(hosted.host.close(), GIVE_UP_S)
    assert not exists(pid)


@pytest.mark.slow
async def test_a_worker_that_dies_while_its_last_batch_is_waited_for_lets_close_end(
    hosts: Hosts, tmp_path: pathlib.Path
) -> None:
    hosted = await hosts.start(WAITS_FOR_A_FILE)
    out = hosted.submit()
    await begun(tmp_path)
    closing = asyncio.create_task(hosted.host.close())
    await asyncio.sleep(0)
    os.kill(hosted.worker.pid, signal.SIGKILL)
    await asyncio.wait_for(closing, GIVE_UP_S)
    assert out.result().error is not None


@pytest.mark.slow
async def test_a_kill_that_comes_too_late_hides_neither_how_a_worker_ended_nor_its_children(
    hosts: Hosts, tmp_path: pathlib.Path
) -> None:
    """As where the loop was busy while a worker that had closed its link came to its end."""
    hosted = await hosts.start(
        """
        def execute(self, requests):
            child = os.fork()
            if not child:
                time.sleep(60)
                os._exit(0)
            folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
            with open(folder + "/child", "w") as file:
                file.write(str(child))
            open(folder + "/begun", "w").close()
            time.sleep(60)
        """
    )
    out = hosted.submit()
    await begun(tmp_path)
    worker = hosted.worker.worker
    assert worker is not None
    os.kill(worker.pid, signal.SIGABRT)
    os.waitid(os.P_PID, worker.pid, os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222 - the loop is to be busy meanwhile
    worker.kill("closed its link")
    outcome = await asyncio.wait_for(out, GIVE_UP_S)
    assert outcome.error is not None
    assert "its worker process was ended by SIGABRT" in outcome.error.message
    child = int((tmp_path / "child").read_text())
    await until(lambda: not exists(child))


@pytest.mark.slow
async def test_no_descriptor_is_left_after_a_worker(hosts: Hosts) -> None:
    async def life() -> None:
        hosted = await hosts.start(SAME)
        await hosted.run()
        os.kill(hosted.worker.pid, signal.SIGKILL)
        await until(lambda: hosted.usable == [False, True])
        await hosted.run()
        await hosted.host.close()

    await life()
    before = open_descriptors()
    await life()
    await until(lambda: open_descriptors() <= before)

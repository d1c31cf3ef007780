"""A process host when its worker dies, hangs, will not load or is closed: everybody gets an end, and nothing is left.

Real processes throughout; what is waited for is polled.
"""

import asyncio
import logging
import os
import pathlib
import signal
import subprocess
import sys
import time

import msgspec
import pytest

from naiad.backends.backend import WorkerPlan
from naiad.errors import ErrorCode, InferenceError
from naiad.hosts import process
from naiad.metrics.statistics import RestartReason
from tests.server.backends.python.models import python_config
from tests.server.hosts.workers import (
    GIVE_UP_S,
    SAME,
    WAITS_FOR_A_FILE,
    Hosts,
    answers,
    ask,
    begun,
    exists,
    lines,
    model,
    open_descriptors,
    plan,
    until,
)


async def test_kill_9_fails_what_was_there_with_unavailable_and_the_next_worker_serves(
    hosts: Hosts, tmp_path: pathlib.Path
) -> None:
    hosted = await hosts.start(WAITS_FOR_A_FILE)
    first = hosted.host.pid
    out = hosted.submit(ask(), ask())
    await begun(tmp_path)
    os.kill(first, signal.SIGKILL)
    killed = time.monotonic()
    outcome = await asyncio.wait_for(out, 1)
    assert outcome.error is not None
    assert outcome.error.code is ErrorCode.UNAVAILABLE
    assert "its worker process was ended by SIGKILL; it is being restarted" in outcome.error.message
    assert "model 'm'" in outcome.error.message
    assert not await hosted.host.ready()
    assert time.monotonic() - killed < 1
    (tmp_path / "go").touch()
    await until(lambda: hosted.usable == [False, True])
    assert hosted.host.pid not in {0, first}
    assert await hosted.host.ready()
    assert answers(await hosted.run()) == [{"OUT": [[1, 2]]}]
    assert hosted.restarts == [RestartReason.DIED]


async def test_a_batch_that_comes_while_there_is_no_worker_fails_and_does_not_wait(
    hosts: Hosts,
) -> None:
    hosted = await hosts.start(SAME)
    os.kill(hosted.host.pid, signal.SIGKILL)
    await until(lambda: hosted.usable == [False])
    error = (await hosted.run()).error
    assert error is not None
    assert error.code is ErrorCode.UNAVAILABLE


async def test_a_worker_that_cannot_load_any_more_is_tried_again_and_again(
    hosts: Hosts, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("naiad.hosts.respawn.FIRST_DELAY_NS", 1_000_000)
    hosted = await hosts.start(
        """
        def initialize(self, args):
            assert not os.path.exists(args["model_repository"] + "/broken"), "broken"
        def execute(self, requests):
            return same(requests)
        """
    )
    (tmp_path / "broken").touch()
    os.kill(hosted.host.pid, signal.SIGKILL)
    await until(lambda: len(hosted.restarts) >= 3)
    assert hosted.restarts[:3] == [RestartReason.DIED, RestartReason.LOAD, RestartReason.LOAD]
    assert hosted.usable == [False]
    (tmp_path / "broken").unlink()
    await until(lambda: hosted.usable == [False, True])
    assert answers(await hosted.run()) == [{"OUT": [[1, 2]]}]


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
        timeout_s=0.3,
    )
    first = hosted.host.pid
    outcome = await hosted.run()
    assert outcome.error is not None
    assert outcome.error.code is ErrorCode.UNAVAILABLE
    assert "took longer than naiad.execute_timeout (0.3 s) and was killed" in outcome.error.message
    await until(lambda: hosted.usable == [False, True])
    assert not exists(first)
    assert hosted.restarts == [RestartReason.TIMEOUT]
    assert any("in turn_for_ever" in line for line in lines(caplog, "naiad.models.m"))
    assert answers(await hosted.run(ask((0, 1)))) == [{"OUT": [[0, 1]]}]


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
        await asyncio.wait_for(hosted.host.start(), GIVE_UP_S)
    assert failure.value.code is ErrorCode.UNAVAILABLE
    assert (
        "took longer than naiad.load_timeout (0.5 s) and was killed while it loaded the model"
        in failure.value.message
    )
    assert hosted.restarts == []


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
    os.kill(hosted.host.pid, signal.SIGKILL)
    await until(lambda: hosted.usable == [False, True])
    assert hosted.restarts == [RestartReason.DIED, RestartReason.LOAD]
    assert any("in wait_for_ever" in line for line in lines(caplog, "naiad.models.m"))
    assert answers(await hosted.run()) == [{"OUT": [[1, 2]]}]


async def test_a_batch_in_time_leaves_the_watchdog_asleep(hosts: Hosts) -> None:
    hosted = await hosts.start(SAME, timeout_s=0.5)
    for _ in range(3):
        await hosted.run()
    await asyncio.sleep(0.6)  # longer than the limit: it would have bitten
    assert hosted.usable == []
    assert hosted.restarts == []


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("raise ValueError('no such weights')", "ValueError: no such weights"),
        ("def initialize(self, args): raise KeyError('vocab')", "KeyError: 'vocab'"),
        ("pass", "does not implement `execute` method"),
        ("def initialize(self, args): sys.exit('no GPU')", "SystemExit: no GPU"),
    ],
)
async def test_a_model_that_cannot_be_loaded_says_why(hosts: Hosts, body: str, said: str) -> None:
    hosted = hosts.make(body if body == "pass" else f"{body}\n{SAME}")
    with pytest.raises(InferenceError) as refusal:
        await hosted.host.start()
    assert refusal.value.code is ErrorCode.INVALID_ARG
    assert said in refusal.value.message
    assert "model.py" in refusal.value.message
    assert hosted.host.pid == 0


async def test_a_crash_while_loading_is_a_load_error_with_what_the_model_wrote(
    hosts: Hosts,
) -> None:
    hosted = hosts.make(
        """
        def initialize(self, args):
            print("loading the weights")
            os.write(2, b"libgpu: device lost\\n")
            os.kill(os.getpid(), signal.SIGSEGV)
        def execute(self, requests):
            return same(requests)
        """
    )
    with pytest.raises(InferenceError) as refusal:
        await asyncio.wait_for(hosted.host.start(), GIVE_UP_S)
    assert refusal.value.code is ErrorCode.UNAVAILABLE
    for part in (
        "was ended by SIGSEGV",
        "loading the weights",
        "libgpu: device lost",
        "initialize",
    ):
        assert part in refusal.value.message


async def test_a_worker_gets_the_variables_of_its_plan_besides_the_server_s(
    hosts: Hosts, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OF_THE_SERVER", "1")
    with_more = msgspec.structs.replace(
        plan(tmp_path, python_config()), environ={"OF_THE_PLAN": "2"}
    )
    hosted = await hosts.start(
        """
        def execute(self, requests):
            return [response(int(os.environ["OF_THE_SERVER"]), int(os.environ["OF_THE_PLAN"]))]
        """,
        worker_plan=with_more,
    )
    assert answers(await hosted.run()) == [{"OUT": [[1, 2]]}]


async def test_an_interpreter_that_is_not_there_is_a_load_error(hosts: Hosts) -> None:
    nowhere = WorkerPlan(runner="x:y", settings={}, executable="/nowhere/python")
    hosted = hosts.make(SAME, worker_plan=nowhere)
    with pytest.raises(InferenceError) as refusal:
        await hosted.host.start()
    assert "/nowhere/python" in refusal.value.message


async def test_an_interpreter_without_numpy_is_a_load_error_that_says_so(
    hosts: Hosts, tmp_path: pathlib.Path
) -> None:
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    bare.chmod(0o755)
    elsewhere = msgspec.structs.replace(plan(tmp_path, python_config()), executable=str(bare))
    hosted = hosts.make(SAME, worker_plan=elsewhere)
    with pytest.raises(InferenceError) as refusal:
        await asyncio.wait_for(hosted.host.start(), GIVE_UP_S)
    assert "exited with status 1 while it loaded the model" in refusal.value.message
    assert "has no numpy, which the process of a model needs" in refusal.value.message


async def test_a_model_that_closes_its_link_is_ended(hosts: Hosts) -> None:
    hosted = await hosts.start(
        """
        def execute(self, requests):
            os.closerange(3, 100)
            time.sleep(60)
        """
    )
    pid = hosted.host.pid
    error = (await hosted.run()).error
    assert error is not None
    assert error.code is ErrorCode.UNAVAILABLE
    assert "closed its link" in error.message
    await until(lambda: hosted.usable == [False, True])
    assert not exists(pid)


async def test_a_load_that_nobody_wants_any_more_ends_its_process(
    hosts: Hosts, tmp_path: pathlib.Path
) -> None:
    hosted = hosts.make(
        """
        def initialize(self, args):
            open(args["model_repository"] + "/begun", "w").close()
            time.sleep(60)
        def execute(self, requests):
            return same(requests)
        """
    )
    loading = asyncio.create_task(hosted.host.start())
    await begun(tmp_path)
    pid = hosted.host.pid
    loading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await loading
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
    pid = hosted.host.pid
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
    assert hosted.host.pid == 0
    assert not await hosted.host.ready()
    assert hosted.usable == []
    assert hosted.restarts == []
    await hosted.host.close()


async def test_a_model_that_does_not_finalize_is_killed_after_a_time(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "FINALIZE_TIMEOUT_S", 0.2)
    hosted = await hosts.start(
        """
        def execute(self, requests):
            return same(requests)
        def finalize(self):
            time.sleep(60)
        """
    )
    pid = hosted.host.pid
    await asyncio.wait_for(hosted.host.close(), GIVE_UP_S)
    assert not exists(pid)


async def test_a_worker_that_dies_while_it_finalizes_is_no_death_to_make_good(hosts: Hosts) -> None:
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
    os.kill(hosted.host.pid, signal.SIGKILL)
    await begun(tmp_path)
    pid = hosted.host.pid
    await asyncio.wait_for(hosted.host.close(), GIVE_UP_S)
    assert not exists(pid)


async def test_a_worker_that_dies_while_its_last_batch_is_waited_for_lets_close_end(
    hosts: Hosts, tmp_path: pathlib.Path
) -> None:
    hosted = await hosts.start(WAITS_FOR_A_FILE)
    out = hosted.submit()
    await begun(tmp_path)
    closing = asyncio.create_task(hosted.host.close())
    await asyncio.sleep(0)
    os.kill(hosted.host.pid, signal.SIGKILL)
    await asyncio.wait_for(closing, GIVE_UP_S)
    assert out.result().error is not None


async def test_children_of_a_model_hide_no_death_and_end_with_it(
    hosts: Hosts, tmp_path: pathlib.Path
) -> None:
    hosted = await hosts.start(
        """
        def initialize(self, args):
            self.folder = args["model_repository"]
        def execute(self, requests):
            child = os.fork()
            if not child:
                time.sleep(60)
                os._exit(0)
            with open(self.folder + "/child", "w") as file:
                file.write(str(child))
            os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    outcome = await hosted.run()
    assert outcome.error is not None
    assert outcome.error.code is ErrorCode.UNAVAILABLE
    child = int((tmp_path / "child").read_text())
    await until(lambda: not exists(child))


async def test_a_child_that_writes_for_ever_outside_its_group_does_not_hold_the_loop(
    hosts: Hosts, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "naiad")  # so that its lines take longer to log than to write
    hosted = await hosts.start(
        """
        def execute(self, requests):
            import subprocess
            subprocess.Popen(["yes", "a line of its own"], start_new_session=True)
            time.sleep(0.1)
            os._exit(1)
        """
    )
    outcome = await hosted.run()  # `yes` ends with the pipe that it writes to
    assert outcome.error is not None
    assert "exited with status 1" in outcome.error.message


async def test_no_descriptor_is_left_after_a_worker(hosts: Hosts) -> None:
    async def life() -> None:
        hosted = await hosts.start(SAME)
        await hosted.run()
        os.kill(hosted.host.pid, signal.SIGKILL)
        await until(lambda: hosted.usable == [False, True])
        await hosted.run()
        await hosted.host.close()

    await life()
    before = open_descriptors()
    await life()
    assert open_descriptors() == before


async def test_a_worker_and_its_children_end_with_a_server_that_is_killed(
    tmp_path: pathlib.Path,
) -> None:
    model(
        tmp_path,
        """
        def initialize(self, args):
            import subprocess
            self.folder = args["model_repository"]
            with open(self.folder + "/child", "w") as file:
                file.write(str(subprocess.Popen(["sleep", "60"]).pid))
        """
        + WAITS_FOR_A_FILE[WAITS_FOR_A_FILE.index("    def execute") - 1 :].replace(
            "\n    ", "\n        "
        ),
    )
    server = subprocess.Popen(  # noqa: ASYNC220 - it is the one that is killed
        [sys.executable, "-c", _SERVER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    pid = int(server.stdout.readline())
    await begun(tmp_path)
    assert exists(pid)
    server.kill()
    server.wait()
    server.stdout.close()
    await until(lambda: not exists(pid))
    child = int((tmp_path / "child").read_text())
    await until(lambda: not exists(child))


_SERVER = """
import asyncio, pathlib, sys
from tests.server.hosts.workers import Hosted, ask, plan, python_config

async def main():
    config = python_config()
    hosted = Hosted(plan(pathlib.Path(sys.argv[1]), config), config, timeout_s=0)
    await hosted.host.start()
    print(hosted.host.pid, flush=True)
    await hosted.run(ask())

asyncio.run(main())
"""

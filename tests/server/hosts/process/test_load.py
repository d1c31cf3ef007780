"""A worker that loads its model, or cannot: in which interpreter, with which variables, and what is reported when it fails.

Real processes throughout; what is waited for is polled.
"""

import asyncio
import os
import pathlib
import sys

import msgspec
import pytest

from naiad.errors import ErrorCode, InferenceError
from tests.server.backends.python.models import python_config
from tests.server.hosts.process.workers import GIVE_UP_S, SAME, Hosts, answers, begun, exists, plan
from tests.support.waiting import until, wait_until

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("raise ValueError('no such weights')", "ValueError: no such weights"),
        ("def initialize(self, args): raise KeyError('vocab')", "KeyError: 'vocab'"),
        ("pass", "does not implement `execute` method"),
        ("def initialize(self, args): sys.exit('no GPU')", "SystemExit: no GPU"),
    ],
)
async def test_a_model_that_cannot_be_loaded_says_why(
    hosts: Hosts, body: str, message: str
) -> None:
    hosted = hosts.make(body if body == "pass" else f"{body}\n{SAME}")
    with pytest.raises(InferenceError) as refusal:
        await hosted.worker.start()
    assert refusal.value.code is ErrorCode.INVALID_ARG
    assert message in refusal.value.message
    assert "model.py" in refusal.value.message
    assert hosted.worker.pid == 0


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
        await asyncio.wait_for(hosted.worker.start(), GIVE_UP_S)
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


async def test_an_interpreter_that_is_not_there_is_a_load_error(
    hosts: Hosts, tmp_path: pathlib.Path
) -> None:
    nowhere = msgspec.structs.replace(plan(tmp_path, python_config()), executable="/nowhere/python")
    hosted = hosts.make(SAME, worker_plan=nowhere)
    with pytest.raises(InferenceError) as refusal:
        await hosted.worker.start()
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
        await asyncio.wait_for(hosted.worker.start(), GIVE_UP_S)
    assert "exited with status 1 while it loaded the model" in refusal.value.message
    assert "has no numpy, which the process of a model needs" in refusal.value.message


async def test_a_worker_that_is_killed_in_initialize_is_reported_in_the_words_of_triton(
    hosts: Hosts,
) -> None:
    hosted = hosts.make(
        """
        def initialize(self, args):
            os.kill(os.getpid(), signal.SIGKILL)
        def execute(self, requests):
            return same(requests)
        """
    )
    with pytest.raises(InferenceError) as refusal:
        await asyncio.wait_for(hosted.worker.start(), GIVE_UP_S)
    assert (
        "Stub process 'm_0_0' is not healthy. Its worker process was ended by SIGKILL while it loaded"
        in refusal.value.message
    )


async def test_a_load_that_is_cancelled_ends_its_process(
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
    loading = asyncio.create_task(hosted.worker.start())
    await begun(tmp_path)
    pid = hosted.worker.pid
    loading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await loading
    assert not exists(pid)


async def test_a_worker_that_has_ended_when_its_load_is_reported_has_not_loaded(
    hosts: Hosts, tmp_path: pathlib.Path
) -> None:
    hosted = hosts.make(
        """
        def initialize(self, args):
            print("the driver is lost")
            threading.Timer(0.2, os._exit, (3,)).start()
            open(args["model_repository"] + "/pid", "w").write(str(os.getpid()))
        def execute(self, requests):
            return same(requests)
        """
    )
    starting = asyncio.ensure_future(hosted.worker.start())
    await until(lambda: hosted.worker.pid)
    # The loop is busy with something else, until both the word that it has loaded and its end are there.
    pid = tmp_path / "pid"
    wait_until(lambda: pid.exists() and bool(pid.read_text()))
    os.waitid(os.P_PID, int(pid.read_text()), os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222 - that is the point
    with pytest.raises(InferenceError) as refusal:
        await asyncio.wait_for(starting, GIVE_UP_S)
    assert refusal.value.code is ErrorCode.UNAVAILABLE
    assert "exited with status 3" in refusal.value.message
    assert "the driver is lost" in refusal.value.message
    assert hosted.worker.pid == 0

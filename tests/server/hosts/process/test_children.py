"""Processes that a model starts: they run its functions, end as it means them to, and never outlive their worker."""

import logging
import os
import pathlib
import signal
import subprocess
import sys

import pytest

from naiad.errors import ErrorCode
from tests.server.hosts.process.workers import (
    SAME,
    WAITS_FOR_A_FILE,
    Hosts,
    answers,
    begun,
    exists,
    model,
)
from tests.support.waiting import until

pytestmark = pytest.mark.slow


async def test_a_child_that_a_model_forks_ends_by_the_signal_that_a_pool_ends_its_own_by(
    hosts: Hosts,
) -> None:
    hosted = await hosts.start(
        """
        def execute(self, requests):
            told, tell = os.pipe()
            child = os.fork()
            if not child:
                os.write(tell, b"!")
                time.sleep(2)
                os._exit(0)
            os.read(told, 1)
            os.kill(child, signal.SIGTERM)
            return [response(os.waitpid(child, 0)[1], 0)]
        """
    )
    os.kill(hosted.worker.pid, signal.SIGTERM)  # which the worker itself does not mind
    assert answers(await hosted.run()) == [{"OUT": [[signal.SIGTERM, 0]]}]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
async def test_a_model_runs_its_own_functions_in_children_of_multiprocessing(
    hosts: Hosts, tmp_path: pathlib.Path, method: str
) -> None:
    hosted = hosts.make(SAME)
    (tmp_path / "1" / "beside.py").write_text("def doubled(number):\n    return number * 2\n")
    (tmp_path / "1" / "model.py").write_text(
        f"""
import multiprocessing
import numpy as np
import triton_python_backend_utils as pb_utils
import beside

def raised(number):
    return beside.doubled(number) + 1

class TritonPythonModel:
    def execute(self, requests):
        with multiprocessing.get_context("{method}").Pool(1) as pool:
            numbers = pool.map_async(raised, requests[0].inputs()[0].as_numpy()[0]).get(10)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([numbers], np.float32))])]
"""
    )
    await hosted.worker.start()
    assert answers(await hosted.run()) == [{"OUT": [[3, 5]]}]


@pytest.mark.parametrize("end", ["return same(requests)", "sys.exit(0)", "raise ValueError"])
async def test_a_forked_child_that_comes_back_from_execute_is_not_heard(
    hosts: Hosts, end: str
) -> None:
    hosted = await hosts.start(
        f"""
        def execute(self, requests):
            child = os.fork()
            if not child:
                {end}
            os.waitpid(child, 0)
            return same(requests)
        """
    )
    pid = hosted.worker.pid
    for _ in range(2):
        assert (await hosted.run()).error is None
    assert hosted.worker.pid == pid
    assert hosted.usable == []


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
from tests.server.hosts.process.workers import Hosted, ask, plan, python_config

async def main():
    config = python_config()
    hosted = Hosted(plan(pathlib.Path(sys.argv[1]), config), config, timeout_s=0)
    await hosted.worker.start()
    print(hosted.worker.pid, flush=True)
    await hosted.run(ask())

asyncio.run(main())
"""

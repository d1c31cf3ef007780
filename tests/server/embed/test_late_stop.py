"""A stop that runs out of time: what can end does, and what cannot keeps no program from ending. And stops beside starts."""

import asyncio
import collections.abc
import os
import pathlib
import subprocess
import sys
import threading

import numpy as np
import psutil
import pytest

import naiad
from naiad.serve import assembly
from tests.server.embed import folders
from tests.server.embed.test_functions import Array
from tests.server.embed.test_process import settled
from tests.server.embed.test_server import appears
from tests.support.waiting import until

FUNCTIONS = """\
import gc, os, pathlib, sys, tempfile, threading
import naiad
import numpy as np

X = np.ones(1, np.float32)
begun = threading.Event()

def model(function):
    one = naiad.Tensor((1,), np.float32, "x")
    return naiad.model(inputs=[one], outputs=[naiad.Tensor((1,), np.float32, "y")])(function)

@model
def generates(x):
    begun.set()
    while True:
        yield x

@model
def blocks(x):
    begun.set()
    threading.Event().wait()

@model
async def waits(x):
    import asyncio
    begun.set()
    await asyncio.Event().wait()

@model
def asks(x):
    server.infer("blocks", {"x": x})

@model
def twice(x):
    return x * 2
"""

LATE = """\
server = naiad.Server(functions=[generates, blocks, waits, asks], exit_timeout_secs=0).start()
stream = server.stream(sys.argv[1], {"x": X})
assert begun.wait(60)
"""


def run(program: str, *arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", FUNCTIONS + program, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **variables},
    )


@pytest.mark.slow
@pytest.mark.parametrize("model", ["generates", "blocks", "waits", "asks"])
@pytest.mark.parametrize("stop", ["", "server.stop(); print('stopped')"])
def test_a_program_ends_whatever_its_functions_do(model: str, stop: str) -> None:
    ended = run(LATE + stop, model)
    assert ended.returncode == 0, ended.stderr
    assert ("stopped" in ended.stdout) == bool(stop)
    assert "Traceback" not in ended.stderr


def threads() -> set[str]:
    return {thread.name for thread in threading.enumerate()}


def test_a_late_stop_ends_the_threads_of_a_stream_that_is_not_read() -> None:
    vector = naiad.Tensor((1,), np.float32, "x")

    @naiad.model(inputs=[vector], outputs=[naiad.Tensor((1,), np.float32, "y")])
    def generates(x: Array) -> collections.abc.Iterator[Array]:
        while True:
            yield x

    with naiad.Server():
        pass  # what stays for as long as the process does
    before = threads()
    server = naiad.Server(functions=[generates], exit_timeout_secs=0).start()
    stream = server.stream("generates", {"x": np.ones(1, np.float32)})
    next(stream)
    server.stop()
    assert settled(before, threads) == before
    with pytest.raises(naiad.InferenceError, match=r"not running|stop"):
        list(stream)


def test_a_function_that_blocks_is_left_behind_and_said_to_be(
    caplog: pytest.LogCaptureFixture,
) -> None:
    begun, go_on = threading.Event(), threading.Event()
    vector = naiad.Tensor((1,), np.float32, "x")

    @naiad.model(inputs=[vector], outputs=[naiad.Tensor((1,), np.float32, "y")])
    def blocks(x: Array) -> Array:
        begun.set()
        go_on.wait(60)
        return x

    before = threads()
    server = naiad.Server(functions=[blocks], exit_timeout_secs=0).start()
    streams = [server.stream("blocks", {"x": np.ones(1, np.float32)}) for _ in range(2)]
    assert begun.wait(60)
    server.stop()
    assert "instance 'blocks_0_0' does not end: its thread is abandoned" in caplog.text
    assert "blocks_0_0" in threads()
    for stream in streams:
        with pytest.raises(naiad.InferenceError, match="not running"):
            next(stream)
    go_on.set()
    assert settled(True, lambda: threads() <= before | {"naiad-launcher"})


BUSY = """\
import pathlib
import time


class TritonPythonModel:
    def initialize(self, args):
        self.folder = pathlib.Path(args["model_repository"])

    def execute(self, requests):
        (self.folder / "begun").touch()
        while not (self.folder / "go").exists():
            time.sleep(0.005)

    def finalize(self):
        (self.folder / "finalized").touch()
"""
CONFIG = """\
backend: "python"
input { name: "x" data_type: TYPE_FP32 dims: 1 }
output { name: "y" data_type: TYPE_FP32 dims: 1 }
instance_group { kind: KIND_CPU count: 2 }
"""


@pytest.mark.parametrize("abandon_s", [1.0, 0.0], ids=["usual", "no time"])
def test_a_worker_process_that_is_busy_does_not_outlive_a_late_stop(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, abandon_s: float
) -> None:
    monkeypatch.setattr(assembly, "_ABANDON_SECONDS", abandon_s)
    folders.add(tmp_path, "busy", CONFIG, BUSY)
    before, children = threads(), set(psutil.Process().children())
    server = naiad.Server(tmp_path, exit_timeout_secs=0).start()
    workers = set(psutil.Process().children()) - children
    assert len(workers) == 2
    stream = server.stream("busy", {"x": np.ones(1, np.float32)})
    assert appears(tmp_path / "busy" / "begun")
    server.stop()
    _, alive = psutil.wait_procs(workers, 30)
    assert not alive
    with pytest.raises(naiad.InferenceError):
        next(stream)
    assert settled(True, lambda: threads() <= before | {"naiad-launcher_0"})


async def test_what_a_busy_thread_leaves_is_released_once_it_ends_if_the_loop_goes_on(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(assembly, "_ABANDON_SECONDS", 0.05)
    folders.add(tmp_path, "busy", CONFIG.replace("count: 2", "count: 1") + folders.IN_THREAD, BUSY)
    folder = tmp_path / "busy"
    before = threads()
    server = await naiad.AsyncServer(tmp_path, exit_timeout_secs=0).start()
    asking = asyncio.create_task(server.infer("busy", {"x": np.ones(1, np.float32)}))
    await until((folder / "begun").exists)
    await server.stop()
    with pytest.raises(naiad.InferenceError):
        await asking
    assert "its thread is abandoned" in caplog.text
    assert not (folder / "finalized").exists()
    (folder / "go").touch()
    await until((folder / "finalized").exists)
    await until(lambda: not any(each.startswith("busy") for each in threads() - before))
    others = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.wait_for(asyncio.gather(*others), 30)  # the unload, in the background
    assert "unloading busy" not in caplog.text


@pytest.mark.slow
def test_a_forked_child_starts_the_same_server_and_leaves_the_parents_files(
    tmp_path: pathlib.Path,
) -> None:
    program = """\
server = naiad.Server(functions=[twice]).start()
folders = lambda: sorted(pathlib.Path(tempfile.gettempdir()).glob("naiad-functions-*"))
(parents,) = folders()
pid = os.fork()
if not pid:
    try:
        with server:
            print(server.infer("twice", {"x": X})["y"].tolist(), len(folders()), flush=True)
        gc.collect()
        print(folders() == [parents], (parents / "twice" / "1" / "model.py").exists(), flush=True)
    finally:
        sys.exit()
print(os.waitpid(pid, 0)[1], folders() == [parents])
print(server.infer("twice", {"x": X})["y"].tolist())
server.stop()
print(folders())
"""
    ended = run(program, TMPDIR=str(tmp_path))
    assert ended.stdout == "[2.0] 2\nTrue True\n0 True\n[2.0]\n[]\n", ended.stderr
    assert ended.stderr == ""


def test_a_stop_that_returns_late_does_not_touch_a_server_that_was_started_again() -> None:
    server = naiad.Server().start()
    stopped = server._loop
    assert stopped is not None
    server.stop()
    with server:
        server._ended_loop(stopped)  # as a second thread does that waited for the same stop
        with pytest.raises(RuntimeError, match="runs already"):
            server.start()
    assert not server.live()

"""What a server in a program leaves of the process as it was: threads, processes, descriptors, signals, logging; and how programs end that have one."""

import asyncio
import collections.abc
import gc
import logging
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import psutil
import pytest

import naiad
from tests.server.embed.conftest import some
from tests.server.embed.test_functions import add_sub
from tests.server.embed.test_server import X, appears, text


def settled(expected: object, measure: "object") -> object:
    """Measure again while threads and processes that have ended are on their way out."""
    end = time.monotonic() + 10
    assert callable(measure)
    while (found := measure()) != expected and time.monotonic() < end:
        time.sleep(0.01)
    return found


def descriptors() -> int:
    gc.collect()
    return len(list(pathlib.Path("/proc/self/fd").iterdir()))


def everything() -> dict[str, object]:
    return {
        "handlers": {number: signal.getsignal(number) for number in signal.valid_signals()},
        "wakeup": signal.set_wakeup_fd(-1),
        "root": (list(logging.getLogger().handlers), logging.getLogger().level),
        "naiad": (list(logging.getLogger("naiad").handlers), logging.getLogger("naiad").level),
        "variables": dict(os.environ),
        "children": {child.pid for child in psutil.Process().children(recursive=True)},
        "threads": {thread.name for thread in threading.enumerate()},
        "gc": (gc.get_threshold(), gc.isenabled()),
    }


@pytest.fixture
def _interrupts() -> collections.abc.Iterator[None]:
    """SIGINT as in a program in a terminal: what a shell starts in the background ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_interrupts")
def test_an_interrupt_cancels_a_request(models: pathlib.Path, tmp_path: pathlib.Path) -> None:
    gate = tmp_path / "gate"

    def interrupt() -> None:
        assert appears(gate.with_suffix(".begun"))
        os.kill(os.getpid(), signal.SIGINT)

    with some(models, "waits") as server:
        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            server.infer("waits", {"GATE": text(gate)})
        thread.join()
        assert appears(gate.with_suffix(".cancelled"))


@pytest.mark.parametrize("times", [1, 3])
def test_a_stop_leaves_the_process_as_it_was(models: pathlib.Path, times: int) -> None:
    def use() -> None:
        with some(models, "add", "text", "counts") as server:
            server.bind(add_sub)
            server.infer("add_sub", {"a": X, "b": X})
            server.infer("add", {"x": X})
            server.infer("text", {"TEXT": [["a"]]})
            server.serve_http(0)
            server.serve_grpc(0)
            server.serve_metrics(0)
            assert any(thread.name.startswith("naiad-") for thread in threading.enumerate())

    use()  # what frameworks keep for the whole process
    before, open_before = everything(), descriptors()
    for _ in range(times):
        use()
    assert settled(before, everything) == before
    assert settled(open_before, descriptors) == open_before


def test_a_start_that_fails_leaves_nothing(models: pathlib.Path) -> None:
    with some(models, "add"):
        pass
    before, open_before = everything(), descriptors()
    with pytest.raises(naiad.StartError):
        some(models, "add", "none").start()
    assert settled(before, everything) == before
    assert settled(open_before, descriptors) == open_before


def test_a_running_event_loop_of_the_thread_does_not_matter(models: pathlib.Path) -> None:
    """As in a notebook."""

    async def cell() -> list[list[float]]:
        with some(models, "add") as server:
            values: list[list[float]] = server.infer("add", {"x": X})["y"].tolist()
            assert server.infer("add", {"x": [[1, 2, 3, 4]]})
            return values

    assert asyncio.run(cell()) == [[2, 4, 6, 8]]


def test_workers_outlive_the_thread_that_started_the_server(models: pathlib.Path) -> None:
    server = some(models, "text")
    before = set(psutil.Process().children())
    thread = threading.Thread(target=server.start)
    thread.start()
    thread.join()
    try:
        (worker,) = set(psutil.Process().children()) - before
        assert server.infer("text", {"TEXT": [["a"]]})["LOUD"].tolist() == [[b"A"]]
        assert worker.is_running()
    finally:
        server.stop()


def test_workers_of_one_server_outlive_another_that_stops(models: pathlib.Path) -> None:
    with some(models, "text") as one:
        with some(models, "text") as two:
            two.infer("text", {"TEXT": [["a"]]})
        for _ in range(3):
            assert one.infer("text", {"TEXT": [["a"]]})["LOUD"].tolist() == [[b"A"]]


PROGRAM = """\
import sys, threading, os, signal
import naiad
import numpy as np
server = naiad.Server(sys.argv[1], model_control_mode="explicit", load_model=["add", "text", "counts"]).start()
x = np.ones((1, 4), np.float32)
server.infer("add", {"x": x}); server.infer("text", {"TEXT": [["a"]]}); next(server.stream("counts", {"COUNT": [100000]}))
"""


def run(models: pathlib.Path, rest: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", PROGRAM + rest, str(models)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rest", "status", "words"),
    [
        ("", 0, ""),
        ("sys.exit(3)", 3, ""),
        ("raise ValueError('of the program')", 1, "ValueError: of the program"),
        ("os.kill(os.getpid(), signal.SIGINT); threading.Event().wait()", -2, "KeyboardInterrupt"),
    ],
)
def test_a_program_that_does_not_stop_its_server_ends_nevertheless(
    models: pathlib.Path, rest: str, status: int, words: str
) -> None:
    ended = run(models, rest)
    assert (ended.returncode, words in ended.stderr) == (status, True), ended.stderr
    assert "naiad" not in ended.stderr.replace("import naiad", ""), ended.stderr


@pytest.mark.slow
def test_a_forked_child_has_no_server_and_may_start_one(models: pathlib.Path) -> None:
    child = """\
pid = os.fork()
if not pid:
    try:
        server.infer("add", {"x": x})
    except naiad.InferenceError as error:
        print(error, flush=True)
    with naiad.Server(sys.argv[1], model_control_mode="explicit", load_model="add") as own:
        print(own.infer("add", {"x": x})["y"].tolist(), flush=True)
    os._exit(0)
os.waitpid(pid, 0)
server.infer("add", {"x": x})
server.stop()
print("stopped")
"""
    ended = run(models, child)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == (
        "the server runs in the process that forked this one: start another one here\n"
        "[[2.0, 2.0, 2.0, 2.0]]\nstopped\n"
    )

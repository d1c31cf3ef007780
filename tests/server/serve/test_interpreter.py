"""What an unload gives back: garbage in cycles, and pages."""

import concurrent.futures
import copy
import gc
import pathlib
import subprocess
import sys
import sysconfig
import threading
import weakref

import psutil
import pytest

from naiad.options.parsing import parse
from naiad.serve import command, interpreter
from naiad.serve.process_memory import ProcessMemory
from tests.support.waiting import wait_until


class Module:
    """As a model's module: it holds itself."""

    def __init__(self) -> None:
        self.itself = self


def test_an_unload_collects_a_model_of_the_start_and_visits_no_import() -> None:
    """Imports are exempted: to visit 120,000 objects holds the interpreter lock, and with it the event loop, for 60 ms."""
    imported = Module()
    of_import = weakref.ref(imported)
    threshold, interval = gc.get_threshold(), sys.getswitchinterval()
    try:
        interpreter.begin()
        del imported
        interpreter.imported()
        model = Module()
        of_model = weakref.ref(model)
        interpreter.settle()
        del model
        ProcessMemory(list).give_back(collect=False)
        assert of_model() is not None
        ProcessMemory(list).give_back(collect=True)
        assert of_model() is None
        assert of_import() is not None
    finally:
        gc.unfreeze()
        gc.set_threshold(*threshold)
        gc.enable()
        sys.setswitchinterval(interval)


def test_concurrent_requests_for_a_collection_share_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    memory = ProcessMemory(list)
    begun, may_end, collections = threading.Event(), threading.Event(), list[int]()

    def collect() -> int:
        begun.set()
        assert may_end.wait(60)
        collections.append(1)
        return 0

    monkeypatch.setattr(gc, "collect", collect)
    with concurrent.futures.ThreadPoolExecutor(6) as unloads:
        first = unloads.submit(memory.give_back, collect=True)
        assert begun.wait(60)
        # These ask while the first one runs, which may have passed what they left: one more for all of them.
        others = [unloads.submit(memory.give_back, collect=True) for _ in range(5)]
        wait_until(lambda: next(copy.copy(memory._requests)) == 8)
        may_end.set()
        for each in (first, *others):
            each.result(60)
    assert len(collections) == 2


def test_the_memory_of_a_worker_counts() -> None:
    alone = psutil.Process().memory_info().rss
    script = (
        "import sys; held = bytearray(100_000_000); print('ready', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == b"ready\n"
        workers = [worker.pid, 1 << 30]  # one has ended
        assert ProcessMemory(lambda: workers).resident() > alone + 50_000_000


def test_a_free_threaded_build_is_refused_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path
) -> None:
    monkeypatch.setattr(sys, "abiflags", "t")
    assert command.serve(parse(["--model-repository", str(tmp_path)]), command="naiad serve") == 1
    assert "free-threaded build of Python, which is not supported" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("base", "configured", "optimized"),
    [
        ("/usr", "'--enable-shared' '--prefix=/usr'", True),  # Debian's, which does not say so
        ("/usr/local", "'--enable-optimizations' '--with-lto'", True),  # Docker's image `python`
        ("/root/.pyenv/versions/3.11.7", "'--enable-shared'", False),
        ("/opt/python", None, False),
    ],
)
def test_which_builds_of_python_are_optimized(
    monkeypatch: pytest.MonkeyPatch, base: str, configured: str | None, *, optimized: bool
) -> None:
    monkeypatch.setattr(sys, "base_prefix", base)
    monkeypatch.setattr(sysconfig, "get_config_var", {"CONFIG_ARGS": configured}.__getitem__)
    assert interpreter.is_optimized() is optimized

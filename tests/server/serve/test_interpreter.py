"""What an unload gives back: garbage in cycles, and pages."""

import gc
import subprocess
import sys
import weakref

import psutil

from naiad.serve.interpreter import ProcessMemory


class Module:
    """As a model's module: it holds itself."""

    def __init__(self) -> None:
        self.itself = self


def test_a_cycle_is_freed_even_where_it_was_frozen_and_what_was_frozen_is_so_again() -> None:
    module = Module()
    gone = weakref.ref(module)
    gc.freeze()
    try:
        del module
        gc.collect()
        assert gone() is not None
        ProcessMemory().give_back()
        assert gone() is None
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()


def test_nothing_is_frozen_that_was_not() -> None:
    gc.unfreeze()
    ProcessMemory().give_back()
    assert gc.get_freeze_count() == 0


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
        assert ProcessMemory().resident() > alone + 50_000_000

"""The calls of a recorded C library; and the real one, which gives back what threads leave behind."""

import subprocess
import sys
import threading
import typing

import pytest

from naiad.core.processes.malloc import Malloc

TRIM, MMAP, ARENAS = -1, -3, -8
MIB = 1 << 20


class RecordedLibrary:
    def __init__(self) -> None:
        self.calls: list[tuple[typing.Any, ...]] = []
        self.freeing = set[int]()

    def mallopt(self, number: int, value: int) -> None:
        self.calls.append((number, value))

    def malloc_trim(self, pad: int) -> None:
        self.calls.append(("trim", pad))

    def malloc(self, size: int) -> int:
        assert size == MIB
        return threading.get_ident()

    def free(self, block: int) -> None:
        self.freeing.add(block)


@pytest.fixture
def library() -> RecordedLibrary:
    return RecordedLibrary()


KEPT = [(MMAP, 128 * MIB), (TRIM, 256 * MIB)]
USUAL = [(MMAP, 32 * MIB), (TRIM, 64 * MIB)]
EXPECTING = [(MMAP, 32 * MIB), (TRIM, 128 << 10)]


def test_an_unload_trims_at_once_and_restores_the_thresholds(library: RecordedLibrary) -> None:
    malloc = Malloc(lambda: library)
    malloc.expect_frees()
    malloc.give_back()
    assert library.calls == [*EXPECTING, ("trim", 0), *USUAL]


def test_an_unload_while_large_messages_come_leaves_theirs(library: RecordedLibrary) -> None:
    malloc = Malloc(lambda: library)
    malloc.keep_messages()
    malloc.expect_frees()
    malloc.give_back()
    assert library.calls == [*KEPT, *EXPECTING, ("trim", 0), *KEPT]


def test_giving_messages_back_frees_a_block_in_twice_as_many_threads_as_there_are_arenas(
    library: RecordedLibrary,
) -> None:
    malloc = Malloc(lambda: library)
    malloc.limit_arenas({})
    malloc.keep_messages()
    malloc.give_back_messages()
    assert library.calls == [(ARENAS, 4), *KEPT, *EXPECTING, ("trim", 0), *USUAL]
    assert len(library.freeing) == 8


@pytest.mark.parametrize(
    "environ", [{"MALLOC_ARENA_MAX": "1"}, {"GLIBC_TUNABLES": "glibc.malloc.arena_max=2"}]
)
def test_the_number_of_arenas_that_the_environment_says_stays(
    library: RecordedLibrary, environ: dict[str, str]
) -> None:
    malloc = Malloc(lambda: library)
    malloc.limit_arenas(environ)
    malloc.give_back_messages()
    assert ARENAS not in dict(call[:2] for call in library.calls)
    assert not library.freeing


def test_another_c_library_is_left_alone() -> None:
    malloc = Malloc(object)
    malloc.limit_arenas({})
    malloc.keep_messages()
    malloc.expect_frees()
    malloc.give_back_messages()


THREADS = """
import ctypes, pathlib, threading
from naiad.core.processes.malloc import MALLOC, _c_library

MALLOC.limit_arenas({})
MALLOC.keep_messages()
library = _c_library()
begun, may_end = threading.Barrier(4), threading.Barrier(4)


def resident():
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * 4096 >> 20


def fill():
    begun.wait()
    blocks = [library.malloc(16384) for _ in range(3200)]
    for block in blocks:
        ctypes.memset(block, 1, 16384)
    for block in blocks:
        library.free(block)
    may_end.wait()


before = resident()
threads = [threading.Thread(target=fill) for _ in range(3)]
for thread in threads:
    thread.start()
begun.wait()
may_end.wait()
for thread in threads:
    thread.join()
full = resident()
MALLOC.give_back_messages()
print(before, full, resident())
"""


def test_what_threads_freed_goes_back_to_the_system() -> None:
    reply = subprocess.run(
        [sys.executable, "-c", THREADS],
        check=True,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    before, full, after = map(int, reply.stdout.split())
    assert full - before > 100
    assert after - before < 20

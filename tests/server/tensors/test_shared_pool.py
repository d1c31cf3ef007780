"""Memory files that are lent and used again: when they come back, what is kept, and what is given back."""

import collections.abc
import contextlib
import gc
import os
import pathlib
import threading

import numpy as np
import pytest

from naiad.tensors import shared_pool
from naiad.tensors.mapping import give_back
from naiad.tensors.shared_pool import (
    KEPT_BYTES,
    KEPT_EACH,
    KEPT_TICKS,
    MOST_LENT,
    Lease,
    SharedPool,
)
from tests.support.waiting import wait_until


def take(pool: SharedPool, size: int) -> Lease:
    lease = pool.take(size)
    assert lease is not None
    return lease


def files() -> int:
    """How many descriptors of memory files this process has."""
    found = 0
    for each in pathlib.Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found += "memfd:naiad" in str(each.readlink())
    return found


def address(lease: Lease) -> int:
    return int(lease.ctypes.data)


@pytest.fixture
def pool() -> collections.abc.Iterator[SharedPool]:
    """A pool, after which no descriptor is left open."""
    gc.collect()
    before = files()
    made = SharedPool()
    yield made
    made.clear()
    assert made.lent == 0
    wait_until(lambda: files() == before)


def test_memory_is_used_again_once_no_view_of_it_is_left(pool: SharedPool) -> None:
    lease = take(pool, 1 << 20)
    where = address(lease)
    whole = lease.data[64:].toreadonly()
    view = np.ndarray((16, 4), np.float32, whole, 64)[3:5].reshape(-1)
    del lease, whole
    other = take(pool, 1 << 20)
    assert address(other) != where, "there is a view of it"
    del view
    assert pool.lent == 1
    again = take(pool, 1 << 19)
    assert address(again) == where
    del other, again


def test_a_lease_may_end_in_any_thread(pool: SharedPool) -> None:
    held = [take(pool, 1 << 20)]
    ender = threading.Thread(target=held.clear)
    ender.start()
    ender.join()
    assert pool.lent == 0
    assert pool.kept_bytes == 1 << 20


def test_a_part_of_a_lease_returns_nothing(pool: SharedPool) -> None:
    lease = take(pool, 1 << 20)
    part = lease[8:]
    del part
    assert pool.lent == 1
    del lease


def test_no_more_is_kept_than_allowed_and_nothing_large(pool: SharedPool) -> None:
    taken = [take(pool, KEPT_EACH) for _ in range(KEPT_BYTES // KEPT_EACH + 2)]
    large = take(pool, KEPT_EACH + 1)
    taken.clear()
    del large
    assert pool.lent == 0
    assert pool.kept_bytes == KEPT_BYTES


def test_what_is_not_used_for_a_while_is_given_back(pool: SharedPool) -> None:
    lease = take(pool, 1 << 20)
    assert pool.tick(), "it is lent"
    del lease
    for _ in range(KEPT_TICKS - 2):
        assert pool.tick()
    lease = take(pool, 1 << 20)
    del lease
    for _ in range(KEPT_TICKS - 1):
        assert pool.tick()
    assert not pool.tick()
    assert pool.kept_bytes == 0


def test_too_many_are_not_lent(pool: SharedPool) -> None:
    taken = [take(pool, 1) for _ in range(MOST_LENT)]
    assert pool.take(1) is None
    del taken[0]
    taken.append(take(pool, 1))
    taken.clear()


def test_without_descriptors_there_is_none(
    pool: SharedPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(os, "memfd_create", full)
        assert pool.take(1) is None
    assert pool.lent == 0


def test_a_large_one_is_given_back_in_a_thread(
    pool: SharedPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []

    def noting(found: shared_pool.MemoryFile, size: int, advice: int) -> None:
        threads.append(threading.get_ident())
        give_back(found, size, advice)

    monkeypatch.setattr(shared_pool, "give_back", noting)
    lease = take(pool, KEPT_EACH + 1)
    assert lease.file is not None
    inode = os.fstat(lease.file.descriptor).st_ino
    lease[:] = 1
    del lease
    assert pool.lent == 0
    wait_until(lambda: f" {inode} " not in pathlib.Path("/proc/self/maps").read_text())
    assert threads != []
    assert threading.get_ident() not in threads


def test_memory_is_taken_as_it_is_written(pool: SharedPool) -> None:
    lease = take(pool, 1 << 31)
    assert lease.file is not None
    assert os.fstat(lease.file.descriptor).st_blocks == 0
    lease[: 1 << 16] = 1
    assert os.fstat(lease.file.descriptor).st_blocks * 512 == 1 << 16
    del lease

"""Large memory files are given back by a thread, once, when the last view of them is gone."""

import os
import pathlib
import threading

import numpy as np
import pytest

from naiad.protocol.codec import mapping
from naiad.protocol.codec.mapping import Mapping
from tests.support.waiting import wait_until

_LARGE = 1 << 24


@pytest.fixture
def given_back(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The threads that gave mappings back."""
    threads: list[int] = []
    original = mapping._give_back

    def noting(found: Mapping) -> None:
        original(found)
        threads.append(threading.get_ident())

    monkeypatch.setattr(mapping, "_give_back", noting)
    return threads


def mapped(size: int) -> tuple[Mapping, int]:
    """A mapping of a file full of ones, and another descriptor of that file."""
    descriptor = os.memfd_create("test")
    pathlib.Path(f"/proc/self/fd/{descriptor}").write_bytes(b"\1" * size)
    return Mapping(descriptor, 0), descriptor


def pages(descriptor: int) -> int:
    return os.fstat(descriptor).st_blocks


def test_the_pages_go_in_another_thread_once_no_view_is_left(given_back: list[int]) -> None:
    found, descriptor = mapped(_LARGE)
    view = np.frombuffer(memoryview(found)[8:], np.uint8)
    del found
    assert given_back == []
    assert view.sum() == _LARGE - 8
    del view
    wait_until(lambda: len(given_back) == 1)
    assert given_back != [threading.get_ident()]
    wait_until(lambda: pages(descriptor) == 0)
    assert len(given_back) == 1
    os.close(descriptor)


def test_a_small_one_needs_no_thread(given_back: list[int]) -> None:
    found, descriptor = mapped(_LARGE - 1)
    del found
    assert given_back == []
    assert pages(descriptor) > 0
    os.close(descriptor)


def test_where_no_thread_can_be_started_the_pages_go_with_the_object(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("_thread.start_new_thread", refuse)
    found, descriptor = mapped(_LARGE)
    inode = os.fstat(descriptor).st_ino
    assert f" {inode} " in pathlib.Path("/proc/self/maps").read_text()
    del found
    assert f" {inode} " not in pathlib.Path("/proc/self/maps").read_text()
    os.close(descriptor)

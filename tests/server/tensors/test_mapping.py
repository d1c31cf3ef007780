"""Mapped memory files: a large one is unmapped beside the thread that drops it, and what others have of the file stays."""

import collections.abc
import os
import pathlib
import socket
import threading
import typing

import numpy as np
import pytest

from naiad.hosts.link.kinds import BATCH
from naiad.hosts.link.link import Link
from naiad.hosts.link.payload import Payload
from naiad.protocol.codec import frames
from naiad.tensors import mapping
from naiad.tensors.mapping import LARGE, Mapping
from tests.support.waiting import wait_until


@pytest.fixture
def unmapped_by(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The threads that unmapped something."""
    threads: list[int] = []
    original = mapping.give_back

    def noting(found: Mapping, size: int) -> None:
        original(found, size)
        threads.append(threading.get_ident())

    monkeypatch.setattr(mapping, "give_back", noting)
    return threads


@pytest.fixture
def file() -> collections.abc.Iterator[int]:
    """The descriptor of a memory file."""
    descriptor = os.memfd_create("test")
    yield descriptor
    os.close(descriptor)


def mapped(descriptor: int, size: int) -> Mapping:
    """A mapping of a file that is filled with ones."""
    pathlib.Path(f"/proc/self/fd/{descriptor}").write_bytes(b"\1" * size)
    return Mapping(descriptor, 0)


def is_mapped(descriptor: int) -> bool:
    """Whether this process maps a file."""
    inode = os.fstat(descriptor).st_ino
    return f" {inode} " in pathlib.Path("/proc/self/maps").read_text()


def test_a_large_one_is_unmapped_in_another_thread_once_no_view_is_left(
    unmapped_by: list[int], file: int
) -> None:
    found = mapped(file, LARGE)
    view = np.frombuffer(memoryview(found)[8:], np.uint8)
    del found
    assert unmapped_by == []
    assert view.sum() == LARGE - 8
    del view
    wait_until(lambda: len(unmapped_by) == 1)
    assert unmapped_by != [threading.get_ident()]
    assert not is_mapped(file)
    assert os.pread(file, 2, LARGE - 2) == b"\1\1", "another process may read it still"


def test_a_small_one_needs_no_thread(unmapped_by: list[int], file: int) -> None:
    found = mapped(file, LARGE - 1)
    del found
    assert not is_mapped(file)
    assert unmapped_by == []


def test_where_no_thread_can_be_started_it_is_unmapped_at_once(
    monkeypatch: pytest.MonkeyPatch, file: int
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("_thread.start_new_thread", refuse)
    found = mapped(file, LARGE)
    assert is_mapped(file)
    del found
    assert not is_mapped(file)


def test_one_that_was_closed_is_left_alone(unmapped_by: list[int], file: int) -> None:
    found = mapped(file, LARGE)
    found.close()
    del found
    assert unmapped_by == []


def test_both_sides_of_a_link_unmap_large_segments_in_a_thread(unmapped_by: list[int]) -> None:
    ours, theirs = map(Link, socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET))
    payload = Payload()
    payload.add(np.ones(LARGE, np.uint8))
    ours.send(BATCH, b"header", payload)
    theirs.receive()
    for link in (ours, theirs):
        link.close()
    wait_until(lambda: len(unmapped_by) == 2)
    assert threading.get_ident() not in unmapped_by


def test_large_results_of_codec_processes_are_unmapped_in_a_thread(unmapped_by: list[int]) -> None:
    value: typing.Any = frames.read(frames.write(frames.large(b"\1" * LARGE)))
    assert len(value) == LARGE
    del value
    wait_until(lambda: len(unmapped_by) == 1)
    assert unmapped_by != [threading.get_ident()]

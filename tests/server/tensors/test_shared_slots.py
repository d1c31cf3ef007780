"""Tensors in memory files that a worker process maps as well: sent once, read in place, and not used for another body while the worker refers to them."""

import collections.abc
import os
import pathlib
import socket

import numpy as np
import pytest

from naiad.hosts.link import segments
from naiad.hosts.link.kinds import BATCH, CLOSE, OUTCOME
from naiad.hosts.link.link import Link
from naiad.tensors.shared_pool import KEPT_EACH, Lease, SharedPool
from naiad.tensors.shared_slots import PLACE_BYTES, SHARED_FROM, SLOTS, Place, lease_of
from tests.support.waiting import wait_until

SIZE = 1 << 20


class Pair:
    """A server's end of a link, and a worker's."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.server = Link(ours)
        self.worker = Link(theirs, takes_files=True)
        self.sent: list[int] = []
        self.pool = SharedPool()

    def send(self, number: int, descriptor: int) -> None:
        self.sent.append(number)
        self.server.share(number, descriptor)

    def place(self, array: np.ndarray) -> Place:
        found = self.server.shared.place(array, self.send)
        assert found is not None
        assert len(found.descriptor) == PLACE_BYTES
        return found

    def batch(self, *places: Place) -> list[np.ndarray]:
        """The worker gets a batch with these tensors."""
        self.worker.shared_by_other.drop_once()
        self.server.send(BATCH, b"{}")
        assert self.worker.receive()[0] == BATCH
        return [
            self.worker.shared_by_other.array(each.descriptor, each.shape, np.uint8)
            for each in places
        ]

    def outcome(self) -> None:
        """The server hears how it went."""
        self.worker.send(OUTCOME, b"{}")
        assert self.server.receive()[0] == OUTCOME

    def end_of_batch(self) -> None:
        """The worker waits for the next one."""
        self.server.send(CLOSE, b"{}")
        self.worker.shared_by_other.drop_once()
        assert self.worker.receive()[0] == CLOSE


@pytest.fixture
def pair() -> collections.abc.Iterator[Pair]:
    made = Pair()
    yield made
    made.server.close()
    made.worker.close()


def take(pool: SharedPool, size: int = SIZE, path: str = "/m") -> Lease:
    lease = pool.take(size, path)
    assert lease is not None
    return lease


def tensor(lease: Lease, at: int = 64) -> np.ndarray:
    """A read-only view, as a decoder makes one."""
    return np.ndarray((SIZE - 64,), np.uint8, lease.data[at:].toreadonly())


def mappings(inode: int) -> int:
    """How often this process maps a file."""
    return pathlib.Path("/proc/self/maps").read_text().count(f" {inode} ")


def address(array: np.ndarray) -> int:
    found: int = array.__array_interface__["data"][0]
    return found


def test_a_tensor_is_read_where_the_body_was_received(pair: Pair) -> None:
    lease = take(pair.pool)
    sent = tensor(lease)
    assert lease_of(sent[10:].reshape(-1)) is lease
    lease[64] = 7
    (received,) = pair.batch(pair.place(sent))
    assert received[0] == 7
    lease[64] = 8
    assert received[0] == 8


def test_a_file_is_sent_once(pair: Pair) -> None:
    for value in range(3):
        lease = take(pair.pool)
        lease[64] = value
        (received,) = pair.batch(pair.place(tensor(lease)))
        assert received[0] == value
        del lease, received
        pair.outcome()
    assert pair.sent == [0]


def test_a_file_that_the_model_refers_to_is_not_used_for_another_body(pair: Pair) -> None:
    lease = take(pair.pool)
    where = address(lease)
    (received,) = pair.batch(pair.place(tensor(lease)))
    pair.outcome()
    del lease
    assert pair.pool.lent == 0
    other = take(pair.pool)
    assert address(other) != where
    del received
    pair.batch(pair.place(tensor(other)))
    pair.outcome()
    again = take(pair.pool)
    assert address(again) == where


def test_a_file_is_lent_for_one_path_only_once_a_worker_has_it(pair: Pair) -> None:
    plain = take(pair.pool, path="/other")
    first = address(plain)
    del plain
    lease = take(pair.pool)
    assert address(lease) == first, "no worker had it"
    pair.batch(pair.place(tensor(lease)))
    pair.outcome()
    del lease
    assert address(take(pair.pool, path="/other")) != first
    assert address(take(pair.pool)) == first


def test_a_worker_that_has_gone_holds_nothing(pair: Pair) -> None:
    lease = take(pair.pool)
    where = address(lease)
    received = pair.batch(pair.place(tensor(lease)))
    pair.outcome()
    del lease
    pair.server.close()
    assert address(take(pair.pool, path="/other")) == where
    del received


def test_what_is_given_back_has_no_pages_in_the_worker_either(pair: Pair) -> None:
    lease = take(pair.pool)
    lease[:SIZE] = 1
    assert lease.file is not None
    file = os.dup(lease.file.descriptor)
    pair.batch(pair.place(tensor(lease)))
    pair.outcome()
    del lease
    assert pair.pool.kept_bytes
    assert os.fstat(file).st_blocks
    pair.pool.clear()
    assert os.fstat(file).st_blocks == 0
    os.close(file)


@pytest.mark.parametrize("kept", [False, True])
def test_a_large_file_is_shared_for_one_batch(pair: Pair, *, kept: bool) -> None:
    lease = take(pair.pool, KEPT_EACH + 1)
    lease[64] = 7
    assert lease.file is not None
    inode = os.fstat(lease.file.descriptor).st_ino
    received = pair.batch(pair.place(tensor(lease)), pair.place(tensor(lease, 128)))
    assert len(pair.sent) == 1
    if not kept:
        received.clear()
    pair.outcome()
    pair.end_of_batch()
    pair.outcome()
    del lease
    assert pair.pool.lent == 0
    wait_until(lambda: mappings(inode) == int(kept))
    if kept:
        assert received[0][0] == 7, "the model refers to it"


def test_more_files_than_slots_are_copied(pair: Pair) -> None:
    leases = [take(pair.pool) for _ in range(SLOTS + 1)]
    places = [pair.server.shared.place(tensor(each), pair.send) for each in leases]
    assert [each is None for each in places] == [False] * SLOTS + [True]
    del leases[0]
    assert pair.pool.lent == SLOTS
    assert pair.server.shared.place(tensor(leases[-1]), pair.send) is not None
    leases.clear()


@pytest.mark.parametrize(
    "array",
    [
        np.zeros(SIZE, np.uint8),
        np.ndarray((SIZE,), np.uint8, bytes(SIZE)),
    ],
    ids=["own", "bytes"],
)
def test_what_is_in_no_file_is_copied(pair: Pair, array: np.ndarray) -> None:
    assert pair.server.shared.place(array, pair.send) is None


def test_what_is_small_or_does_not_lie_as_workers_need_it_is_copied(pair: Pair) -> None:
    lease = take(pair.pool)
    sent = tensor(lease)
    for array in (
        sent[: SHARED_FROM - 1],
        sent[::2],
        np.ndarray((1 << 17,), np.float32, lease.data[68:].toreadonly()),
    ):
        assert pair.server.shared.place(array, pair.send) is None
    assert pair.sent == []


def test_a_file_that_does_not_arrive_fails_its_batch_and_is_sent_again(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = take(pair.pool)
    lease[64] = 7
    sent = tensor(lease)

    def full(*_: object) -> None:
        raise OSError(24, "Too many open files")

    place = pair.place(sent)
    with monkeypatch.context() as patched:
        patched.setattr(segments, "Mapping", full)
        with pytest.raises(LookupError):
            pair.batch(place)
    pair.outcome()
    (received,) = pair.batch(pair.place(sent))
    assert received[0] == 7
    assert pair.sent == [0, 0]


def test_a_file_that_cannot_be_sent_is_not_known(pair: Pair) -> None:
    def fail(number: int, descriptor: int) -> None:
        raise BlockingIOError

    lease = take(pair.pool)
    sent = tensor(lease)
    with pytest.raises(BlockingIOError):
        pair.server.shared.place(sent, fail)
    pair.place(sent)
    assert pair.sent == [0]

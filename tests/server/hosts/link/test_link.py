"""The link between server and worker: what is sent arrives, nothing is overwritten while a view of it exists, invalid messages are refused."""

import array
import contextlib
import os
import pathlib
import socket
import struct
import sys
from typing import Any

import numpy as np
import pytest

from naiad.hosts.link import call_segments, link
from naiad.hosts.link.kinds import BATCH, CANCEL, OUTCOME, RESPONSE
from naiad.hosts.link.link import Link, LinkBrokenError
from naiad.hosts.link.payload import ALIGNED
from naiad.tensors import reference_counts
from tests.server.hosts.links import LARGE, Pair, exchange, payload


def count_segments(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    made: list[str] = []
    create = os.memfd_create

    def counted(name: str, flags: int = 0) -> int:
        made.append(name)
        return create(name, flags)

    monkeypatch.setattr(os, "memfd_create", counted)
    return made


def test_a_message_arrives_with_its_kind_its_number_its_header_and_its_tensors(pair: Pair) -> None:
    ours, theirs = pair
    turned = np.arange(200_000, dtype=np.int32).reshape(400, 500).T
    whole, places = payload(b"abc", np.arange(5), turned, np.empty((0, 3)), b"")
    ours.send(BATCH, b"header", whole, 7)
    assert theirs.receive() == (BATCH, 7, b"header")
    (at, size), (at_1, size_1), (at_2, size_2), nothing, none = places
    assert (at, size) == (0, 3)
    assert at_1 % ALIGNED == at_2 % ALIGNED == 0
    assert theirs.base[at : at + size].tobytes() == b"abc"
    assert theirs.base[at_1 : at_1 + size_1].view(np.int64).tolist() == [0, 1, 2, 3, 4]
    came = theirs.base[at_2 : at_2 + size_2].view(np.int32).reshape(500, 400)
    assert (came == turned).all()
    assert nothing[1] == none[1] == 0


def test_a_small_message_needs_no_segment_and_is_the_receiver_s_to_keep(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    segments = count_segments(monkeypatch)
    ours, theirs = pair
    kept: list[Any] = []
    for number in range(3):
        whole, places = payload(np.full(9, number, np.uint8), b"word")
        ours.send(BATCH, b"header", whole, number)
        assert theirs.receive() == (BATCH, number, b"header")
        kept.append(theirs.base)
        theirs.send(OUTCOME, b"")
        ours.receive()
    (at, size), (at_1, size_1) = places
    assert [each[at : at + size] for each in kept] == [bytes([n]) * 9 for n in range(3)]
    assert kept[2][at_1 : at_1 + size_1] == b"word"
    assert segments == []


def test_messages_in_turn_share_a_segment_each_way(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    segments = count_segments(monkeypatch)
    ours, theirs = pair
    for number in range(10):
        ours.send(BATCH, b"x" * number, payload(np.full(LARGE, number))[0])
        theirs.receive()
        theirs.send(OUTCOME, b"y", payload(np.full(LARGE, number))[0])
        ours.receive()
    assert len(segments) == 2


def test_memory_with_a_view_is_not_written_over(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    segments = count_segments(monkeypatch)
    ours, theirs = pair
    looked_at: list[Any] = []
    for number in range(7):
        ours.send(BATCH, b"", payload(np.full(LARGE, number))[0])
        theirs.receive()
        looked_at.append(theirs.base[: LARGE * 8].view(np.int64))
        theirs.send(OUTCOME, b"")
        ours.receive()
    assert [set(each.tolist()) for each in looked_at] == [{number} for number in range(7)]
    assert len(segments) == 7
    looked_at.clear()
    for _ in range(5):  # the four that were kept are free again
        ours.send(BATCH, b"", payload(np.zeros(LARGE))[0])
        theirs.receive()
        theirs.send(OUTCOME, b"")
        ours.receive()
    # The first of these was sent before our end was notified that the views are gone.
    assert len(segments) == 7 + 1


def values_of(end: Link) -> set[int]:
    """The values of the tensor in its last call message."""
    return set(end.base[: LARGE * 8].view(np.int64).tolist())


def test_messages_that_are_not_read_yet_are_not_written_over(pair: Pair) -> None:
    """Two batches are on their way, and both outcomes are sent before the first one is read."""
    ours, theirs = pair
    for number in range(2):
        ours.send(BATCH, b"", payload(np.full(LARGE, number))[0])
    for number in range(0, 600, 2):
        for batch in (number, number + 1):
            theirs.receive()
            assert values_of(theirs) == {batch}
            theirs.send(OUTCOME, b"", payload(np.full(LARGE, -batch))[0])
        for batch in (number, number + 1):
            ours.receive()
            assert values_of(ours) == {-batch}
            ours.send(BATCH, b"", payload(np.full(LARGE, batch + 2))[0])


def test_messages_that_are_not_read_yet_have_segments_that_are_used_again(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    segments = count_segments(monkeypatch)
    ours, theirs = pair
    ours.send(BATCH, b"", payload(np.full(LARGE, 0))[0])
    for number in range(10):
        ours.send(BATCH, b"", payload(np.full(LARGE, number))[0])
        theirs.receive()
        theirs.send(OUTCOME, b"", payload(np.full(LARGE, number))[0])
        ours.receive()
    assert len(segments) == 2 + 2


def test_a_larger_message_takes_the_place_of_a_smaller_segment(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    segments = count_segments(monkeypatch)
    ours, theirs = pair
    for exponent in (16, 18, 20, 16, 20):
        ours.send(BATCH, b"", payload(np.zeros(1 << exponent, np.uint8))[0])
        theirs.receive()
        assert theirs.base.size >= 1 << exponent
        theirs.send(OUTCOME, b"")
        ours.receive()
    assert len(segments) == 3


@pytest.mark.parametrize("size", [0, 10, 1 << 15, 1 << 20])
def test_a_posted_message_is_complete_in_itself_and_stays_as_it_was(pair: Pair, size: int) -> None:
    ours, theirs = pair
    kept: list[Any] = []
    for number in range(3):
        whole, _ = payload(np.full(size, number, np.uint8), b"word")
        ours.notify(RESPONSE, b"header", whole, number)
        assert theirs.receive() == (RESPONSE, number, b"header")
        kept.append(theirs.take_notification()[:size])
    assert [set(bytes(each)) for each in kept] == [{n} if size else set() for n in range(3)]


@pytest.mark.parametrize("size", [8, 1 << 20])
def test_posted_messages_between_those_in_turn_change_nothing_of_them(
    pair: Pair, size: int
) -> None:
    ours, theirs = pair
    ours.send(BATCH, b"batch", payload(np.full(size, 1, np.uint8))[0])
    ours.notify(CANCEL, b"", None, 3)
    theirs.receive()
    assert theirs.receive() == (CANCEL, 3, b"")
    assert bytes(theirs.base[:8]) == bytes([1] * 8)


def test_a_side_that_is_gone_is_noticed(pair: Pair) -> None:
    ours, theirs = pair
    theirs.close()
    with pytest.raises(LinkBrokenError, match=link.GONE):
        ours.receive()
    with pytest.raises(LinkBrokenError):
        ours.send(BATCH, b"")
    with pytest.raises(LinkBrokenError):
        ours.notify(CANCEL, b"")


def test_a_side_that_went_without_reading_is_gone_all_the_same(pair: Pair) -> None:
    ours, theirs = pair
    ours.send(BATCH, b"")
    theirs.close()
    with pytest.raises(LinkBrokenError, match=link.GONE):
        ours.receive()


def test_a_side_that_does_not_read_makes_a_poster_wait(pair: Pair) -> None:
    ours, theirs = pair
    notification = 0
    with contextlib.suppress(BlockingIOError):
        for notification in range(100_000):
            ours.notify(CANCEL, b"x" * 1000, None, notification)
    assert 0 < notification < 99_999
    assert [theirs.receive()[1] for _ in range(notification)] == list(range(notification))
    with pytest.raises(BlockingIOError):
        theirs.receive()


@pytest.mark.parametrize(
    ("packet", "along"),
    [
        (b"short", 0),
        (struct.pack("<BBBxxxxxQQQ", BATCH, 0, 0, 0, 0, 10), 0),
        (struct.pack("<BBBxxxxxQQQ", BATCH, 0, 200, 0, 0, 10), 1),
        (struct.pack("<BBBxxxxxQQQ", BATCH, 0, 0, 0, 4000, 200), 1),
        (struct.pack("<BBBxxxxxQQQ", BATCH, 0, 0, 0, 2**64 - 1, 200), 1),
        (struct.pack("<BBBxxxxxQQQ", RESPONSE, 0, 0, 0, 0, 10), 0),
    ],
)
def test_an_invalid_message_is_refused(packet: bytes, along: int) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    end = Link(theirs)
    segment = os.memfd_create("x")
    os.ftruncate(segment, 4096)
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [segment]))]
    ours.sendmsg([packet], rights[:along])
    os.close(segment)
    with pytest.raises(LinkBrokenError):
        end.receive()
    ours.close()
    end.close()


def test_descriptors_come_closed_on_exec_and_none_is_kept_that_no_message_is_for() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    end = Link(theirs)
    before = set(pathlib.Path("/proc/self/fd").iterdir())
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0]))]
    for packet in (b"short", struct.pack("<BBBxxxxxQQQ", BATCH, 0, 255, 0, 0, 0)):
        ours.sendmsg([packet], rights)
        with pytest.raises(LinkBrokenError):
            end.receive()
    assert set(pathlib.Path("/proc/self/fd").iterdir()) <= before
    ours.close()
    end.close()


@pytest.mark.parametrize("more", [0, 1])
def test_memory_without_a_view_is_counted_as_this_interpreter_counts_it(
    monkeypatch: pytest.MonkeyPatch, more: int
) -> None:
    """Another interpreter may count one reference more, or one less."""
    count = sys.getrefcount
    monkeypatch.setattr(sys, "getrefcount", lambda each: count(each) - 1 + more)
    monkeypatch.setattr(call_segments, "ONLY_LISTED", reference_counts.only_listed())
    ours, theirs = (Link(each) for each in socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET))
    assert exchange((ours, theirs), 1).sum() == LARGE
    assert theirs._theirs.held() == 0
    kept = exchange((ours, theirs), 2)
    assert theirs._theirs.held().bit_count() == 1
    assert set(exchange((ours, theirs), 3).tolist()) == {3}
    assert set(kept.tolist()) == {2}
    for end in (ours, theirs):
        end.close()

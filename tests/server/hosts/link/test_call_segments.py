"""Segments of call messages: which one the next message gets, and what the other end knows of those that it filled."""

import collections.abc
import os

import numpy as np
import pytest

from naiad.hosts.link.call_segments import COUNTED, SLOTS, MappedSegments, SentSegments

SMALL, LARGE = 1 << 15, 1 << 20


class Ours(SentSegments):
    """What one end fills; it closes the descriptors that a link would send."""

    def fill(self, needed: int = SMALL) -> tuple[int, bool]:
        """The slot of a message of so many bytes, and whether its segment is new."""
        fresh, slot, segment = self.take(needed)
        assert segment.capacity >= needed
        assert len(segment.memory) >= needed
        if fresh >= 0:
            os.close(fresh)
        return slot, fresh >= 0

    def all_read(self, *, in_use: int = 0, lost: int = 0) -> None:
        """The other end has read everything, and says what it holds."""
        self.in_use = in_use
        self.note(lost, self.sent & COUNTED)


@pytest.fixture
def ours() -> collections.abc.Iterator[Ours]:
    segments = Ours()
    yield segments
    segments.clear()


def test_a_segment_is_used_again_once_the_message_is_read_and_dropped(ours: Ours) -> None:
    assert ours.fill() == (0, True)
    assert ours.fill() == (1, True)  # the first message is not read yet
    ours.all_read(in_use=0b01)
    assert ours.fill() == (1, False)
    ours.all_read()
    assert ours.fill() == (0, False)


def test_what_the_receiver_has_not_read_stays_as_it_is_however_many_it_has_read_before(
    ours: Ours,
) -> None:
    for _ in range(3 * COUNTED):
        ours.fill()
        ours.all_read()
    first, second = ours.fill()[0], ours.fill()[0]
    assert first != second
    ours.note(0, ours.sent - 1 & COUNTED)  # it has read the first
    assert list(ours.unread.values()) == [second]
    assert ours.fill() == (first, False)


def test_a_message_has_a_segment_of_its_own_while_all_are_in_use(ours: Ours) -> None:
    assert [ours.fill() for _ in range(SLOTS + 2)] == [
        *((slot, True) for slot in range(SLOTS)),
        (SLOTS, True),
        (SLOTS, True),
    ]
    ours.all_read(in_use=0b1101)
    assert ours.fill() == (1, False)


def test_a_larger_segment_takes_the_place_of_a_free_one(ours: Ours) -> None:
    ours.fill()
    ours.all_read()
    assert not ours.has(LARGE)
    assert ours.fill(LARGE) == (0, True)
    ours.all_read()
    assert ours.has(LARGE)
    assert ours.fill() == (0, False)


def test_one_that_the_receiver_does_not_have_is_made_again(ours: Ours) -> None:
    ours.fill()
    ours.all_read(lost=0b1)
    assert not ours.has(1)
    assert ours.fill() == (0, True)


@pytest.mark.parametrize("is_new", [True, False])
def test_a_message_that_was_not_sent_leaves_its_segment_free(ours: Ours, *, is_new: bool) -> None:
    if not is_new:
        ours.fill()
        ours.all_read()
    before = ours.sent
    fresh, _, segment = ours.take(SMALL)
    ours.not_sent(fresh, segment)
    if fresh >= 0:
        os.close(fresh)
    assert (ours.sent, ours.unread) == (before, {})
    # The receiver never got the descriptor of a new one.
    assert ours.fill() == (0, is_new)


def test_a_shortage_counts_no_message(ours: Ours, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(name: str, flags: int = 0) -> int:
        raise OSError(24, "too many open files")

    with monkeypatch.context() as short:
        short.setattr(os, "memfd_create", refused)
        with pytest.raises(OSError, match="too many"):
            ours.take(SMALL)
    assert (ours.sent, ours.unread) == (0, {})
    assert ours.fill() == (0, True)


def memory() -> "np.ndarray[tuple[int], np.dtype[np.uint8]]":
    return np.zeros(64, np.uint8)


def test_the_other_end_knows_what_is_referred_to_and_nothing_else() -> None:
    theirs = MappedSegments()
    assert theirs.held() == 0
    theirs.take(0, memory(), lost=False)
    assert theirs.held() == 0
    view = theirs.take(1, memory(), lost=False)[8:]
    assert theirs.held() == 0b10
    assert np.shares_memory(view, theirs.current)
    del view
    assert theirs.held() == 0


def test_what_is_not_here_is_said_until_it_comes_again_and_nothing_older_is_read() -> None:
    theirs = MappedSegments()
    theirs.take(0, memory(), lost=False)
    assert theirs.take(0, None, lost=True).size == 0
    assert theirs.held() == 1 << SLOTS
    assert theirs.take(0, None, lost=False).size == 0
    assert theirs.take(0, memory(), lost=False).size == 64
    assert theirs.held() == 0


def test_a_segment_of_its_own_is_there_for_one_message() -> None:
    theirs = MappedSegments()
    assert theirs.take(SLOTS, memory(), lost=False).size == 64
    assert theirs.take(SLOTS, None, lost=False).size == 0
    theirs.take(SLOTS, None, lost=True)
    assert theirs.held() == 0  # the next message has another one anyway
    assert theirs.take(SLOTS + 1, memory(), lost=False) is None


def test_closed_ends_keep_nothing() -> None:
    theirs = MappedSegments()
    theirs.take(0, memory(), lost=False)
    theirs.clear()
    assert theirs.held() == 0
    assert theirs.take(0, None, lost=False).size == 0

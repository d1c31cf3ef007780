"""Segments of notifications: used again when the receiver has dropped them, never before, and the link survives those that do not arrive."""

import contextlib
import errno
import gc
import pathlib
import threading
from typing import Any

import numpy as np
import pytest

from naiad.hosts.link.kinds import REQUEST
from naiad.hosts.link.link import Link, LinkBrokenError, SegmentLostError
from naiad.hosts.link.notification_segments import KEPT_BYTES, SLOTS, SegmentPool
from tests.server.hosts.link.test_link import count_segments
from tests.server.hosts.link.test_link_shortage import no_descriptor_left
from tests.server.hosts.links import LARGE, Pair, payload


def notify(pair: Pair, number: int, size: int = LARGE) -> Any:
    """Send a notification and receive it; gives its numbers, each of which is that of the notification."""
    ours, theirs = pair
    whole, _ = payload(np.full(size, number))
    ours.notify(REQUEST, b"", whole, number)
    assert theirs.receive() == (REQUEST, number, b"")
    return theirs.take_notification()[: size * 8].view(np.int64)


def test_a_segment_is_used_again_as_soon_as_nothing_refers_to_the_notification(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    segments = count_segments(monkeypatch)
    gc.disable()
    try:
        for number in range(20):
            assert set(notify(pair, number).tolist()) == {number}
    finally:
        gc.enable()
    assert len(segments) == 1


def test_a_notification_stays_as_it_was_while_a_view_of_it_exists_however_many_follow(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = [notify(pair, number)[10:20] for number in range(2 * SLOTS + 1)]
    segments = count_segments(monkeypatch)
    later = [int(notify(pair, 100 + number)[-1]) for number in range(20)]
    assert later == [100 + number for number in range(20)]
    assert [set(each.tolist()) for each in kept] == [{number} for number in range(2 * SLOTS + 1)]
    # The segments that are in use give their slots away, one of which serves all later notifications.
    assert len(segments) == 1


def test_a_larger_notification_takes_a_larger_segment_and_a_smaller_one_the_smallest_that_fits(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    segments = count_segments(monkeypatch)
    for exponent in (14, 16, 18, 14, 16, 18, 18):
        assert int(notify(pair, exponent, 1 << exponent)[-1]) == exponent
    assert len(segments) == 3


def test_a_very_large_notification_has_a_segment_that_is_not_kept(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    segments = count_segments(monkeypatch)
    for number in range(2):
        assert int(notify(pair, number, KEPT_BYTES // 8 + 1)[-1]) == number
    assert len(segments) == 2
    assert pair[0]._pool._slots == [None] * SLOTS


@pytest.mark.parametrize("held", range(SLOTS + 2))
def test_a_notification_that_could_not_be_received_is_lost_alone(pair: Pair, held: int) -> None:
    ours, theirs = pair
    kept = [notify(pair, number) for number in range(held)]
    ours.notify(REQUEST, b"", payload(np.full(LARGE * 4, 50))[0], 50)
    with no_descriptor_left(), pytest.raises(SegmentLostError, match="descriptor") as lost:
        theirs.receive()
    assert (lost.value.kind, lost.value.number) == (REQUEST, 50)
    kept += [notify(pair, number, LARGE * 4) for number in range(60, 60 + 2 * SLOTS)]
    assert [int(each[-1]) for each in kept] == [*range(held), *range(60, 60 + 2 * SLOTS)]


def _segments_open() -> set[str]:
    """The descriptors of segments that this process has open."""
    links: set[str] = set()
    for each in pathlib.Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            target = str(each.readlink())
            if "memfd:naiad" in target:
                links.add(each.name)
    return links


def test_what_could_not_be_sent_leaves_no_segment_that_the_receiver_does_not_know(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, _ = pair
    for known in (False, True):
        before = _segments_open()
        with monkeypatch.context() as failing:

            def fail(*_: Any) -> None:
                raise OSError(errno.ENOBUFS, "no buffer")

            failing.setattr(Link, "_pass", fail)
            with pytest.raises(OSError, match="no buffer"):
                ours.notify(REQUEST, b"", payload(np.full(LARGE, 1))[0], 1)
        assert _segments_open() <= before, known
        assert set(notify(pair, 2).tolist()) == {2}


def test_threads_that_send_at_once_never_share_a_segment() -> None:
    pool = SegmentPool()
    taken: list[Any] = []
    start = threading.Barrier(8)

    def take() -> None:
        start.wait()
        taken.append(pool.take(1000))

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(segment.memory) for segment in taken}) == 8
    assert sorted(segment.slot for segment in taken) == [0, 1, 2, 3, *[SLOTS] * 4]
    for segment in taken:
        pool.not_sent(segment)


def test_a_reference_to_a_segment_that_was_never_sent_breaks_the_link(pair: Pair) -> None:
    ours, theirs = pair
    segment = ours._pool.take(1 << 16)
    ours._pool.sent(segment)  # which it was not
    segment.memory[segment.capacity] = 0
    ours.notify(REQUEST, b"", payload(np.full(LARGE, 1))[0], 1)
    with pytest.raises(LinkBrokenError, match="without its payload"):
        theirs.receive()

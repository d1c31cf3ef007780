"""The link between server and worker without descriptors or memory: a message is lost, or not sent, and those behind it arrive."""

import collections.abc
import contextlib
import errno
import os
import resource
from typing import Any

import numpy as np
import pytest

from naiad.hosts.link import segments
from naiad.hosts.link.kinds import BATCH, OUTCOME, RESPONSE
from naiad.hosts.link.link import Link, SegmentLostError
from tests.server.hosts.links import LARGE, Pair, exchange, payload


@contextlib.contextmanager
def no_descriptor_left() -> collections.abc.Iterator[None]:
    """This process can open nothing more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("looked_at", [0, 2, 4, 6])
def test_tensors_whose_descriptor_the_system_drops_are_an_error_and_never_those_of_an_earlier_message(
    pair: Pair, looked_at: int
) -> None:
    """Whatever slot the message is for, a fifth one without a slot included, and the next message arrives again."""
    ours, theirs = pair
    held = [exchange(pair, number) for number in range(looked_at)]
    ours.send(BATCH, b"", payload(np.full(LARGE, 90))[0], 90)
    with no_descriptor_left(), pytest.raises(SegmentLostError, match="descriptor") as lost:
        theirs.receive()
    assert (lost.value.kind, lost.value.number, lost.value.size) == (BATCH, 90, LARGE * 8)
    theirs.send(OUTCOME, b"failed")
    assert ours.receive() == (OUTCOME, 0, b"failed")
    held += [exchange(pair, number) for number in range(91, 98)]
    expected = [*range(looked_at), *range(91, 98)]
    assert [set(each.tolist()) for each in held] == [{number} for number in expected]


def test_a_message_behind_one_that_is_lost_arrives(pair: Pair) -> None:
    ours, theirs = pair
    exchange(pair, 1)
    held = [exchange(pair, 2)]
    ours.send(BATCH, b"", payload(np.full(LARGE * 10, 3))[0])
    with no_descriptor_left(), pytest.raises(SegmentLostError):
        theirs.receive()
    ours.send(BATCH, b"", payload(np.full(LARGE, 4))[0])
    theirs.send(OUTCOME, b"failed")
    theirs.receive()
    assert set(theirs.base[: LARGE * 8].view(np.int64).tolist()) == {4}
    theirs.send(OUTCOME, b"", payload(np.zeros(LARGE))[0])
    ours.receive()
    ours.receive()
    assert set(exchange(pair, 5).tolist()) == {5}
    assert set(held[0].tolist()) == {2}


def test_a_posted_message_whose_descriptor_is_dropped_is_lost_alone(pair: Pair) -> None:
    ours, theirs = pair
    ours.notify(RESPONSE, b"", payload(np.full(LARGE, 1))[0], 1)
    ours.notify(RESPONSE, b"", payload(np.full(LARGE, 2))[0], 2)
    ours.notify(RESPONSE, b"small", None, 3)
    with no_descriptor_left():
        for number in (1, 2):
            with pytest.raises(SegmentLostError) as lost:
                theirs.receive()
            assert (lost.value.kind, lost.value.number) == (RESPONSE, number)
        assert theirs.receive() == (RESPONSE, 3, b"small")


def test_address_space_that_is_used_up_loses_a_message_and_not_the_link(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = pair
    ours.send(BATCH, b"", payload(np.full(LARGE, 1))[0])
    with monkeypatch.context() as without:
        without.setattr(segments, "Mapping", fails(errno.ENOMEM))
        with pytest.raises(SegmentLostError, match="mapped"):
            theirs.receive()
    theirs.send(OUTCOME, b"")
    ours.receive()
    assert set(exchange(pair, 2).tolist()) == {2}


@pytest.mark.parametrize(
    ("where", "name", "number"),
    [
        (os, "memfd_create", errno.EMFILE),
        (segments, "Mapping", errno.ENOMEM),
        (Link, "_pass", errno.ETOOMANYREFS),
    ],
)
def test_a_message_that_could_not_be_sent_leaves_nothing_for_a_later_one_to_refer_to(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, where: Any, name: str, number: int
) -> None:
    exchange(pair, 1)
    with monkeypatch.context() as without:
        without.setattr(where, name, fails(number))
        with pytest.raises(OSError, match="injected"):
            pair[0].send(BATCH, b"", payload(np.full(LARGE * 4, 2))[0])
    assert [set(exchange(pair, each).tolist()) for each in (3, 4, 5)] == [{3}, {4}, {5}]


def fails(number: int) -> collections.abc.Callable[..., Any]:
    def failing(*_: Any) -> Any:
        raise OSError(number, "injected")

    return failing

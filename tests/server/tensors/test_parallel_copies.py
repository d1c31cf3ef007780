"""Copies of many bytes by several threads: every byte once, whatever the others do."""

import os
import threading
import typing

import numpy as np
import pytest

from naiad.tensors import parallel_copies
from naiad.tensors.parallel_copies import PARALLEL_FROM, copy


def pairs(*sizes: int) -> list[tuple[typing.Any, typing.Any]]:
    """Arrays of these sizes to copy to, and random ones to copy from."""
    rng = np.random.default_rng(1)
    return [(np.zeros(size, np.uint8), rng.integers(0, 256, size, np.uint8)) for size in sizes]


@pytest.fixture(autouse=True)
def two_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    """This thread may run on two, whatever the machine has; it has no helpers yet."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    parallel_copies._HELPERS.forget()


@pytest.mark.parametrize(
    "sizes",
    [(0,), (1, 2), (PARALLEL_FROM,), (PARALLEL_FROM + 1, 3), (1 << 20,) * 9, (5, 1 << 23, 0, 7)],
)
def test_every_byte_is_copied(sizes: tuple[int, ...]) -> None:
    for _ in range(20):
        made = pairs(*sizes)
        copy(made)
        assert all((into == source).all() for into, source in made)


def test_little_is_copied_without_another_thread() -> None:
    before = threading.active_count()
    copy(pairs(PARALLEL_FROM // 2, PARALLEL_FROM // 2 - 1))
    assert threading.active_count() == before
    copy(pairs(PARALLEL_FROM // 2, PARALLEL_FROM // 2))
    assert threading.active_count() == before + 1


def test_on_one_processor_there_is_no_other_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1})
    before = threading.active_count()
    made = pairs(PARALLEL_FROM)
    copy(made)
    assert (made[0][0] == made[0][1]).all()
    assert threading.active_count() == before


def test_helpers_that_do_not_run_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def cannot(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", cannot)
    made = pairs(2 * PARALLEL_FROM)
    copy(made)
    assert (made[0][0] == made[0][1]).all()
    monkeypatch.setattr(threading.Thread, "start", lambda _: None)  # one that gets no processor
    made = pairs(2 * PARALLEL_FROM)
    copy(made)
    assert (made[0][0] == made[0][1]).all()


def test_a_forked_child_has_helpers_of_its_own() -> None:
    copy(pairs(PARALLEL_FROM))
    child = os.fork()
    if not child:
        made = pairs(2 * PARALLEL_FROM)
        copy(made)
        its_own = threading.active_count() > 1
        os._exit(0 if its_own and (made[0][0] == made[0][1]).all() else 1)
    assert os.waitpid(child, 0)[1] == 0

"""Which threads stay on the loop's processor: decided by numbers, carried out through an injected call."""

import collections.abc
import os

import pytest

from naiad.hosts.colocation import (
    SETTLED_AFTER,
    SHORT_NS,
    SHORT_WITH_INTERPRETER_NS,
    Colocation,
    Follower,
    current_processor,
)


def after(colocation: Colocation, *durations_ns: int) -> bool:
    for duration in durations_ns:
        colocation.took(duration)
    return colocation.together


def test_short_batches_bring_a_thread_to_the_loop_once_it_has_settled() -> None:
    colocation = Colocation(holds_interpreter=False)
    assert not after(colocation, *[10_000] * (SETTLED_AFTER - 1))
    assert after(colocation, 10_000)


def test_work_that_holds_the_interpreter_may_be_longer() -> None:
    batches = [SHORT_WITH_INTERPRETER_NS // 2] * 100
    assert after(Colocation(holds_interpreter=True), *batches)
    assert not after(Colocation(holds_interpreter=False), *batches)


def test_longer_batches_let_it_go_and_it_has_to_settle_again() -> None:
    colocation = Colocation(holds_interpreter=False)
    assert after(colocation, *[10_000] * SETTLED_AFTER)
    assert not after(colocation, 5_000_000)
    assert not after(colocation, *[10_000] * (SETTLED_AFTER - 1))
    assert after(colocation, *[10_000] * 100)


def test_between_the_two_bounds_it_stays_where_it_is() -> None:
    middle = [SHORT_NS * 3 // 2] * 200
    free, bound = Colocation(holds_interpreter=False), Colocation(holds_interpreter=False)
    assert not after(free, *middle)
    assert after(bound, *[10_000] * SETTLED_AFTER)
    assert after(bound, *middle)


class Binding:
    """Remembers what a thread was bound to."""

    def __init__(self, *, refuses: bool = False) -> None:
        self.calls: list[collections.abc.Set[int]] = []
        self._refuses = refuses

    def __call__(self, processors: collections.abc.Set[int]) -> None:
        self.calls.append(processors)
        if self._refuses:
            raise PermissionError


@pytest.fixture
def two_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})


@pytest.mark.usefixtures("two_processors")
def test_a_thread_follows_the_loop_and_is_let_go_to_where_it_was_allowed() -> None:
    binding = Binding()
    follower = Follower(binding)
    follower.loop_is_on(1)
    follower.settle(together=False)
    assert binding.calls == []
    follower.settle(together=True)
    follower.settle(together=True)
    follower.loop_is_on(0)
    follower.settle(together=True)
    follower.settle(together=False)
    assert binding.calls == [{1}, {0}, {0, 1}]


@pytest.mark.usefixtures("two_processors")
def test_a_processor_that_is_not_allowed_is_not_bound_to() -> None:
    binding = Binding()
    follower = Follower(binding)
    follower.loop_is_on(7)
    follower.settle(together=True)
    assert binding.calls == [{0, 1}]


@pytest.mark.usefixtures("two_processors")
def test_a_system_that_refuses_is_not_asked_again() -> None:
    binding = Binding(refuses=True)
    follower = Follower(binding)
    follower.loop_is_on(1)
    follower.settle(together=True)
    follower.settle(together=True)
    assert len(binding.calls) == 1


def test_the_processor_of_this_thread_is_one_it_may_run_on() -> None:
    assert current_processor() in os.sched_getaffinity(0)

"""Which of the waiting instances run next, with numbers."""

from naiad.scheduling.rate_limiter.keys import ResourceKey
from naiad.scheduling.rate_limiter.turns import Turn, blocking, runnable

R, S, T = (ResourceKey(name, 0) for name in "RST")


def turn(start: int, number: int = 0, **needs: int) -> Turn:
    keys = {ResourceKey(name, 0): amount for name, amount in needs.items()}
    return Turn(needs=keys, priority=1, start=start, number=number)


def test_the_earliest_turns_that_fit_run() -> None:
    first, second, third = turn(0, R=1), turn(1, R=1), turn(2, R=1)
    assert list(runnable([third, first, second], {R: 2})) == [first, second]


def test_of_equal_turns_the_one_that_waits_longest_runs() -> None:
    late, early = turn(3, 2, R=1), turn(3, 1, R=1)
    assert list(runnable([late, early], {R: 1})) == [early]


def test_one_that_needs_much_is_not_overtaken_by_those_that_need_little() -> None:
    large, small = turn(0, R=3), turn(1, R=1)
    assert list(runnable([small, large], {R: 2})) == []
    assert list(runnable([small, large], {R: 4})) == [large, small]


def test_one_that_waits_for_another_resource_does_not_hold_others_up() -> None:
    blocked, other, behind = turn(0, R=1, S=1), turn(1, T=1), turn(2, S=1)
    assert list(runnable([blocked, other, behind], {R: 0, S: 1, T: 1})) == [other]


def test_a_resource_that_is_overdrawn_is_granted_to_none() -> None:
    """An instance that needed more than all others was unloaded while others used it."""
    assert list(runnable([turn(0, R=1)], {R: -1})) == []
    assert list(runnable([turn(0, R=1)], {})) == []


def test_what_a_turn_waits_for_includes_what_keeps_earlier_ones() -> None:
    first, second, third = turn(0, R=1, S=1), turn(1, S=1), turn(2, T=1)
    waiting = [first, second, third]
    assert blocking(waiting, second) == {R, S}
    assert blocking(waiting, first) == {R, S}
    assert blocking(waiting, third) == {T}

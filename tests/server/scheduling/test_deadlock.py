"""Who waits for whom for ever among calls between models.

Executions are written as the instance that is at work: "a0" is what the first instance of model "a" executes.
"""

import itertools

from naiad.scheduling.deadlock import UNSURE_NS, Wait, find_circle


class Calls:
    """Calls, numbered in the order in which they are added."""

    def __init__(self) -> None:
        self.waits: list[Wait] = []
        self._numbers = itertools.count(1)

    def queued(self, caller: str | None, at: str, *, blocks: bool = True, since: int = 0) -> int:
        return self._add(caller, at, None, blocks=blocks, since=since)

    def executed(
        self, caller: str | None, inside: str | None, *, blocks: bool = True, since: int = 0
    ) -> int:
        return self._add(caller, None, inside, blocks=blocks, since=since)

    def circle(self, now: int = 0, **pools: tuple[str | None, ...]) -> list[int]:
        return [wait.number for wait in find_circle(self.waits, pools, now)]

    def _add(
        self, caller: str | None, at: str | None, inside: str | None, *, blocks: bool, since: int
    ) -> int:
        number = next(self._numbers)
        self.waits.append(
            Wait(
                number=number,
                caller=caller,
                blocks=blocks,
                queued_at=at,
                executed_in=inside,
                since_ns=since,
            )
        )
        return number


def test_nobody_waits_for_ever_when_nobody_calls() -> None:
    assert Calls().circle() == []


def test_two_models_that_call_each_other_fail_the_younger_call() -> None:
    calls = Calls()
    older = calls.executed("a0", "b0")
    younger = calls.queued("b0", "a")
    assert calls.circle(a=("a0",), b=("b0",)) == [younger, older]


def test_a_model_that_calls_itself_waits_for_itself() -> None:
    calls = Calls()
    alone = calls.queued("a0", "a")
    assert calls.circle(a=("a0",)) == [alone]


def test_two_requests_that_wait_for_each_others_instances() -> None:
    """Both models are asked by clients, and each calls the other."""
    calls = Calls()
    first = calls.queued("a0", "b")
    second = calls.queued("b0", "a")
    assert calls.circle(a=("a0",), b=("b0",)) == [second, first]


def test_a_circle_of_three() -> None:
    calls = Calls()
    one = calls.executed("a0", "b0")
    two = calls.executed("b0", "c0")
    three = calls.queued("c0", "a")
    assert calls.circle(a=("a0",), b=("b0",), c=("c0",)) == [three, one, two]


def test_the_youngest_goes_although_it_is_not_the_queued_one() -> None:
    calls = Calls()
    queued = calls.queued("b0", "a")
    youngest = calls.executed("a0", "b0")
    assert calls.circle(a=("a0",), b=("b0",)) == [youngest, queued]


def test_a_free_instance_is_a_way_on() -> None:
    calls = Calls()
    calls.executed("a0", "b0")
    calls.queued("b0", "a")
    assert calls.circle(a=("a0", None), b=("b0",)) == []


def test_an_instance_that_computes_is_a_way_on() -> None:
    calls = Calls()
    calls.executed("a0", "b0")
    calls.queued("b0", "a")
    assert calls.circle(a=("a0", "a1"), b=("b0",)) == []


def test_several_instances_that_all_wait_are_none() -> None:
    calls = Calls()
    one = calls.executed("a0", "b0")
    two = calls.executed("a1", "b1")
    three = calls.queued("b0", "a")
    four = calls.queued("b1", "a")
    circle = calls.circle(a=("a0", "a1"), b=("b0", "b1"))
    assert circle == [four, two]
    assert {one, three}.isdisjoint(circle)


def test_a_call_into_a_circle_is_not_the_one_that_goes() -> None:
    """It waits because of the circle: once that is broken it goes on."""
    calls = Calls()
    older = calls.executed("a0", "b0")
    younger = calls.queued("b0", "a")
    calls.queued("c0", "a")
    assert calls.circle(a=("a0",), b=("b0",), c=("c0",)) == [younger, older]


def test_a_long_way_that_ends_at_somebody_who_works_is_no_circle() -> None:
    calls = Calls()
    calls.executed("a0", "b0")
    calls.queued("b0", "c")
    assert calls.circle(a=("a0",), b=("b0",), c=("c0",)) == []


def test_a_call_that_is_answered_apart_is_under_way() -> None:
    """A decoupled model works on it in a thread of its own: neither queued nor with an instance."""
    calls = Calls()
    calls.executed("a0", None)
    calls.queued("d0", "a")
    assert calls.circle(a=("a0",), d=("d0",)) == []


def test_a_coroutine_may_not_wait_so_its_circle_must_last() -> None:
    calls = Calls()
    older = calls.executed("a0", "b0", blocks=False, since=1)
    younger = calls.queued("b0", "a", since=5)
    assert calls.circle(4 + UNSURE_NS, a=("a0",), b=("b0",)) == []
    assert calls.circle(5 + UNSURE_NS, a=("a0",), b=("b0",)) == [younger, older]


def test_a_coroutine_goes_on_with_any_of_its_calls() -> None:
    calls = Calls()
    calls.queued("a0", "a", blocks=False)
    calls.executed("a0", "b0", blocks=False)
    assert calls.circle(UNSURE_NS, a=("a0",), b=("b0",)) == []


def test_a_coroutine_all_of_whose_calls_are_stuck_is_stuck() -> None:
    calls = Calls()
    calls.queued("a0", "a", blocks=False)
    second = calls.queued("a0", "a", blocks=False)
    assert calls.circle(UNSURE_NS, a=("a0",)) == [second]


def test_a_thread_that_waits_does_not_go_on_with_another_call() -> None:
    """A coroutine that asks with exec blocks its thread, whatever else is under way."""
    calls = Calls()
    calls.executed("a0", "b0", blocks=False)
    stuck = calls.queued("a0", "a", blocks=True)
    assert calls.circle(a=("a0",), b=("b0",)) == [stuck]


def test_a_caller_that_nobody_knows_holds_nothing_up() -> None:
    calls = Calls()
    calls.queued(None, "a")
    calls.queued("a0", "b")
    assert calls.circle(a=("a0",), b=("b0",)) == []


def test_a_circle_over_any_number_of_instances_is_found_as_soon_as_the_last_one_waits() -> None:
    for count in range(1, 6):
        calls = Calls()
        pool: tuple[str | None, ...] = tuple(f"a{each}" for each in range(count))
        for each in range(count - 1):
            calls.queued(f"a{each}", "a")
            assert calls.circle(a=pool) == []
        last = calls.queued(f"a{count - 1}", "a")
        assert calls.circle(a=pool) == [last]

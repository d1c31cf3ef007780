"""Calls between models that wait for each other for ever.

An execution is named after its instance: "a0" is what the first instance of model "a" executes.
"""

import itertools

from naiad.scheduling.relays.deadlock import UNSURE_NS, Wait, find_cycle


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

    def cycle(self, now: int = 0, **pools: tuple[str | None, ...]) -> list[int]:
        return [wait.number for wait in find_cycle(self.waits, pools, now)]

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


def test_without_calls_there_is_no_cycle() -> None:
    assert Calls().cycle() == []


def test_two_models_that_call_each_other_fail_the_younger_call() -> None:
    calls = Calls()
    older = calls.executed("a0", "b0")
    younger = calls.queued("b0", "a")
    assert calls.cycle(a=("a0",), b=("b0",)) == [younger, older]


def test_a_model_that_calls_itself_waits_for_itself() -> None:
    calls = Calls()
    alone = calls.queued("a0", "a")
    assert calls.cycle(a=("a0",)) == [alone]


def test_two_requests_that_wait_for_instances_of_each_other() -> None:
    """Clients call both models, and each model calls the other."""
    calls = Calls()
    first = calls.queued("a0", "b")
    second = calls.queued("b0", "a")
    assert calls.cycle(a=("a0",), b=("b0",)) == [second, first]


def test_a_cycle_of_three() -> None:
    calls = Calls()
    one = calls.executed("a0", "b0")
    two = calls.executed("b0", "c0")
    three = calls.queued("c0", "a")
    assert calls.cycle(a=("a0",), b=("b0",), c=("c0",)) == [three, one, two]


def test_the_youngest_is_aborted_although_it_is_not_the_queued_one() -> None:
    calls = Calls()
    queued = calls.queued("b0", "a")
    youngest = calls.executed("a0", "b0")
    assert calls.cycle(a=("a0",), b=("b0",)) == [youngest, queued]


def test_a_call_continues_on_a_free_instance() -> None:
    calls = Calls()
    calls.executed("a0", "b0")
    calls.queued("b0", "a")
    assert calls.cycle(a=("a0", None), b=("b0",)) == []


def test_a_call_continues_on_an_instance_that_computes() -> None:
    calls = Calls()
    calls.executed("a0", "b0")
    calls.queued("b0", "a")
    assert calls.cycle(a=("a0", "a1"), b=("b0",)) == []


def test_several_instances_that_all_wait_are_a_cycle() -> None:
    calls = Calls()
    one = calls.executed("a0", "b0")
    two = calls.executed("a1", "b1")
    three = calls.queued("b0", "a")
    four = calls.queued("b1", "a")
    cycle = calls.cycle(a=("a0", "a1"), b=("b0", "b1"))
    assert cycle == [four, two]
    assert {one, three}.isdisjoint(cycle)


def test_a_call_into_a_cycle_is_not_the_one_aborted() -> None:
    """It waits because of the cycle, and continues once that is broken."""
    calls = Calls()
    older = calls.executed("a0", "b0")
    younger = calls.queued("b0", "a")
    calls.queued("c0", "a")
    assert calls.cycle(a=("a0",), b=("b0",), c=("c0",)) == [younger, older]


def test_a_chain_that_ends_at_an_instance_that_computes_is_not_a_cycle() -> None:
    calls = Calls()
    calls.executed("a0", "b0")
    calls.queued("b0", "c")
    assert calls.cycle(a=("a0",), b=("b0",), c=("c0",)) == []


def test_a_call_with_a_deferred_response_continues() -> None:
    """A decoupled model works on it in its own thread: it is neither queued nor in an execution."""
    calls = Calls()
    calls.executed("a0", None)
    calls.queued("d0", "a")
    assert calls.cycle(a=("a0",), d=("d0",)) == []


def test_a_coroutine_may_not_wait_so_its_cycle_must_last() -> None:
    calls = Calls()
    older = calls.executed("a0", "b0", blocks=False, since=1)
    younger = calls.queued("b0", "a", since=5)
    assert calls.cycle(4 + UNSURE_NS, a=("a0",), b=("b0",)) == []
    assert calls.cycle(5 + UNSURE_NS, a=("a0",), b=("b0",)) == [younger, older]


def test_a_coroutine_continues_with_any_of_its_calls() -> None:
    calls = Calls()
    calls.queued("a0", "a", blocks=False)
    calls.executed("a0", "b0", blocks=False)
    assert calls.cycle(UNSURE_NS, a=("a0",), b=("b0",)) == []


def test_a_coroutine_all_of_whose_calls_are_stuck_is_stuck() -> None:
    calls = Calls()
    calls.queued("a0", "a", blocks=False)
    second = calls.queued("a0", "a", blocks=False)
    assert calls.cycle(UNSURE_NS, a=("a0",)) == [second]


def test_a_thread_that_waits_does_not_continue_with_another_call() -> None:
    """A coroutine that calls exec blocks its thread, whatever else runs in it."""
    calls = Calls()
    calls.executed("a0", "b0", blocks=False)
    stuck = calls.queued("a0", "a", blocks=True)
    assert calls.cycle(a=("a0",), b=("b0",)) == [stuck]


def test_a_call_of_an_unknown_caller_is_not_part_of_a_cycle() -> None:
    calls = Calls()
    calls.queued(None, "a")
    calls.queued("a0", "b")
    assert calls.cycle(a=("a0",), b=("b0",)) == []


def test_a_cycle_over_any_number_of_instances_is_found_as_soon_as_the_last_one_waits() -> None:
    for count in range(1, 6):
        calls = Calls()
        pool: tuple[str | None, ...] = tuple(f"a{each}" for each in range(count))
        for each in range(count - 1):
            calls.queued(f"a{each}", "a")
            assert calls.cycle(a=pool) == []
        last = calls.queued(f"a{count - 1}", "a")
        assert calls.cycle(a=pool) == [last]

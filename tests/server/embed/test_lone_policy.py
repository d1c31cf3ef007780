"""When calls run on one processor: decided by how long they take there and elsewhere."""

import pytest

from naiad.embed.lone_policy import (
    AGAIN_AFTER,
    CHECK,
    KEPT,
    SHORT_CALL_NS,
    TRIAL,
    TRIED_AFTER,
    LoneCallPolicy,
)

FREE_NS, BOUND_NS = 150_000, 80_000


class Machine:
    """A machine on which a call takes so long, free and bound."""

    def __init__(self, *, free_ns: int = FREE_NS, bound_ns: int = BOUND_NS) -> None:
        self.free_ns = free_ns
        self.bound_ns = bound_ns
        self.policy = LoneCallPolicy()

    def calls(self, count: int) -> int:
        """Make so many; returns how many were bound."""
        bound = 0
        for _ in range(count):
            bound += self.policy.bound
            self.policy.record(self.bound_ns if self.policy.bound else self.free_ns)
        return bound


def test_calls_run_free_then_bound_and_stay_so_if_they_are_faster() -> None:
    machine = Machine()
    assert machine.calls(TRIED_AFTER) == 0
    assert machine.calls(TRIAL) == TRIAL
    assert machine.calls(KEPT) == KEPT
    assert machine.calls(CHECK) == 0
    assert machine.calls(KEPT) == KEPT
    assert machine.policy.trials == 1, "it keeps its processor"


def test_a_trial_that_brings_nothing_is_made_again_much_later() -> None:
    machine = Machine(bound_ns=FREE_NS)
    assert machine.calls(TRIED_AFTER + TRIAL) == TRIAL
    assert machine.calls(AGAIN_AFTER) == 0
    assert machine.calls(TRIAL) == TRIAL
    assert machine.policy.trials == 2


def test_where_other_work_came_to_the_processor_another_one_is_tried_soon() -> None:
    machine = Machine()
    machine.calls(TRIED_AFTER + TRIAL + KEPT // 2)
    machine.free_ns, machine.bound_ns = 90_000, 200_000
    assert machine.calls(KEPT // 2 + CHECK + TRIED_AFTER) == KEPT // 2
    machine.bound_ns = 85_000
    assert machine.calls(TRIAL + KEPT) == TRIAL + KEPT
    assert machine.policy.trials == 2


def test_long_calls_are_not_bound_and_bound_ones_that_become_long_are_released_at_once() -> None:
    machine = Machine(free_ns=2 * SHORT_CALL_NS, bound_ns=SHORT_CALL_NS)
    assert machine.calls(10 * AGAIN_AFTER) == 0
    machine = Machine()
    machine.calls(TRIED_AFTER + TRIAL)
    machine.free_ns = machine.bound_ns = 5_000_000
    assert machine.calls(KEPT) <= 4
    machine.free_ns, machine.bound_ns = FREE_NS, BOUND_NS
    machine.calls(2 * TRIED_AFTER)
    assert machine.calls(TRIAL // 2) == TRIAL // 2


def test_one_call_that_takes_long_decides_nothing() -> None:
    machine = Machine()
    machine.calls(TRIED_AFTER + TRIAL - 1)
    machine.policy.record(50_000_000)
    assert machine.calls(KEPT) == KEPT


@pytest.mark.parametrize("after", [TRIED_AFTER, TRIED_AFTER + TRIAL, TRIED_AFTER + TRIAL + KEPT])
def test_after_calls_at_the_same_time_it_begins_again(after: int) -> None:
    machine = Machine()
    machine.calls(after)
    machine.policy.interrupt()
    assert machine.calls(TRIED_AFTER) == 0
    assert machine.calls(TRIAL) == TRIAL

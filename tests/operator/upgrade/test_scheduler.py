"""Who is admitted: tables, and what an operator that has just started knows."""

import pytest

from naiad_operator.queue import Key
from naiad_operator.upgrade.scheduler import (
    Decision,
    State,
    UpgradeScheduler,
    Upgrading,
    Waiting,
    decide,
)
from naiad_operator.upgrade.turn import Hold, Turn

SERVES = Waiting(serves=True, stuck=False)
STARTING = Waiting(serves=False, stuck=False)
STUCK = Waiting(serves=False, stuck=True)
BEGUN, FAILED = Upgrading(), Upgrading(is_blocked=True)


def key(name: str) -> Key:
    return Key("models", name)


@pytest.mark.parametrize(
    ("states", "limit", "starts"),
    [
        ({}, 1, ""),
        ({"b": SERVES, "a": SERVES}, 1, "a"),
        ({"b": SERVES, "a": SERVES, "c": SERVES}, 2, "ab"),
        ({"a": SERVES}, 0, ""),
        ({"a": STUCK}, 0, ""),
        ({"a": BEGUN, "b": SERVES}, 1, ""),
        ({"a": BEGUN, "b": SERVES, "c": SERVES}, 2, "b"),
        ({"a": BEGUN, "b": BEGUN, "c": SERVES}, 1, ""),  # the limit was lowered
        ({"a": STUCK, "b": STUCK, "c": SERVES, "d": SERVES}, 1, "abc"),
        ({"a": STARTING, "b": SERVES}, 1, "b"),
        ({"a": STARTING}, 1, ""),
    ],
    ids=str,
)
def test_as_many_as_the_limit_start_in_the_order_of_their_names(
    states: dict[str, State], limit: int, starts: str
) -> None:
    expected = Decision(frozenset(map(key, starts)))
    assert decide({key(name): state for name, state in states.items()}, limit) == expected


def test_one_that_does_not_become_ready_stops_all_others() -> None:
    states: dict[Key, State] = {key("a"): SERVES, key("b"): BEGUN, key("c"): FAILED}
    assert decide(states, 10) == Decision(paused_by=key("c"))


class Woken(list[str]):
    def __call__(self, service: Key) -> None:
        self.append(service.name)


def test_no_turn_is_given_before_every_service_was_looked_at() -> None:
    """An operator that has just started does not know yet who is replacing pods."""
    woken = Woken()
    upgrades = UpgradeScheduler(limit=1, wake=woken)
    assert not upgrades.admit(key("a"), SERVES)
    upgrades.observe(key("z"), BEGUN)
    assert woken == []
    upgrades.open()
    assert woken == ["a"], "its condition may say something else than before the start"
    assert not upgrades.admit(key("a"), SERVES)
    woken.clear()
    upgrades.observe(key("z"), None)
    assert woken == ["a"]
    assert upgrades.admit(key("a"), SERVES)


def test_a_turn_that_was_taken_counts_before_the_cluster_shows_it() -> None:
    upgrades = UpgradeScheduler(limit=1, wake=Woken())
    upgrades.open()
    assert upgrades.admit(key("b"), SERVES)
    assert not upgrades.admit(key("a"), SERVES)
    assert upgrades.admit(key("b"), SERVES), "the write may have failed, and is repeated"


def test_a_stuck_service_gets_its_turn_and_takes_no_place() -> None:
    upgrades = UpgradeScheduler(limit=1, wake=Woken())
    upgrades.open()
    assert upgrades.admit(key("a"), STUCK)
    assert upgrades.admit(key("b"), SERVES)


def test_the_end_of_one_wakes_the_next_and_a_failure_wakes_all_that_wait() -> None:
    woken = Woken()
    upgrades = UpgradeScheduler(limit=1, wake=woken)
    upgrades.open()
    assert upgrades.admit(key("a"), SERVES)
    for name in "bcd":
        assert not upgrades.admit(key(name), SERVES)
    woken.clear()
    upgrades.observe(key("a"), None)
    assert woken == ["b"]
    assert upgrades.admit(key("b"), SERVES)
    woken.clear()
    upgrades.observe(key("b"), FAILED)
    assert (woken, upgrades.paused_by) == (["c", "d"], key("b"))
    assert upgrades.counts() == {"waiting": 0, "paused": 2, "upgrading": 0, "failed": 1}
    assert not upgrades.admit(key("c"), SERVES)
    woken.clear()
    upgrades.observe(key("b"), BEGUN)
    assert (woken, upgrades.paused_by) == (["c", "d"], None)
    upgrades.observe(key("b"), None)  # deleted
    assert upgrades.admit(key("c"), SERVES)
    assert upgrades.counts() == {"waiting": 1, "paused": 0, "upgrading": 1, "failed": 0}


def test_what_is_observed_again_wakes_no_service() -> None:
    woken = Woken()
    upgrades = UpgradeScheduler(limit=1, wake=woken)
    upgrades.open()
    upgrades.observe(key("a"), BEGUN)
    for _ in range(3):
        upgrades.observe(key("b"), SERVES)
        upgrades.observe(key("a"), BEGUN)
    assert woken == []


def test_the_time_limit_of_one_that_does_not_become_ready_lets_the_next_one_start() -> None:
    """Its place is free then: with a limit of 1 the next one starts, and it waits for that one again."""
    late = Upgrading(is_blocked=True, is_overdue=True)
    states: dict[Key, State] = {key("a"): late, key("b"): SERVES, key("c"): SERVES}
    assert decide(states, 1) == Decision(frozenset({key("b")}))
    assert decide({**states, key("b"): BEGUN}, 1) == Decision()
    assert decide({**states, key("b"): FAILED}, 1) == Decision(paused_by=key("b"))
    slow = Upgrading(is_overdue=True)
    assert decide({**states, key("a"): slow}, 1) == Decision(frozenset({key("b")}))


def test_the_next_one_wakes_when_the_time_is_over_and_the_blocked_one_stays_named() -> None:
    woken = Woken()
    upgrades = UpgradeScheduler(limit=1, wake=woken)
    upgrades.open()
    assert upgrades.admit(key("a"), SERVES)
    assert not upgrades.admit(key("b"), SERVES)
    upgrades.observe(key("a"), FAILED)
    woken.clear()
    upgrades.observe(key("a"), Upgrading(is_blocked=True, is_overdue=True))
    assert (woken, upgrades.paused_by) == (["b"], None)
    assert upgrades.blocked() == [key("a")]
    assert upgrades.counts() == {"waiting": 1, "paused": 0, "upgrading": 0, "failed": 1}
    assert upgrades.admit(key("b"), SERVES)


def waits(rank: int, order: int = 0, hold: Hold = Hold.NONE) -> Waiting:
    return Waiting(serves=True, stuck=False, turn=Turn(rank=rank, order=order, hold=hold))


def admitted(states: dict[Key, State]) -> list[str]:
    """Who gets new pods, one after the other."""
    found, left = [], dict(states)
    while starts := decide(left, 1).starts:
        [first] = starts
        found.append(str(first))
        del left[first]
    return found


def test_namespaces_have_an_order_and_services_one_within_their_namespace() -> None:
    """The place that team "a" gives its service, -999999, is ahead of its own services alone."""
    states: dict[Key, State] = {
        Key("a", "x"): waits(1),
        Key("a", "z"): waits(1, -999_999),
        Key("b", "x"): waits(1, 5),
        Key("b", "y"): waits(1),
        Key("staging", "s"): waits(0, 9),
        Key("payments", "p"): waits(2, -5),
    }
    assert admitted(states) == ["staging/s", "a/z", "a/x", "b/y", "b/x", "payments/p"]


def test_one_that_is_held_is_passed_over_also_when_it_is_stuck() -> None:
    stuck = Waiting(serves=False, stuck=True, turn=Turn(hold=Hold.PAUSED))
    states: dict[Key, State] = {
        key("a"): waits(0, hold=Hold.PAUSED),
        key("b"): stuck,
        key("c"): SERVES,
    }
    assert admitted(states) == ["models/c"]
    upgrades = UpgradeScheduler(limit=1, wake=Woken())
    upgrades.open()
    for service, state in states.items():
        upgrades.observe(service, state)
    assert upgrades.counts() == {"waiting": 1, "paused": 2, "upgrading": 0, "failed": 0}

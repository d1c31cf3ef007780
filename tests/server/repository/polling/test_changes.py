"""What follows from a poll, decided without a clock: when a change has settled, and what is left alone (rows 7.6, 7.25, 7.30)."""

import collections.abc

from naiad.repository.plan import DUPLICATE, LoadedFrom, ModelPlan
from naiad.repository.polling.changes import (
    MAX_RETRY_NS,
    Changes,
    Failure,
    Listing,
    Tried,
    Waiting,
    changes,
    failure,
)
from naiad.repository.store import StoredModel
from tests.server.repository.stores import FakeStore

STORE = FakeStore("/r")
QUIET = 5


def source(name: str, time: int = 0, *, store: FakeStore = STORE) -> LoadedFrom:
    """A model whose one file has a modification time."""
    return LoadedFrom(StoredModel(store, name), {"1": frozenset({("1/model", time, 1)})})


def holding(*sources: LoadedFrom) -> Listing:
    """What a poll finds in a store."""
    return Listing(sources={entry.model.name: entry for entry in sources})


def decide(
    listing: Listing,
    tried: Tried,
    *,
    failures: collections.abc.Mapping[str, Failure] | None = None,
    waiting: collections.abc.Mapping[str, Waiting] | None = None,
    busy: collections.abc.Collection[str] = (),
    needs: collections.abc.Mapping[str, set[str]] | None = None,
    now: int = 100,
    quiet: int = 0,
) -> Changes:
    return changes(
        listing,
        tried=tried,
        failures=failures or {},
        waiting=waiting or {},
        busy=busy,
        needs=lambda name: (needs or {}).get(name, set()),
        now_ns=now,
        quiet_ns=quiet,
    )


def why(decided: Changes) -> dict[str, str]:
    return {name: load.why for name, load in decided.loads.items()}


def test_nothing_follows_from_what_was_loaded() -> None:
    decided = decide(holding(source("m")), {"m": source("m")})
    assert (decided.loads, decided.unloads, decided.refused, decided.waiting) == ({}, set(), {}, {})


def test_models_come_change_move_and_go() -> None:
    moved = source("moved", store=FakeStore("/other"))
    decided = decide(
        holding(source("new"), source("edited", 1), moved, source("same")),
        {name: source(name) for name in ("edited", "moved", "same", "gone")},
    )
    assert why(decided) == {
        "new": "it is new",
        "edited": "1/model changed",
        "moved": "it is at /other/moved now",
    }
    assert decided.unloads == {"gone"}


def test_a_change_is_loaded_once_its_files_have_stayed_the_same() -> None:
    tried = {"m": source("m")}
    first = decide(holding(source("m", 1)), tried, now=100, quiet=QUIET)
    assert not first.loads
    early = decide(holding(source("m", 1)), tried, waiting=first.waiting, now=104, quiet=QUIET)
    assert not early.loads
    assert early.waiting == first.waiting == {"m": Waiting(source("m", 1), 100)}
    settled = decide(holding(source("m", 1)), tried, waiting=early.waiting, now=105, quiet=QUIET)
    assert list(settled.loads) == ["m"]
    assert not settled.waiting


def test_each_change_of_the_files_begins_the_wait_again() -> None:
    tried: Tried = {}
    waiting: collections.abc.Mapping[str, Waiting] = {}
    for now in range(0, 50, 4):  # a copy that grows all the time
        decided = decide(holding(source("m", now)), tried, waiting=waiting, now=now, quiet=QUIET)
        waiting = decided.waiting
        assert not decided.loads
        assert waiting["m"].since_ns == now


def test_a_change_that_is_undone_is_not_loaded() -> None:
    waiting = {"m": Waiting(source("m", 1), 0)}
    decided = decide(holding(source("m")), {"m": source("m")}, waiting=waiting, quiet=QUIET)
    assert (decided.loads, decided.waiting) == ({}, {})


def test_a_model_that_goes_while_its_copy_is_incomplete_is_forgotten() -> None:
    decided = decide(Listing(), {}, waiting={"m": Waiting(source("m"), 0)}, quiet=QUIET)
    assert (decided.loads, decided.unloads, decided.waiting) == ({}, set(), {})


def test_a_model_that_is_being_changed_or_cannot_be_read_stays_as_it_is() -> None:
    waiting = {"unreadable": Waiting(source("unreadable", 1), 3)}
    decided = decide(
        Listing(sources={"busy": source("busy", 1)}, unreadable={"unreadable": "no permission"}),
        {name: source(name) for name in ("busy", "unreadable", "leaving")},
        busy=("busy", "leaving"),
        waiting=waiting,
    )
    assert (decided.loads, decided.unloads, decided.waiting) == ({}, set(), waiting)


def test_a_load_that_failed_is_tried_again_once_its_wait_is_over() -> None:
    tried = {"m": source("m")}
    failures = {"m": Failure(source("m"), "no memory", 1, 100)}
    assert not decide(holding(source("m")), tried, failures=failures, now=99).loads
    decided = decide(holding(source("m")), tried, failures=failures, now=100)
    assert why(decided) == {"m": "it failed to load before"}
    assert not decided.loads["m"].again
    assert not decide(holding(source("m")), tried, failures=failures, now=100, busy=["m"]).loads


def test_a_load_that_failed_is_tried_at_once_when_its_files_change() -> None:
    failures = {"m": Failure(source("m"), "no memory", 1, 10**9)}
    decided = decide(holding(source("m", 1)), {"m": source("m")}, failures=failures)
    assert why(decided) == {"m": "1/model changed"}


def test_models_that_need_one_that_is_tried_again_stay_as_they_are() -> None:
    tried = {name: source(name) for name in ("m", "user")}
    failures = {"m": Failure(source("m"), "no memory", 1, 0)}
    decided = decide(
        holding(source("m"), source("user")), tried, failures=failures, needs={"user": {"m"}}
    )
    assert decided.loads.keys() == {"m"}


def test_waits_between_attempts_double_up_to_a_bound_and_begin_again_with_other_files() -> None:
    last: Failure | None = None
    waits = list[int]()
    for _ in range(100):
        last = failure(last, source("m"), "no memory", now_ns=7, interval_ns=15 * 10**9)
        waits.append((last.retry_ns - 7) // 10**9)
    assert waits[:6] == [15, 30, 60, 120, 240, 300]
    assert set(waits[6:]) == {MAX_RETRY_NS // 10**9}
    edited = failure(last, source("m", 1), "no memory", now_ns=7, interval_ns=15 * 10**9)
    assert edited.retry_ns - 7 == 15 * 10**9


def test_a_model_of_several_stores_is_refused_once_and_loaded_when_one_has_it() -> None:
    plan = ModelPlan(name="m", reason=DUPLICATE)
    twice = Listing(refused={"m": plan})
    assert decide(twice, {"m": source("m")}).refused == {"m": plan}
    assert not decide(twice, {"m": None}).refused
    assert list(decide(holding(source("m")), {"m": None}).loads) == ["m"]
    assert decide(Listing(), {"m": None}).unloads == {"m"}


def test_models_that_need_a_changed_one_are_loaded_after_it() -> None:
    names = ("base", "middle", "top", "other")
    decided = decide(
        holding(source("base", 1), *(source(name) for name in names[1:])),
        {name: source(name) for name in names},
        needs={"middle": {"base"}, "top": {"middle", "other"}},
    )
    assert {name: load.after for name, load in decided.loads.items()} == {
        "base": set(),
        "middle": {"base"},
        "top": {"middle"},
    }
    assert [name for name, load in decided.loads.items() if load.again] == ["middle", "top"]
    assert why(decided)["top"] == "it needs 'middle', which changed"


def test_a_model_that_needs_one_that_is_new_or_gone_is_loaded_again() -> None:
    needs = {"top": {"base"}}
    for listing, tried in (
        (holding(source("base"), source("top")), {"top": source("top")}),
        (holding(source("top")), {name: source(name) for name in ("base", "top")}),
    ):
        assert decide(listing, tried, needs=needs).loads["top"].again


def test_a_model_that_needs_one_whose_change_has_not_settled_is_left_alone() -> None:
    decided = decide(
        holding(source("base", 1), source("top")),
        {name: source(name) for name in ("base", "top")},
        needs={"top": {"base"}},
        quiet=QUIET,
    )
    assert not decided.loads

"""Which models are unloaded for a load, with numbers."""

import pytest

from naiad.engine.memory.room import Candidate, missing, to_unload, total
from naiad.engine.memory.sizes import HOST, Place

GPU0: Place = ("GPU", 0)


def held(
    name: str, size: int, last_use_ms: int, *, place: Place = HOST, in_use: bool = False
) -> Candidate:
    return Candidate(name=name, sizes={place: size}, in_use=in_use, last_use_ms=last_use_ms)


THREE = [held("old", 30, 1), held("middle", 30, 2), held("new", 30, 3)]


@pytest.mark.parametrize(
    ("needed", "names"),
    [
        (10, []),
        (11, ["old"]),
        (40, ["old"]),
        (41, ["old", "middle"]),
        (100, ["old", "middle", "new"]),
        (101, None),
    ],
)
def test_the_least_recently_used_models_make_room(needed: int, names: list[str] | None) -> None:
    used = total(candidate.sizes for candidate in THREE)
    assert to_unload({HOST: needed}, used=used, limits={HOST: 100}, candidates=THREE) == names


def test_what_no_candidate_holds_counts_too() -> None:
    assert to_unload({HOST: 10}, used={HOST: 100}, limits={HOST: 100}, candidates=THREE) == ["old"]
    assert to_unload({HOST: 10}, used={HOST: 200}, limits={HOST: 100}, candidates=THREE) is None


def test_a_model_with_requests_comes_last_however_old_it_is() -> None:
    candidates = [held("busy", 50, 1, in_use=True), held("idle", 50, 9)]
    used, limits = {HOST: 100}, {HOST: 100}
    assert to_unload({HOST: 50}, used=used, limits=limits, candidates=candidates) == ["idle"]
    assert to_unload({HOST: 51}, used=used, limits=limits, candidates=candidates) == [
        "idle",
        "busy",
    ]


def test_equally_old_models_go_in_the_order_of_their_names() -> None:
    candidates = [held("b", 50, 1), held("a", 50, 1)]
    names = to_unload({HOST: 1}, used={HOST: 100}, limits={HOST: 100}, candidates=candidates)
    assert names == ["a"]


def test_only_models_of_the_memory_that_is_short_are_unloaded() -> None:
    candidates = [held("host", 50, 1), held("device", 50, 2, place=GPU0)]
    used = {HOST: 50, GPU0: 50}
    limits = {HOST: 100, GPU0: 60}
    assert to_unload({GPU0: 20}, used=used, limits=limits, candidates=candidates) == ["device"]
    assert to_unload({HOST: 60, GPU0: 20}, used=used, limits=limits, candidates=candidates) == [
        "host",
        "device",
    ]


def test_a_memory_without_a_limit_is_never_short() -> None:
    assert missing({GPU0: 10**12}, used={}, limits={HOST: 1}) == {}
    assert missing({HOST: 3, GPU0: 5}, used={HOST: 2}, limits={HOST: 4, GPU0: 5}) == {HOST: 1}

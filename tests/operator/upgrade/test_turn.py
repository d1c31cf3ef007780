"""The turn of a service: options of its namespace, its own annotations, and how long others wait for it."""

import datetime as dt

import pytest

from naiad_operator.api.parsing import service
from naiad_operator.options import Upgrades
from naiad_operator.upgrade import turn
from naiad_operator.upgrade.turn import Hold, remaining
from tests.support import manifests

PREFIX = "serving.naiad.dev"
AT = dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC)


def given(namespace: str = "models", **annotations: str) -> service.InferenceService:
    resource = manifests.resource()
    resource["metadata"]["namespace"] = namespace
    names = {"upgrades": f"{PREFIX}/upgrades", "order": f"{PREFIX}/upgrade-order"}
    resource["metadata"]["annotations"] = {names[k]: v for k, v in annotations.items()}
    return service.parse(resource)


@pytest.mark.parametrize(
    ("annotation", "options", "hold", "words"),
    [
        ("", Upgrades(), Hold.NONE, ""),
        ("Pause", Upgrades(), Hold.PAUSED, "the annotation serving.naiad.dev/upgrades is Pause"),
        ("Skip", Upgrades(), Hold.SKIPPED, "the annotation serving.naiad.dev/upgrades is Skip"),
        ("skip", Upgrades(), Hold.PAUSED, "is skip: write Pause or Skip, or remove it"),
        ("", Upgrades(pause=("models",)), Hold.PAUSED, "--upgrade-pause holds the namespace models"),
        ("", Upgrades(pause=("other",)), Hold.NONE, ""),
        ("", Upgrades(pause=("*",)), Hold.PAUSED, "--upgrade-pause"),
        ("Pause", Upgrades(skip=("models",)), Hold.SKIPPED, "--upgrade-skip"),
        ("Skip", Upgrades(pause=("models",)), Hold.PAUSED, "--upgrade-pause"),
    ],
)  # fmt: skip
def test_what_holds_a_service(annotation: str, options: Upgrades, hold: Hold, words: str) -> None:
    found = turn.of(given(upgrades=annotation) if annotation else given(), options)
    assert found.hold is hold
    assert words in found.why


@pytest.mark.parametrize(
    ("order", "ranks"),
    [
        ((), {"a": 0, "b": 0}),
        (("b", "a"), {"b": 0, "a": 1, "c": 2}),
        (("b", "*", "a"), {"b": 0, "c": 1, "d": 1, "a": 2}),
    ],
)
def test_the_place_of_a_namespace(order: tuple[str, ...], ranks: dict[str, int]) -> None:
    options = Upgrades(order=order)
    assert {name: turn.of(given(name), options).rank for name in ranks} == ranks


@pytest.mark.parametrize(
    ("text", "order"),
    [("10", 10), ("-3", -3), ("", 0), ("first", 0), ("1.5", 0), ("9" * 5000, 0), ("--1", 0), ("\u0663", 0)],
)  # fmt: skip
def test_the_place_of_a_service_is_an_integer(text: str, order: int) -> None:
    assert turn.of(given(order=text), Upgrades()).order == order


@pytest.mark.parametrize(
    ("since", "left"),
    [
        ("2026-01-31T12:00:00Z", 1800),
        ("2026-01-31T11:40:00Z", 600),
        ("2026-01-31T11:30:00Z", 0),
        ("2026-01-30T11:30:00Z", 0),
        ("", 0),
        ("soon", 0),
        ("2026-01-31T12:00:00", 0),
    ],
)
def test_how_long_others_wait(since: str, left: float) -> None:
    assert remaining(since, AT, 1800) == left

"""What no rule of the CRD can hold: `check` refuses a file, and the operator an object, at the same number and in the same words."""

import json
import typing

import pytest

from naiad_operator.api.manifests import document
from naiad_operator.api.manifests.unreadable import (
    CONTAINERS,
    ESCAPES,
    FRACTIONS,
    LEVELS,
    VALUES,
    Bound,
    problem_of,
)
from naiad_operator.api.rules import table
from naiad_operator.cluster import reading
from tests.support import manifests

Object = dict[str, typing.Any]

OUTER = 4
"""Levels outside of the value of a podTemplate's field: the object, spec, predictor, podTemplate."""


def with_levels(levels: int) -> Object:
    """A service with so many levels, itself included."""
    value: Object = {}
    for _ in range(levels - OUTER - 1):
        value = {"x": value}
    return _service(value)


def with_containers(containers: int) -> Object:
    """A service with so many objects and lists, itself included."""
    bare = _count(_service([]))
    return _service([{} for _ in range(containers - bare)])


def with_values(values: int) -> Object:
    """A service whose JSON has so many commas, one of them in a text."""
    bare = json.dumps(_service(['a,"\\\n', 1])).count(",")
    return _service(['a,"\\\n', *([1] * (values - bare)), 1])


def with_fractions(fractions: int) -> Object:
    """A service with so many numbers that have a fraction or an exponent, beside others, and texts that seem to be."""
    return _service([1.5] * (fractions - 2) + [1e300, -2.5e-7, 7, "1.5", "e+"])


def with_escapes(escapes: int) -> Object:
    """A service whose JSON has so many quotes and backslashes, in all ways."""
    kinds = ["\\", '"', "\n", "\t", "\x01", "ü", "true", "1", "/", "é"]
    text = json.dumps(_service([*kinds, ""]), ensure_ascii=False)
    more = escapes - text.count('"') - text.count("\\")
    return _service([*kinds, "\n" * more])


def _service(value: typing.Any) -> Object:
    made = manifests.resource(podTemplate={"spec": value})
    made["metadata"]["resourceVersion"] = "1"
    return made


def _count(made: Object) -> int:
    text = json.dumps(made)
    return text.count("{") + text.count("[")


MADE: dict[Bound, typing.Callable[[int], Object]] = {
    LEVELS: with_levels,
    CONTAINERS: with_containers,
    VALUES: with_values,
    FRACTIONS: with_fractions,
    ESCAPES: with_escapes,
}


NAMES = ("levels", "containers", "values", "fractions", "escapes")

BEYOND = {
    name: MADE[bound](bound.most + 1) for name, bound in zip(NAMES, table.BOUNDS, strict=True)
}
"""Objects just beyond each bound, by its name."""


def operator_says(made: Object) -> str:
    """What is wrong with an object of the API server."""
    return problem_of(
        reading.read_object(json.dumps(made, separators=(",", ":"), ensure_ascii=False).encode())
    )


def check_says(made: Object) -> str:
    """What is wrong with the same as a file."""
    found = [one for one in document.read(json.dumps(made)) if isinstance(one, document.Unreadable)]
    return " ".join(one.message for one in found)


@pytest.mark.parametrize("bound", table.BOUNDS, ids=NAMES)
def test_check_and_the_operator_refuse_the_same_in_the_same_words(bound: Bound) -> None:
    most, more = MADE[bound](bound.most), MADE[bound](bound.most + 1)
    assert (operator_says(most), check_says(most)) == ("", "")
    for says in (operator_says, check_says):
        assert bound.message in says(more)


def test_each_bound_has_its_reason() -> None:
    assert all(len(bound.why) > 40 for bound in table.BOUNDS)


def test_each_object_of_a_list_has_the_bound_of_its_own() -> None:
    half = with_containers(CONTAINERS.most // 2 + 10)
    both = {"apiVersion": "v1", "kind": "List", "items": [half, half]}
    assert check_says(both) == ""
    more = with_containers(CONTAINERS.most + 1)
    assert CONTAINERS.message in check_says({**both, "items": [half, more]})

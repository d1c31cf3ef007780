"""The names of a .pt2 model's tensors (row 16.16). The specs are those of torch 2.15 for the example in the README of Triton's pytorch backend."""

import json
from typing import Any

import pytest

from naiad.backends.pytorch import call_spec
from naiad.errors import InferenceError

LEAF: dict[str, Any] = {"type": None, "context": None, "children_spec": []}


def nested(kind: str, *children: Any, keys: list[str] | None = None) -> dict[str, Any]:
    context = "null" if keys is None else json.dumps(keys)
    return {"type": kind, "context": context, "children_spec": list(children)}


def spec(root: dict[str, Any]) -> str:
    return json.dumps([1, root])


ARGUMENTS = nested(
    "builtins.tuple", LEAF, LEAF, nested("builtins.dict", LEAF, LEAF, keys=["keyA", "key2"])
)
KEYWORDS = nested("builtins.dict", LEAF, LEAF, keys=["kwarg1", "kw_arg2"])
RESULTS = nested(
    "builtins.dict",
    LEAF,
    LEAF,
    nested("builtins.list", LEAF, LEAF),
    nested("builtins.dict", LEAF, keys=["KA"]),
    keys=["AAA", "ZZZ", "BBB", "DDD"],
)


def test_inputs_are_named_by_their_way_through_the_arguments() -> None:
    assert call_spec.input_names(spec(nested("builtins.tuple", ARGUMENTS, KEYWORDS)), "m") == [
        "ARGS[0]",
        "ARGS[1]",
        "ARGS[2][keyA]",
        "ARGS[2][key2]",
        "KWARGS[kwarg1]",
        "KWARGS[kw_arg2]",
    ]


def test_results_are_named_by_their_way_through_the_result() -> None:
    assert call_spec.output_names(spec(RESULTS), "m") == [
        "RESULT[AAA]",
        "RESULT[ZZZ]",
        "RESULT[BBB][0]",
        "RESULT[BBB][1]",
        "RESULT[DDD][KA]",
    ]
    assert call_spec.output_names(spec(LEAF), "m") == ["RESULT"]


def test_a_tensor_has_two_names() -> None:
    ways = ["RESULT[AAA]", "RESULT[ZZZ]"]
    found = call_spec.positions(
        ["OUTPUT__1", "RESULT[AAA]"], ways, kind=call_spec.OUTPUT, model="m"
    )
    assert found == {"OUTPUT__1": 1, "RESULT[AAA]": 0}


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (
            ["scores"],
            "it has no output 'scores'; it has OUTPUT__0 or RESULT[AAA], OUTPUT__1 or RESULT[ZZZ]",
        ),
        (["OUTPUT__2"], "it has no output 'OUTPUT__2'"),
        (
            ["OUTPUT__1", "RESULT[ZZZ]"],
            "output 'RESULT[ZZZ]' is in the config twice, as OUTPUT__1 and as RESULT[ZZZ]",
        ),
    ],
)
def test_other_names_are_refused(names: list[str], said: str) -> None:
    with pytest.raises(InferenceError) as caught:
        call_spec.positions(names, ["RESULT[AAA]", "RESULT[ZZZ]"], kind=call_spec.OUTPUT, model="m")
    assert said in caught.value.message


@pytest.mark.parametrize("text", ["", "[]", "[1]", "[1, 2]", "{}"])
def test_a_spec_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(InferenceError, match="cannot be read"):
        call_spec.output_names(text, "m")


def test_classes_have_no_names() -> None:
    with pytest.raises(InferenceError, match=r"RESULT is of type mine\.Output: only dicts"):
        call_spec.output_names(spec(nested("mine.Output", LEAF)), "m")

"""The words that all backends read in the same way, those of Triton's backend library."""

import pytest

from naiad.backends.parameter_values import boolean, integer


@pytest.mark.parametrize(
    ("text", "value"),
    [("true", True), ("ON", True), ("1", True), ("False", False), ("off", False), ("0", False), ("yes", None), ("no", None), ("", None)],
)  # fmt: skip
def test_a_boolean_is_one_of_six_words(text: str, value: bool | None) -> None:  # noqa: FBT001 - a parameter
    assert boolean(text) is value


@pytest.mark.parametrize(("text", "value"), [("4", 4), ("-1", -1), ("four", None), ("", None)])
def test_an_integer_is_a_number(text: str, value: int | None) -> None:
    assert integer(text) == value

"""The patterns of headers that are forwarded: RE2's, as Triton's."""

import pytest

from naiad.protocol.header_pattern import HeaderPattern, compiled, is_reserved

OPTION = "--http-header-forward-pattern"


def found(pattern: str, *names: str) -> list[str]:
    rule = HeaderPattern(pattern, option=OPTION)
    twice = [[name for name in names if rule.matches(name)] for _ in range(2)]
    assert twice[0] == twice[1]
    return twice[0]


def test_a_pattern_is_searched_and_knows_no_case() -> None:
    assert found("PREFIX_.*", "prefix_a", "my-Prefix_b", "other") == ["prefix_a", "my-Prefix_b"]
    assert found("^x-|priority$", "X-a", "a-x-", "PRIORITY") == ["X-a", "PRIORITY"]


def test_a_pattern_can_mind_the_case() -> None:
    assert found("(?-i)MY_HEADER.*", "my_header_1", "MY_HEADER_2") == ["MY_HEADER_2"]


def test_names_beyond_ascii_and_very_long_ones_are_looked_for_too() -> None:
    assert found("é.{3}", "\u00c9abc", "x" * 100_000) == ["\u00c9abc"]
    assert found("y$", "x" * 100_000 + "y") == ["x" * 100_000 + "y"]


def test_a_flood_of_names_is_not_remembered() -> None:
    rule = HeaderPattern("7$", option=OPTION)
    assert sum(rule.matches(f"name-{number}") for number in range(5_000)) == 500
    assert len(rule._known) <= 1024


def test_no_pattern_forwards_nothing() -> None:
    assert compiled("", option=OPTION) is None


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("x-(a", "missing ) at its end."),
        ("ab[z-a]", "invalid character class range at character 4, 'z-a'."),
        ("x-(?=a)", "invalid perl operator at character 3, '(?='."),
        (r"(a)\1", r"invalid escape sequence at character 4, '\1'."),
        ("a**", "bad repetition operator at character 2, '**'."),
        ("\udcff", "invalid UTF-8"),
    ],
)
def test_what_is_not_a_pattern_names_option_place_and_reason(pattern: str, message: str) -> None:
    with pytest.raises(ValueError, match="not a regular expression that RE2 accepts") as caught:
        HeaderPattern(pattern, option=OPTION)
    assert str(caught.value).startswith(OPTION)
    assert message in str(caught.value)


@pytest.mark.parametrize("name", ["timeout", "Sequence_ID", "triton_x", "Triton_Enable"])
def test_the_protocols_own_names_are_reserved_in_any_case(name: str) -> None:
    assert is_reserved(name)


@pytest.mark.parametrize("name", ["x-timeout", "timeout_us", "x-triton_y", ""])
def test_names_that_only_look_alike_are_free(name: str) -> None:
    assert not is_reserved(name)

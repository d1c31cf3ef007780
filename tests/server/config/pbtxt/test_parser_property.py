"""Our reader against protobuf's own text format: the same messages, and problems in the same places."""

import pathlib
import random
import re

import pytest
from google.protobuf import text_format
from hypothesis import given, strategies

from naiad.config.pbtxt.parser import parse
from tests.server.config.messages import damage, random_config
from tests.server.config.official import PATH, canonical, compare, official

_SEEDS = strategies.integers(min_value=0, max_value=2**32)
_BY_HAND = (
    pathlib.Path(__file__).parents[3] / "data" / "server" / "pbtxt" / "good.pbtxt"
).read_text("utf-8")
"""What protobuf never writes itself: comments, lists of blocks, angles, texts in pieces."""


@given(
    seed=_SEEDS,
    one_line=strategies.booleans(),
    short=strategies.booleans(),
    pointy=strategies.booleans(),
    utf8=strategies.booleans(),
    enum_numbers=strategies.booleans(),
)
def test_what_protobuf_writes_is_read_back_equal_and_without_problems(
    *, seed: int, one_line: bool, short: bool, pointy: bool, utf8: bool, enum_numbers: bool
) -> None:
    message = random_config(random.Random(seed))
    text = text_format.MessageToString(
        message,
        as_one_line=one_line,
        use_short_repeated_primitives=short,
        pointy_brackets=pointy,
        as_utf8=utf8,
    )
    if enum_numbers:
        text = re.sub(r"\bTYPE_FP32\b", "11", text)

    document = parse(text, path=PATH)

    assert document.problems == ()
    assert canonical(document.message) == canonical(message)


@given(seed=_SEEDS, short=strategies.booleans())
def test_damaged_text_is_parsed_as_protobuf_parses_it(*, seed: int, short: bool) -> None:
    chance = random.Random(seed)
    text = text_format.MessageToString(
        random_config(chance), use_short_repeated_primitives=short, as_utf8=True
    )
    if chance.random() < 0.3:
        text = _BY_HAND

    compare(damage(text, chance))


@pytest.mark.parametrize(
    "text", ["max_batch_size: 0 max_batch_size: 2", "input [ ]", 'name: "a" "b"', "name: 'a';", ""]
)
def test_odd_texts_that_protobuf_takes_are_taken(text: str) -> None:
    assert official(text)[0] is not None
    compare(text)


def test_a_piece_of_a_string_is_not_taken_as_the_name_that_the_next_line_lost() -> None:
    compare('name: "a"\n "b"\n =platform: "x"')


@pytest.mark.parametrize("text", ["metric_tags {[\n  key: 1\n}", "[\nname: 1"])
def test_an_extension_is_refused_where_its_bracket_opens(text: str) -> None:
    assert official(text)[0] is None
    compare(text)


@given(text=strategies.text(max_size=300))
def test_any_text_is_parsed_as_protobuf_parses_it(text: str) -> None:
    compare(text)

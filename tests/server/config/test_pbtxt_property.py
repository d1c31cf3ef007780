"""Our reader against protobuf's own text format: the same messages, and problems in the same places."""

import pathlib
import random
import re
import warnings
from typing import Any

import pytest
from google.protobuf import text_format
from hypothesis import HealthCheck, given, settings, strategies

from naiad.config.document import Document
from naiad.config.pbtxt import parse
from naiad.core.messages import model_config_pb2
from tests.server.config.messages import damage, random_config

_PATH = pathlib.Path("config.pbtxt")
_SEEDS = strategies.integers(min_value=0, max_value=2**32)
_BY_HAND = (
    pathlib.Path(__file__).parents[2] / "data" / "server" / "pbtxt" / "good.pbtxt"
).read_text("utf-8")
"""What protobuf never writes itself: comments, lists of blocks, angles, texts in pieces."""
_OURS_ALONE = re.compile(
    r"appears twice: protobuf would keep|has no value with the number|there is no escape|needs .* hexadecimal digits"
    r"|was never filled in"
)
"""What we refuse and Python's official parser takes: mistakes always, and escapes that Triton's own parser refuses."""

_EARLIER = re.compile(
    r"is never closed|has no value|none follows|does not end in a comma|no colon after|name of a field .* found \["
)
"""What we report where it was forgotten, the official parser where the next thing stands in its place.

A bracket where a field's name belongs is among them: protobuf reads on, in the next line too, for the extension that
no model config has.
"""


def _official(text: str) -> tuple[Any, int | None]:
    """The message of the official parser, or the line of its first error."""
    message = model_config_pb2.ModelConfig()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # its own: unknown escapes
        try:
            text_format.Parse(text, message)
        except text_format.ParseError as error:
            return None, error.GetLine()
        except ValueError:
            return None, None  # an enum number beyond 32 bits
    return message, None


def _bytes(message: Any) -> bytes:
    """Comparable also when it holds nan."""
    data: bytes = message.SerializeToString(deterministic=True)
    return data


@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.too_slow])
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

    document = parse(text, path=_PATH)

    assert document.problems == ()
    assert _bytes(document.message) == _bytes(message)


@settings(deadline=None, max_examples=1000, suppress_health_check=[HealthCheck.too_slow])
@given(seed=_SEEDS, short=strategies.booleans())
def test_damaged_text_is_judged_as_protobuf_judges_it(*, seed: int, short: bool) -> None:
    chance = random.Random(seed)
    text = text_format.MessageToString(
        random_config(chance), use_short_repeated_primitives=short, as_utf8=True
    )
    if chance.random() < 0.3:
        text = _BY_HAND

    _compare(damage(text, chance))


def _compare(text: str) -> None:
    document = parse(text, path=_PATH)
    expected, line = _official(text)
    if expected is not None:
        ours = [problem for problem in document.problems if not _OURS_ALONE.search(problem.message)]
        assert ours == []
        if not document.problems and not re.search(
            r"\\[?X]", text
        ):  # Python's keeps these two as they stand
            assert _bytes(document.message) == _bytes(expected)
        return
    if re.search(r"-\s", text):
        return  # Triton's own parser takes `- 5`, and so do we
    assert document.problems
    if line is not None:
        _near(document, line)


def _near(document: Document, line: int) -> None:
    """Our first problem is where the official parser stops, or before: at the cause of what it stumbled over.

    It names the place where it could not go on; we name the bracket that was never closed, the value that is missing, the
    first key of two, so ours may come earlier, and never later.
    """
    first = document.problems[0]
    assert first.position is not None
    if first.position.line != line:
        assert first.position.line < line
        assert _EARLIER.search(first.message) or _OURS_ALONE.search(first.message)


@pytest.mark.parametrize(
    "text", ["max_batch_size: 0 max_batch_size: 2", "input [ ]", 'name: "a" "b"', "name: 'a';", ""]
)
def test_odd_texts_that_protobuf_takes_are_taken(text: str) -> None:
    assert _official(text)[0] is not None
    _compare(text)


def test_a_piece_of_a_text_is_no_name_for_what_the_next_line_lost() -> None:
    _compare('name: "a"\n "b"\n =platform: "x"')


@pytest.mark.parametrize("text", ["metric_tags {[\n  key: 1\n}", "[\nname: 1"])
def test_an_extension_is_refused_where_its_bracket_opens(text: str) -> None:
    assert _official(text)[0] is None
    _compare(text)


@settings(deadline=None, max_examples=300)
@given(text=strategies.text(max_size=300))
def test_any_text_at_all_is_judged_as_protobuf_judges_it(text: str) -> None:
    _compare(text)

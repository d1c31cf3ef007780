"""How a config's text is cut into words and signs."""

import pytest

from naiad.config.pbtxt.tokens import Kind, tokenize
from naiad.config.problem import Position


def _cut(text: str) -> list[tuple[Kind, str]]:
    return [(token.kind, token.text) for token in tokenize(text)[:-1]]


def test_words_texts_and_signs_are_cut_and_comments_left_out() -> None:
    assert _cut('a: -1.5f # "x"\n[ "b" \'c\' ]') == [
        (Kind.WORD, "a"),
        (Kind.SYMBOL, ":"),
        (Kind.WORD, "-1.5f"),
        (Kind.SYMBOL, "["),
        (Kind.STRING, '"b"'),
        (Kind.STRING, "'c'"),
        (Kind.SYMBOL, "]"),
    ]


def test_each_has_its_place_and_the_indent_of_its_line() -> None:
    first, _, last, end = tokenize("x\n\t日: é")[0], *tokenize("x\n\t日: é")[1:][1:]

    assert first.position() == Position(1, 1, 1)
    assert last.position() == Position(2, 5, 1)
    assert (last.indent, last.first_on_line) == (2, False)
    assert (end.kind, end.line, end.column) == (Kind.END, 2, 6)


@pytest.mark.parametrize("text", ["${a b}", "$a", "$$A_b", "{{ x }}", "{% if a %}", "@a@"])
def test_placeholders_of_templates_are_one_token(text: str) -> None:
    assert _cut(text) == [(Kind.PLACEHOLDER, text)]


def test_a_text_without_its_end_stops_at_the_first_separator() -> None:
    token = tokenize('{ name: "IN, dims: 1 }\n')[3]

    assert (token.text, token.closed) == ('"IN', False)


def test_typographic_quotes_make_a_text_that_is_not_closed_rightly() -> None:
    (token, _) = tokenize("\u201cabc\u201d")

    assert (token.kind, token.closed) == (Kind.STRING, False)


@pytest.mark.parametrize("piece", ['\\" ', '"\\" ', "${", "{%", '"', "@a", "\u201c", "'\\", "{{"])
@pytest.mark.slow
def test_cutting_takes_time_in_proportion_to_the_length(piece: str) -> None:
    tokens = tokenize(piece * 60_000)

    assert tokens[-1].kind is Kind.END
    assert "".join(token.text for token in tokens).replace(" ", "") == (piece * 60_000).replace(
        " ", ""
    )

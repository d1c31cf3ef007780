"""The kept inputs of every target, once more: what the fuzzer found stays fixed. And the pieces of the fuzzer itself."""

import pytest

from tests.fuzz import corpus, targets
from tests.fuzz.__main__ import dictionary
from tests.fuzz.choices import Choices


@pytest.mark.parametrize("name", targets.NAMES)
def test_nothing_fails_on_the_kept_inputs(name: str) -> None:
    target = targets.load(name)
    for data in (*target.seeds(), *corpus.read(name)):
        try:
            target.check(data)
        except Exception as error:
            raise AssertionError(f"{name} fails on {data!r}: {error}") from error


def test_every_target_has_a_corpus_and_every_corpus_a_target() -> None:
    assert {path.stem for path in corpus.FOLDER.iterdir()} == set(targets.NAMES)


def test_a_corpus_file_keeps_its_regressions_and_sorts_the_rest() -> None:
    text = "# an id that is not UTF-8\nb'a\\x00'\n"

    written = corpus.with_found(text, [b"longer", b"b", b"a\0", b"b"])

    assert corpus.parsed(written) == [b"a\0", b"b", b"longer"]
    assert written.startswith(text)
    assert corpus.with_found(written, [b"c"]).startswith(text)
    assert corpus.parsed(corpus.with_found(written, [b"c"])) == [b"a\0", b"c"]
    assert corpus.parsed(corpus.with_found("", [b"c"])) == [b"c"]


def test_a_line_that_is_not_a_bytes_literal_is_named() -> None:
    with pytest.raises(ValueError, match="line 2"):
        corpus.parsed("b'a'\n'text'\n")


def test_choices_read_numbers_and_give_the_first_choice_when_the_bytes_are_used_up() -> None:
    choices = Choices(b"\x05\x02ab\x01")
    assert choices.integer(1, 4) == 2
    assert choices.binary(10) == b"ab"
    assert choices.boolean()
    assert choices.integer(3, 300) == 3
    assert choices.pick("xyz") == "x"
    assert choices.rest() == b""


def test_quotes_in_a_dictionary_are_escaped_and_escapes_stay() -> None:
    assert dictionary(['"a"', r"\x0d", r"\""]) == '"\\"a\\""\n"\\x0d"\n"\\""\n'

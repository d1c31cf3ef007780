"""A config as it was read: finding the place of a field."""

import pathlib

from naiad.config.pbtxt import parser as pbtxt
from naiad.config.problem import Position

_PATH = pathlib.Path("models/m/config.pbtxt")


def test_a_field_is_found_where_its_value_stands() -> None:
    document = pbtxt.parse('name: "m"\r\ninput [ { dims: [ 1, 2 ] } ]', path=_PATH)

    assert document.position(("input", 0, "dims", 1)) == Position(2, 22)


def test_a_field_that_is_not_written_is_shown_at_the_block_around_it() -> None:
    document = pbtxt.parse('input [ { name: "x" } ]', path=_PATH)

    assert document.position(("input", 0, "data_type")) == Position(1, 9)
    assert document.position(("input", 7, "data_type")) == Position(1, 1, 5)


def test_a_field_of_which_nothing_is_written_has_no_place() -> None:
    problem = pbtxt.parse("", path=_PATH).problem(("backend",), "what", "do this")

    assert (problem.position, problem.line_text) == (None, "")
    assert (problem.path, problem.message, problem.suggestion) == (_PATH, "what", "do this")


def test_a_problem_carries_its_line_without_the_end() -> None:
    document = pbtxt.parse('name: "m"\r\nmax_batch_size: 4\r\n', path=_PATH)

    assert document.problem(("max_batch_size",), "too small").line_text == "max_batch_size: 4"


def test_lines_that_do_not_exist_are_empty() -> None:
    document = pbtxt.parse("a", path=_PATH)

    assert [document.line(number) for number in (0, 1, 2)] == ["", "a", ""]

"""What a person sees of a problem."""

import pathlib
import unicodedata

from naiad.config.problem import Position, Problem
from naiad.config.report import as_json, render


def _problem(
    line_text: str, *, column: int, width: int = 1, line: int = 7, help_: str = ""
) -> Problem:
    return Problem(
        path=pathlib.Path("m/config.pbtxt"),
        position=Position(line, column, width),
        message="this is wrong",
        suggestion=help_,
        line_text=line_text,
    )


def _marked(problem: Problem) -> str:
    """The text that the mark stands under, by columns of a terminal."""
    _, _, shown, mark = render([problem], colour=False).splitlines()[:4]
    cells = [
        (character, 2 if unicodedata.east_asian_width(character) in "WF" else 1)
        for character in shown
        if not unicodedata.combining(character)
    ]
    start, width, at, found = mark.index("^"), mark.count("^"), 0, ""
    for character, cell in cells:
        if start <= at < start + width:
            found += character
        at += cell
    return found


def test_a_problem_names_its_place_shows_the_line_and_says_what_to_write() -> None:
    shown = render([_problem("dims: [ 0 ]", column=9, help_="write -1")], colour=False)

    assert shown == (
        "m/config.pbtxt:7:9: error: this is wrong\n"
        "   |\n"
        " 7 | dims: [ 0 ]\n"
        "   |         ^\n"
        "   = help: write -1\n"
    )


def test_problems_stand_apart_by_an_empty_line() -> None:
    one = _problem("a", column=1)

    assert render([one, one], colour=False).count("\n\nm/config.pbtxt") == 1
    assert render([], colour=False) == ""


def test_a_problem_with_a_whole_file_has_no_line() -> None:
    problem = Problem(path=pathlib.Path("m"), position=None, message="gone", suggestion="put it")

    assert render([problem], colour=False) == "m: error: gone\n  = help: put it\n"


def test_a_message_with_a_traceback_keeps_its_lines() -> None:
    problem = Problem(path=pathlib.Path("m"), position=None, message="bad\n\nAt:\n  m.py(2): f")

    assert render([problem], colour=False) == "m: error: bad\n\nAt:\n  m.py(2): f\n"


def test_the_mark_stands_under_its_text_behind_tabs_and_wide_characters() -> None:
    assert _marked(_problem('\tname: "x"', column=8, width=3)) == '"x"'
    assert _marked(_problem("模型 a\tb name", column=8, width=4)) == "name"
    assert _marked(_problem('a "模型" b', column=4, width=2)) == "模型"
    assert _marked(_problem("e\u0301e\u0301 name", column=6, width=4)) == "name"


def test_a_place_behind_the_end_of_the_line_is_marked_there() -> None:
    shown = render([_problem("dims:", column=6)], colour=False)

    assert shown.splitlines()[3] == "   |      ^"


def test_a_long_line_is_cut_around_the_place() -> None:
    problem = _problem("a" * 5000 + " name " + "b" * 5000, column=5002, width=4)

    assert _marked(problem) == "name"
    assert max(map(len, render([problem], colour=False).splitlines())) < 200


def test_a_very_wide_mark_is_cut_too() -> None:
    problem = _problem("a" * 5000, column=1, width=5000)

    assert max(map(len, render([problem], colour=False).splitlines())) < 200


def test_nothing_in_a_file_reaches_the_terminal_as_a_command() -> None:
    problem = Problem(
        path=pathlib.Path("m\x1b[2J"),
        position=Position(1, 1),
        message="bad \x1b[31m \u202e",
        suggestion="\x07",
        line_text="\x1b]0;title\x07\x9b",
    )

    shown = render([problem], colour=False)

    assert not [letter for letter in shown if letter != "\n" and ord(letter) < 32]
    assert "\u202e" not in shown
    assert "\x9b" not in shown


def test_colours_change_nothing_but_colours() -> None:
    problem = _problem("dims: [ 0 ]", column=9, help_="write -1")
    plain = render([problem], colour=False)
    coloured = render([problem], colour=True)

    for code in ("\x1b[1;31m", "\x1b[1;34m", "\x1b[1m", "\x1b[36m", "\x1b[0m"):
        assert code in coloured
        coloured = coloured.replace(code, "")
    assert coloured == plain


def test_programs_get_objects() -> None:
    whole = Problem(path=pathlib.Path("m"), position=None, message="gone")

    assert as_json([_problem("x", column=2, width=3, help_="h"), whole]) == [
        {
            "path": "m/config.pbtxt",
            "line": 7,
            "column": 2,
            "width": 3,
            "message": "this is wrong",
            "suggestion": "h",
        },
        {
            "path": "m",
            "line": None,
            "column": None,
            "width": None,
            "message": "gone",
            "suggestion": "",
        },
    ]

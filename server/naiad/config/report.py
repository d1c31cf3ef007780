"""Rendering of problems, for a terminal and as JSON.

A problem is shown as compilers do: position and message on one line that editors turn into a link, the line of the file, a mark
under the position, and what to write instead. Texts come from files, so control characters are replaced before they reach the terminal.
"""

import collections.abc
import unicodedata

import msgspec

from naiad.config.problem import Position, Problem

_TAB = 4
_WIDEST = 120
_CONTEXT = 40

_RED, _BLUE, _BOLD, _CYAN, _PLAIN = "\x1b[1;31m", "\x1b[1;34m", "\x1b[1m", "\x1b[36m", "\x1b[0m"

JsonProblem = dict[str, str | int | None]
_NOWHERE: JsonProblem = {"line": None, "column": None, "width": None}


def render(problems: collections.abc.Iterable[Problem], *, colour: bool) -> str:
    """Show problems one below the other, an empty line between them, with ANSI colours or without; "" for no problems."""
    return "\n".join(_one(problem, colour=colour) for problem in problems)


def as_json(problems: collections.abc.Iterable[Problem]) -> list[JsonProblem]:
    """Problems as objects with the keys path, line, column, width, message, suggestion; null where there is no position."""
    return [
        {
            "path": str(problem.path),
            **(msgspec.structs.asdict(problem.position) if problem.position else _NOWHERE),
            "message": problem.message,
            "suggestion": problem.suggestion,
        }
        for problem in problems
    ]


def one_line(problem: Problem) -> str:
    """A problem as the index shows it: the name of the file and the place, what is wrong and what to write."""
    place = problem.path.name
    if problem.position is not None:
        place = f"{place}:{problem.position.line}:{problem.position.column}"
    help_text = f" ({problem.suggestion})" if problem.suggestion else ""
    return f"{place}: {problem.message}{help_text}"


def _one(problem: Problem, *, colour: bool) -> str:
    def paint(text: str, code: str) -> str:
        return f"{code}{text}{_PLAIN}" if colour else text

    position = problem.position
    where = str(problem.path)
    if position is not None:
        where += f":{position.line}:{position.column}"
    title = f"{paint(_harmless(where) + ':', _BOLD)} {paint('error:', _RED)} {paint(_lines(problem.message), _BOLD)}"
    lines = [title]
    gutter = ""
    if position is not None:
        number = str(position.line)
        gutter = " " * len(number)
        shown, before, width = _excerpt(problem.line_text, position)
        bar = paint("|", _BLUE)
        lines += [
            f" {gutter} {bar}",
            f" {paint(number, _BLUE)} {bar} {shown}".rstrip(),
            f" {gutter} {bar} {' ' * before}{paint('^' * width, _RED)}",
        ]
    if problem.suggestion:
        lines.append(
            f" {gutter} {paint('=', _BLUE)} {paint('help:', _CYAN)} {_harmless(problem.suggestion)}"
        )
    return "\n".join(lines) + "\n"


def _excerpt(line: str, position: Position) -> tuple[str, int, int]:
    """A line as shown, how many cells stand before the mark, and how wide the mark is.

    Long lines are cut around the place. The mark covers as many cells as the characters do.
    """
    start = min(position.column - 1, len(line))
    end = max(start, min(start + max(1, position.width), len(line), start + _WIDEST))
    first = 0 if len(line) <= _WIDEST else max(0, start - _CONTEXT)
    last = len(line) if len(line) <= _WIDEST else max(end, first + _WIDEST)
    cut_before = "… " if first else ""
    cut_after = " …" if last < len(line) else ""
    line = line[:last]
    before = cut_before + _harmless(line[first:start])
    marked = _harmless(line[start:end], column=_cells(line[first:start]))
    after = _harmless(line[end:], column=_cells(line[first:end]))
    return before + marked + after + cut_after, _cells(before), max(1, _cells(marked))


def _lines(message: str) -> str:
    """A message, which may have several lines: a model's own traceback."""
    return "\n".join(_harmless(line) for line in message.split("\n"))


def _harmless(text: str, *, column: int = 0) -> str:
    """Text for a terminal: tabs as spaces, control and invisible characters as a visible sign."""
    shown: list[str] = []
    for character in text:
        if character == "\t":
            wide = _TAB - column % _TAB
            shown.append(" " * wide)
            column += wide
            continue
        if unicodedata.category(character) in {"Cc", "Cf", "Cs", "Zl", "Zp"}:
            character = "�"  # noqa: PLW2901 - the sign in its place
        shown.append(character)
        column += _cell(character)
    return "".join(shown)


def _cells(text: str) -> int:
    return sum(_cell(character) for character in _harmless(text))


def _cell(character: str) -> int:
    """How many columns of a terminal a character takes."""
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1

"""The problems that the rules find in one config, each at its place; and what the rules must not conclude.

A field that could not be read is missing from the message though somebody wrote it. A rule that draws something from
an absence, or from a default, asks here first, so that one slip of the pen is one problem and not three.
"""

import collections.abc
import difflib

from naiad.config.document import Document, FieldPath
from naiad.config.problem import Position, Problem


class Findings:
    """Problems found so far.

    Args:
        document: the file that the rules talk about.
    """

    def __init__(self, document: Document) -> None:
        self.document = document
        self.problems: list[Problem] = []
        self.warnings: list[str] = []

    def add(self, path: FieldPath, message: str, suggestion: str = "") -> None:
        """A problem with a field, at its place or at the block's around it."""
        self.problems.append(self.document.problem(path, message, suggestion))

    def unread(self, path: FieldPath) -> bool:
        """Whether something in this field or block was written that could not be read; `()` is the whole file."""
        if not self.document.problems or not path:
            return bool(self.document.problems)
        start = self.document.positions.get(path)
        if start is None:
            return False
        end = self._end(path, start)
        return any(
            problem.position is not None
            and start <= problem.position
            and (end is None or problem.position < end)
            for problem in self.document.problems
        )

    def missing(self, path: FieldPath) -> bool:
        """Whether a field that is not in the message was really left out, as far as the file can tell."""
        return path not in self.document.positions and not self.unread(path[:-1])

    def _end(self, path: FieldPath, start: Position) -> Position | None:
        """Where the next thing begins that is no part of `path`; None when nothing follows."""
        later = (
            position
            for other, position in self.document.positions.items()
            if position > start and other[: len(path)] != path
        )
        return min(later, default=None)


def in_order(problems: collections.abc.Iterable[Problem]) -> tuple[Problem, ...]:
    """As a person reads them: by line, what is about the file as a whole last, nothing twice."""
    unique = dict.fromkeys(problems)
    return tuple(
        sorted(
            unique,
            key=lambda problem: (
                problem.position is None,
                problem.position or Position(line=0, column=0),
            ),
        )
    )


def did_you_mean(word: str, known: collections.abc.Iterable[str]) -> str:
    """`did you mean 'x'?` for the known word that is nearest, or ""."""
    names = list(known)
    exact = [name for name in names if name.casefold() == word.casefold()]
    close = exact or difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    return f"did you mean '{close[0]}'?" if close else ""

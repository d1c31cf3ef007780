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
        self.notes: list[str] = []
        at = {_place(place): path for path, place in document.positions.items()}
        self._unread = {
            path[:length]
            for problem in document.problems
            if (path := at.get(_place(problem.position))) is not None
            for length in range(1, len(path) + 1)
        }
        """Values that could not be read, and the blocks around them."""
        self._unclear = [
            problem for problem in document.problems if _place(problem.position) not in at
        ]
        """Problems that are about no one value: an unknown name, a missing brace."""

    def add(self, path: FieldPath, message: str, suggestion: str = "") -> None:
        """A problem with a field, at its place or at the block's around it."""
        self.problems.append(self.document.problem(path, message, suggestion))

    def trusted(self, path: FieldPath) -> bool:
        """Whether the message holds of a field what its author wrote, or rightly holds nothing."""
        if not self.document.problems:
            return True
        if path not in self.document.positions:
            return self.missing(path)
        return path not in self._unread and not (self._has_parts(path) and self._is_unclear(path))

    def _has_parts(self, path: FieldPath) -> bool:
        """Whether a field is a list or a block, inside which something unclear may stand."""
        place = self.document.positions[path]
        if self.document.line(place.line)[place.column - 1 : place.column] == "[":
            return True
        return any(
            len(other) > len(path) and other[: len(path)] == path
            for other in self.document.positions
        )

    def missing(self, path: FieldPath) -> bool:
        """Whether a field was left out; not so when something around it could not be made out, which may have been it."""
        return path not in self.document.positions and not self._is_unclear(path[:-1])

    def _is_unclear(self, block: FieldPath) -> bool:
        """Whether something in this block was not made out; `()` is the whole file."""
        start = self.document.positions.get(block)
        if start is None or not self._unclear:
            return bool(self._unclear)
        later = (
            place
            for other, place in self.document.positions.items()
            if place > start and other[: len(block)] != block
        )
        end = min(later, default=None)
        return any(
            problem.position is not None
            and start <= problem.position
            and (end is None or problem.position < end)
            for problem in self._unclear
        )


def _place(position: Position | None) -> tuple[int, int] | None:
    return None if position is None else (position.line, position.column)


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

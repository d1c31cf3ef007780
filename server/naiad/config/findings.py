"""The problems that the rules find in one config, with their positions, and which of its fields can be relied on.

A field that could not be read is missing from the message although it is in the file. A rule that concludes something from a
missing field, or from a default, asks `Findings` first, so that one typing mistake is one problem and not three.
"""

import collections.abc
import difflib

from naiad.config.document import Document, FieldPath
from naiad.config.problem import Position, Problem


class Findings:
    """Problems found so far."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.problems: list[Problem] = []
        self.warnings: list[str] = []
        self.notes: list[str] = []
        self.open = set[FieldPath]()
        """Fields whose values are not known before the model is loaded."""
        self.cleared = set[FieldPath]()
        """Fields whose values were refused and taken out of the message."""
        path_at = {_start(position): path for path, position in document.positions.items()}
        self._unread = {
            path[:length]
            for problem in document.problems
            if (path := path_at.get(_start(problem.position))) is not None
            for length in range(1, len(path) + 1)
        }
        """Values that could not be read, and the blocks around them."""
        self._unclear = [
            problem for problem in document.problems if _start(problem.position) not in path_at
        ]
        """Problems that are not about a value: an unknown name, a missing brace."""

    def add(self, path: FieldPath, message: str, suggestion: str = "") -> None:
        """Add a problem with a field, at its position or at that of the block around it."""
        self.problems.append(self.document.problem(path, message, suggestion))

    def trusted(self, path: FieldPath) -> bool:
        """Whether the message's value of a field is what the file says, or the file leaves the field out."""
        if path in self.open or path in self.cleared:
            return False
        if not self.document.problems:
            return True
        if path not in self.document.positions:
            return self.missing(path)
        return path not in self._unread and not (self._has_parts(path) and self._is_unclear(path))

    def _has_parts(self, path: FieldPath) -> bool:
        """Whether a field is a list or a block, inside which something unclear may stand."""
        position = self.document.positions[path]
        if self.document.line(position.line)[position.column - 1 : position.column] == "[":
            return True
        return any(
            len(other) > len(path) and other[: len(path)] == path
            for other in self.document.positions
        )

    def missing(self, path: FieldPath) -> bool:
        """Whether a field was left out; false when something around it could not be read, which may have been the field."""
        return path not in self.document.positions and not self._is_unclear(path[:-1])

    def _is_unclear(self, block: FieldPath) -> bool:
        """Whether something in this block could not be read; `()` is the whole file."""
        start = self.document.positions.get(block)
        if start is None or not self._unclear:
            return bool(self._unclear)
        later = (
            position
            for other, position in self.document.positions.items()
            if position > start and other[: len(block)] != block
        )
        end = min(later, default=None)
        return any(
            problem.position is not None
            and start <= problem.position
            and (end is None or problem.position < end)
            for problem in self._unclear
        )


def _start(position: Position | None) -> tuple[int, int] | None:
    return None if position is None else (position.line, position.column)


def in_order(problems: collections.abc.Iterable[Problem]) -> tuple[Problem, ...]:
    """Sort problems by position, those of the file as a whole last, and drop duplicates."""
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
    """Suggest the nearest known word: `did you mean 'x'?`, or ""."""
    names = list(known)
    exact = [name for name in names if name.casefold() == word.casefold()]
    close = exact or difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    return f"did you mean '{close[0]}'?" if close else ""

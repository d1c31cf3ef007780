"""A problem in a config: where it is, what is wrong, and what to write instead.

Every stage of reading a config adds to one list of these and goes on, so that all of them are shown at once.
"""

import enum
import pathlib

import msgspec


class Position(msgspec.Struct, frozen=True, order=True):
    """A position in a file: 1-based line and column; `width` characters are marked by the caret line."""

    line: int
    column: int
    width: int = 1


class Scope(enum.Enum):
    """Where a problem is one: what a machine lacks, another one may have.

    ANYWHERE: in the config or in the files of the model.
    HERE: this machine lacks something that is installed: a package, a locale.
    PATH: the config names an absolute path that does not exist on this machine.
    """

    ANYWHERE = "anywhere"
    HERE = "here"
    PATH = "path"


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """A problem.

    Attributes:
        path: the file, or the folder when a file is missing.
        position: None when it is about the file as a whole.
        message: what is wrong, one plain sentence; contains the fragment of the row that it comes from.
        suggestion: what to write instead; "" when there is nothing sensible to say.
        line_text: the line that `position` points at, without its end; "" without position.
        version: the version that fails to load for this reason; None if the model cannot be read.
    """

    path: pathlib.Path
    position: Position | None
    message: str
    suggestion: str = ""
    line_text: str = ""
    scope: Scope = Scope.ANYWHERE
    version: int | None = None

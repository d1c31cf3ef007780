"""The inputs that are kept: one file per target, one input per line as a Python bytes literal, comments behind `#` on lines of their own.

Lines above the mark are regressions, each with a comment that says what went wrong; what is below is what the fuzzer found
to reach new code, and is written again by `make fuzz ARGS=--keep`.
"""

import ast
import collections.abc
import pathlib

FOLDER = pathlib.Path(__file__).with_name("corpus")
_MARK = "# ---- found by the fuzzer: written by `make fuzz ARGS=--keep`"


def file_of(target: str) -> pathlib.Path:
    """Where a target's inputs are kept."""
    return FOLDER / f"{target}.txt"


def read(target: str) -> list[bytes]:
    """All inputs of a target."""
    return parsed(file_of(target).read_text("utf-8"))


def parsed(text: str) -> list[bytes]:
    """The inputs in a corpus file.

    Raises:
        ValueError: a line is neither a comment nor a bytes literal.
    """
    found: list[bytes] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        value = ast.literal_eval(line)
        if not isinstance(value, bytes):
            raise ValueError(f"line {number} is not a bytes literal: {line[:60]}")  # noqa: TRY004 - it is the file that is wrong
        found.append(value)
    return found


def with_found(text: str, inputs: "collections.abc.Iterable[bytes]") -> str:
    """A corpus file with other found inputs, sorted by length; the regressions stay as they are."""
    above = text.partition(_MARK)[0].rstrip("\n")
    known = set(parsed(above))
    lines = [repr(each) for each in sorted(set(inputs) - known, key=lambda each: (len(each), each))]
    return "\n".join([*([above, ""] if above else []), _MARK, *lines, ""])

"""Our reader of config.pbtxt held to protobuf's own text format: one comparison, for the property tests and the fuzzer."""

import pathlib
import re
import warnings
from typing import Any

from google.protobuf import text_format

from naiad.config.document import Document
from naiad.config.pbtxt.parser import parse
from naiad.core.messages import model_config_pb2

PATH = pathlib.Path("config.pbtxt")
_OURS_ALONE = re.compile(
    r"has no value with the number|there is no escape|needs .* hexadecimal digits"
    r"|was never filled in"
)
"""What we refuse and Python's official parser takes: mistakes always, and escapes that Triton's own parser refuses."""

_EARLIER = re.compile(
    r"is never closed|has no value|none follows|does not end in a comma|no colon after|name of a field .* found \["
)
"""What we report where it was forgotten, the official parser where the next thing stands in its place.

A bracket where a field's name belongs is among them: protobuf reads on, in the next line too, for the extension that
no model config has.
"""


def official(text: str) -> tuple[Any, int | None]:
    """The message of the official parser, or the line of its first error."""
    message = model_config_pb2.ModelConfig()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # its own: unknown escapes
        try:
            text_format.Parse(text, message)
        except text_format.ParseError as error:
            return None, error.GetLine()
        except ValueError:
            return None, None  # an enum number beyond 32 bits
    return message, None


def canonical(message: Any) -> bytes:
    """Comparable also when it holds nan."""
    data: bytes = message.SerializeToString(deterministic=True)
    return data


def compare(text: str) -> None:
    """Raise unless both accept or refuse a text alike."""
    document = parse(text, path=PATH)
    expected, line = official(text)
    if expected is not None:
        ours = [problem for problem in document.problems if not _OURS_ALONE.search(problem.message)]
        assert ours == []
        if not document.problems and not re.search(
            r"\\[?X]", text
        ):  # Python's keeps these two as they stand
            assert canonical(document.message) == canonical(expected)
        return
    if re.search(r"-\s", text):
        return  # Triton's own parser takes `- 5`, and so do we
    assert document.problems
    if line is not None:
        _near(document, line)


def _near(document: Document, line: int) -> None:
    """Our first problem is where the official parser stops, or before: at the cause of what it stumbled over.

    It names the place where it could not go on; we name the bracket that was never closed, the value that is missing, the
    first key of two, so ours may come earlier, and never later.
    """
    first = document.problems[0]
    assert first.position is not None
    if first.position.line != line:
        assert first.position.line < line
        assert _EARLIER.search(first.message) or _OURS_ALONE.search(first.message)

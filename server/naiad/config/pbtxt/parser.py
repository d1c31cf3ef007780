"""Reading a config.pbtxt: every problem of the file in one pass, and all of the message that can be read.

The official text format stops at the first error and keeps no positions, hence a parser of our own
(`tokens` → `cursor` → `grammar` and `values`). A property test holds it to the official one: what that takes, this
takes with an equal message, but for the number of an enum value that does not exist, which is always a mistake.
"""

import codecs
import pathlib
import stat
import types

import msgspec

from naiad.config.document import Document
from naiad.config.pbtxt.block import Positions
from naiad.config.pbtxt.cursor import Cursor, EnoughError
from naiad.config.pbtxt.grammar import Grammar
from naiad.config.problem import Position, Problem
from naiad.core.file_kind import special_kind
from naiad.core.messages import model_config_pb2

LARGEST_FILE = 1 << 20
"""Bytes. A real config has a few kilobytes; a model put in its place has many megabytes."""


def parse(text: str, *, path: pathlib.Path) -> Document:
    """Read the text of a config; `path` is only named in problems, which are in file order. Bad input never raises."""
    message = model_config_pb2.ModelConfig()
    cursor = Cursor(text, path=path, fields=set(message.DESCRIPTOR.fields_by_name))
    positions: Positions = {}
    enough = False
    try:
        Grammar(cursor).read_file(message, positions)
    except EnoughError:
        enough = True
    problems = sorted(cursor.problems, key=_place)
    if enough:
        problems.append(
            Problem(
                path=path,
                position=None,
                message=f"more than {len(problems)} problems: the rest of the file was not read",
                suggestion="is this a model configuration in protobuf's text format at all?",
            )
        )
    return Document(
        path=path,
        text=text,
        message=message,
        positions=types.MappingProxyType(positions),
        problems=tuple(problems),
        warnings=tuple(dict.fromkeys(cursor.warnings)),
    )


def read(path: pathlib.Path) -> Document:
    """Read a config file.

    A file that does not exist gives an empty document without problems, because a config may be left out. What cannot be read
    as text (a folder, a file larger than LARGEST_FILE, other encodings) gives a document with a problem.
    """
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            kind = special_kind(path) or "a folder"
            return _unreadable(path, f"this is {kind}", "a model configuration is a text file")
        if status.st_size > LARGEST_FILE:
            return _unreadable(
                path,
                f"the file has {status.st_size} bytes; a model configuration has at most {LARGEST_FILE}",
                "is this the model itself? It belongs in a version folder, such as 1/",
            )
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return parse("", path=path)
    except OSError as error:
        return _unreadable(path, f"the file cannot be read: {error.strerror or error}")
    return _decode(data, path)


def _decode(data: bytes, path: pathlib.Path) -> Document:
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return _unreadable(path, "the file is in UTF-16", "save it as UTF-8")
    marked = data.startswith(codecs.BOM_UTF8)
    data = data.removeprefix(codecs.BOM_UTF8)
    document = parse(data.decode(errors="replace"), path=path)
    problems: list[Problem] = []

    def report(position: Position, message: str, suggestion: str) -> None:
        problems.append(
            Problem(
                path=path,
                position=position,
                message=message,
                suggestion=suggestion,
                line_text=document.line(position.line),
            )
        )

    if marked:
        report(
            Position(1, 1),
            "the file begins with a byte order mark, an invisible character that Triton refuses",
            'save it as "UTF-8", not as "UTF-8 with BOM"',
        )
    try:
        data.decode()
    except UnicodeDecodeError as error:
        before = data[: error.start].decode(errors="replace").split("\n")
        report(
            Position(len(before), len(before[-1]) + 1),
            f"the byte 0x{data[error.start]:02x} here is not valid UTF-8",
            "save the file as UTF-8",
        )
    return msgspec.structs.replace(document, problems=(*problems, *document.problems))


def _unreadable(path: pathlib.Path, message: str, suggestion: str = "") -> Document:
    problem = Problem(path=path, position=None, message=message, suggestion=suggestion)
    return Document(
        path=path,
        text="",
        message=model_config_pb2.ModelConfig(),
        positions=types.MappingProxyType({}),
        problems=(problem,),
    )


def _place(problem: Problem) -> Position:
    return problem.position or Position(0, 0)

"""Reads the YAML or JSON documents of a file with the line of each field, so that errors can name the line.

The parser's nodes are kept beside the values; a field is found by the path of a `Problem`. JSON is read as YAML, after tabs are
replaced.
"""

import collections.abc
import dataclasses
import json
import pathlib
import sys
import typing

import yaml

from naiad_operator.api.manifests import yaml_text


@dataclasses.dataclass(frozen=True, slots=True)
class Unreadable:
    """A file, a document, or the rest of a file, that cannot be read.

    Attributes:
        line: the line of the error, counted from 1; 0 when it is the whole file.
        message: what is wrong and what to write instead.
    """

    line: int
    message: str

    def place(self, title: str) -> str:
        """The file, with the line where there is one."""
        return f"{title}:{self.line}" if self.line else title


@dataclasses.dataclass(frozen=True, slots=True)
class Document:
    """A document of a file, or an item of a List in it.

    Attributes:
        value: the parsed value.
        node: the parser's node, with the positions of all fields.
    """

    value: typing.Any
    node: yaml.Node

    def line(self, path: str = "") -> int:
        """The line of a field, counted from 1; for a field that is not in the file, the line of its nearest parent."""
        node, line = self.node, self.node.start_mark.line + 1
        while path:
            step = _step(node, path)
            if step is None:
                break
            node, line, path = step
        return line

    def items(self, field: str) -> collections.abc.Iterator["Document"]:
        """The items of a list field."""
        values = self.value.get(field) or []
        assert isinstance(self.node, yaml.MappingNode)
        nodes = [value for key, value in self.node.value if key.value == field]
        if isinstance(values, list):
            for value, node in zip(values, nodes[-1].value if values else (), strict=True):
                yield Document(value, node)
        else:
            yield Document(values, nodes[-1])


_SUFFIXES = frozenset((".yaml", ".yml", ".json"))


def files(given: collections.abc.Iterable[str]) -> collections.abc.Iterator[str]:
    """The files; for a folder, those in it that kubectl would read."""
    for name in given:
        path = pathlib.Path(name)
        if name not in ("-", "") and path.is_dir():
            found = (file for file in sorted(path.iterdir()) if file.suffix in _SUFFIXES)
            yield from (str(file) for file in found if not file.is_dir())
        else:
            yield name


def shown(name: str) -> str:
    """A file as messages name it."""
    return "<stdin>" if name == "-" else name or "''"


def read_file(name: str) -> collections.abc.Iterator[Document | Unreadable]:
    """Every non-empty document of a file; `-` is standard input."""
    if not name:
        yield Unreadable(0, "is not the name of a file: is a variable in the command empty?")
        return
    try:
        content = sys.stdin.buffer.read() if name == "-" else pathlib.Path(name).read_bytes()
        text = content.decode()
    except OSError as error:
        yield Unreadable(0, f"cannot be read: {error.strerror or error}")
        return
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        yield Unreadable(line, "is not UTF-8 text: save it as UTF-8")
        return
    try:
        yield from read(text)
    except RecursionError:
        yield Unreadable(0, "cannot be read: it is nested too deeply to be meant")


def read(text: str) -> collections.abc.Iterator[Document | Unreadable]:
    """Every non-empty document, up to the first position at which the file is not valid YAML."""
    try:
        loader = yaml_text.Loader(_without_tabs(text))
        while loader.check_node():
            node = loader.get_node()
            assert node is not None
            wrong = [_to_unreadable(flaw, text) for flaw in yaml_text.flaws(node)]
            if wrong:
                yield from wrong
                continue
            try:
                value = loader.construct_flawless(node)
            except yaml.MarkedYAMLError as error:
                yield _to_unreadable(error, text)
                continue
            if value is not None:
                yield Document(value, node)
    except json.JSONDecodeError as error:
        yield Unreadable(error.lineno, f"is not valid JSON: {error.msg}, in column {error.colno}")
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        character = f"U+{ord(text[error.position]):04X}"
        yield Unreadable(
            line, f"contains the character {character}, which YAML does not allow: delete it"
        )
    except yaml.MarkedYAMLError as error:
        yield _to_unreadable(error, text)


def _without_tabs(text: str) -> str:
    """Replaces the tabs in a JSON document: JSON may be indented with tabs, YAML may not, and valid JSON has no tab inside a string.

    Raises:
        json.JSONDecodeError: the document looks like JSON and is not valid.
    """
    begin = text.lstrip("\ufeff \t\r\n")
    if "\t" not in text or not begin.startswith(("{", "[")) or begin[1:].lstrip()[:1] not in '"{[':
        return text
    json.loads(text.removeprefix("\ufeff"))
    return text.replace("\t", " ")


_Step = tuple[yaml.Node, int, str]


def _step(node: yaml.Node, path: str) -> _Step | None:
    """One step along a path: the child node, its line, and the rest of the path."""
    best: _Step | None = None
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            rest = _rest(path, f"[{index}]")
            if rest is not None:
                return item, item.start_mark.line + 1, rest
    elif isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode) or not key.value:
                continue
            for written in (key.value, f".{key.value}", f"[{key.value}]"):
                rest = _rest(path, written)
                # A key may contain dots, so the longest match is used; of two equal ones the later, because the other came from a merge.
                if rest is not None and (best is None or len(rest) <= len(best[2])):
                    best = value, key.start_mark.line + 1, rest
    return best


def _rest(path: str, step: str) -> str | None:
    rest = path.removeprefix(step)
    return rest if rest != path and rest[:1] in {"", ".", "["} else None


_ADVICE = (
    ("'\\t'", "indent with spaces: YAML takes no tabs"),
    ("appears twice", "write it once"),
    ("mapping values are not allowed", "put a text that holds ': ' in quotes, and indent the fields of one mapping alike"),
    ("expected <block end>", "indent the fields of one mapping alike, and the entries of one list"),
    ("could not find expected ':'", "write a ':' and a space behind the field's name"),
    ("'<document start>'", "put a line --- between two documents"),
    ("unhashable key", "a name in {} or [] can be no field's name: put a text that begins with { or [ in quotes"),
    ("undefined alias", "an anchor holds only in its own document, behind the place where it stands"),
    ("contains itself", "write the value itself"),
    ("expand to", "write the values themselves"),
    ("a constructor for the tag", "leave the tag out"),
    ("its tag says so", "leave the tag out"),
    ("not a readable", "write another value"),
    ("half a character", "write the character itself, or both of its \\u codes"),
    ("<stream end>", "a bracket or a quote is still open"),
    ("end of stream", "a bracket or a quote is still open"),
)  # fmt: skip


def _to_unreadable(error: yaml.MarkedYAMLError, text: str) -> Unreadable:
    """The parser's error as one sentence with its line and advice."""
    mark = error.problem_mark or error.context_mark
    line = mark.line + 1 if mark is not None else 1
    message = error.problem or "cannot be understood"
    if error.context and error.context != "while scanning for the next token":
        begun = error.context_mark
        since = f" that begins in line {begun.line + 1}" if begun and begun.line + 1 < line else ""
        message = f"{error.context}{since}: {message}"
    lines = text.splitlines()
    if any("{{" in line_text for line_text in lines[max(0, line - 2) : line]):
        advice = (
            "it looks like a template: render it first (helm template), and check what comes out"
        )
    else:
        advice = next((advice for words, advice in _ADVICE if words in message), "")
    begin = "" if isinstance(error, yaml.constructor.ConstructorError) else "is not valid YAML: "
    return Unreadable(line, f"{begin}{message}" + (f": {advice}" if advice else ""))

"""The check of the project's English: finds words and names that a table lists, and says what to write instead.

In Python only comments, strings and the names of tests are read as text, and identifiers are compared with a table of
their own. Other files are read whole. The tables are in `.ci/prose.toml`, the command is `.ci/prose`.
"""

import collections.abc
import dataclasses
import functools
import io
import pathlib
import re
import subprocess
import tokenize
import tomllib

from typing_extensions import override

SUFFIXES = {"", ".py", ".md", ".yaml", ".yml", ".toml", ".txt", ".tpl"}

_OWN = (".ci/prose.toml", "tests/test_prose.py", "tests/data/prose/", "LICENSE")
"""These name the words, and a text that is not ours."""

_SPACE = r"[ \t]*(?:[ \t]|\n)[ \t]*(?:#[ \t]*)?"
"""Between two words: a space, or the end of a line, also in a comment of a YAML file; not an empty line."""

_CITES_FIRST = re.compile(r'^[ \t]*"""rows? \d+\.\d+', re.IGNORECASE | re.MULTILINE)
"""A docstring that begins with a row of the specification instead of what the thing does."""

_QUOTES = re.compile(r"^[a-zA-Z]*('''|\"\"\"|'|\")")
_FSTRING_PART = getattr(
    tokenize, "FSTRING_MIDDLE", tokenize.STRING
)  # a token of its own since Python 3.12
_CODE = "\0"  # stands for code between two texts, so that they are not read as one


@dataclasses.dataclass(frozen=True)
class Finding:
    """A listed word: its file and line, and what to write instead."""

    path: str
    line: int
    found: str
    write: str

    @override
    def __str__(self) -> str:
        """One line, in the form that editors turn into a link."""
        return f"{self.path}:{self.line}: {self.found!r}: write {self.write}"


@dataclasses.dataclass(frozen=True)
class Rules:
    """The tables.

    Attributes:
        phrases: expression and replacement, for text.
        names: expression and replacement, for identifiers.
        quotations: per file, the sentences in which every word may stay.
        left_out: folders and files that are not checked.
    """

    phrases: tuple[tuple[re.Pattern[str], str], ...]
    names: tuple[tuple[re.Pattern[str], str], ...]
    quotations: collections.abc.Mapping[str, tuple[str, ...]]
    left_out: tuple[str, ...] = ()

    @functools.cached_property
    def any_phrase(self) -> re.Pattern[str]:
        """Finds any of the phrases in text of lower case: ten times as fast as one after the other."""
        phrases = (expression.pattern.removeprefix(r"\b").lower() for expression, _ in self.phrases)
        return re.compile(rf"\b(?:{'|'.join(phrases)})")


def rules(file: pathlib.Path) -> Rules:
    """The tables of a file. A space in a phrase also stands for the end of a line."""
    tables = tomllib.loads(file.read_text(encoding="utf-8"))
    return Rules(
        tuple(
            (re.compile(find.replace(" ", _SPACE), re.IGNORECASE), write)
            for find, write in tables["phrases"]
        ),
        tuple((re.compile(find), write) for find, write in tables["names"]),
        {path: tuple(quoted) for path, quoted in tables["quotations"].items()},
        tuple(tables["left_out"]),
    )


def _python(source: str) -> tuple[str, dict[str, int]]:
    """The text of a Python file, every part on its own line, and the first line of each identifier."""
    lines: list[list[str]] = [[] for _ in range(source.count("\n") + 2)]
    names: dict[str, int] = {}
    before = ""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        text = token.string
        if token.type == tokenize.COMMENT:
            part = text.lstrip("#: ")
        elif token.type == tokenize.STRING:
            quotes = _QUOTES.match(text)
            part = text[quotes.end() : -len(quotes[1])] if quotes else text
        elif token.type == _FSTRING_PART:
            part = text
        elif token.type == tokenize.NAME:
            names.setdefault(text, token.start[0])
            part = text.replace("_", " ") if before == "def" and text.startswith("test_") else _CODE
            before = text
        elif text.strip():
            part = _CODE
        else:
            continue
        for number, line in enumerate(part.split("\n"), token.start[0]):
            lines[number].append(line)
    return "\n".join("".join(parts) for parts in lines[1:]), names


def read(path: str, source: str) -> tuple[str, dict[str, int]]:
    """What is to be checked in a file: its text, line by line, and for Python its identifiers with the line of each."""
    return _python(source) if path.endswith(".py") else (source, {})


def findings_in(path: str, source: str, rules: Rules) -> list[Finding]:
    """Every listed word of a file that is not within one of its quotations.

    Args:
        path: the file's name from the root of the checkout.
        source: what the file contains.
        rules: the tables.
    """
    text, names = read(path, source)
    quoted = [
        (start, start + len(quotation))
        for quotation in rules.quotations.get(path, ())
        for start in _starts(quotation, text)
    ]
    in_text = rules.phrases if rules.any_phrase.search(text.lower()) else ()
    found = [
        Finding(path, text.count("\n", 0, hit.start()) + 1, " ".join(hit[0].split()), write)
        for expression, write in in_text
        for hit in expression.finditer(text)
        if not any(start <= hit.start() and hit.end() <= end for start, end in quoted)
    ]
    found += [
        Finding(path, line, name, write)
        for name, line in names.items()
        for expression, write in rules.names
        if expression.search(name)
    ]
    if path.endswith(".py"):
        found += [
            Finding(
                path,
                source.count("\n", 0, hit.start()) + 1,
                hit[0].strip(),
                "a sentence, and the row behind it",
            )
            for hit in _CITES_FIRST.finditer(source)
        ]
    return sorted(found, key=lambda finding: finding.line)


def _starts(quotation: str, text: str) -> collections.abc.Iterator[int]:
    start = text.find(quotation)
    while start >= 0:
        yield start
        start = text.find(quotation, start + 1)


def unused_quotations(root: pathlib.Path, rules: Rules) -> list[Finding]:
    """Quotations that their file no longer has."""
    unused = []
    for path, quotations in rules.quotations.items():
        source = (root / path).read_text(encoding="utf-8") if (root / path).exists() else ""
        text, _ = read(path, source)
        unused += [
            Finding(".ci/prose.toml", 1, quotation, f"nothing: {path} does not have this quotation")
            for quotation in quotations
            if quotation not in text
        ]
    return unused


@functools.cache
def tracked(root: pathlib.Path) -> tuple[str, ...]:
    """Every file that git knows, also a new one that is not ignored."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    return tuple(sorted(set(listed.stdout.splitlines())))


def check(root: pathlib.Path, files: collections.abc.Sequence[pathlib.Path] = ()) -> list[Finding]:
    """Check a checkout.

    Args:
        root: the top of the checkout.
        files: the files to check, absolute; none means every file that is not left out.
    """
    table = rules(root / ".ci" / "prose.toml")
    if files:
        names = [str(file.relative_to(root)) for file in files]
    else:
        names = [name for name in tracked(root) if not name.startswith((*table.left_out, *_OWN))]
    found = []
    for name in names:
        path = root / name
        if (
            path.suffix not in SUFFIXES
            or not path.is_file()
            or name in (".ci/prose.toml", "LICENSE")
        ):
            continue
        found += findings_in(name, path.read_text(encoding="utf-8"), table)
    return found if files else [*found, *unused_quotations(root, table)]

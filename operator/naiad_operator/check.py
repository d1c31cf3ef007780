"""`naiad-operator check`: is a file right, and what would the operator make of it? Without a cluster.

It knows what the API server would say of the resource itself, not what only a cluster knows: whether Secrets exist, nodes offer a GPU, or
other objects are in the way.
"""

import argparse
import collections.abc
import operator
import os
import pathlib
import sys
import typing

from naiad_operator.api import document, names, service, yaml_text
from naiad_operator.api.validation import brief
from naiad_operator.builders import KINDS, build, image
from naiad_operator.builders.facts import ClusterFacts, Defaults
from naiad_operator.errors import InvalidSpec, Problem

_IMAGE = "naiad-server"
"""Stands for the image that the operator was installed with, which no file knows."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument(
        "-f",
        "--file",
        action="append",
        required=True,
        metavar="FILE",
        help="a file of InferenceServices, a folder of such files, - for standard input; may be given several times",
    )
    parser.add_argument(
        "--image",
        default=_IMAGE,
        help="the server image of services that name none (default: %(default)s)",
    )
    parser.add_argument(
        "--prometheus-address",
        default="http://prometheus.monitoring:9090",
        metavar="URL",
        help="where KEDA asks for metrics when a service does not say (default: %(default)s)",
    )
    parser.add_argument(
        "--without",
        action="append",
        default=[],
        choices=[kind.kind for kind in KINDS if kind.optional],
        help="a kind that the cluster lacks; may be given several times",
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="only say what is wrong")


def run(options: argparse.Namespace) -> int:
    """Check every file; what is wrong goes to standard error, the objects to standard output.

    Returns:
        The exit status: 0 when everything is right, 1 when something is wrong.
    """
    made: list[dict[str, typing.Any]] = []
    wrong = 0
    checked = 0
    for name in _files(options.file):
        for found in _documents(name):
            if isinstance(found, str):
                wrong += 1
                _say(found)
                continue
            checked += 1
            children, problems = examine(found.value, options)
            made += children
            wrong += len(problems)
            located = [(found.line(problem.path), problem) for problem in problems]
            for line, problem in sorted(located, key=operator.itemgetter(0)):
                _say(f"{_shown(name)}:{line}: {problem}")
    if not options.quiet and made:
        _print(yaml_text.write(made))
    if wrong:
        _say(f"{wrong} problem{'s' * (wrong > 1)}")
        return 1
    if not checked:
        given = ", ".join(_shown(name) for name in options.file)
        _say(f"nothing to check: there is no InferenceService in {given}")
        return 1
    _say(f"{checked} service{'s' * (checked > 1)}, {len(made)} objects: all right")
    return 0


def examine(
    manifest: collections.abc.Mapping[str, typing.Any], options: argparse.Namespace
) -> tuple[list[dict[str, typing.Any]], collections.abc.Sequence[Problem]]:
    """The children of one resource, or what is wrong with it."""
    defaults = Defaults(image=options.image, prometheus_address=options.prometheus_address)
    apis = frozenset(kind.key for kind in KINDS if kind.kind not in options.without)
    try:
        parsed = service.parse(manifest)
        facts = ClusterFacts(apis=apis, image=image.resolve(parsed, defaults), defaults=defaults)
        return build(parsed, facts), ()
    except InvalidSpec as error:
        return [], error.problems


_SUFFIXES = frozenset((".yaml", ".yml", ".json"))


def _files(given: collections.abc.Iterable[str]) -> collections.abc.Iterator[str]:
    """The files, and in a folder's place those in it that kubectl would take."""
    for name in given:
        path = pathlib.Path(name)
        if name != "-" and path.is_dir():
            yield from (str(file) for file in sorted(path.iterdir()) if file.suffix in _SUFFIXES)
        else:
            yield name


def _documents(name: str) -> collections.abc.Iterator[document.Document | str]:
    """The InferenceServices of a file, and what is wrong with it, with its line; other kinds beside them are somebody else's to check."""
    shown = _shown(name)
    try:
        content = sys.stdin.buffer.read() if name == "-" else pathlib.Path(name).read_bytes()
        text = content.decode()
    except OSError as error:
        yield f"{shown}: cannot be read: {error.strerror or error}"
        return
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        yield f"{shown}:{line}: is no UTF-8 text: save it as UTF-8"
        return
    lines: dict[tuple[str, str], int] = {}
    try:
        for entry in document.read(text):
            if isinstance(entry, document.Unreadable):
                yield f"{shown}:{entry.line}: {entry.message}"
                continue
            for found in _meant(entry, shown):
                yield found
                if isinstance(found, document.Document):
                    yield from _again(found, shown, lines)
    except RecursionError:
        yield f"{shown}: cannot be read: it is nested too deeply to be meant"


def _meant(
    found: document.Document, shown: str
) -> collections.abc.Iterator[document.Document | str]:
    """A document that is an InferenceService, or what is in a List in its place, as kubectl takes it."""
    if not isinstance(found.value, dict):
        message = (
            f"is {brief(found.value)}: write a mapping with apiVersion, kind, metadata and spec"
        )
        yield f"{shown}:{found.line()}: {message}"
    elif str(found.value.get("kind")) in {"List", f"{names.KIND}List"}:
        for item in found.items("items"):
            yield from _meant(item, shown)
    elif service.is_meant(found.value):
        yield found


def _again(
    found: document.Document, shown: str, lines: dict[tuple[str, str], int]
) -> collections.abc.Iterator[str]:
    """That a file has a service twice: when it is applied, the later one silently takes the place of the first.

    Args:
        found: an InferenceService.
        shown: its file.
        lines: where the file has which service; this one is added.
    """
    metadata = found.value.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(name, str):
        return
    line = found.line("metadata.name")
    key = (str(metadata.get("namespace") or ""), name)
    first = lines.get(key)
    lines[key] = first or line
    if first is not None:
        message = f"the service {name!r} stands in line {first} already: give this one another name, or write one of them"
        yield f"{shown}:{line}: metadata.name: {message}"


def _shown(name: str) -> str:
    """A file as errors name it."""
    return "<stdin>" if name == "-" else name


def _print(text: str) -> None:
    """To standard output, as far as somebody reads it: `| head` closes it early."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        # Python would try again at exit and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")

"""`naiad-operator check`: is a file right, and what would the operator make of it? Without a cluster.

It knows what the API server would say of the resource itself, not what only a cluster knows: whether Secrets exist, nodes offer a GPU, or
other objects are in the way.
"""

import argparse
import collections.abc
import os
import pathlib
import sys
import typing

import yaml

from naiad_operator.api import service, yaml_text
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
        for number, document in _documents(name):
            where = f"{name} (document {number})" if number else name
            if isinstance(document, Problem):
                wrong += 1
                _say(f"{where}: {document}")
                continue
            checked += 1
            children, problems = examine(document, options)
            made += children
            wrong += len(problems)
            for problem in problems:
                _say(f"{where}: {problem}")
    if not options.quiet and made:
        _print(yaml_text.write(made))
    if wrong:
        _say(f"{wrong} problem{'s' * (wrong > 1)}")
        return 1
    if not checked:
        _say("nothing to check: no file holds an InferenceService")
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


def _documents(
    name: str,
) -> collections.abc.Iterator[tuple[int, collections.abc.Mapping[str, typing.Any] | Problem]]:
    """The InferenceServices of a file with their places in it, 0 for the file itself; other kinds beside them are somebody else's to check."""
    try:
        text = sys.stdin.read() if name == "-" else pathlib.Path(name).read_text()
        documents = yaml_text.read(text)
    except (OSError, UnicodeDecodeError) as error:
        yield 0, Problem("", f"cannot be read: {error}")
        return
    except yaml.YAMLError as error:
        yield 0, Problem("", f"is no YAML: {' '.join(str(error).split())}")
        return
    except RecursionError:
        yield 0, Problem("", "cannot be read: it is nested too deeply to be meant")
        return
    for number, document in enumerate(_flat(documents), start=1):
        if not isinstance(document, dict):
            said = f"is {document!r}: write a mapping with apiVersion, kind, metadata and spec"
            yield number, Problem("", said)
        elif service.is_meant(document):
            yield number, document


def _flat(documents: collections.abc.Iterable[typing.Any]) -> collections.abc.Iterator[typing.Any]:
    """The documents, and what is in a List in its place, as kubectl takes it."""
    for document in documents:
        if isinstance(document, dict) and document.get("kind") == "List":
            items = document.get("items") or ()
            yield from _flat(items if isinstance(items, list) else [items])
        else:
            yield document


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

"""The command `naiad-operator check`: validates files and prints the objects that the operator would create. Without a cluster.

It applies the same validation as the API server. It cannot check what only a cluster knows: whether Secrets exist, whether nodes
offer a GPU, or whether other objects are in the way.
"""

import argparse
import collections.abc
import operator
import os
import pathlib
import sys
import typing

from naiad_operator import convert
from naiad_operator.api import (
    document,
    names,
    profiles,
    resources,
    service,
    validation,
    yaml_text,
)
from naiad_operator.api.validation import brief
from naiad_operator.builders import KINDS, build, image
from naiad_operator.builders.facts import ClusterFacts, Defaults
from naiad_operator.errors import InvalidSpec, Problem, ProfileNotFound

_IMAGE = "naiad-server"
"""A placeholder for the image that the operator was installed with, which no file contains."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument(
        "-f",
        "--file",
        action="append",
        required=True,
        metavar="FILE",
        help="a file of InferenceServices and NaiadProfiles, a folder of such files, - for standard input; may be given several times",
    )
    parser.add_argument(
        "--image",
        default=_IMAGE,
        help="the server image of services that name none (default: %(default)s)",
    )
    parser.add_argument(
        "--default-profile",
        type=_default_profile,
        metavar="FILE",
        help="the spec of a NaiadProfile for services that get no other, as the operator's option of this name",
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
    """Checks every file; errors go to standard error, the objects to standard output.

    Returns:
        The exit status: 0 when every file is valid, else 1.
    """
    made: list[dict[str, typing.Any]] = []
    wrong = 0
    checked = 0
    files = {name: list(_documents(name)) for name in _files(options.file)}
    known = list(_valid_profiles(one for read in files.values() for one in read))
    for name, candidates in files.items():
        for candidate in candidates:
            if isinstance(candidate, str):
                wrong += 1
                _say(candidate)
                continue
            problems: collections.abc.Sequence[Problem]
            if _is_profile(candidate):
                problems = validation.check(candidate.value, resources.PROFILE)
            else:
                checked += 1
                children, problems = examine(candidate.value, options, known)
                made += children
                _say_unknown_profile(candidate, known, _shown(name))
            wrong += len(problems)
            located = [(candidate.line(problem.path), problem) for problem in problems]
            for line, problem in sorted(located, key=operator.itemgetter(0)):
                _say(f"{_shown(name)}:{line}: {problem}")
    if not options.quiet and made:
        _print(yaml_text.write(made))
    if wrong:
        _say(f"{wrong} problem{'s' * (wrong > 1)}")
        return 1
    if not checked:
        given = ", ".join(_shown(name) for name in options.file)
        _say(f"nothing to check: no InferenceService in {given}")
        return 1
    _say(f"{checked} service{'s' * (checked > 1)}, {len(made)} objects: valid")
    return 0


def examine(
    manifest: collections.abc.Mapping[str, typing.Any],
    options: argparse.Namespace,
    known: collections.abc.Sequence[service.Manifest] = (),
) -> tuple[list[dict[str, typing.Any]], collections.abc.Sequence[Problem]]:
    """The children of one resource, or its errors.

    Args:
        manifest: the resource.
        options: the options of the command.
        known: the NaiadProfiles of the files; one that is not among them is in the cluster, so the service is checked without it.
    """
    defaults = Defaults(image=options.image, prometheus_address=options.prometheus_address)
    apis = frozenset(kind.key for kind in KINDS if kind.kind not in options.without)
    try:
        try:
            profile = profiles.choose(manifest, known, fallback=options.default_profile)
        except ProfileNotFound:
            profile = None
        parsed = service.parse(manifest, profile)
        chosen = image.resolve(parsed, defaults)
        facts = ClusterFacts(
            apis=apis, image=chosen.image, server_version=chosen.version, defaults=defaults
        )
        return build(parsed, facts), ()
    except InvalidSpec as error:
        return [], error.problems


_SUFFIXES = frozenset((".yaml", ".yml", ".json"))


def _files(given: collections.abc.Iterable[str]) -> collections.abc.Iterator[str]:
    """The files; for a folder, those in it that kubectl would read."""
    for name in given:
        path = pathlib.Path(name)
        if name != "-" and path.is_dir():
            yield from (str(file) for file in sorted(path.iterdir()) if file.suffix in _SUFFIXES)
        else:
            yield name


def _documents(name: str) -> collections.abc.Iterator[document.Document | str]:
    """The InferenceServices and NaiadProfiles of a file, and its errors with their lines; documents of other kinds are ignored."""
    shown = _shown(name)
    try:
        content = sys.stdin.buffer.read() if name == "-" else pathlib.Path(name).read_bytes()
        text = content.decode()
    except OSError as error:
        yield f"{shown}: cannot be read: {error.strerror or error}"
        return
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        yield f"{shown}:{line}: is not UTF-8 text: save it as UTF-8"
        return
    lines: dict[tuple[str, ...], int] = {}
    try:
        for entry in document.read(text):
            if isinstance(entry, document.Unreadable):
                yield f"{shown}:{entry.line}: {entry.message}"
                continue
            for candidate in _meant(entry, shown):
                yield candidate
                if isinstance(candidate, document.Document):
                    yield from _again(candidate, shown, lines)
    except RecursionError:
        yield f"{shown}: cannot be read: it is nested too deeply to be meant"


def _meant(
    candidate: document.Document, shown: str
) -> collections.abc.Iterator[document.Document | str]:
    """A document that is one of the two, or the items of a List, as kubectl accepts it."""
    if not isinstance(candidate.value, dict):
        message = (
            f"is {brief(candidate.value)}: write a mapping with apiVersion, kind, metadata and spec"
        )
        yield f"{shown}:{candidate.line()}: {message}"
    elif str(candidate.value.get("kind")) in {"List", f"{names.KIND}List"}:
        for item in candidate.items("items"):
            yield from _meant(item, shown)
    elif convert.is_kserve(candidate.value):
        message = (
            f"is an InferenceService of KServe: naiad-operator convert -f {shown} writes Naiad's"
        )
        yield f"{shown}:{candidate.line('apiVersion')}: {message}"
    elif service.is_meant(candidate.value) or _is_profile(candidate):
        yield candidate


def _again(
    candidate: document.Document, shown: str, lines: dict[tuple[str, ...], int]
) -> collections.abc.Iterator[str]:
    """The error that a file contains an object twice: when it is applied, the later one silently replaces the first.

    Args:
        candidate: an InferenceService or a NaiadProfile.
        shown: its file.
        lines: the lines of the file's objects; this one's is added.
    """
    metadata = candidate.value.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(name, str):
        return
    line = candidate.line("metadata.name")
    kind = "profile" if _is_profile(candidate) else "service"
    key = (kind, str(metadata.get("namespace") or ""), name)
    first = lines.get(key)
    lines[key] = first or line
    if first is not None:
        message = f"the {kind} {name!r} is already in line {first}: rename this one, or remove one of them"
        yield f"{shown}:{line}: metadata.name: {message}"


def _is_profile(candidate: document.Document) -> bool:
    """Whether a document is meant to be a NaiadProfile, so that a wrong one is reported."""
    return str(candidate.value.get("kind")).lower() == names.PROFILE_KIND.lower()


def _valid_profiles(
    candidates: collections.abc.Iterable[document.Document | str],
) -> collections.abc.Iterator[service.Manifest]:
    for candidate in candidates:
        if isinstance(candidate, str) or not _is_profile(candidate):
            continue
        if not validation.check(candidate.value, resources.PROFILE):
            yield candidate.value


def _say_unknown_profile(
    candidate: document.Document, known: collections.abc.Iterable[service.Manifest], shown: str
) -> None:
    """Says that a service was checked without its profile, which is not in the files."""
    spec = candidate.value.get("spec")
    named = spec.get("profile") if isinstance(spec, dict) else None
    if isinstance(named, str) and named not in {one["metadata"]["name"] for one in known}:
        line = candidate.line("spec.profile")
        _say(
            f"{shown}:{line}: spec.profile: the {names.PROFILE_KIND} {named} is not in these files: checked without its fields"
        )


def _default_profile(path: str) -> service.Profile:
    try:
        return profiles.from_file(path)
    except InvalidSpec as error:
        raise argparse.ArgumentTypeError(f"{path}: {error}") from error


def _shown(name: str) -> str:
    """A file as error messages name it."""
    return "<stdin>" if name == "-" else name


def _print(text: str) -> None:
    """Writes to standard output until it is closed: `| head` closes it early."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        # Otherwise Python flushes again at exit and prints an error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")

"""The command `naiad-operator check`: validates files and prints the objects that the operator would create. Without a cluster.

It applies the same validation as the API server. It cannot check what only a cluster knows: whether Secrets exist, whether nodes
offer a GPU, or whether other objects are in the way.
"""

import argparse
import collections
import collections.abc
import operator
import os
import sys
import typing

from naiad_operator.api import names
from naiad_operator.api.manifests import document, yaml_text
from naiad_operator.api.parsing import binding, profiles, service, validation
from naiad_operator.api.schema import resources
from naiad_operator.api.types.policy import PodTemplate, Triggers
from naiad_operator.builders import KINDS
from naiad_operator.builders.workload import requests
from naiad_operator.check import files
from naiad_operator.check.finding import Finding
from naiad_operator.check.service import examine, examine_profile
from naiad_operator.check.together import Together
from naiad_operator.errors import InvalidSpec, Problem
from naiad_operator.options import DEFAULT_REQUESTS

_MOST_SAID = 100
"""The number of findings in one document that are said: a person fixes no more at once, and each needs its line."""
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
        "--default-requests",
        type=_default_requests,
        default=DEFAULT_REQUESTS,
        metavar="REQUESTS",
        help="what pods request of a resource of which nothing is said, as the operator's option of this name (default: %(default)s)",
    )
    parser.add_argument(
        "--default-profile",
        type=_default_profile,
        metavar="FILE",
        help="the spec of a NaiadProfile for services that get no other, as the operator's option of this name",
    )
    parser.add_argument(
        "--profile-dir",
        action="append",
        default=[],
        metavar="FOLDER",
        help="the NaiadProfiles of the cluster, and the Namespaces whose labels they select: a folder or a file, which is not checked itself; may be given several times",
    )
    parser.add_argument(
        "--pod-template",
        choices=typing.get_args(PodTemplate),
        help="whether services may patch their pods, as the operator's option of this name; without it, what new installations refuse is a warning",
    )
    parser.add_argument(
        "--triggers",
        choices=typing.get_args(Triggers),
        help="whether services may have triggers of their own, as the operator's option of this name; without it, they are a warning",
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


def problems(manifest: service.Manifest) -> list[Problem]:
    """What `check` without options calls wrong with an InferenceService; warnings do not count."""
    parser = argparse.ArgumentParser()
    add_options(parser)
    _, findings = examine(manifest, parser.parse_args(["-f", "-"]))
    return [one.problem for one in findings if not one.is_warning]


def run(options: argparse.Namespace) -> int:
    """Checks every file; errors go to standard error, the objects to standard output.

    Returns:
        The exit status: 0 when every file is valid, else 1.
    """
    made: list[dict[str, typing.Any]] = []
    counts: collections.Counter[str] = collections.Counter()
    read = {name: list(files.documents(name)) for name in document.files(options.file)}
    beside = [list(files.documents(name)) for name in document.files(options.profile_dir)]
    every = [one for documents in (*read.values(), *beside) for one in documents]
    known = list(_valid_profiles(every))
    labels = {one.name: one.labels for one in every if isinstance(one, files.Namespace)}
    services = (
        one.value
        for one in every
        if isinstance(one, document.Document) and not files.is_profile(one)
    )
    together = Together(services)
    for name, candidates in read.items():
        for candidate in candidates:
            if isinstance(candidate, files.Namespace):
                continue
            if isinstance(candidate, files.Remark):
                if candidate.is_note:
                    if not options.quiet:
                        _say(str(candidate))
                    continue
                counts["warning" if candidate.is_warning else "problem"] += 1
                _say(str(candidate))
                continue
            if files.is_profile(candidate):
                counts["profile"] += 1
                findings = examine_profile(candidate.value, options, known, labels)
            else:
                counts["service"] += 1
                children, findings = examine(candidate.value, options, known, labels)
                made += children
                _say_binding(candidate, known, labels, document.shown(name))
                findings += together.add(_name_of(candidate), children)
                findings += together.named_by(candidate.value)
                _say_unknown_profile(candidate, known, document.shown(name))
            counts.update("warning" if one.is_warning else "problem" for one in findings)
            _say_findings(candidate, findings, document.shown(name))
    if not options.quiet and made:
        _print(yaml_text.write(made))
    return _conclude(counts, len(made), options.file)


def _name_of(candidate: document.Document) -> str:
    """The name of a service; "" without one."""
    metadata = candidate.value.get("metadata")
    return str(metadata.get("name") or "") if isinstance(metadata, dict) else ""


def _say_findings(candidate: document.Document, findings: list[Finding], shown: str) -> None:
    """Says the findings in the order of their lines, when there are very many only the first ones, problems before warnings."""
    kept = sorted(findings, key=lambda one: one.is_warning)[:_MOST_SAID]
    located = [(candidate.line(finding.problem.path), finding) for finding in kept]
    for line, finding in sorted(located, key=operator.itemgetter(0)):
        _say(f"{shown}:{line}: {finding}")
    if len(findings) > len(kept):
        _say(f"{shown}:{candidate.line()}: and {len(findings) - len(kept)} more")


def _conclude(
    counts: collections.Counter[str], objects: int, given: collections.abc.Sequence[str]
) -> int:
    """Says what the files are, and returns the exit status."""

    def counted(noun: str) -> str:
        return f"{counts[noun]} {noun}{'s' * (counts[noun] > 1)}"

    warnings = f", {counted('warning')}" if counts["warning"] else ""
    if counts["problem"]:
        _say(f"{counted('problem')}{warnings}")
        return 1
    if counts["service"]:
        _say(f"{counted('service')}, {objects} objects{warnings}: valid")
        return 0
    if counts["profile"]:
        _say(f"{counted('profile')}{warnings}: valid")
        return 0
    titles = ", ".join(document.shown(name) for name in given)
    _say(f"nothing to check: no InferenceService in {titles}")
    return 1


def _valid_profiles(
    candidates: collections.abc.Iterable[document.Document | files.Remark | files.Namespace],
) -> collections.abc.Iterator[service.Manifest]:
    for candidate in candidates:
        if not isinstance(candidate, document.Document) or not files.is_profile(candidate):
            continue
        if not validation.check(candidate.value, resources.PROFILE):
            yield candidate.value


def _say_binding(
    candidate: document.Document,
    known: collections.abc.Iterable[service.Manifest],
    labels: collections.abc.Mapping[str, binding.Labels],
    shown: str,
) -> None:
    """Says which profile binds the namespace of a service, or that its labels are not in the files."""
    namespace = profiles.namespace_of(candidate.value)
    line = candidate.line("metadata.namespace")
    for profile in known:
        title = f"{names.PROFILE_KIND} {profile['metadata']['name']}"
        if binding.is_bound(profile, namespace, lambda one: labels.get(one, {})):
            _say(f"{shown}:{line}: the {title} binds the namespace {namespace}")
        elif binding.selects(profile) and namespace not in labels:
            _say(
                f"{shown}:{line}: the {title} binds namespaces by their labels, and the Namespace {namespace} is not in these files: checked as if it had none"
            )


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


def _default_requests(text: str) -> requests.Requests:
    try:
        return requests.read(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _default_profile(path: str) -> service.Profile:
    try:
        return profiles.from_file(path)
    except InvalidSpec as error:
        raise argparse.ArgumentTypeError(f"{path}: {error}") from error


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

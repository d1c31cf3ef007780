"""The command `naiad-operator convert`: services go to standard output, and what did not fit to standard error, each with its line."""

import argparse
import collections.abc
import os
import sys
import typing

from naiad_operator.api import names
from naiad_operator.api.manifests import document, yaml_text
from naiad_operator.api.manifests.unvalidated import Fields, part
from naiad_operator.convert import companions, not_converted, references, workload
from naiad_operator.convert.kserve import service as kserve
from naiad_operator.errors import Problem


class _Item(typing.NamedTuple):
    """One object of a file."""

    title: str
    document: document.Document

    @property
    def value(self) -> typing.Any:
        return self.document.value

    def say(self, note: Problem) -> None:
        """Says what did not fit, with its line."""
        _say(f"{self.title}:{self.line(note)}: {note}")

    def line(self, note: Problem) -> int:
        """The line of what did not fit."""
        return self.document.line(note.path)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument(
        "-f",
        "--file",
        action="append",
        required=True,
        metavar="FILE",
        help="a file with InferenceServices of KServe or Deployments of Triton, a folder of such files, - for standard input; may be given several times",
    )
    parser.add_argument(
        "--pod-template",
        choices=("Allow", "Restricted", "Refuse"),
        default="",
        help="what the cluster's operator, or the profile of the namespace, allows services (docs/security.md): with Allow, models in a folder of the nodes need no edit",
    )


def run(
    options: argparse.Namespace,
    problems_of: collections.abc.Callable[[Fields], collections.abc.Iterable[Problem]],
) -> int:
    """Converts files.

    Args:
        options: the options of the command.
        problems_of: what `check` calls wrong with a service.

    Returns:
        The exit status: 0 when there are services and each is valid, though fields may be listed; else 1.
    """
    read = [one for name in document.files(options.file) for one in _read(name)]
    items = [one for one in read if isinstance(one, _Item)]
    unreadable = [one for one in read if isinstance(one, str)]
    for message in unreadable:
        _say(message)
    made, used, blocking = _convert(items, options.pod_template)
    problems = [(result, problem) for result in made for problem in problems_of(result)]
    problems += blocking
    problems += _twice(made)
    for result, problem in problems:
        name = part(result, "metadata").get("name")
        _say(f"the result needs an edit: {names.KIND} {name}: {problem}")
    for item in items:
        if id(item.document) not in used:
            _pass_over(item)
    if made and not _written(made):
        return 1
    if not made and not unreadable:
        titles = ", ".join(map(document.shown, options.file))
        _say(
            f"{titles}: nothing to convert: no InferenceService of KServe (serving.kserve.io), and no Deployment, StatefulSet or Pod whose image is tritonserver "
            "or whose args have --model-repository"
        )
    return 1 if unreadable or problems or not made else 0


def _convert(
    items: list[_Item], pod_template: str
) -> tuple[list[Fields], set[int], list[tuple[Fields, Problem]]]:
    """The services, the ids of the documents that went into them, and why a service serves nothing useful as it is."""
    made: list[Fields] = []
    used: set[int] = set()
    blocking: list[tuple[Fields, Problem]] = []
    manifests = [one.value for one in items if isinstance(one.value, dict)]
    for item in items:
        if kserve.is_kserve(item.value):
            result, notes = kserve.convert(item.value, manifests, pod_template)
            for note in sorted(notes, key=item.line):
                item.say(note)
            blocking += [(result, note) for note in notes if note.blocks]
        elif workload.server_container(item.value) is not None:
            result, notes = _workload(item, items, used, pod_template)
            blocking += [(result, note) for note in notes if note.blocks]
        else:
            continue
        used.add(id(item.document))
        made.append(result)
    return made, used, blocking


def _written(made: list[Fields]) -> bool:
    """Writes the services; False when they could not be written."""
    try:
        sys.stdout.write(yaml_text.write(made))
        sys.stdout.flush()
    except OSError as error:
        # Otherwise Python flushes again at exit and prints an error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return True  # `| head` closes it early
        _say(f"standard output: the services cannot be written: {error.strerror}")
        return False
    return True


def _twice(made: list[Fields]) -> collections.abc.Iterator[tuple[Fields, Problem]]:
    """The services whose name and namespace an earlier one has: when both are applied, the later one replaces it."""
    seen: set[tuple[str, str]] = set()
    for result in made:
        metadata = part(result, "metadata")
        key = (str(metadata.get("namespace") or ""), str(metadata.get("name")))
        if key in seen and "name" in metadata:
            message = "another object of the files gives a service of this name: rename one of them, or leave one out"
            yield result, Problem("metadata.name", message)
        seen.add(key)


def _read(name: str) -> collections.abc.Iterator[_Item | str]:
    """The objects of a file, those of Lists included, and its errors."""
    title = document.shown(name)
    for entry in document.read_file(name):
        if isinstance(entry, document.Unreadable):
            yield f"{entry.place(title)}: {entry.message}"
        else:
            yield from (_Item(title, one) for one in _unpacked(entry))


def _unpacked(entry: document.Document) -> collections.abc.Iterator[document.Document]:
    value = entry.value
    if isinstance(value, dict) and str(value.get("kind")).endswith("List") and "items" in value:
        for item in entry.items("items"):
            yield from _unpacked(item)
    else:
        yield entry


def _workload(
    item: _Item, items: list[_Item], used: set[int], pod_template: str
) -> tuple[Fields, list[Problem]]:
    """The service of an object with a Triton container, and of what belongs to it, with what did not fit."""
    draft = workload.convert(item.value, pod_template)
    index = workload.server_container(item.value)
    assert index is not None
    pod = workload.pod_of(item.value)
    of = references.workload(item.value, pod["containers"][index], draft.predictor)
    others = [one for one in items if isinstance(one.value, dict)]
    services = {
        str(part(one.value, "metadata").get("name")): references.service(one.value, of)
        for one in others
        if one.value.get("kind") == "Service" and companions.belongs(one.value, of)
    }
    of = of._replace(services=services)
    said = [(item, note) for note in draft.notes]
    for one in others:
        if id(one.document) not in used and companions.belongs(one.value, of):
            used.add(id(one.document))
            said += [(one, note) for note in companions.convert(one.value, of, draft)]
    for one in others:
        if one.value.get("kind") == "PersistentVolumeClaim":
            said += [(one, note) for note in companions.claim_notes(one.value, draft)]
    said.sort(key=lambda one: (one[0].title, one[0].document.line(one[1].path)))
    for one, note in said:
        one.say(note)
    return workload.result(item.value, draft), draft.notes


def _pass_over(item: _Item) -> None:
    """Names an object that is not converted."""
    value = item.value
    if not isinstance(value, dict):
        _say(
            f"{item.title}:{item.document.line()}: not converted: it is not an object of Kubernetes"
        )
        return
    kind, name = value.get("kind"), part(value, "metadata").get("name")
    reason = not_converted.reason(value)
    shown = not_converted.title(kind, name)
    _say(f"{item.title}:{item.document.line('kind')}: {shown}: not converted: {reason}")


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")

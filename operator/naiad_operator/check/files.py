"""Reads the InferenceServices and NaiadProfiles of the files that `check` is given."""

import collections.abc
import difflib
import typing

from typing_extensions import override

from naiad_operator import convert
from naiad_operator.api import names
from naiad_operator.api.manifests import document
from naiad_operator.api.manifests.unvalidated import part
from naiad_operator.api.parsing import service
from naiad_operator.api.parsing.validation import brief


class Remark(typing.NamedTuple):
    """What is said about a file, or about a document in it that is not checked.

    Attributes:
        place: the file, with a line where there is one.
        message: what is wrong and what to write instead.
        is_warning: whether the file is valid all the same.
        is_note: whether it says only what is not looked at.
    """

    place: str
    message: str
    is_warning: bool = False
    is_note: bool = False

    @override
    def __str__(self) -> str:
        return f"{self.place}: {'warning: ' if self.is_warning else ''}{self.message}"


class Namespace(typing.NamedTuple):
    """A Namespace of a file: its labels decide which profile binds it.

    Attributes:
        name: its name.
        labels: its labels.
    """

    name: str
    labels: dict[str, str]


Read = collections.abc.Iterator[document.Document | Remark | Namespace]


class _Other(typing.NamedTuple):
    """An object of another kind, as it is named."""

    name: str


_MOST_NAMED = 10
_LISTS = ("List", f"{names.KIND}List", f"{names.PROFILE_KIND}List")
_OTHERS = frozenset(
    ("serving.kserve.io", "serving.kubeflow.org", "machinelearning.seldon.io", "mlops.seldon.io", "apps.nvidia.com", "ray.io")
)  # fmt: skip
"""API groups of other model servers."""


def documents(name: str) -> Read:
    """The InferenceServices and NaiadProfiles of a file, and its errors with their lines; documents of other kinds are named, and not checked."""
    title = document.shown(name)
    lines: dict[tuple[str, ...], int] = {}
    others: list[str] = []
    for entry in document.read_file(name):
        if isinstance(entry, document.Unreadable):
            yield Remark(entry.place(title), entry.message)
            continue
        for candidate in _meant(entry, title):
            if isinstance(candidate, _Other):
                others.append(candidate.name)
                continue
            yield candidate
            if isinstance(candidate, document.Document):
                yield from _again(candidate, title, lines)
    if others:
        more = f" and {len(others) - _MOST_NAMED} more" if len(others) > _MOST_NAMED else ""
        message = f"not checked, being neither {names.KIND} nor {names.PROFILE_KIND}: {', '.join(others[:_MOST_NAMED])}{more}"
        yield Remark(title, message, is_note=True)


def _meant(
    candidate: document.Document, title: str
) -> collections.abc.Iterator[document.Document | Remark | Namespace | _Other]:
    """A document that is one of the two, or the items of a List, as kubectl accepts it."""
    if not isinstance(candidate.value, dict):
        message = (
            f"is {brief(candidate.value)}: write a mapping with apiVersion, kind, metadata and spec"
        )
        yield Remark(f"{title}:{candidate.line()}", message)
    elif str(candidate.value.get("kind")) in _LISTS:
        for item in candidate.items("items"):
            yield from _meant(item, title)
    elif convert.is_kserve(candidate.value):
        message = (
            f"is an InferenceService of KServe: naiad-operator convert -f {title} writes Naiad's"
        )
        yield Remark(f"{title}:{candidate.line('apiVersion')}", message)
    elif convert.server_container(candidate.value) is not None:
        message = f"is a {candidate.value['kind']} that runs Triton, which is not checked: naiad-operator convert -f {title} writes an InferenceService for it"
        yield Remark(f"{title}:{candidate.line('kind')}", message, is_warning=True)
    elif str(candidate.value.get("apiVersion")).partition("/")[0] in _OTHERS:
        message = f"is a {candidate.value.get('kind')} of another system ({candidate.value['apiVersion']}), which convert has no rules for: write an InferenceService (docs/operator.md)"
        yield Remark(f"{title}:{candidate.line('apiVersion')}", message, is_warning=True)
    elif (candidate.value.get("apiVersion"), candidate.value.get("kind")) == ("v1", "Namespace"):
        metadata = part(candidate.value, "metadata")
        yield Namespace(str(metadata.get("name")), part(metadata, "labels"))
    elif service.is_meant(candidate.value) or is_profile(candidate):
        yield candidate
    else:
        name = part(candidate.value, "metadata").get("name")
        yield _Other(convert.title(candidate.value.get("kind"), name))


def _again(
    candidate: document.Document, title: str, lines: dict[tuple[str, ...], int]
) -> collections.abc.Iterator[Remark]:
    """The error that a file contains an object twice: when it is applied, the later one silently replaces the first.

    Args:
        candidate: an InferenceService or a NaiadProfile.
        title: its file.
        lines: the lines of the file's objects; this one's is added.
    """
    metadata = candidate.value.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(name, str):
        return
    line = candidate.line("metadata.name")
    kind = "profile" if is_profile(candidate) else "service"
    key = (kind, str(metadata.get("namespace") or ""), name)
    first = lines.get(key)
    lines[key] = first or line
    if first is not None:
        message = f"the {kind} {name!r} is already in line {first}: rename this one, or remove one of them"
        yield Remark(f"{title}:{line}", f"metadata.name: {message}")


def is_profile(candidate: document.Document) -> bool:
    """Whether a document is meant to be a NaiadProfile, so that a wrong one is reported."""
    kind = str(candidate.value.get("kind"))
    if kind.lower() == names.PROFILE_KIND.lower():
        return True
    near = difflib.get_close_matches(kind, (names.KIND, names.PROFILE_KIND), n=1)
    return service.is_meant(candidate.value) and near == [names.PROFILE_KIND]

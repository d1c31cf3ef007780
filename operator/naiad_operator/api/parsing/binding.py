"""Which NaiadProfile binds a namespace. Pure; profiles are manifests that may have been stored before a rule existed."""

import collections.abc
import typing

from naiad_operator.api import names
from naiad_operator.api.manifests.unvalidated import entries, part, texts
from naiad_operator.errors import InvalidSpec, Problem, ProfileNotFound

Manifest = collections.abc.Mapping[str, typing.Any]
Labels = collections.abc.Mapping[str, str]
LabelsOf = collections.abc.Callable[[str], Labels]
"""The labels of a namespace; it raises `LabelsUnknown`."""


class LabelsUnknown(Exception):  # noqa: N818 - reads as what happened
    """The labels of a namespace cannot be read."""


def binds(profile: Manifest) -> bool:
    """Whether a profile binds any namespaces; it is of no use in others then."""
    return bool(part(profile, "spec", "policy"))


def selects(profile: Manifest) -> bool:
    """Whether a profile binds namespaces by their labels."""
    return isinstance(_namespaces(profile).get("selector"), dict)


def of_namespace(
    namespace: str, profiles: collections.abc.Iterable[Manifest], labels_of: LabelsOf
) -> Manifest | None:
    """The profile that binds a namespace; None when none does.

    Raises:
        InvalidSpec: several do.
        ProfileNotFound: one binds namespaces by their labels, which cannot be read.
    """
    bound = []
    for profile in profiles:
        try:
            if is_bound(profile, namespace, labels_of):
                bound.append(profile)
        except LabelsUnknown as unknown:
            message = f"{_title(profile)} binds namespaces by their labels, which cannot be read, so everything stays as it is: {unknown}"
            raise ProfileNotFound([Problem("metadata.namespace", message)]) from None
    if len(bound) > 1:
        titles = " and ".join(sorted(_title(profile) for profile in bound))
        message = f"{titles} bind the namespace {namespace}, so everything stays as it is: take it out of spec.policy.namespaces of all but one"
        raise InvalidSpec([Problem("metadata.namespace", message)])
    return bound[0] if bound else None


def is_bound(profile: Manifest, namespace: str, labels_of: LabelsOf) -> bool:
    """Whether a profile binds a namespace.

    Raises:
        LabelsUnknown: its labels decide that and cannot be read.
    """
    if namespace in texts(_namespaces(profile), "names"):
        return True
    return selects(profile) and matches(part(_namespaces(profile), "selector"), labels_of(namespace))  # fmt: skip


def depends(
    profiles: collections.abc.Iterable[Manifest], before: Labels | None, after: Labels
) -> bool:
    """Whether the labels of a namespace have changed for a profile: one that selects namespaces binds it now, or no longer.

    Args:
        profiles: every profile.
        before: its labels until now; None if they were not known, so that its services may wait for them.
        after: its labels from now on.
    """
    if before is None:
        return True
    return before != after and any(
        matches(selector, before) != matches(selector, after)
        for profile in profiles
        if selects(profile)
        for selector in (part(_namespaces(profile), "selector"),)
    )


def named(profile: Manifest) -> list[str]:
    """The namespaces that a profile binds by their names."""
    return texts(_namespaces(profile), "names")


def matches(selector: Manifest, labels: Labels) -> bool:
    """Whether labels meet a label selector."""
    wanted = part(selector, "matchLabels")
    return all(labels.get(key) == value for key, value in wanted.items()) and all(
        _meets(one, labels) for one in entries(selector, "matchExpressions")
    )


def _meets(requirement: Manifest, labels: Labels) -> bool:
    value = labels.get(str(requirement.get("key")))
    match requirement.get("operator"):
        case "In":
            return value is not None and value in texts(requirement, "values")
        case "NotIn":
            return value is None or value not in texts(requirement, "values")
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case _:
            return False  # refused by the schema


def _namespaces(profile: Manifest) -> dict[str, typing.Any]:
    return part(profile, "spec", "policy", "namespaces")


def _title(profile: Manifest) -> str:
    return f"{names.PROFILE_KIND} {profile['metadata']['name']}"

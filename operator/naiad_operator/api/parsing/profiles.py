"""Which NaiadProfile a service gets."""

import collections.abc
import pathlib

import yaml

from naiad_operator.api import names
from naiad_operator.api.manifests import yaml_text
from naiad_operator.api.manifests.unreadable import problem_of
from naiad_operator.api.parsing import binding, service
from naiad_operator.api.parsing.service import Manifest, Profile
from naiad_operator.errors import InvalidSpec, Problem, ProfileNotFound


def choose(
    manifest: Manifest,
    profiles: collections.abc.Iterable[Manifest],
    *,
    fallback: Profile | None = None,
    unreadable: str = "",
    may_bind: bool = False,
    labels_of: binding.LabelsOf = lambda _: {},
    parse: collections.abc.Callable[[Manifest], Profile] = service.parse_profile,
) -> Profile | None:
    """The profile of a service: the one that binds its namespace, else the one that it names, else the oldest default profile, else the operator's own.

    Args:
        manifest: the service.
        profiles: every NaiadProfile.
        fallback: the operator's default profile; None when it has none.
        unreadable: why the profiles cannot be read; "" when they can.
        may_bind: whether there may be others than those that are known, which may bind the namespace: a new service waits for them.
        labels_of: the labels of a namespace.
        parse: parses the profile that is chosen.

    Raises:
        ProfileNotFound: the profile does not exist, or cannot be read, or is for other namespaces.
        InvalidSpec: the profile is not valid, or several bind the namespace.
    """
    spec = manifest.get("spec")
    named = spec.get("profile") if isinstance(spec, dict) else None
    if not isinstance(named, str):
        named = ""  # none, or an error that the validation of the service reports
    if unreadable:
        if used := named or _recorded(manifest):
            message = f"the {names.PROFILE_KIND} {used} cannot be read, so everything stays as it is: {unreadable}"
            raise ProfileNotFound([Problem("spec.profile", message)])
        if not (may_bind and _is_new(manifest)):
            return fallback
        chosen = binding.of_namespace(namespace_of(manifest), profiles, labels_of)
        if chosen is None:
            message = f"a {names.PROFILE_KIND} may bind this namespace, and they cannot be read, so nothing is created yet: {unreadable}"
            raise ProfileNotFound([Problem("metadata.namespace", message)])
        return _parsed(chosen, parse)
    by_name = {profile["metadata"]["name"]: profile for profile in profiles}
    namespace = namespace_of(manifest)
    chosen = _unreadable_of(manifest, by_name.values())
    if chosen is None:
        chosen = binding.of_namespace(namespace, by_name.values(), labels_of)
    if chosen is not None:
        pass  # whatever the service names
    elif not named:
        defaults = [profile for profile in by_name.values() if _is_default(profile)]
        chosen = min(defaults, key=_age, default=None)
    else:
        chosen = _of_name(named, by_name, namespace)
    return fallback if chosen is None else _parsed(chosen, parse)


def _parsed(chosen: Manifest, parse: collections.abc.Callable[[Manifest], Profile]) -> Profile:
    """A profile that was chosen.

    Raises:
        InvalidSpec: it is not valid; the errors name it.
    """
    try:
        return parse(chosen)
    except InvalidSpec as error:
        origin = f"{names.PROFILE_KIND} {chosen['metadata']['name']}"
        raise InvalidSpec(
            [
                Problem(": ".join(filter(None, (origin, problem.path))), problem.message)
                for problem in error.problems
            ]
        ) from None


def _of_name(
    name: str, by_name: collections.abc.Mapping[str, Manifest], namespace: str
) -> Manifest:
    """The profile that a service names.

    Raises:
        ProfileNotFound: there is none of this name, or it is for other namespaces.
    """
    chosen = by_name.get(name)
    if chosen is None:
        known = f"there are {', '.join(sorted(by_name))}" if by_name else "there is none"
        message = f"there is no {names.PROFILE_KIND} {name}, so everything stays as it is: create it, or name another one ({known})"
        raise ProfileNotFound([Problem("spec.profile", message)])
    if binding.binds(chosen):
        message = f"the {names.PROFILE_KIND} {name} is for other namespaces than {namespace} (its spec.policy.namespaces): name another one, or none"
        raise ProfileNotFound([Problem("spec.profile", message)])
    return chosen


def _recorded(manifest: Manifest) -> str:
    """The profile that the service had last, by its status; "" when it had none."""
    name = service.status_of(manifest).get("profile")
    return name if isinstance(name, str) else ""


def _is_new(manifest: Manifest) -> bool:
    """Whether nothing was created for a service yet, as far as its status says: each that was written since then has a selector."""
    return "selector" not in service.status_of(manifest)


def _unreadable_of(
    manifest: Manifest, profiles: collections.abc.Iterable[Manifest]
) -> Manifest | None:
    """A profile of which not even the namespaces can be read, and that the service had last; of a new service any, since it may bind the namespace."""
    recorded, is_new = _recorded(manifest), _is_new(manifest)
    for profile in profiles:
        is_unknown = problem_of(profile) and "spec" not in profile
        if is_unknown and (is_new or profile["metadata"]["name"] == recorded):
            return profile
    return None


def _is_default(profile: Manifest) -> bool:
    spec = profile.get("spec")
    return isinstance(spec, dict) and spec.get("default") is True and not binding.binds(profile)


def namespace_of(manifest: Manifest) -> str:
    """The namespace of a service."""
    metadata = manifest.get("metadata")
    given = metadata.get("namespace") if isinstance(metadata, dict) else None
    return given if isinstance(given, str) and given else "default"


def _age(profile: Manifest) -> tuple[str, str]:
    metadata = profile["metadata"]
    return metadata.get("creationTimestamp") or "", metadata["name"]


def from_file(path: str) -> Profile:
    """The operator's default profile from a file that holds the spec of a NaiadProfile.

    Raises:
        InvalidSpec: the file cannot be read, or its spec is invalid.
    """
    try:
        documents = yaml_text.read(pathlib.Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InvalidSpec([Problem("", f"cannot be read: {error}")]) from error
    except RecursionError as error:
        message = "cannot be read: it is nested too deeply to be meant"
        raise InvalidSpec([Problem("", message)]) from error
    return service.default_profile(documents[0] if documents else {})

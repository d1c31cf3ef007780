"""Checks one InferenceService or NaiadProfile: everything that is wrong with it, at once."""

import argparse
import collections.abc
import copy
import typing

from naiad_operator.api.manifests.unvalidated import part
from naiad_operator.api.parsing import merging, profiles, service, validation
from naiad_operator.api.schema import resources
from naiad_operator.builders import KINDS, build
from naiad_operator.builders.facts import ClusterFacts, Defaults
from naiad_operator.builders.workload import image
from naiad_operator.check import amounts, arguments, pods, stores
from naiad_operator.check.finding import Finding, Findings
from naiad_operator.errors import InvalidSpec, Problem, ProfileNotFound
from naiad_operator.versions import OWN, Version

Manifest = collections.abc.Mapping[str, typing.Any]


class Checked(typing.NamedTuple):
    """What `check` finds out about one resource.

    Attributes:
        children: the objects that the operator would create; none for an invalid service.
        findings: problems and warnings.
    """

    children: list[dict[str, typing.Any]]
    findings: list[Finding]


def examine(
    manifest: Manifest, options: argparse.Namespace, known: collections.abc.Sequence[Manifest] = ()
) -> Checked:
    """Checks an InferenceService.

    Args:
        manifest: the resource.
        options: the options of the command.
        known: the NaiadProfiles of the files; one that is not among them is in the cluster, so the service is checked without it.
    """
    filled, own = validation.examine(manifest)
    problems = list(own)
    children: list[dict[str, typing.Any]] = []
    effective: typing.Any = filled
    profile = None
    try:
        profile = profiles.choose(manifest, known, fallback=options.default_profile)
    except ProfileNotFound:
        pass
    except InvalidSpec as error:
        problems += error.problems
    try:
        # An invalid service is built without its wrong fields, so that what only the builders find is reported as well.
        usable = _without(manifest, own) if own else manifest
        parsed = service.parse(usable, profile)
        children = build(parsed, _facts(parsed, options))
        if not own and profile is not None:
            effective = merging.merged(profile.values, filled)
    except InvalidSpec as error:
        is_consequence = own and validation.check(usable)
        problems += [] if is_consequence else error.problems
    found = list(_of_spec(effective, filled, options))
    replaced = {one.problem.path for one in found if one.problem.path.endswith(".storageUri")}
    findings = [Finding(one) for one in dict.fromkeys(problems) if one.path not in replaced]
    return Checked([] if problems else children, [*findings, *found])


def examine_profile(manifest: Manifest, options: argparse.Namespace) -> list[Finding]:
    """Checks a NaiadProfile."""
    filled, problems = validation.examine(manifest, resources.PROFILE)
    found = [Finding(one) for one in problems]
    version = _version(part(filled), options)
    found += arguments.findings(part(filled).get("args"), "spec.args", version)
    return [*found, *amounts.findings(filled, "spec")]


def _of_spec(effective: typing.Any, written: typing.Any, options: argparse.Namespace) -> Findings:
    """What the schema and the rules do not find.

    Args:
        effective: the spec with defaults and with the fields of its profile.
        written: the same without its profile: arguments are checked where they are written.
        options: the options of the command.
    """
    predictor = part(effective, "predictor")
    version = _version(predictor, options)
    path = "spec.predictor"
    yield from arguments.findings(part(written, "predictor").get("args"), f"{path}.args", version)
    yield from amounts.findings(predictor, path)
    yield from pods.keys(written)
    yield from pods.findings(part(written, "predictor"), path)
    yield from stores.findings(predictor, path, version)
    canary = part(effective, "canary")
    if canary:
        path, both = "spec.canary", {**predictor, **canary}
        version = _version(both, options)
        yield from arguments.findings(part(written, "canary").get("args"), f"{path}.args", version)
        if "resources" in canary:
            yield from amounts.findings(
                {**canary, "sharedMemory": predictor.get("sharedMemory")}, path
            )
        if "model" in canary:
            yield from stores.findings(both, path, version)


def _facts(parsed: service.InferenceService, options: argparse.Namespace) -> ClusterFacts:
    defaults = Defaults(image=options.image, prometheus_address=options.prometheus_address)
    apis = frozenset(kind.key for kind in KINDS if kind.kind not in options.without)
    chosen = image.resolve(parsed, defaults)
    return ClusterFacts(
        apis=apis, image=chosen.image, server_version=chosen.version, defaults=defaults
    )


def _version(predictor: dict[str, typing.Any], options: argparse.Namespace) -> Version | None:
    """The version of the server; None for an image that does not say it. The operator's default image is of its own version."""
    own, stated = predictor.get("image"), predictor.get("serverVersion")
    used = own if isinstance(own, str) and own else options.image
    defaults = Defaults(image=options.image)
    said = image.stated_version(used, stated if isinstance(stated, str) else "", defaults)
    return said if said is not None or own else OWN


def _without(manifest: Manifest, problems: collections.abc.Iterable[Problem]) -> Manifest:
    """A manifest without its wrong fields; a list with a wrong entry is left out as a whole. What every service needs gets a valid value."""
    made = copy.deepcopy(dict(manifest))
    for problem in problems:
        _remove(made, problem.path)
        if problem.path == "metadata.name":
            part(made, "metadata")["name"] = "name"
        elif problem.path == "spec.predictor.model.storageUri":
            part(made, "spec", "predictor", "model")["storageUri"] = "s3://bucket"
    return made


def _remove(value: typing.Any, path: str) -> None:
    if not isinstance(value, dict):
        return
    for key in sorted(value, key=len, reverse=True):
        rest = next(
            (path[len(one) :] for one in (key, f".{key}", f"[{key}]") if path.startswith(one)), None
        )
        if rest is None or rest[:1] not in {"", ".", "["}:
            continue
        if rest and isinstance(value[key], dict):
            _remove(value[key], rest)
        else:
            del value[key]
        return

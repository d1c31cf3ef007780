"""Checks one InferenceService or NaiadProfile: everything that is wrong with it, at once."""

import argparse
import collections.abc
import dataclasses
import types
import typing

from naiad_operator.api import names
from naiad_operator.api.manifests.unvalidated import own_copy, part
from naiad_operator.api.parsing import binding, merging, profiles, service, validation
from naiad_operator.api.schema import resources
from naiad_operator.builders import build, canary, components, kinds
from naiad_operator.builders.bundle import refused
from naiad_operator.builders.facts import STRICT, CanaryFacts, ClusterFacts, Defaults, Policy
from naiad_operator.builders.traffic import ingress_limits, session_affinity
from naiad_operator.builders.workload import image
from naiad_operator.check import (
    amounts,
    arguments,
    autoscaling,
    metadata,
    models,
    pods,
    stores,
    traffic,
)
from naiad_operator.check.finding import Finding, Findings, error, warning
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
    manifest: Manifest,
    options: argparse.Namespace,
    known: collections.abc.Sequence[Manifest] = (),
    labels: collections.abc.Mapping[str, binding.Labels] = types.MappingProxyType({}),
) -> Checked:
    """Checks an InferenceService.

    Args:
        manifest: the resource.
        options: the options of the command.
        known: the NaiadProfiles of the files; one that is not among them is in the cluster, so the service is checked without it.
        labels: those of the namespaces that the files have.
    """
    filled, own = validation.examine(manifest)
    problems = list(own)
    children: list[dict[str, typing.Any]] = []
    elsewhere: list[Finding] = []
    effective: typing.Any = filled
    profile = None
    try:
        profile = profiles.choose(
            manifest,
            known,
            fallback=options.default_profile,
            labels_of=lambda namespace: labels.get(namespace, {}),
        )
    except ProfileNotFound as invalid:
        named = part(manifest, "spec").get("profile")
        if named in {one["metadata"]["name"] for one in known}:
            problems += invalid.problems  # it is for other namespaces
    except InvalidSpec as invalid:
        problems += invalid.problems
    try:
        # An invalid service is built without its wrong fields, so that what only the builders find is reported as well.
        usable = _without(manifest, own) if own else manifest
        parsed = service.parse(usable, profile)
        children = build(parsed, _facts(parsed, options))
        elsewhere = [*_refused_elsewhere(parsed, options), *_without_effect(parsed)]
        if not own and profile is not None:
            effective = merging.merged(profile.values, filled)
    except InvalidSpec as invalid:
        is_consequence = own and validation.check(usable)
        problems += [] if is_consequence else invalid.problems
    found = [
        *metadata.of_service(manifest),
        *_bound(manifest, profile),
        *_of_spec(effective, filled, options),
        *traffic.switched_off(part(manifest, "spec")),
        *pods.without_containers(children, "spec.predictor.podTemplate"),
        *elsewhere,
    ]
    if not any(amounts.ABOVE_LIMIT in one.problem.message for one in found):
        found += amounts.of_pods(children, "spec.predictor.podTemplate")
    replaced = {one.problem.path for one in found if one.problem.path.endswith(".storageUri")}
    findings = [Finding(one) for one in dict.fromkeys(problems) if one.path not in replaced]
    return Checked([] if problems else children, [*findings, *found])


def _bound(manifest: Manifest, profile: service.Profile | None) -> Findings:
    """That a service names another profile than the one that binds its namespace."""
    named = part(manifest, "spec").get("profile")
    if (
        profile is not None
        and profile.spec.policy is not None
        and named not in (None, profile.name)
    ):
        message = f"has no effect: the {profile.title} binds the namespace {profiles.namespace_of(manifest)}"
        yield warning("spec.profile", message)


def _bound_twice(
    manifest: Manifest,
    known: collections.abc.Sequence[Manifest],
    labels: collections.abc.Mapping[str, binding.Labels],
) -> Findings:
    """That another profile of the files binds one of the same namespaces."""
    own = manifest["metadata"]["name"]
    for other in known:
        if other["metadata"]["name"] == own:
            continue
        both = [
            namespace
            for namespace in sorted({*binding.named(manifest), *binding.named(other), *labels})
            if all(
                binding.is_bound(one, namespace, lambda name: labels.get(name, {}))
                for one in (manifest, other)
            )
        ]
        if both:
            message = f"the {names.PROFILE_KIND} {other['metadata']['name']} binds {', '.join(both)} as well, whose services are refused then: take it out of one of them"
            yield error("spec.policy.namespaces", message)


def _refused_elsewhere(parsed: service.InferenceService, options: argparse.Namespace) -> Findings:
    """What operators refuse as they are installed newly, as warnings where the command line does not say what the operator refuses."""
    strict = dataclasses.replace(
        STRICT,
        pod_template=options.pod_template or STRICT.pod_template,
        triggers=options.triggers or STRICT.triggers,
    )
    if options.pod_template and options.triggers:
        return
    for problem in refused(parsed, _facts(parsed, options), strict):
        yield warning(problem.path, problem.message)


def _without_effect(parsed: service.InferenceService) -> Findings:
    """What the class of the Ingress does not take, as the condition NetworkReady says it."""
    entry = parsed.spec.ingress
    if entry is None or not entry.enabled:
        return
    if message := ingress_limits.without_effect(entry):
        yield warning("spec.ingress", message)
    if message := session_affinity.without_effect(entry):
        yield warning("spec.ingress.sessionAffinity", message)


def examine_profile(
    manifest: Manifest,
    options: argparse.Namespace,
    known: collections.abc.Sequence[Manifest] = (),
    labels: collections.abc.Mapping[str, binding.Labels] = types.MappingProxyType({}),
) -> list[Finding]:
    """Checks a NaiadProfile. The arguments are those of `examine`."""
    filled, problems = validation.examine(manifest, resources.PROFILE)
    found = [Finding(one) for one in problems]
    version = _version(part(filled), options)
    found += metadata.of_profile(manifest)
    found += arguments.findings(part(filled).get("args"), "spec.args", version)
    found += amounts.findings(filled, "spec")
    found += pods.findings(part(filled), "spec")
    if not problems:
        found += _bound_twice(manifest, known, labels)
    return found if problems else [*found, *_of_any_service(manifest, options)]


def _of_any_service(manifest: Manifest, options: argparse.Namespace) -> Findings:
    """What every service with a valid profile would be refused for: a podTemplate or an affinity that fits no pod."""
    profile = service.parse_profile(manifest)
    try:
        parsed = service.parse(_ANY_SERVICE, profile)
        children = build(parsed, _facts(parsed, options))
    except InvalidSpec as invalid:
        for problem in invalid.problems:
            path = problem.path.removeprefix(f"{profile.title}: ")
            yield Finding(Problem(path.replace("spec.predictor.", "spec."), problem.message))
    else:
        yield from pods.without_containers(children, "spec.podTemplate")
        yield from amounts.of_pods(children, "spec.podTemplate")


_ANY_SERVICE: Manifest = {
    "apiVersion": names.API_VERSION,
    "kind": names.KIND,
    "metadata": {"name": "any"},
    "spec": {"predictor": {"model": {"storageUri": "pvc://models"}}},
}


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
    yield from autoscaling.findings(predictor, path, options.default_requests)
    yield from models.findings(predictor, path)
    yield from pods.findings(part(written, "predictor"), path)
    yield from stores.findings(predictor, path, version)
    yield from traffic.findings(written)
    yield from _of_components(written, version)
    yield from models.asked_for(effective)
    beside = part(effective, "canary")
    if beside:
        path, both = "spec.canary", {**predictor, **beside}
        version = _version(both, options)
        yield from arguments.findings(part(written, "canary").get("args"), f"{path}.args", version)
        if "resources" in beside:
            yield from amounts.findings(
                {**beside, "sharedMemory": predictor.get("sharedMemory")}, path
            )
        scaled = {**both, "autoscaling": beside.get("autoscaling")}
        yield from autoscaling.findings(scaled, path, options.default_requests)
        if "model" in beside:
            yield from models.findings(both, path)
            yield from stores.findings(both, path, version)


def _of_components(effective: typing.Any, version: Version | None) -> Findings:
    """What the schema and the rules do not find in the transformer and the explainer; `version`: that of the servers."""
    for name in components.FIELDS:
        if found := part(effective, name):
            path = f"spec.{name}"
            yield from amounts.findings(found, path)
            yield from pods.findings(found, path)
            yield from stores.of_component(found, path, version)


def _facts(parsed: service.InferenceService, options: argparse.Namespace) -> ClusterFacts:
    defaults = Defaults(
        image=options.image,
        requests=options.default_requests,
        prometheus_address=options.prometheus_address,
        policy=Policy(
            pod_template=options.pod_template or "Allow", triggers=options.triggers or "Allow"
        ),
    )
    apis = kinds.keys(options.without)
    chosen = image.resolve(parsed, defaults)
    beside = canary.service_of(parsed)
    own = beside is not None and beside.spec.predictor.image
    of_canary = image.resolve(beside, defaults) if beside is not None and own else chosen
    return ClusterFacts(
        apis=apis,
        image=chosen.image,
        server_version=chosen.version,
        requests=defaults.requests,
        defaults=defaults,
        canary=CanaryFacts(server_version=of_canary.version, requests=defaults.requests),
        components={one: CanaryFacts(requests=defaults.requests) for one in components.NAMES},
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
    made = own_copy(manifest)
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

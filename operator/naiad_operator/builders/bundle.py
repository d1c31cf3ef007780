"""Builds all children of a service. Pure: the same spec and facts give the same manifests."""

import collections.abc
import dataclasses

from naiad_operator.api.parsing.service import InferenceService
from naiad_operator.builders import canary, components, kinds, names
from naiad_operator.builders.facts import ClusterFacts, Policy
from naiad_operator.builders.policy import refusals
from naiad_operator.builders.scaling import autoscaling
from naiad_operator.builders.traffic import ingress, monitoring, network_policy, service as services
from naiad_operator.builders.workload import accelerator, deployment, disruption
from naiad_operator.errors import InvalidSpec, Problem


def build(service: InferenceService, facts: ClusterFacts) -> list[names.Manifest]:
    """Every child that should exist, complete, in the order in which they are applied.

    An optional kind that the API server does not serve is left out; the status reports it.

    Raises:
        InvalidSpec: this cluster cannot run the spec; existing children are left as they are.
    """
    children = _with_components(service, facts)
    beside = canary.service_of(service)
    if beside is None:
        return children
    try:
        # Before the routes, which refer to its Service.
        return _children(beside, canary.facts_of(service, facts)) + children
    except InvalidSpec as invalid:
        raise InvalidSpec([canary.problem(problem) for problem in invalid.problems]) from None


def _with_components(service: InferenceService, facts: ClusterFacts) -> list[names.Manifest]:
    """The children of the explainer and the transformer, and then the service's own, whose routes refer to their Services.

    Raises:
        InvalidSpec: as `build`; those of a component with its fields.
    """
    made: list[names.Manifest] = []
    problems: dict[Problem, None] = {}
    others = components.services_of(service)
    for part in (*others, service):
        own = facts if part is service else components.facts_of(part, facts)
        try:
            made += _children(part, own)
        except InvalidSpec as invalid:
            found = list(invalid.problems)
            if part is not service:
                found = [components.problem(one, part) for one in found]
            problems |= dict.fromkeys(found)
    if problems:
        raise InvalidSpec(problems)
    if others:
        # First the Service that they ask: whether its name is free must be known before one of them would ask another owner's.
        made.sort(key=lambda one: not _is_of_servers(one, service))
    return made


def _is_of_servers(child: names.Manifest, service: InferenceService) -> bool:
    """Whether a child is the Service in front of the servers."""
    return (child["kind"], child["metadata"]["name"]) == (kinds.SERVICE.kind, service.name)


def _allowed(service: InferenceService, facts: ClusterFacts) -> tuple[()]:
    """No child, if the platform allows what the service has.

    Raises:
        InvalidSpec: it does not.
    """
    refusals.of_spec(service, refusals.policy_of(service, facts.defaults.policy))
    return ()


def refused(service: InferenceService, facts: ClusterFacts, policy: Policy) -> list[Problem]:
    """What is wrong with a service under another policy."""
    try:
        build(
            service,
            dataclasses.replace(facts, defaults=dataclasses.replace(facts.defaults, policy=policy)),
        )
    except InvalidSpec as invalid:
        return list(invalid.problems)
    return []


def _children(service: InferenceService, facts: ClusterFacts) -> list[names.Manifest]:
    """The children of one Deployment.

    Raises:
        InvalidSpec: with the problems of every builder, each once.
    """
    builders: tuple[collections.abc.Callable[[], collections.abc.Iterable[names.Manifest | None]], ...] = (
        lambda: _allowed(service, facts),
        lambda: [accelerator.claim_template(service, facts)],
        lambda: [deployment.deployment(service, facts)],
        lambda: services.services(service),
        lambda: [autoscaling.autoscaler(service, facts)],
        lambda: [disruption.budget(service, facts)],
        lambda: ingress.ingresses(service, facts),
        lambda: ingress.routes(service, facts),
        lambda: [network_policy.policy(service, facts)],
        lambda: [monitoring.monitor(service, facts)],
    )  # fmt: skip
    children: list[names.Manifest | None] = []
    problems: dict[Problem, None] = {}
    for build_some in builders:
        try:
            children += build_some()
        except InvalidSpec as invalid:
            problems |= dict.fromkeys(invalid.problems)
    if problems:
        raise InvalidSpec(problems)
    return [child for child in children if child is not None]

"""Builds all children of a service. Pure: the same spec and facts give the same manifests."""

from naiad_operator.api.service import InferenceService
from naiad_operator.builders import (
    accelerator,
    autoscaling,
    canary,
    deployment,
    disruption,
    ingress,
    monitoring,
    names,
    network_policy,
    service as services,
)
from naiad_operator.builders.facts import ClusterFacts
from naiad_operator.errors import InvalidSpec


def build(service: InferenceService, facts: ClusterFacts) -> list[names.Manifest]:
    """Every child that should exist, complete, in the order in which they are applied.

    An optional kind that the API server does not serve is left out; the status reports it.

    Raises:
        InvalidSpec: this cluster cannot run the spec; existing children are left as they are.
    """
    children = _children(service, facts)
    beside = canary.service_of(service)
    if beside is None:
        return children
    try:
        # Before the routes, which refer to its Service.
        return _children(beside, canary.facts_of(service, facts)) + children
    except InvalidSpec as invalid:
        raise InvalidSpec([canary.problem(problem) for problem in invalid.problems]) from None


def _children(service: InferenceService, facts: ClusterFacts) -> list[names.Manifest]:
    children = [
        accelerator.claim_template(service, facts),
        deployment.deployment(service, facts),
        *services.services(service),
        autoscaling.autoscaler(service, facts),
        disruption.budget(service, facts),
        *ingress.ingresses(service),
        *ingress.routes(service, facts),
        network_policy.policy(service, facts),
        monitoring.monitor(service, facts),
    ]
    return [child for child in children if child is not None]

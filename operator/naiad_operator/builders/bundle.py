"""Builds all children of a service. Pure: the same spec and facts give the same manifests."""

from naiad_operator.api.service import InferenceService
from naiad_operator.builders import (
    accelerator,
    autoscaling,
    deployment,
    disruption,
    ingress,
    monitoring,
    names,
    network_policy,
    service as services,
)
from naiad_operator.builders.facts import ClusterFacts


def build(service: InferenceService, facts: ClusterFacts) -> list[names.Manifest]:
    """Every child that should exist, complete, in the order in which they are applied.

    An optional kind that the API server does not serve is left out; the status reports it.

    Raises:
        InvalidSpec: this cluster cannot run the spec; existing children are left as they are.
    """
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

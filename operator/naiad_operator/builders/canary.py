"""The canary of a service as a service of its own, from which the builders make its children as they make the main ones.

Its children are called <name>-canary. Their component label differs, so that no selector of the main Deployment, Services, disruption budget,
network policy and monitor matches its pods, nor the other way round; the instance label is the service's, so that the operator finds them.
"""

import dataclasses

import msgspec

from naiad_operator.api.parsing.service import InferenceService
from naiad_operator.api.types.canary import DEFAULT_REPLICAS, Canary
from naiad_operator.api.types.spec import Predictor, Spec
from naiad_operator.api.types.traffic import Service
from naiad_operator.builders.facts import ClusterFacts
from naiad_operator.builders.workload import deployment
from naiad_operator.errors import Problem

ALL = 100
"""The sum of both weights."""

_OVERRIDES = ("model", "image", "server_version", "args", "env", "resources", "accelerator")


def name(service: InferenceService) -> str:
    """The name of the canary's Deployment and Service, and the beginning of the names of its other children."""
    return f"{service.name}-canary"


def service_of(service: InferenceService) -> InferenceService | None:
    """The canary as a service; None when the spec has none. Only the main service has routes, which lead to both."""
    wanted = service.spec.canary
    if wanted is None:
        return None
    return dataclasses.replace(
        service,
        name=name(service),
        canary_of=service.name,
        spec=_spec(service.spec, wanted),
        own_spec=_spec(service.own_spec, service.own_spec.canary or wanted),
    )


def _spec(spec: Spec, wanted: Canary) -> Spec:
    return msgspec.structs.replace(
        spec,
        predictor=_predictor(spec.predictor, wanted),
        service=Service(),
        ingress=None,
        gateway=None,
        path_prefix=None,
        canary=None,
        mirror=None,
    )


def _predictor(predictor: Predictor, wanted: Canary) -> Predictor:
    overrides = {
        field: value for field in _OVERRIDES if (value := getattr(wanted, field)) is not None
    }
    if wanted.image:
        overrides.setdefault("server_version", None)  # that of the predictor is about another image
    scaling = wanted.autoscaling
    replicas = wanted.replicas
    if replicas is None and not (scaling is not None and scaling.scaler in deployment.SCALERS):
        replicas = DEFAULT_REPLICAS
    return msgspec.structs.replace(predictor, **overrides, replicas=replicas, autoscaling=scaling)


def facts_of(service: InferenceService, facts: ClusterFacts) -> ClusterFacts:
    """The facts for the canary of a service: its image unless it has one of its own, and the state of its own Deployment."""
    wanted = service.spec.canary
    return dataclasses.replace(
        facts,
        image=(wanted is not None and wanted.image) or facts.image,
        server_version=facts.canary.server_version,
        requests=facts.canary.requests,
        current_replicas=facts.canary.current_replicas,
        replicas_are_ours=facts.canary.replicas_are_ours,
    )


def problem(of_predictor: Problem) -> Problem:
    """A problem of the canary's predictor, at the canary's field."""
    return Problem(
        of_predictor.path.replace("spec.predictor", "spec.canary", 1), of_predictor.message
    )

"""The conditions and the status of the transformer and the explainer. Ready counts them: requests go through them."""

import datetime as dt
import typing

from naiad_operator.api.parsing.service import InferenceService
from naiad_operator.builders import components
from naiad_operator.status import autoscaling, canary, traffic, workload
from naiad_operator.status.conditions import (
    CANARY_READY,
    EXPLAINER_READY,
    TRANSFORMER_READY,
    Condition,
)
from naiad_operator.status.observed import Observed

Status = dict[str, typing.Any]

TYPES: typing.Final = {
    components.TRANSFORMER: TRANSFORMER_READY,
    components.EXPLAINER: EXPLAINER_READY,
}


class Components(typing.NamedTuple):
    """What a status says of them.

    Attributes:
        conditions: one for each in the spec; that of the canary's transformer is in CanaryReady.
        status: the fields transformer and explainer.
        blocked: by component, why its pods do not become ready; "" while they may.
    """

    conditions: list[Condition]
    status: Status
    blocked: dict[str, str]


def of(service: InferenceService, observed: Observed, now: dt.datetime) -> Components:
    """The components of a service; `observed` is all that was observed of the service."""
    found = Components([], {}, {})
    for component in components.services_of(service):
        name = component.component
        part = canary.of_component(service, observed, name)
        pods = workload.observe(component, part, now)
        progressing = workload.progressing(component, pods)
        stands = progressing.fails and progressing.reason != "Complete"
        found.blocked[name] = f"{progressing.reason}: {progressing.message}" if stands else ""
        if name not in TYPES:
            continue
        found.conditions.append(_ready(component, part, pods, now))
        is_taken = traffic.is_taken(part, component.name)
        address = f"http://{component.name}.{component.namespace}.svc:{component.spec.predictor.ports.http}"
        found.status[name] = {
            "url": "" if is_taken else address,
            "leads": not is_taken and components.leads(service, name, observed.facts),
            "replicas": pods.total,
            "readyReplicas": pods.ready,
            "updatedReplicas": pods.updated,
            "availableReplicas": pods.available,
        }
    return found


def of_canary(service: InferenceService, observed: Observed, now: dt.datetime) -> Condition | None:
    """Whether the pods of the transformer in front of the canary are ready; None without one. CanaryReady counts them."""
    component = components.service_of(service, components.CANARY_TRANSFORMER)
    if component is None:
        return None
    part = canary.of_component(service, observed, component.component)
    return _ready(component, part, workload.observe(component, part, now), now)


def _ready(
    component: InferenceService, observed: Observed, pods: workload.Workload, now: dt.datetime
) -> Condition:
    """What is in the way of a component's pods, or that they are ready."""
    type_ = TYPES.get(component.component, CANARY_READY)
    stopped = workload.stopped(component, pods)
    if stopped.status == "True":
        return Condition(type_, "False", stopped.reason, stopped.message)
    refused = traffic.refused(observed, lambda _: True)
    if refused is not None:
        return Condition(type_, "False", *refused)
    unseen = traffic.unwatched(observed, lambda _: True)
    if unseen is not None:
        return Condition(type_, *unseen)
    if not workload.is_complete(component, pods):
        available, progressing = workload.available(pods), workload.progressing(component, pods)
        message = progressing.message or available.message
        return Condition(type_, "False", progressing.reason, message)
    scaling = autoscaling.ready(component, observed, now)
    if scaling.fails:
        return Condition(type_, "False", scaling.reason, scaling.message)
    return Condition(type_, "True", "Ready", "")

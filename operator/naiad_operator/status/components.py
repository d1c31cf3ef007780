"""The conditions and the status of the transformer and the explainer. Ready counts them: requests go through them."""

import datetime as dt
import typing

from naiad_operator.api.parsing.service import InferenceService
from naiad_operator.builders import components
from naiad_operator.status import autoscaling, canary, traffic, workload
from naiad_operator.status.conditions import (
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
        conditions: one for each in the spec.
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
        ready = _ready(component, part, pods, now)
        found.conditions.append(Condition(TYPES[name], ready.status, ready.reason, ready.message))
        found.status[name] = {
            "url": f"http://{component.name}.{component.namespace}.svc:{component.spec.predictor.ports.http}",
            "leads": components.leads(service, name, observed.facts),
            "replicas": pods.total,
            "readyReplicas": pods.ready,
            "updatedReplicas": pods.updated,
            "availableReplicas": pods.available,
        }
        progressing = workload.progressing(component, pods)
        stands = progressing.fails and progressing.reason != "Complete"
        found.blocked[name] = f"{progressing.reason}: {progressing.message}" if stands else ""
    return found


def _ready(
    component: InferenceService, observed: Observed, pods: workload.Workload, now: dt.datetime
) -> Condition:
    """What is in the way of a component's pods, or that they are ready."""
    type_ = TYPES[component.component]
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

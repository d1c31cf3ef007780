"""The state of the pods: available, rolling out, or stuck and why."""

import collections.abc
import dataclasses
import typing

from naiad_operator.api.service import InferenceService
from naiad_operator.builders import accelerator, deployment
from naiad_operator.status import pods
from naiad_operator.status.conditions import (
    AVAILABLE,
    PROGRESSING,
    STOPPED,
    Condition,
)
from naiad_operator.status.observed import Observed

Manifest = collections.abc.Mapping[str, typing.Any]

_ACCELERATOR_UNAVAILABLE = "AcceleratorUnavailable"
_MOST_NAMED = 8


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """The Deployment in numbers, and what blocks it.

    Attributes:
        exists: whether there is a Deployment.
        desired: the wanted number of pods.
        current: whether the Deployment's controller has observed its newest spec.
        failure: the failure of a pod, or of the Deployment when it cannot create pods; None when nothing fails.
        failed: the number of failing pods.
        paused: whether the rollout is paused.
        fetching: a message about a pod that fetches its models; "" if none exists.
        mounting: a message about a pod whose volumes are not mounted; "" if none exists.
    """

    exists: bool
    desired: int
    total: int
    ready: int
    updated: int
    available: int
    current: bool
    late: bool
    failure: pods.Failure | None
    failed: int
    paused: bool = False
    fetching: str = ""
    mounting: str = ""

    @property
    def rolled_out(self) -> bool:
        """Whether every pod has the newest template."""
        return self.exists and self.current and self.updated == self.total


def observe(service: InferenceService, observed: Observed) -> Workload:
    """Reads the Deployment and the pods."""
    manifest = observed.children.get(("Deployment", service.name)) or {}
    status: Manifest = manifest.get("status") or {}
    failures = [_explained(failure, service, observed) for failure in pods.failures(observed.pods)]
    refused = _condition(status, "ReplicaFailure")
    failure = failures[0] if failures else None
    if refused is not None and refused["status"] == "True":
        failure = pods.Failure(reason=_refusal(refused), message=refused.get("message", ""), pod="")
    progressing = _condition(status, "Progressing") or {}
    seen = Workload(
        exists=bool(manifest),
        desired=(manifest.get("spec") or {}).get("replicas", 1),
        total=status.get("replicas") or 0,
        ready=status.get("readyReplicas") or 0,
        updated=status.get("updatedReplicas") or 0,
        available=status.get("availableReplicas") or 0,
        current=(status.get("observedGeneration") or 0)
        >= (manifest.get("metadata") or {}).get("generation", 0),
        late=progressing.get("reason") == "ProgressDeadlineExceeded",
        failure=failure,
        failed=len(failures),
        paused=bool((manifest.get("spec") or {}).get("paused")),
        fetching=pods.fetching(observed.pods),
        mounting=pods.mounting(observed.pods, _volumes(manifest)),
    )
    if seen.rolled_out and seen.available == seen.desired:
        # Evicted pods are kept for inspection; they do not matter when other pods serve in their place.
        return dataclasses.replace(seen, failure=None, failed=0)
    return seen


def _volumes(manifest: Manifest) -> collections.abc.Sequence[Manifest]:
    """The volumes of the Deployment's pod template."""
    template: Manifest = (manifest.get("spec") or {}).get("template") or {}
    volumes: list[Manifest] = (template.get("spec") or {}).get("volumes") or []
    return volumes


def _condition(status: Manifest, type_: str) -> Manifest | None:
    matches = (c for c in status.get("conditions") or () if c["type"] == type_)
    return next(matches, None)


def _refusal(condition: Manifest) -> str:
    message = condition.get("message", "")
    return (
        "QuotaExceeded" if "exceeded quota" in message else condition.get("reason") or "PodsRefused"
    )


def _explained(
    failure: pods.Failure, service: InferenceService, observed: Observed
) -> pods.Failure:
    """The failure of a pod without a node, explained in terms of its accelerator."""
    device_request = accelerator.device_request(service)
    if not failure.scheduler or not device_request.is_device:
        return failure
    if device_request.claim_template:
        if "claim" not in failure.message.lower():
            return failure
        message = f"no node can give what the claim asks for: {failure.message}"
        return dataclasses.replace(failure, reason=_ACCELERATOR_UNAVAILABLE, message=message)
    offered = observed.facts.node_resources
    if offered is not None and not offered.get(device_request.resource):
        return dataclasses.replace(
            failure,
            reason=_ACCELERATOR_UNAVAILABLE,
            message=f"no node offers {device_request.resource}; {_offers(offered)}",
        )
    if device_request.resource in failure.message:
        message = failure.message
        return dataclasses.replace(
            failure,
            reason=_ACCELERATOR_UNAVAILABLE,
            message=f"every {device_request.resource} is taken or on a node that does not fit: {message}"
            if offered is not None
            else f"no node has {device_request.count} free {device_request.resource}: {message}",
        )
    return failure


def _offers(offered: collections.abc.Mapping[str, int]) -> str:
    """The devices that nodes offer, so that a user sees which profile to write."""
    devices = [name for name, count in sorted(offered.items()) if count and _is_device(name)]
    if not devices:
        return "no node offers any accelerator (is the device plugin running?)"
    named = ", ".join(f"{name} ({offered[name]})" for name in devices[:_MOST_NAMED])
    return f"nodes offer {named}"


def _is_device(resource: str) -> bool:
    return "/" in resource and not resource.startswith(("kubernetes.io/", "attachable-volumes"))


def available(workload: Workload) -> Condition:
    """The condition that says whether any pod serves, also during a rollout."""
    if workload.available > 0:
        return Condition(AVAILABLE, "True", "Serving", f"{workload.available} pods serve")
    return Condition(AVAILABLE, "False", "NoPodServes", "no pod serves")


def progressing(  # noqa: PLR0911 - one return per state
    service: InferenceService, workload: Workload
) -> Condition:
    """The condition that says whether pods are being replaced, are complete, or are blocked."""
    if stopped(service, workload).status == "True":
        return Condition(PROGRESSING, "False", "Complete", "")
    if workload.failure is not None:
        return Condition(PROGRESSING, "False", workload.failure.reason, workload.failure.message)
    if not workload.exists:
        return Condition(PROGRESSING, "True", "NewTemplate", "the Deployment is being made")
    if is_complete(service, workload):
        return Condition(PROGRESSING, "False", "Complete", "")
    if workload.paused:
        message = f"Deployment {service.name} is paused, so its pods stay as they are: kubectl rollout resume deployment/{service.name}"
        return Condition(PROGRESSING, "False", "DeploymentPaused", message)
    if workload.late:
        message = f"{workload.ready} of {workload.desired} pods became ready in the time that they have to load their models: raise predictor.probes.startup.failureThreshold, or look at the pods' logs"
        return Condition(PROGRESSING, "False", "DeadlineExceeded", message)
    if not workload.current:
        return Condition(
            PROGRESSING,
            "True",
            "NewTemplate",
            "the Deployment has changed, and its controller takes it up",
        )
    if workload.rolled_out and workload.total > workload.desired:
        message = f"{workload.total} pods are there and {workload.desired} wanted: the others are being ended"
        return Condition(PROGRESSING, "True", "RollingOut", message)
    message = f"{workload.available} of {workload.desired} pods serve, {workload.updated} of the newest template"
    for waits in filter(None, (workload.fetching, workload.mounting)):
        message = f"{message}; {waits}"
    return Condition(PROGRESSING, "True", "RollingOut", message)


def is_complete(service: InferenceService, workload: Workload) -> bool:
    """Whether every wanted pod serves. When an autoscaler decides the number, pods that it has just added may still be starting."""
    if not workload.rolled_out:
        return False
    if deployment.is_autoscaled(service):
        scaling = service.spec.predictor.autoscaling
        assert scaling is not None
        return workload.available >= min(max(scaling.effective_min_replicas, 1), workload.desired)
    return workload.available == workload.updated == workload.desired


def stopped(service: InferenceService, workload: Workload) -> Condition:
    """The condition that says whether there are no pods because none are wanted."""
    if service.spec.suspend:
        return Condition(
            STOPPED, "True", "Suspended", "suspended: set spec.suspend: false to serve again"
        )
    if workload.exists and workload.desired == 0:
        if deployment.is_autoscaled(service):
            return Condition(
                STOPPED,
                "True",
                "ScaledToZero",
                "the autoscaler keeps no pod while there are no requests",
            )
        return Condition(
            STOPPED, "True", "ScaledToZero", "scaled to 0: raise replicas to serve again"
        )
    return Condition(STOPPED, "False", "Running", "")

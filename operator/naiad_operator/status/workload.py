"""How far the pods are: available, rolling out, or stuck and why."""

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
    """The Deployment in numbers, and what stands in its way.

    Attributes:
        exists: whether there is a Deployment.
        desired: how many pods the Deployment should have.
        current: whether its controller has seen its newest spec.
        failure: of the pods, or of the Deployment when it could not make pods; None when nothing fails.
        failed: how many pods fail.
        paused: whether somebody stopped it from replacing pods.
        fetching: a pod that still fetches its models; "" when none does.
        mounting: a pod whose volumes are not there yet; "" when there is none.
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
        """Whether every pod is of the newest template."""
        return self.exists and self.current and self.updated == self.total


def observe(service: InferenceService, observed: Observed) -> Workload:
    """Read the Deployment and the pods."""
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
        # An evicted pod is kept for people to look at; it stands in nobody's way when others serve in its place.
        return dataclasses.replace(seen, failure=None, failed=0)
    return seen


def _volumes(manifest: Manifest) -> collections.abc.Sequence[Manifest]:
    """Of the pods that the Deployment makes."""
    template: Manifest = (manifest.get("spec") or {}).get("template") or {}
    volumes: list[Manifest] = (template.get("spec") or {}).get("volumes") or []
    return volumes


def _condition(status: Manifest, type_: str) -> Manifest | None:
    found = (c for c in status.get("conditions") or () if c["type"] == type_)
    return next(found, None)


def _refusal(condition: Manifest) -> str:
    message = condition.get("message", "")
    return (
        "QuotaExceeded" if "exceeded quota" in message else condition.get("reason") or "PodsRefused"
    )


def _explained(
    failure: pods.Failure, service: InferenceService, observed: Observed
) -> pods.Failure:
    """A pod without a node, in terms of the accelerator that it asked for."""
    asked = accelerator.asked(service)
    if not failure.scheduler or not asked.is_device:
        return failure
    if asked.claim_template:
        if "claim" not in failure.message.lower():
            return failure
        said = f"no node can give what the claim asks for: {failure.message}"
        return dataclasses.replace(failure, reason=_ACCELERATOR_UNAVAILABLE, message=said)
    offered = observed.facts.node_resources
    if offered is not None and not offered.get(asked.resource):
        return dataclasses.replace(
            failure,
            reason=_ACCELERATOR_UNAVAILABLE,
            message=f"no node offers {asked.resource}; {_offers(offered)}",
        )
    if asked.resource in failure.message:
        said = failure.message
        return dataclasses.replace(
            failure,
            reason=_ACCELERATOR_UNAVAILABLE,
            message=f"every {asked.resource} is taken or on a node that does not fit: {said}"
            if offered is not None
            else f"no node has {asked.count} free {asked.resource}: {said}",
        )
    return failure


def _offers(offered: collections.abc.Mapping[str, int]) -> str:
    """What nodes do offer, so that a person sees the profile to write."""
    devices = [name for name, count in sorted(offered.items()) if count and _is_device(name)]
    if not devices:
        return "no node offers any accelerator (is the device plugin running?)"
    named = ", ".join(f"{name} ({offered[name]})" for name in devices[:_MOST_NAMED])
    return f"nodes offer {named}"


def _is_device(resource: str) -> bool:
    return "/" in resource and not resource.startswith(("kubernetes.io/", "attachable-volumes"))


def available(workload: Workload) -> Condition:
    """Whether any pod serves, also while others are replaced."""
    if workload.available > 0:
        return Condition(AVAILABLE, "True", "Serving", f"{workload.available} pods serve")
    return Condition(AVAILABLE, "False", "NoPodServes", "no pod serves")


def progressing(  # noqa: PLR0911 - one return a state that people tell apart
    service: InferenceService, workload: Workload
) -> Condition:
    """Whether pods are being replaced, are as they should be, or cannot get there."""
    if stopped(service, workload).status == "True":
        return Condition(PROGRESSING, "False", "Complete", "")
    if workload.failure is not None:
        return Condition(PROGRESSING, "False", workload.failure.reason, workload.failure.message)
    if not workload.exists:
        return Condition(PROGRESSING, "True", "NewTemplate", "the Deployment is being made")
    if is_complete(service, workload):
        return Condition(PROGRESSING, "False", "Complete", "")
    if workload.paused:
        said = f"Deployment {service.name} is paused, so its pods stay as they are: kubectl rollout resume deployment/{service.name}"
        return Condition(PROGRESSING, "False", "DeploymentPaused", said)
    if workload.late:
        said = f"{workload.ready} of {workload.desired} pods became ready in the time that they have to load their models: raise predictor.probes.startup.failureThreshold, or look at the pods' logs"
        return Condition(PROGRESSING, "False", "DeadlineExceeded", said)
    if not workload.current:
        return Condition(
            PROGRESSING,
            "True",
            "NewTemplate",
            "the Deployment has changed, and its controller takes it up",
        )
    if workload.rolled_out and workload.total > workload.desired:
        said = f"{workload.total} pods are there and {workload.desired} wanted: the others are being ended"
        return Condition(PROGRESSING, "True", "RollingOut", said)
    said = f"{workload.available} of {workload.desired} pods serve, {workload.updated} of the newest template"
    for waits in filter(None, (workload.fetching, workload.mounting)):
        said = f"{said}; {waits}"
    return Condition(PROGRESSING, "True", "RollingOut", said)


def is_complete(service: InferenceService, workload: Workload) -> bool:
    """Whether every pod that should serve does. Where an autoscaler decides the number, pods that it just added may still start."""
    if not workload.rolled_out:
        return False
    if deployment.is_autoscaled(service):
        scaling = service.spec.predictor.autoscaling
        assert scaling is not None
        return workload.available >= min(max(scaling.fewest, 1), workload.desired)
    return workload.available == workload.updated == workload.desired


def stopped(service: InferenceService, workload: Workload) -> Condition:
    """Whether there are no pods because somebody wanted none."""
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
                "the autoscaler keeps no pod while nothing is asked",
            )
        return Condition(
            STOPPED, "True", "ScaledToZero", "scaled to 0: raise replicas to serve again"
        )
    return Condition(STOPPED, "False", "Running", "")

"""The state of the pods: available, rolling out, or stuck and why."""

import collections.abc
import dataclasses
import datetime as dt
import re

from naiad_operator.api.parsing.service import InferenceService
from naiad_operator.builders.workload import deployment
from naiad_operator.status import pod_failures, pods, scheduling
from naiad_operator.status.conditions import (
    AVAILABLE,
    PROGRESSING,
    STOPPED,
    Condition,
    Manifest,
)
from naiad_operator.status.observed import Observed


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """The Deployment in numbers, and what blocks it.

    Attributes:
        exists: whether there is a Deployment.
        desired: the wanted number of pods.
        current: whether the Deployment's controller has observed its newest spec.
        failure: the failure of a pod, or of the Deployment when it cannot create pods; None when nothing fails.
        failed: the number of failing pods.
        newest: the names of the pods of the newest template.
        waiting: a pod that has no node, but may get one; None if none exists.
        paused: whether the rollout is paused.
        lost: a message about a pod that was evicted or failed, and is replaced; "" if none exists.
        fetching: a message about a pod that fetches its models; "" if none exists.
        mounting: a message about a pod whose volumes are not mounted; "" if none exists.
        unreported: a message about a pod whose node does not report; "" if none exists.
        unready: a message about a pod that was ready and is not any more; "" if none exists.
    """

    exists: bool
    desired: int
    total: int
    ready: int
    updated: int
    available: int
    current: bool
    late: bool
    failure: pod_failures.Failure | None
    failed: int
    newest: frozenset[str]
    waiting: scheduling.Unscheduled | None = None
    paused: bool = False
    lost: str = ""
    fetching: str = ""
    mounting: str = ""
    unreported: str = ""
    unready: str = ""

    @property
    def rolled_out(self) -> bool:
        """Whether every pod has the newest template."""
        return self.exists and self.current and self.updated == self.total


def observe(service: InferenceService, observed: Observed, now: dt.datetime) -> Workload:
    """Reads the Deployment and the pods."""
    manifest = _deployment(service, observed)
    status: Manifest = manifest.get("status") or {}
    newest = pods.of_newest_template(observed.pods, manifest)
    unscheduled = _unscheduled(newest, service, observed, now)
    failures = [
        *pod_failures.failures(newest, startup_s=startup_seconds(service), now=now),
        *(
            pod_failures.Failure(reason=pod.reason, message=pod.message, pod=pod.pod)
            for pod in unscheduled
            if not pod.waits
        ),
    ]
    losses = pods.losses(newest, now)
    if not failures and losses.repeated:
        message = f"pods of this service are lost again and again: {losses.newest}"
        failures = [
            pod_failures.Failure(
                reason="Evicted" if losses.evicted else "PodFailed", message=message
            )
        ]
    failure = failures[0] if failures else None
    refused = _condition(status, "ReplicaFailure")
    if refused is not None and refused["status"] == "True":
        message = _REFUSED_POD.sub("pods are forbidden", refused.get("message") or "")
        failure = pod_failures.Failure(
            reason="QuotaExceeded" if "exceeded quota" in message else "PodsRefused",
            message=f"{_openshift_advice(service)}: {message}"
            if _OPENSHIFT in message
            else message,
        )
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
        newest=frozenset(pod["metadata"]["name"] for pod in newest),
        waiting=next((pod for pod in unscheduled if pod.waits), None),
        paused=bool((manifest.get("spec") or {}).get("paused")),
        lost=f"{losses.newest} and is replaced" if losses.newest else "",
        fetching=pod_failures.fetching(newest),
        mounting=pod_failures.mounting(newest, _volumes(manifest)),
        unreported=pods.unreported(newest),
        unready=pods.no_longer_ready(newest),
    )
    if seen.rolled_out and seen.available == seen.desired:
        return dataclasses.replace(seen, failure=None, failed=0, waiting=None)
    return seen


_REFUSED_POD = re.compile(r'pods "[^"]*" is forbidden')
"""In the refusal of a pod: its name is another one each time that the ReplicaSet's controller tries again."""
_OPENSHIFT = "security context constraint"
"""In the refusal of a pod by OpenShift."""


def _openshift_advice(service: InferenceService) -> str:
    """Where to leave user ids to the cluster; it stands before the refusal, which may be long."""
    where = "the chart's value openshift, or predictor.podTemplate of the service"
    if service.profile is not None and service.profile.name:
        where = f"podSecurityContext of NaiadProfile {service.profile.name}, or predictor.podTemplate of the service"
    return f"OpenShift assigns user ids and refuses others, which {where} leaves out (docs/operator.md)"


def next_change(
    service: InferenceService, observed: Observed, now: dt.datetime
) -> dt.datetime | None:
    """When the passing of time alone changes what `observe` sees; None if it does not."""
    newest = pods.of_newest_template(observed.pods, _deployment(service, observed))
    times = [pod.until for pod in _unscheduled(newest, service, observed, now)]
    times.append(pods.losses(newest, now).until)
    times.append(pod_failures.next_change(newest, startup_s=startup_seconds(service), now=now))
    return min((time for time in times if time is not None), default=None)


def crash_looping(service: InferenceService, observed: Observed, now: dt.datetime) -> set[str]:
    """The names of pods in a crash loop."""
    found = pod_failures.failures(observed.pods, startup_s=startup_seconds(service), now=now)
    return {failure.pod for failure in found if failure.loops}


def startup_seconds(service: InferenceService) -> float:
    """How long the startup probe allows a container to run until its models are loaded."""
    return service.spec.predictor.probes.startup.seconds()


def _deployment(service: InferenceService, observed: Observed) -> Manifest:
    return observed.children.get(("Deployment", service.name)) or {}


def _unscheduled(
    candidates: collections.abc.Iterable[Manifest],
    service: InferenceService,
    observed: Observed,
    now: dt.datetime,
) -> list[scheduling.Unscheduled]:
    volumes = _volumes(_deployment(service, observed))
    found = [(one.get("persistentVolumeClaim") or {}).get("claimName") for one in volumes]
    claims = list(dict.fromkeys(filter(None, found)))
    pods_ = (
        scheduling.unscheduled(pod, service, observed.facts, now, claims) for pod in candidates
    )
    return [pod for pod in pods_ if pod is not None]


def _volumes(manifest: Manifest) -> collections.abc.Sequence[Manifest]:
    """The volumes of the Deployment's pod template."""
    template: Manifest = (manifest.get("spec") or {}).get("template") or {}
    volumes: list[Manifest] = (template.get("spec") or {}).get("volumes") or []
    return volumes


def _condition(status: Manifest, type_: str) -> Manifest | None:
    matches = (c for c in status.get("conditions") or () if c["type"] == type_)
    return next(matches, None)


def available(workload: Workload) -> Condition:
    """The condition that says whether any pod serves, also during a rollout."""
    if workload.available > 0:
        count = workload.available
        message = "1 pod serves" if count == 1 else f"{count} pods serve"
        return Condition(AVAILABLE, "True", "Serving", message)
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
    if workload.waiting is not None:
        return Condition(PROGRESSING, "True", workload.waiting.reason, workload.waiting.message)
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
    return Condition(PROGRESSING, "True", "RollingOut", _rollout(workload))


def _rollout(workload: Workload) -> str:
    """What a rollout in progress waits for."""
    if workload.rolled_out and workload.total > workload.desired:
        return f"{workload.total} pods are there and {workload.desired} wanted: the others are being ended"
    counts = f"{workload.available} of {workload.desired} pods serve, {workload.updated} of the newest template"
    found = (
        workload.lost,
        workload.fetching,
        workload.mounting,
        workload.unreported,
        workload.unready,
    )
    return "; ".join(filter(None, (counts, *found)))


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

"""What a cluster shows of a service, in small: Deployments, pods, autoscalers, as their controllers and kubelets write them."""

import datetime as dt
import typing

from naiad_operator.api.parsing import service
from naiad_operator.builders.facts import ClusterFacts
from naiad_operator.status import ApiError, Conflict, ModelReport, ModelState, Observed, compute
from naiad_operator.status.upgrade import Upgrade
from tests.support import manifests

Manifest = dict[str, typing.Any]
NOW = "2026-01-31T12:00:00Z"

POD = "demo-6d5f-x7k2p"
READY_MODEL = ModelState(name="magika", version="1", state="READY")


def deployment(
    desired: int = 2,
    *,
    total: int | None = None,
    ready: int | None = None,
    updated: int | None = None,
    stale: bool = False,
    spec: Manifest | None = None,
    conditions: typing.Sequence[Manifest] = (),
) -> Manifest:
    """A Deployment whose pods are all there and ready, unless said otherwise."""
    total = desired if total is None else total
    ready = total if ready is None else ready
    return {
        "metadata": {"name": "demo", "generation": 5},
        "spec": {"replicas": desired, **(spec or {})},
        "status": {
            "observedGeneration": 4 if stale else 5,
            "replicas": total,
            "readyReplicas": ready,
            "availableReplicas": ready,
            "updatedReplicas": total if updated is None else updated,
            "conditions": list(conditions),
        },
    }


def ago(**ago_: float) -> str:
    """A time before NOW, as Kubernetes writes it."""
    moment = dt.datetime.fromisoformat(NOW) - dt.timedelta(**ago_)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def pod(
    name: str = POD, *, created: str = "2026-01-31T11:59:00Z", **status: typing.Any
) -> Manifest:
    """A pod with this status. Its template is in the middle of its name."""
    labels = {"pod-template-hash": name.split("-")[-2]} if name.count("-") > 1 else {}
    metadata = {"name": name, "creationTimestamp": created, "labels": labels}
    return {"metadata": metadata, "status": status}


def of_canary(pod: Manifest) -> Manifest:
    """The pod as one of a canary."""
    labels = {"app.kubernetes.io/component": "canary"}
    return {**pod, "metadata": {**pod["metadata"], "labels": labels}}


def unscheduled(
    message: str,
    *,
    since: str = "2026-01-31T11:00:00Z",
    reason: str = "Unschedulable",
    **status: typing.Any,
) -> Manifest:
    """A pod that the scheduler has found no node for since then."""
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": reason,
        "message": message,
        "lastTransitionTime": since,
    }
    return pod(created=since, phase="Pending", conditions=[condition], **status)


def lost(
    name: str,
    *,
    created: str,
    reason: str = "Evicted",
    message: str = "The node was low on resource: memory.",
    ended: str = "",
) -> Manifest:
    """A pod that failed as a whole, and stays as a record."""
    target = {"type": "DisruptionTarget", "status": "True", "lastTransitionTime": ended or created}
    return pod(
        name, created=created, phase="Failed", reason=reason, message=message, conditions=[target]
    )


def container(**state: typing.Any) -> Manifest:
    """A pod whose server is in this state."""
    return pod(phase="Running", containerStatuses=[{"name": "server", "ready": False, **state}])


def waiting(
    reason: str,
    message: str = "",
    *,
    conditions: typing.Sequence[Manifest] = (),
    **more: typing.Any,
) -> Manifest:
    """A pod whose server waits for this reason."""
    template = container(state={"waiting": {"reason": reason, "message": message}}, **more)
    template["status"]["conditions"] = list(conditions)
    return template


def ended(
    message: str,
    *,
    code: int = 1,
    reason: str = "Error",
    restarts: int = 3,
    phase: str = "waiting",
    ran_s: float = 20,
) -> Manifest:
    """A pod whose server ended again and again, with this end of its output, last after `ran_s` seconds; now it is waiting, running, or terminated."""
    last = {
        "exitCode": code,
        "reason": reason,
        "message": message,
        "startedAt": ago(seconds=30 + ran_s),
        "finishedAt": "2026-01-31T11:59:30Z",
    }
    if phase == "waiting":
        return waiting("CrashLoopBackOff", lastState={"terminated": last}, restartCount=restarts)
    if phase == "terminated":
        return container(state={"terminated": last}, restartCount=restarts)
    return container(state={"running": {}}, lastState={"terminated": last}, restartCount=restarts)


def status(
    resource: Manifest | None = None,
    *,
    children: typing.Mapping[tuple[str, str], Manifest | None] | None = None,
    pods: typing.Sequence[Manifest] = (),
    models: typing.Sequence[ModelState] | ModelReport | None = (READY_MODEL,),
    canary_models: typing.Sequence[ModelState] | ModelReport | None = (READY_MODEL,),
    conflicts: typing.Sequence[Conflict] = (),
    errors: typing.Sequence[ApiError] = (),
    terminating: typing.Sequence[tuple[str, str]] = (),
    unwatched: typing.Mapping[tuple[str, str], str] | None = None,
    facts: ClusterFacts | None = None,
    upgrade: Upgrade | None = None,
    shared_hosts: tuple[str, ...] | None = (),
    profile: service.Profile | None = None,
    now: str = NOW,
) -> Manifest:
    """The status of a resource; of one with two ready pods when nothing else is said."""
    given: dict[tuple[str, str], Manifest | None] = {
        ("Deployment", "demo"): deployment(),
        ("Service", "demo"): {},
        **(children or {}),
    }
    observed = Observed(
        children={key: value for key, value in given.items() if value is not None},
        facts=facts or manifests.facts(),
        pods=pods,
        models=_report(models),
        canary_models=_report(canary_models),
        conflicts=conflicts,
        errors=errors,
        terminating=terminating,
        upgrade=upgrade,
        shared_hosts=shared_hosts,
        unwatched=unwatched or {},
    )
    parsed = service.parse(resource or manifests.resource(replicas=2), profile)
    return compute(parsed, observed, now)


def _report(models: typing.Sequence[ModelState] | ModelReport | None) -> ModelReport:
    if isinstance(models, ModelReport):
        return models
    return ModelReport(pod=POD, models=None if models is None else tuple(models))


def condition(given: Manifest, type_: str = "Ready") -> tuple[str, str, str]:
    """Status, reason and message of one condition."""
    found = next(c for c in given["conditions"] if c["type"] == type_)
    return found["status"], found["reason"], found["message"]

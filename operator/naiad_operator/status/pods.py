"""Which of a service's pods count: those of the newest template, those that were lost and replaced, those that can report their models.

During a rollout the pods of the old template end anyway, so what is wrong with them is not what blocks the service. A pod that failed
as a whole (evicted, preempted, refused by its node) stays in the API server as a record, while its ReplicaSet has long made another.
"""

import collections.abc
import dataclasses
import datetime as dt
import re
import typing

from naiad_operator.builders import server

Manifest = collections.abc.Mapping[str, typing.Any]

_TEMPLATE_LABEL = "pod-template-hash"
_REPLICA_SET = re.compile(r'replica ?set "(?:[^"]*-)?([a-z0-9]+)"', re.IGNORECASE)
"""How the Deployment's controller names the ReplicaSet of the newest template, in the message of its Progressing condition."""
_RECENT = dt.timedelta(minutes=10)
_REPEATED = 3
"""Losses within `_RECENT`, each of a pod that replaced a lost one, from which on they count as a series and not as one incident."""


def of_newest_template(
    pods: collections.abc.Iterable[Manifest], deployment: Manifest
) -> list[Manifest]:
    """The pods of the newest template that are not being deleted, newest first.

    The Deployment's controller names the newest ReplicaSet in a message, which is not an API: without it, the newest template is the one whose oldest
    pod is the newest. (Not the one of the newest pod: a pod of the old template may be replaced in the middle of a rollout.)
    """
    alive = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
    oldest = dict[str, tuple[str, str]]()
    for pod in alive:
        if not is_over(pod):
            template = _template(pod)
            oldest[template] = min(age(pod), oldest.get(template, age(pod)))
    if not oldest:
        return sorted(alive, key=age, reverse=True)
    newest = _named(deployment)
    if newest not in oldest:
        newest = max(oldest, key=lambda template: oldest[template])
    return sorted((pod for pod in alive if _template(pod) == newest), key=age, reverse=True)


def _template(pod: Manifest) -> str:
    return str((pod["metadata"].get("labels") or {}).get(_TEMPLATE_LABEL) or "")


def _named(deployment: Manifest) -> str:
    for condition in (deployment.get("status") or {}).get("conditions") or ():
        if condition["type"] == "Progressing":
            match = _REPLICA_SET.search(condition.get("message") or "")
            return match[1] if match else ""
    return ""


def age(pod: Manifest) -> tuple[str, str]:
    """The key that sorts pods by age, the oldest first."""
    metadata = pod["metadata"]
    return (metadata.get("creationTimestamp") or "", metadata["name"])


def is_over(pod: Manifest) -> bool:
    """Whether the pod as a whole has ended: its ReplicaSet no longer counts it."""
    return (pod.get("status") or {}).get("phase") in ("Failed", "Succeeded")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """Pods that failed as a whole in the last ten minutes.

    Attributes:
        newest: the message about the last of them; "" if none exists.
        evicted: whether the kubelet evicted that one.
        repeated: whether pods are lost again and again.
        until: when the first of them no longer counts; None if none exists.
    """

    newest: str = ""
    evicted: bool = False
    repeated: bool = False
    until: dt.datetime | None = None


def losses(pods: collections.abc.Iterable[Manifest], now: dt.datetime) -> Losses:
    """The recent losses among these pods."""
    failed = [pod for pod in pods if (pod.get("status") or {}).get("phase") == "Failed"]
    recent = sorted((pod for pod in failed if now - _ended(pod) < _RECENT), key=_ended)
    if not recent:
        return Losses()
    status = recent[-1]["status"]
    reason, message = status.get("reason") or "", _clause(status.get("message") or "")
    why = message if reason in ("", "Evicted") else ": ".join(filter(None, (reason, message)))
    what = "was evicted" if reason == "Evicted" else "failed"
    return Losses(
        newest=f"pod {recent[-1]['metadata']['name']} {what}{f' ({why})' if why else ''}",
        evicted=reason == "Evicted",
        repeated=_generations(recent) >= _REPEATED,
        until=_ended(recent[0]) + _RECENT,
    )


def _generations(lost: collections.abc.Iterable[Manifest]) -> int:
    """How often a pod was lost that may have replaced a lost one. Pods that a node loses at the same time count once.

    Args:
        lost: in the order in which they ended.
    """
    count, ended = 0, None
    for pod in lost:
        if ended is None or time(pod["metadata"]["creationTimestamp"]) >= ended:
            count, ended = count + 1, _ended(pod)
    return count


def _clause(text: str) -> str:
    return " ".join(text.split()).rstrip(".")


def _ended(pod: Manifest) -> dt.datetime:
    """When a failed pod ended, as far as its status shows."""
    status: Manifest = pod["status"]
    times = [
        condition.get("lastTransitionTime")
        for condition in status.get("conditions") or ()
        if condition["type"] == "DisruptionTarget"
    ]
    for container in status.get("containerStatuses") or ():
        terminated = (container.get("state") or {}).get("terminated") or {}
        times.append(terminated.get("finishedAt"))
    return max([time(pod["metadata"]["creationTimestamp"]), *map(time, filter(None, times))])


def time(text: str) -> dt.datetime:
    """A time as Kubernetes writes it, between the first one that Python has and one that can be added to: API servers also take the years 0 and 9999."""
    try:
        return min(dt.datetime.fromisoformat(text), _LAST)
    except ValueError:
        return dt.datetime.min.replace(tzinfo=dt.UTC)


_LAST = dt.datetime(9000, 1, 1, tzinfo=dt.UTC)


def is_ready(pod: Manifest) -> bool:
    """Whether the pod's Ready condition is True."""
    return any(
        condition["type"] == "Ready" and condition["status"] == "True"
        for condition in (pod.get("status") or {}).get("conditions") or ()
    )


def unreported(pods: collections.abc.Iterable[Manifest]) -> str:
    """A message about the first pod whose node does not report; "" if there is none.

    The kubelet sets both conditions together, so only the node's controller, for a kubelet that is silent, makes Ready False and leaves the other.
    """
    for pod in pods:
        conditions = {one["type"]: one for one in (pod.get("status") or {}).get("conditions") or ()}
        ready, containers = conditions.get("Ready") or {}, conditions.get("ContainersReady") or {}
        gated = ready.get("reason") == "ReadinessGatesNotReady"
        if ready.get("status") == "False" and containers.get("status") == "True" and not gated:
            node = (pod.get("spec") or {}).get("nodeName")
            named = f" {node}" if node else ""
            return f"pod {pod['metadata']['name']} does not count as ready because its node{named} does not report (kubectl describe node{named})"
    return ""


def no_longer_ready(pods: collections.abc.Iterable[Manifest]) -> str:
    """A message about the first pod that runs, was ready and is not any more; "" if there is none.

    Its condition Ready has changed since its container started; that of a pod which has never been ready is older.
    """
    for pod in pods:
        status: Manifest = pod.get("status") or {}
        changed = next(
            (
                condition.get("lastTransitionTime")
                for condition in status.get("conditions") or ()
                if condition["type"] == "Ready" and condition["status"] == "False"
            ),
            None,
        )
        for container in status.get("containerStatuses") or ():
            running = (container.get("state") or {}).get("running") or {}
            since = running.get("startedAt")
            if changed and since and not container.get("ready") and time(changed) > time(since):
                name = pod["metadata"]["name"]
                return f"pod {name} was ready and is not any more: container {container['name']} fails its readiness probe (kubectl describe pod {name})"
    return ""


def has_started(pod: Manifest) -> bool:
    """Whether the pod's server has loaded, or failed to load, what it loads at the start: its startup probe has succeeded."""
    return is_ready(pod) or any(
        container["name"] == server.CONTAINER and bool(container.get("started"))
        for container in (pod.get("status") or {}).get("containerStatuses") or ()
    )


def are_starting(pods: collections.abc.Iterable[Manifest]) -> bool:
    """Whether a container runs for the first time: it may be fetching or loading models, which is lost when its pod is replaced."""
    return any(
        "running" in (container.get("state") or {}) and not container.get("restartCount")
        for pod in pods
        if "deletionTimestamp" not in pod["metadata"]
        for kind in ("initContainerStatuses", "containerStatuses")
        for container in (pod.get("status") or {}).get(kind) or ()
    )


def reporting(
    pods: collections.abc.Iterable[Manifest],
    deployment: Manifest,
    looping: collections.abc.Container[str],
) -> list[Manifest]:
    """The pods that can report their models, the best one first, at most two.

    That is one of the newest template, because it shows whether the new spec works: one that has loaded its models and is not ready before one that is,
    because its models say why. If the first one is not ready, a ready one comes second, for a pod that does not respond.

    Args:
        pods: all pods of the service.
        deployment: its Deployment.
        looping: the names of pods in a crash loop, which would respond now and then.
    """
    pods = list(pods)
    newest = {pod["metadata"]["name"] for pod in of_newest_template(pods, deployment)}
    candidates = [pod for pod in pods if _runs(pod) and pod["metadata"]["name"] not in looping]
    ranked = sorted(
        candidates,
        key=lambda pod: (
            pod["metadata"]["name"] not in newest,
            is_ready(pod) or not has_started(pod),
            not is_ready(pod),
            pod["metadata"]["name"],
        ),
    )
    if not ranked:
        return []
    others = [pod for pod in ranked[1:] if is_ready(pod)]
    return ranked[:1] if is_ready(ranked[0]) else [*ranked[:1], *others[:1]]


def _runs(pod: Manifest) -> bool:
    """Whether the pod has an address and its server is not known to be down."""
    status: Manifest = pod.get("status") or {}
    if not status.get("podIP") or status.get("phase") != "Running":
        return False
    if "deletionTimestamp" in pod["metadata"]:
        return False
    return not any(
        container["name"] == server.CONTAINER and "running" not in (container.get("state") or {})
        for container in status.get("containerStatuses") or ()
    )

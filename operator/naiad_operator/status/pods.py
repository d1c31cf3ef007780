"""Why a pod does not serve, in its own words: what the scheduler, the kubelet or the server's last log lines said."""

import collections.abc
import dataclasses
import json
import typing

from naiad_operator.builders import server

Manifest = collections.abc.Mapping[str, typing.Any]

_PULL_REASONS = frozenset(
    (
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "ImageInspectError",
    )
)
_CONFIG_REASONS = frozenset(
    ("CreateContainerConfigError", "CreateContainerError", "RunContainerError", "StartError")
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why one pod does not serve.

    Attributes:
        scheduler: whether the scheduler said it: the pod has no node.
    """

    reason: str
    message: str
    pod: str
    exit_code: int | None = None
    time: str | None = None
    scheduler: bool = False


def failures(pods: collections.abc.Sequence[Manifest]) -> list[Failure]:
    """Of all pods that cannot serve and say why; the newest pods first, since the newest template is what people wait for."""
    newest = sorted(pods, key=_age, reverse=True)
    found = (_failure(pod) for pod in newest if "deletionTimestamp" not in pod["metadata"])
    return [failure for failure in found if failure is not None]


def fetching(pods: collections.abc.Sequence[Manifest]) -> str:
    """The first pod whose init container brings models, and which; "" when none does."""
    for pod in sorted(pods, key=_age, reverse=True):
        for container in (pod.get("status") or {}).get("initContainerStatuses") or ():
            state = container.get("state") or {}
            if container["name"].startswith(server.FETCH_CONTAINER) and "running" in state:
                return f"pod {pod['metadata']['name']} fetches its models ({container['name']})"
    return ""


_SETTING_UP = frozenset(("ContainerCreating", "PodInitializing"))
_SOURCES = (
    ("secret", "secretName", "Secret"),
    ("configMap", "name", "ConfigMap"),
    ("persistentVolumeClaim", "claimName", "PersistentVolumeClaim"),
)
"""What a volume may name that somebody else has to make: the volume's field, the field in it, the kind."""


def mounting(
    pods: collections.abc.Sequence[Manifest], volumes: collections.abc.Sequence[Manifest]
) -> str:
    """The newest pod whose volumes are not mounted, and what they need; "" when there is none.

    A kubelet that waits for a Secret says so in an Event alone: in the pod's status it looks like any other start.
    """
    needed = [
        f"{kind} {volume[source][field]}"
        for volume in volumes
        for source, field, kind in _SOURCES
        if isinstance(volume.get(source), dict) and volume[source].get(field)
    ]
    if not needed:
        return ""
    for pod in sorted(pods, key=_age, reverse=True):
        if "deletionTimestamp" not in pod["metadata"] and _is_being_set_up(pod):
            name = pod["metadata"]["name"]
            named = ", ".join(dict.fromkeys(needed))
            return f"pod {name} waits for its volumes ({named}); if that lasts, one of them is missing: kubectl describe pod {name}"
    return ""


def _is_being_set_up(pod: Manifest) -> bool:
    """Whether a kubelet has the pod and no container of it has begun."""
    status: Manifest = pod.get("status") or {}
    for condition in status.get("conditions") or ():
        if condition["type"] == "PodReadyToStartContainers" and condition["status"] == "True":
            return False  # what is left is the image
    containers = [
        container
        for kind in ("initContainerStatuses", "containerStatuses")
        for container in status.get(kind) or ()
    ]
    return bool(containers) and all(
        ((container.get("state") or {}).get("waiting") or {}).get("reason") in _SETTING_UP
        for container in containers
    )


def _age(pod: Manifest) -> tuple[str, str]:
    metadata = pod["metadata"]
    return (metadata.get("creationTimestamp") or "", metadata["name"])


def _failure(pod: Manifest) -> Failure | None:
    status: Manifest = pod.get("status") or {}
    name = pod["metadata"]["name"]
    for condition in status.get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            said = condition.get("message") or condition.get("reason") or "no node fits"
            return Failure(reason="Unschedulable", message=said, pod=name, scheduler=True)
    if status.get("phase") == "Failed":
        reason = status.get("reason") or "PodFailed"
        said = status.get("message") or "the pod has failed"
        return Failure(reason=reason, message=f"pod {name}: {said}", pod=name)
    for kind in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(kind) or ():
            failure = _container_failure(name, container)
            if failure is not None:
                return failure
    return None


def _container_failure(pod: str, container: Manifest) -> Failure | None:
    waiting: Manifest = (container.get("state") or {}).get("waiting") or {}
    reason = waiting.get("reason") or ""
    if reason in _PULL_REASONS:
        said = waiting.get("message") or f"the image {container.get('image', '')} cannot be pulled"
        return Failure(reason=reason, message=f"pod {pod}: {said}", pod=pod)
    if reason in _CONFIG_REASONS:
        said = waiting.get("message") or "the container cannot be started"
        return Failure(reason=reason, message=f"pod {pod}: {said}", pod=pod)
    ended: Manifest = (
        (container.get("state") or {}).get("terminated")
        or (container.get("lastState") or {}).get("terminated")
        or {}
    )
    if not ended or (reason != "CrashLoopBackOff" and container.get("ready")):
        return None
    if ended.get("exitCode") == 0 and reason != "CrashLoopBackOff":
        return None
    return _ended(pod, container, ended, looping=reason == "CrashLoopBackOff")


def _ended(pod: str, container: Manifest, ended: Manifest, *, looping: bool) -> Failure:
    code = ended.get("exitCode")
    reason = ended.get("reason") or "Error"
    if reason == "OOMKilled":
        said = "it needed more memory than its limit: raise predictor.resources.limits.memory"
    else:
        said = last_words(ended.get("message") or "") or f"exit code {code}"
    who = (
        "" if container.get("name") == server.CONTAINER else f", container {container.get('name')}"
    )
    return Failure(
        reason="OOMKilled"
        if reason == "OOMKilled"
        else "CrashLoopBackOff"
        if looping
        else "ContainerEnded",
        message=f"pod {pod}{who} ended {_times(container)}: {said}",
        pod=pod,
        exit_code=code,
        time=ended.get("finishedAt"),
    )


def _times(container: Manifest) -> str:
    restarts = container.get("restartCount") or 0
    return f"and was started again {restarts} times" if restarts > 1 else "and is started again"


def last_words(log: str) -> str:
    """The line of the last log lines that says why: the last that speaks of an error, else the last."""
    lines = [_text(line.strip()) for line in log.splitlines() if line.strip()]
    telling = [line for line in lines if "error" in line.lower()]
    return (telling or lines or [""])[-1]


def _text(line: str) -> str:
    """What a line of a JSON log says; other lines are as they are."""
    if not line.startswith("{"):
        return line
    try:
        entry = json.loads(line)
    except ValueError:
        return line
    said = entry.get("message") or entry.get("msg") if isinstance(entry, dict) else None
    return said if isinstance(said, str) else line

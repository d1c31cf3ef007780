"""Why a pod does not serve: the message of the scheduler, of the kubelet, or of the server's last log lines."""

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
        scheduler: whether the message is the scheduler's: the pod has no node.
    """

    reason: str
    message: str
    pod: str
    exit_code: int | None = None
    time: str | None = None
    scheduler: bool = False


def failures(pods: collections.abc.Sequence[Manifest]) -> list[Failure]:
    """The failures of all pods, newest pods first, because the newest template is the one that is rolled out."""
    newest = sorted(pods, key=_age, reverse=True)
    all_failures = (_failure(pod) for pod in newest if "deletionTimestamp" not in pod["metadata"])
    return [failure for failure in all_failures if failure is not None]


def fetching(pods: collections.abc.Sequence[Manifest]) -> str:
    """A message about the first pod whose init container fetches models; "" if none exists."""
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
"""Volume sources that refer to an object which others create: the volume's field, the field in it, the kind."""


def mounting(
    pods: collections.abc.Sequence[Manifest], volumes: collections.abc.Sequence[Manifest]
) -> str:
    """A message about the newest pod whose volumes are not mounted, and the objects that they refer to; "" if none exists.

    A kubelet that waits for a Secret reports it only as an Event: in the pod's status it looks like any other start.
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
    """Whether the pod has a node and none of its containers has started."""
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
            message = condition.get("message") or condition.get("reason") or "no node fits"
            return Failure(reason="Unschedulable", message=message, pod=name, scheduler=True)
    if status.get("phase") == "Failed":
        reason = status.get("reason") or "PodFailed"
        message = status.get("message") or "the pod has failed"
        return Failure(reason=reason, message=f"pod {name}: {message}", pod=name)
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
        message = (
            waiting.get("message") or f"the image {container.get('image', '')} cannot be pulled"
        )
        return Failure(reason=reason, message=f"pod {pod}: {message}", pod=pod)
    if reason in _CONFIG_REASONS:
        message = waiting.get("message") or "the container cannot be started"
        return Failure(reason=reason, message=f"pod {pod}: {message}", pod=pod)
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
        message = "it needed more memory than its limit: raise predictor.resources.limits.memory"
    else:
        message = error_line(ended.get("message") or "") or f"exit code {code}"
    who = (
        "" if container.get("name") == server.CONTAINER else f", container {container.get('name')}"
    )
    return Failure(
        reason="OOMKilled"
        if reason == "OOMKilled"
        else "CrashLoopBackOff"
        if looping
        else "ContainerEnded",
        message=f"pod {pod}{who} ended {_times(container)}: {message}",
        pod=pod,
        exit_code=code,
        time=ended.get("finishedAt"),
    )


def _times(container: Manifest) -> str:
    restarts = container.get("restartCount") or 0
    return f"and was started again {restarts} times" if restarts > 1 else "and is started again"


def error_line(log: str) -> str:
    """The log line that explains a failure: the last one that contains "error", else the last one."""
    lines = [_text(line.strip()) for line in log.splitlines() if line.strip()]
    telling = [line for line in lines if "error" in line.lower()]
    return (telling or lines or [""])[-1]


def _text(line: str) -> str:
    """The message of a JSON log line; other lines unchanged."""
    if not line.startswith("{"):
        return line
    try:
        entry = json.loads(line)
    except ValueError:
        return line
    message = entry.get("message") or entry.get("msg") if isinstance(entry, dict) else None
    return message if isinstance(message, str) else line

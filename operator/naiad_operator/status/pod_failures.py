"""Why a pod with a node does not serve: the message of the kubelet, or of the server's last log lines.

A container that fails passes through several states again and again (waiting to be pulled or started, running, ended). The reason is the same in all
of them, so that a condition stays as it is, and its Event is written once.
"""

import collections.abc
import dataclasses
import datetime as dt
import re

from naiad_operator.builders import server
from naiad_operator.status import log_lines, pods
from naiad_operator.status.pods import Manifest
from naiad_operator.status.reasons import Reason

_WAITING_REASONS: dict[str, Reason] = {
    "ErrImagePull": "ImagePullBackOff",
    "ImagePullBackOff": "ImagePullBackOff",
    "ImageInspectError": "ImagePullBackOff",
    "ErrImageNeverPull": "ImagePullBackOff",
    "RegistryUnavailable": "ImagePullBackOff",
    "SignatureValidationFailed": "ImagePullBackOff",
    "InvalidImageName": "InvalidImageName",
    "CreateContainerConfigError": "CreateContainerConfigError",
    "CreateContainerError": "CreateContainerError",
    "RunContainerError": "CreateContainerError",
    "PreCreateHookError": "CreateContainerError",
    "PreStartHookError": "CreateContainerError",
    "PostStartHookError": "CreateContainerError",
}
"""The kubelet's reasons of a container that cannot start, and the reason of the condition."""
_NOT_STARTED = frozenset(("StartError", "ContainerCannotRun"))
"""The kubelet's reasons of a container that has ended because its runtime could not start it."""
_CRASH_LOOP = "CrashLoopBackOff"
_LOOP_MARGIN_S = 300.0
_BACK_OFF = re.compile(r'^Back-off pulling image "[^"]*": (?:ErrImagePull: )?')
"""What the kubelet writes before the cause while it does not try; without that, the message is the same all the time."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why one pod does not serve.

    Attributes:
        pod: its name; "" if the failure is not about one pod.
        exit_code: of the container, if it ended.
        time: when it ended.
        loops: whether the container ends each time it is started.
    """

    reason: Reason
    message: str
    pod: str = ""
    exit_code: int | None = None
    time: str | None = None
    loops: bool = False


def failures(
    candidates: collections.abc.Iterable[Manifest],
    *,
    startup_s: float,
    now: dt.datetime | None = None,
) -> list[Failure]:
    """The failures of pods, in their order.

    Args:
        candidates: the pods.
        startup_s: how long the startup probe lets a container run before it counts as failed.
        now: the time; None when it is not known, so that a crash loop has no end.
    """
    every = (_failure(pod, startup_s, now) for pod in candidates if not pods.is_over(pod))
    return [failure for failure in every if failure is not None]


def next_change(
    candidates: collections.abc.Iterable[Manifest], *, startup_s: float, now: dt.datetime
) -> dt.datetime | None:
    """When the passing of time alone ends a crash loop; None if it does not."""
    ends = (
        _end_of_loop(container, startup_s)
        for pod in candidates
        for container in _containers(pod)
        if not container.get("ready")
    )
    return min((end for end in ends if end is not None and end > now), default=None)


def _containers(pod: Manifest) -> collections.abc.Iterator[Manifest]:
    status: Manifest = pod.get("status") or {}
    for kind in ("initContainerStatuses", "containerStatuses"):
        yield from status.get(kind) or ()


def _failure(pod: Manifest, startup_s: float, now: dt.datetime | None) -> Failure | None:
    for container in _containers(pod):
        failure = _container_failure(pod["metadata"]["name"], container, startup_s, now)
        if failure is not None:
            return failure
    return None


def _container_failure(
    pod: str, container: Manifest, startup_s: float, now: dt.datetime | None
) -> Failure | None:
    state: Manifest = container.get("state") or {}
    waiting: Manifest = state.get("waiting") or {}
    reason = waiting.get("reason") or ""
    ended: Manifest = (
        state.get("terminated") or (container.get("lastState") or {}).get("terminated") or {}
    )
    # A container that waits for anything else has got further, or not as far, since it ended.
    if ended and not container.get("ready") and reason in ("", _CRASH_LOOP, "RunContainerError"):
        loops = reason == _CRASH_LOOP or _is_loop(container, ended, startup_s)
        if (loops or ended.get("exitCode") != 0) and not _has_recovered(
            container, startup_s, now, loops=loops
        ):
            return _ended(pod, container, ended, loops=loops)
    if reason not in _WAITING_REASONS:
        return None
    text = _BACK_OFF.sub("", waiting.get("message") or "") or waiting.get("message")
    text = text or f"container {container.get('name')} waits: {reason}"
    return Failure(reason=_WAITING_REASONS[reason], message=f"pod {pod}: {text}", pod=pod)


def _is_loop(container: Manifest, ended: Manifest, startup_s: float) -> bool:
    """Whether a container that runs, or has just ended, was started several times and ended soon each time, as far as its status shows."""
    if (container.get("restartCount") or 0) < 2:  # noqa: PLR2004 - the first restart may be a single incident
        return False
    started, finished = ended.get("startedAt"), ended.get("finishedAt")
    if not (started and finished):
        return True
    seconds = (pods.time(finished) - pods.time(started)).total_seconds()
    return seconds < startup_s + _LOOP_MARGIN_S


def _has_recovered(
    container: Manifest, startup_s: float, now: dt.datetime | None, *, loops: bool
) -> bool:
    """Whether a container has started since it ended, so that its end is not why it is not ready: its models may have failed since.

    One in a crash loop has not until it has run for longer than such a loop allows: it would be in and out of the loop with each start.
    """
    state: Manifest = container.get("state") or {}
    if "running" not in state or not container.get("started"):
        return False
    end = _end_of_loop(container, startup_s)
    return not loops or (now is not None and end is not None and now >= end)


def _end_of_loop(container: Manifest, startup_s: float) -> dt.datetime | None:
    """When a container that has started has run for long enough to be in no crash loop; None for one that has not."""
    running: Manifest = (container.get("state") or {}).get("running") or {}
    since = running.get("startedAt")
    if not since or not container.get("started") or not container.get("restartCount"):
        return None
    return pods.time(since) + dt.timedelta(seconds=startup_s + _LOOP_MARGIN_S)


def _ended(pod: str, container: Manifest, ended: Manifest, *, loops: bool) -> Failure:
    code = ended.get("exitCode")
    reason: Reason = "CrashLoopBackOff" if loops else "ContainerEnded"
    if ended.get("reason") == "OOMKilled":
        reason = "OOMKilled"
        message = f"it needed more memory than its limit: raise {_memory_limit(container)}"
    elif ended.get("reason") in _NOT_STARTED:
        reason = "CreateContainerError"
        message = ended.get("message") or "it could not be started"
    elif code == 0:
        message = f"exit code 0, as after a probe that failed: kubectl describe pod {pod}"
    else:
        message = log_lines.error_line(ended.get("message") or "") or _code(code, pod)
    name = container.get("name")
    who = "" if name == server.CONTAINER else f", container {name}"
    what = "ends each time it is started" if loops else "ended and is started again"
    return Failure(
        reason=reason,
        message=f"pod {pod}{who} {what}: {message}",
        pod=pod,
        exit_code=code,
        time=ended.get("finishedAt"),
        loops=loops,
    )


def _memory_limit(container: Manifest) -> str:
    """Where the memory limit of a container is written."""
    name = str(container.get("name"))
    if name == server.CONTAINER or name.startswith(server.FETCH_CONTAINER):
        return "predictor.resources.limits.memory"
    return f"that of container {name}, e.g. in predictor.podTemplate"


_SIGNALS = {
    134: "SIGABRT", 135: "SIGBUS, as when /dev/shm is full: raise predictor.sharedMemory", 136: "SIGFPE", 137: "SIGKILL", 139: "SIGSEGV", 143: "SIGTERM",
}  # fmt: skip


def _code(code: int | None, pod: str) -> str:
    """An exit code without a line of the log that would explain it."""
    signal = f" ({_SIGNALS[code]})" if code in _SIGNALS else ""
    return f"exit code {code}{signal}, and no log: kubectl describe pod {pod}"


def fetching(candidates: collections.abc.Iterable[Manifest]) -> str:
    """A message about the first pod whose init container fetches models; "" if none exists."""
    for pod in candidates:
        for container in (pod.get("status") or {}).get("initContainerStatuses") or ():
            state = container.get("state") or {}
            name = container["name"]
            if name.startswith(server.FETCH_CONTAINER) and "running" in state:
                what = "files" if name == server.FETCH_FILES_CONTAINER else "models"
                return f"pod {pod['metadata']['name']} fetches its {what} ({name})"
    return ""


_SETTING_UP = frozenset(("ContainerCreating", "PodInitializing"))
_SOURCES = (
    ("secret", "secretName", "Secret"),
    ("configMap", "name", "ConfigMap"),
    ("persistentVolumeClaim", "claimName", "PersistentVolumeClaim"),
)
"""Volume sources that refer to an object which others create: the volume's field, the field in it, the kind."""


def mounting(
    candidates: collections.abc.Iterable[Manifest], volumes: collections.abc.Iterable[Manifest]
) -> str:
    """A message about the first pod whose volumes are not mounted, and the objects that they refer to; "" if none exists.

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
    for pod in candidates:
        if _is_being_set_up(pod):
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

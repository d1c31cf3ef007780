"""What nodes would write: a Node object, pods bound and their status.

No containers run. A test says what happens to its pods ("they become ready", "the image cannot be pulled"),
and this writes it as a kubelet and the scheduler would, through the same subresources. A pod that is being deleted is
taken away, as a kubelet does once its containers have ended.
"""

import datetime as dt
from collections.abc import Callable, Mapping
from typing import Any

from tests.apiserver.client import Kubectl, Object, RefusedError

_NODE = "node-of-the-tests"

Say = Callable[[Object], Object]


class Kubelet:
    """Writes the node's side of things for one node."""

    def __init__(self, kubectl: Kubectl, *, node: str = _NODE) -> None:
        self._kubectl = kubectl
        self.node = node

    def register(
        self, *, resources: Mapping[str, str] | None = None, labels: Mapping[str, str] | None = None
    ) -> None:
        """Makes the Node, or gives it other resources and labels."""
        offered = {"cpu": "64", "memory": "256Gi", "pods": "5000"} | dict(resources or {})
        metadata = {"name": self.node, "labels": dict(labels or {})}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": metadata}
        live = self._kubectl.apply(node, manager="kubelet", force=True)
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ready"}
        stamps = {"lastHeartbeatTime": now(), "lastTransitionTime": now()}
        live["status"] = {
            "capacity": offered,
            "allocatable": offered,
            "conditions": [ready | stamps],
        }
        self._kubectl.replace_status(live)

    def pods(self, namespace: str, *, labels: str = "") -> list[Object]:
        """The pods of a namespace that are not being deleted."""
        resources = self._kubectl.list("Pod", namespace, labels=labels)
        return [pod for pod in resources if "deletionTimestamp" not in pod["metadata"]]

    def step(self, namespace: str, *, ip: str = "127.0.0.1", become: Say | None = None) -> int:
        """One round over a namespace: pods that are new become ready, deleted ones go.

        Args:
            namespace: whose pods.
            ip: the address that the pods get.
            become: gives another status than ready, from the pod.

        Returns:
            How many pods were written.
        """
        wrote = 0
        for pod in self._kubectl.list("Pod", namespace):
            name = pod["metadata"]["name"]
            try:
                if "deletionTimestamp" in pod["metadata"]:
                    self._remove(namespace, name)
                    wrote += 1
                    continue
                status = become(pod) if become is not None else ready(pod, ip=ip)
                if _same(pod.get("status", {}), status):
                    continue
                if "nodeName" not in pod["spec"] and status.get("phase") != "Pending":
                    self.bind(namespace, name)
                self._write_status(namespace, name, status)
                wrote += 1
            except RefusedError as refused:
                if refused.code not in (404, 409):
                    raise  # gone or changed meanwhile: the next round sees it
        return wrote

    def bind(self, namespace: str, name: str) -> None:
        """Puts a pod on the node, as the scheduler does."""
        target = {"apiVersion": "v1", "kind": "Node", "name": self.node}
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name},
            "target": target,
        }
        path = f"/api/v1/namespaces/{namespace}/pods/{name}/binding"
        self._kubectl.request("POST", path, body=binding)

    def _write_status(self, namespace: str, name: str, status: Object) -> None:
        path = f"/api/v1/namespaces/{namespace}/pods/{name}/status"
        live = self._kubectl.request("GET", path)
        live["status"] = status
        self._kubectl.request("PUT", path, body=live)

    def _remove(self, namespace: str, name: str) -> None:
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        self._kubectl.request("DELETE", path, body={"gracePeriodSeconds": 0})


def ready(pod: Object, *, ip: str = "127.0.0.1") -> Object:
    """The status of a pod whose containers all run and are ready."""
    since = pod["metadata"]["creationTimestamp"]
    return {
        "phase": "Running",
        "podIP": ip,
        "podIPs": [{"ip": ip}],
        "hostIP": "127.0.0.1",
        "startTime": since,
        "conditions": [_condition(kind, "True", since) for kind in _CONDITIONS],
        "containerStatuses": [
            _container(pod, state={"running": {"startedAt": since}}, is_ready=True)
        ],
    }


def waiting(pod: Object, *, reason: str, message: str) -> Object:
    """The status of a pod whose container cannot start: `ImagePullBackOff` and its like."""
    since = pod["metadata"]["creationTimestamp"]
    conditions = [
        _condition("PodScheduled", "True", since),
        _condition("Initialized", "True", since),
    ]
    conditions += [_condition(kind, "False", since) for kind in ("Ready", "ContainersReady")]
    state = {"waiting": {"reason": reason, "message": message}}
    return {
        "phase": "Running",
        "startTime": since,
        "conditions": conditions,
        "containerStatuses": [_container(pod, state=state, is_ready=False)],
    }


def crash_looping(
    pod: Object, *, message: str, exit_code: int = 1, restarts: int = 3, phase: str = "waiting"
) -> Object:
    """The status of a pod whose container ends again and again, and now is waiting, running, or terminated; `message` is the end of its output."""
    status = waiting(pod, reason="CrashLoopBackOff", message="back-off restarting failed container")
    since = pod["metadata"]["creationTimestamp"]
    ended = {
        "exitCode": exit_code,
        "reason": "Error",
        "message": message,
        "startedAt": since,
        "finishedAt": since,
    }
    container = status["containerStatuses"][0]
    container |= {"lastState": {"terminated": ended}, "restartCount": restarts}
    if phase != "waiting":
        container["state"] = {
            "running": {"running": {"startedAt": since}},
            "terminated": {"terminated": ended},
        }[phase]
    return status


def evicted(pod: Object) -> Object:
    """The status of a pod that its node's kubelet has evicted; the pod stays as a record."""
    since = pod["metadata"]["creationTimestamp"]
    target = _condition("DisruptionTarget", "True", since) | {"reason": "TerminationByKubelet"}
    return {
        "phase": "Failed",
        "reason": "Evicted",
        "message": "The node was low on resource: memory.",
        "startTime": since,
        "conditions": [_condition("PodScheduled", "True", since), target],
    }


def unschedulable(pod: Object, *, message: str, since: str = "") -> Object:
    """The status that the scheduler writes when no node fits, since then or since the pod was created."""
    since = since or pod["metadata"]["creationTimestamp"]
    scheduled = _condition("PodScheduled", "False", since)
    return {
        "phase": "Pending",
        "conditions": [scheduled | {"reason": "Unschedulable", "message": message}],
    }


def now(*, ago_s: float = 0) -> str:
    """The time as Kubernetes writes it, or that of some seconds ago."""
    then = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=ago_s)
    return then.strftime("%Y-%m-%dT%H:%M:%SZ")


_CONDITIONS = ("PodScheduled", "Initialized", "ContainersReady", "Ready")


def _condition(kind: str, status: str, since: str) -> dict[str, Any]:
    return {"type": kind, "status": status, "lastTransitionTime": since}


def _container(pod: Object, *, state: Object, is_ready: bool) -> Object:
    container = pod["spec"]["containers"][0]
    return {
        "name": container["name"],
        "image": container["image"],
        "imageID": f"sha256:{container['image']}",
        "ready": is_ready,
        "started": is_ready,
        "restartCount": 0,
        "state": state,
    }


def _same(have: Object, want: Object) -> bool:
    return all(have.get(key) == value for key, value in want.items())

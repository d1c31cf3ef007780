"""What a cluster can show of a service, and what its Ready condition then says: its Deployment, pods and models."""

from naiad_operator.status import ModelState
from tests.operator.status.parts import (
    NOT_READY,
    ONE_READY,
    TOO_LONG,
    VOLUMES,
    Manifest,
    said,
    spec,
)
from tests.support import manifests
from tests.support.observations import (
    READY_MODEL,
    ago,
    deployment,
    ended,
    lost,
    pod,
    waiting,
)


def unreported(*of_kubelet: str, reason: str = "") -> Manifest:
    """A pod that only the node's controller counts as not ready."""
    conditions = [said("Ready", "False", reason), *(said(one, "True", "") for one in of_kubelet)]  # fmt: skip
    silent = pod(phase="Running", conditions=conditions)
    return {**silent, "spec": {"nodeName": "node-1"}}


def unready(*, changed: str) -> Manifest:
    """A pod whose server runs for an hour, and whose condition Ready changed then."""
    server = {"name": "server", "ready": False, "started": True, "state": {"running": {"startedAt": ago(hours=1)}}}  # fmt: skip
    conditions = [{**said("Ready", "False", "ContainersNotReady"), "lastTransitionTime": changed}]
    return pod(phase="Running", conditions=conditions, containerStatuses=[server])


NOT: dict[str, tuple[Manifest, tuple[str, str]]] = {
    "nothing is there yet": (
        {"children": {("Deployment", "demo"): None, ("Service", "demo"): None}},
        ("NewTemplate", "the Deployment is being made"),
    ),
    "a change is not seen yet": (
        {"children": {("Deployment", "demo"): deployment(stale=True)}},
        ("NewTemplate", "the Deployment has changed, and its controller takes it up"),
    ),
    "pods start": (
        {"children": ONE_READY, "models": None},
        ("RollingOut", "1 of 2 pods serve, 2 of the newest template"),
    ),
    "a pod is not ready any more": (
        {"children": ONE_READY, "pods": [unready(changed=ago(minutes=1))]},
        (
            "RollingOut",
            "1 of 2 pods serve, 2 of the newest template; pod demo-6d5f-x7k2p was ready and is not any more: container server fails its readiness probe (kubectl describe pod demo-6d5f-x7k2p)",
        ),
    ),
    "a pod has never been ready": (
        {"children": ONE_READY, "pods": [unready(changed=ago(hours=1, seconds=2))]},
        ("RollingOut", "1 of 2 pods serve, 2 of the newest template"),
    ),
    "old pods still serve": (
        {"children": {("Deployment", "demo"): deployment(total=2, updated=1)}},
        ("RollingOut", "2 of 2 pods serve, 1 of the newest template"),
    ),
    "the Deployment is paused": (
        {"children": {("Deployment", "demo"): deployment(updated=0, spec={"paused": True})}},
        ("DeploymentPaused", "Deployment demo is paused, so its pods stay as they are: kubectl rollout resume deployment/demo"),
    ),
    "a pod's volumes are not there": (
        {
            "children": {("Deployment", "demo"): deployment(ready=1, spec=VOLUMES)},
            "pods": [waiting("ContainerCreating")],
        },
        (
            "RollingOut",
            "1 of 2 pods serve, 2 of the newest template; pod demo-6d5f-x7k2p waits for its volumes (Secret tokens, PersistentVolumeClaim models); if that lasts, one of them is missing: kubectl describe pod demo-6d5f-x7k2p",
        ),
    ),
    "a pod's volumes are there and its image is pulled": (
        {
            "children": {("Deployment", "demo"): deployment(ready=1, spec=VOLUMES)},
            "pods": [waiting("ContainerCreating", conditions=[said("PodReadyToStartContainers", "True", "")])],
        },
        ("RollingOut", "1 of 2 pods serve, 2 of the newest template"),
    ),
    "an init container fetches models": (
        {
            "children": ONE_READY,
            "models": None,
            "pods": [pod(phase="Pending", initContainerStatuses=[{"name": "fetch-1", "state": {"running": {}}}])],
        },
        ("RollingOut", "1 of 2 pods serve, 2 of the newest template; pod demo-6d5f-x7k2p fetches its models (fetch-1)"),
    ),
    "an init container cannot fetch": (
        {
            "children": NOT_READY,
            "models": None,
            "pods": [
                pod(
                    phase="Pending",
                    initContainerStatuses=[
                        {
                            "name": "fetch-0",
                            "restartCount": 3,
                            "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                            "lastState": {"terminated": {"exitCode": 1, "message": "naiad fetch: error: no bucket a"}},
                        }
                    ],
                )
            ],
        },
        ("CrashLoopBackOff", "pod demo-6d5f-x7k2p, container fetch-0 ends each time it is started: naiad fetch: error: no bucket a"),
    ),
    "models load": (
        {"children": NOT_READY, "models": [ModelState(name="big", version="3", state="LOADING")]},
        ("Loading", "loading model big version 3"),
    ),
    "a model fails": (
        {
            "children": NOT_READY,
            "models": [READY_MODEL, ModelState(name="m", version="2", state="UNAVAILABLE", reason="no file model.onnx")],
        },
        ("ModelFailed", "model m version 2: no file model.onnx"),
    ),
    "the repository is empty": (
        {"children": NOT_READY, "models": []},
        ("RepositoryEmpty", "the repository holds no model: storageUri names the folder that holds one folder per model, not a model's own folder"),
    ),
    "the image cannot be pulled": (
        {"children": NOT_READY, "pods": [waiting("ImagePullBackOff", 'Back-off pulling image "nope"')], "models": None},
        ("ImagePullBackOff", 'pod demo-6d5f-x7k2p: Back-off pulling image "nope"'),
    ),
    "a Secret is missing": (
        {"children": NOT_READY, "pods": [waiting("CreateContainerConfigError", 'secret "s3" not found')], "models": None},
        ("CreateContainerConfigError", 'pod demo-6d5f-x7k2p: secret "s3" not found'),
    ),
    "the server ends again and again": (
        {"children": NOT_READY, "pods": [ended("INFO start\nERROR --model-repository=/x: no such folder\nbye\n")], "models": None},
        ("CrashLoopBackOff", "pod demo-6d5f-x7k2p ends each time it is started: ERROR --model-repository=/x: no such folder"),
    ),
    "the server ends without a word": (
        {"children": NOT_READY, "pods": [ended("", code=139, restarts=1)], "models": None},
        ("CrashLoopBackOff", "pod demo-6d5f-x7k2p ends each time it is started: exit code 139 (SIGSEGV), and no log: kubectl describe pod demo-6d5f-x7k2p"),
    ),
    "a container beside the server needs too much memory": (
        {
            "children": NOT_READY,
            "pods": [pod(phase="Running", containerStatuses=[{**ended("", code=137, reason="OOMKilled")["status"]["containerStatuses"][0], "name": "agent"}])],
            "models": None,
        },
        ("OOMKilled", "pod demo-6d5f-x7k2p, container agent ends each time it is started: it needed more memory than its limit: raise that of container agent, e.g. in predictor.podTemplate"),
    ),
    "a node that does not report": (
        {
            "children": ONE_READY,
            "pods": [
                pod("demo-6d5f-aaaaa", phase="Running", conditions=[said("Ready", "True", "")]),
                unreported("ContainersReady"),
            ],
        },
        ("RollingOut", "1 of 2 pods serve, 2 of the newest template; pod demo-6d5f-x7k2p does not count as ready because its node node-1 does not report (kubectl describe node node-1)"),
    ),
    "a pod whose readiness gate is closed": (
        {
            "children": ONE_READY,
            "pods": [unreported("ContainersReady", reason="ReadinessGatesNotReady")],
        },
        ("RollingOut", "1 of 2 pods serve, 2 of the newest template"),
    ),
    "the server needs too much memory": (
        {"children": NOT_READY, "pods": [ended("", code=137, reason="OOMKilled")], "models": None},
        (
            "OOMKilled",
            "pod demo-6d5f-x7k2p ends each time it is started: it needed more memory than its limit: raise predictor.resources.limits.memory",
        ),
    ),
    "a sidecar ends": (
        {
            "children": NOT_READY,
            "models": None,
            "pods": [
                pod(containerStatuses=[{"name": "shipper", "state": {"terminated": {"exitCode": 2, "message": "error: no host"}}}])
            ],
        },
        ("ContainerEnded", "pod demo-6d5f-x7k2p, container shipper ended and is started again: error: no host"),
    ),
    "a pod was evicted and another one starts": (
        {"children": ONE_READY, "pods": [lost("demo-6d5f-aaaaa", created=ago(minutes=5)), pod("demo-6d5f-bbbbb", phase="Pending")]},
        (
            "RollingOut",
            "1 of 2 pods serve, 2 of the newest template; pod demo-6d5f-aaaaa was evicted (The node was low on resource: memory) and is replaced",
        ),
    ),
    "pods and their replacements are evicted": (
        {
            "children": ONE_READY,
            "pods": [
                lost("demo-6d5f-aaaaa", created=ago(minutes=9), ended=ago(minutes=7)),
                lost("demo-6d5f-bbbbb", created=ago(minutes=7), ended=ago(minutes=4)),
                lost("demo-6d5f-ccccc", created=ago(minutes=4), ended=ago(minutes=1)),
                pod("demo-6d5f-ddddd", created=ago(minutes=1), phase="Pending"),
            ],
        },
        ("Evicted", "pods of this service are lost again and again: pod demo-6d5f-ccccc was evicted (The node was low on resource: memory)"),
    ),
    "a node refuses every pod": (
        {
            "children": ONE_READY,
            "pods": [
                lost(f"demo-6d5f-{i}", created=ago(seconds=9 - i), reason="OutOfcpu", message="Node didn't have enough resource: cpu")
                for i in range(4)
            ],
        },
        ("PodFailed", "pods of this service are lost again and again: pod demo-6d5f-3 failed (OutOfcpu: Node didn't have enough resource: cpu)"),
    ),
    "the runtime cannot start the server": (
        {
            "children": NOT_READY,
            "pods": [ended('exec: "naiad": executable file not found in $PATH', code=128, reason="StartError")],
            "models": None,
        },
        ("CreateContainerError", 'pod demo-6d5f-x7k2p ends each time it is started: exec: "naiad": executable file not found in $PATH'),
    ),
    "probes end the server again and again": (
        {"children": NOT_READY, "pods": [ended("bye", code=0, reason="Completed", phase="running", ran_s=620)], "models": None},
        (
            "CrashLoopBackOff",
            "pod demo-6d5f-x7k2p ends each time it is started: exit code 0, as after a probe that failed: kubectl describe pod demo-6d5f-x7k2p",
        ),
    ),
    "a server that ran for a day was started again": (
        {"children": ONE_READY, "pods": [ended("error: node reboot", phase="running", ran_s=86400)], "models": None},
        ("ContainerEnded", "pod demo-6d5f-x7k2p ended and is started again: error: node reboot"),
    ),
    "the API server refuses pods": (
        {
            "children": {
                ("Deployment", "demo"): deployment(
                    total=0, conditions=[said("ReplicaFailure", "True", "FailedCreate", 'pods "demo-x" is forbidden: violates PodSecurity')]
                )
            },
            "models": None,
        },
        ("PodsRefused", "pods are forbidden: violates PodSecurity"),
    ),
    "ready pods have no model": (
        {"models": []},
        ("RepositoryEmpty", "the repository holds no model: storageUri names the folder that holds one folder per model, not a model's own folder"),
    ),
    "a quota is used up": (
        {
            "children": {
                ("Deployment", "demo"): deployment(
                    total=0,
                    conditions=[said("ReplicaFailure", "True", "FailedCreate", 'pods "demo-x" is forbidden: exceeded quota: gpus')],
                )
            },
            "models": None,
        },
        ("QuotaExceeded", "pods are forbidden: exceeded quota: gpus"),
    ),
    "pods took too long": (
        {
            "children": {("Deployment", "demo"): deployment(ready=1, conditions=[TOO_LONG])},
            "models": None,
        },
        (
            "DeadlineExceeded",
            "1 of 2 pods became ready in the time that they have to load their models: raise predictor.probes.startup.failureThreshold, or look at the pods' logs",
        ),
    ),
    "it is suspended": (
        {"resource": spec(suspend=True), "children": {("Deployment", "demo"): deployment(0)}},
        ("Suspended", "suspended: set spec.suspend: false to serve again"),
    ),
    "it is scaled to nothing": (
        {"resource": manifests.resource(replicas=0), "children": {("Deployment", "demo"): deployment(0)}},
        ("ScaledToZero", "scaled to 0: raise replicas to serve again"),
    ),
}  # fmt: skip

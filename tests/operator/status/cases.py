"""What a cluster can show of a service, and what its Ready condition then says."""

import datetime as dt
import typing

from naiad_operator.builders.facts import ScaleUp
from naiad_operator.status import ApiError, Conflict, ModelState
from tests.support import manifests
from tests.support.observations import (
    POD,
    READY_MODEL,
    ago,
    deployment,
    ended,
    lost,
    pod,
    unscheduled,
    waiting,
)

Manifest = dict[str, typing.Any]

MIG = {"accelerator": {"type": "mig", "profile": "1g.10gb"}, "replicas": 2}
SINGLE = {"type": "mig", "profile": "1g.10gb", "strategy": "single"}
HPA = {"autoscaling": {"class": "hpa", "queueTimeMs": 5, "minReplicas": 2}}
KEDA = {"autoscaling": {"class": "keda", "queueTimeMs": 5}}
NO_NODE = "0/3 nodes are available: 3 Insufficient nvidia.com/mig-1g.10gb."
OTHER_LABELS = "node(s) didn't match Pod's node affinity/selector"
NOT_READY = {("Deployment", "demo"): deployment(ready=0)}
ONE_READY = {("Deployment", "demo"): deployment(ready=1)}


def scale_up(message: str, *, is_coming: bool) -> ScaleUp:
    """What cluster-autoscaler said two minutes ago."""
    time = dt.datetime.fromisoformat(ago(minutes=2))
    return ScaleUp(is_coming=is_coming, autoscaler="cluster-autoscaler", message=message, time=time)


VOLUMES: Manifest = {
    "template": {
        "spec": {
            "volumes": [
                {"name": "tmp", "emptyDir": {}},
                {"name": "auth", "secret": {"secretName": "tokens"}},
                {"name": "repository-0", "persistentVolumeClaim": {"claimName": "models"}},
            ]
        }
    }
}


def hpa(*conditions: Manifest) -> dict[tuple[str, str], Manifest]:
    return {("HorizontalPodAutoscaler", "demo"): {"status": {"conditions": list(conditions)}}}


def said(type_: str, value: str, reason: str, message: str = "") -> Manifest:
    return {"type": type_, "status": value, "reason": reason, "message": message}


def route(*parents: Manifest) -> dict[tuple[str, str], Manifest]:
    return {("HTTPRoute", "demo"): {"status": {"parents": list(parents)}}}


def spec(**fields: typing.Any) -> Manifest:
    manifest = manifests.resource(replicas=2)
    manifest["spec"].update(fields)
    return manifest


TOO_LONG = said("Progressing", "False", "ProgressDeadlineExceeded")
GATEWAY = spec(gateway={"parentRefs": [{"name": "public"}], "hostnames": ["demo.example.com"]})

READY: dict[str, Manifest] = {
    "two pods of two": {},
    "a pod that an autoscaler just added still starts": {
        "resource": manifests.resource(**HPA),
        "children": {("Deployment", "demo"): deployment(3, ready=2), **hpa(said("ScalingActive", "True", "ValidMetricFound"))},
    },
    "an autoscaler whose metrics are late": {
        "resource": manifests.resource(**HPA),
        "children": hpa({**said("ScalingActive", "False", "FailedGetPodsMetric", "no metrics"), "lastTransitionTime": ago(minutes=2)}),
    },
    "an autoscaler without a status yet": {"resource": manifests.resource(**HPA)},
    "models of pods that never responded": {"models": None},
    "a route that a Gateway has taken up": {
        "resource": GATEWAY,
        "children": route({"parentRef": {"name": "public"}, "conditions": [said("Accepted", "True", "Accepted")]}),
    },
    "an HTTP route in a cluster whose Gateway API has no other": {
        "resource": GATEWAY,
        "facts": manifests.facts(missing=["gateway.networking.k8s.io/v1/GRPCRoute"]),
        "children": route({"parentRef": {"name": "public"}, "conditions": [said("Accepted", "True", "Accepted")]}),
    },
    "an old pod that ended while two new ones serve": {
        "pods": [pod(phase="Running", containerStatuses=[{"name": "server", "ready": True, "lastState": {"terminated": {"exitCode": 1}}}])],
    },
    "a model that explicit control left out": {
        "models": [READY_MODEL, ModelState(name="other", version="1", state="UNAVAILABLE")],
    },
}  # fmt: skip

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
    "no node offers the slice, and nodes may be read": (
        {
            "resource": manifests.resource(**MIG),
            "children": NOT_READY,
            "pods": [unscheduled(NO_NODE)],
            "facts": manifests.facts(node_resources={"cpu": 64, "nvidia.com/mig-3g.40gb": 2, "nvidia.com/gpu": 4, "pods": 110}),
        },
        ("AcceleratorUnavailable", "pod demo-6d5f-x7k2p has no node: no node offers nvidia.com/mig-1g.10gb; nodes offer nvidia.com/gpu (4), nvidia.com/mig-3g.40gb (2)"),
    ),
    "no node offers any accelerator": (
        {
            "resource": manifests.resource(**MIG),
            "children": NOT_READY,
            "pods": [unscheduled(NO_NODE)],
            "facts": manifests.facts(node_resources={"cpu": 64}),
        },
        ("AcceleratorUnavailable", "pod demo-6d5f-x7k2p has no node: no node offers nvidia.com/mig-1g.10gb; no node offers any accelerator (is the device plugin running?)"),
    ),
    "no node offers the slice, and nodes may not be read": (
        {"resource": manifests.resource(**MIG), "children": NOT_READY, "pods": [unscheduled(NO_NODE)]},
        ("AcceleratorUnavailable", f"pod demo-6d5f-x7k2p has no node: no node has 1 free nvidia.com/mig-1g.10gb: {NO_NODE}"),
    ),
    "every slice is taken": (
        {
            "resource": manifests.resource(**MIG),
            "children": ONE_READY,
            "pods": [unscheduled(NO_NODE)],
            "facts": manifests.facts(node_resources={"nvidia.com/mig-1g.10gb": 1}),
        },
        ("AcceleratorUnavailable", f"pod demo-6d5f-x7k2p has no node: every nvidia.com/mig-1g.10gb is taken or on a node that does not fit: {NO_NODE}"),
    ),
    "the free GPUs are slices of the strategy single": (
        {
            "resource": manifests.resource(accelerator={"type": "gpu"}),
            "children": NOT_READY,
            "pods": [unscheduled(f"0/2 nodes are available: 1 Insufficient nvidia.com/gpu, 1 {OTHER_LABELS}.")],
            "facts": manifests.facts(node_resources={"nvidia.com/gpu": 7}),
        },
        (
            "AcceleratorUnavailable",
            ("pod demo-6d5f-x7k2p has no node: every nvidia.com/gpu is taken or on a node that does not fit: "
            f"0/2 nodes are available: 1 Insufficient nvidia.com/gpu, 1 {OTHER_LABELS}. "
            "On nodes with the label nvidia.com/gpu.slices.gi, nvidia.com/gpu is a MIG slice, so pods with whole GPUs do not go there: for a slice, write type: mig and strategy: single"),
        ),
    ),
    "no node has the product": (
        {
            "resource": manifests.resource(accelerator={**SINGLE, "product": "H100"}),
            "children": NOT_READY,
            "pods": [unscheduled(f"0/2 nodes are available: 2 {OTHER_LABELS}.")],
            "facts": manifests.facts(node_resources={"nvidia.com/gpu": 7}),
        },
        (
            "Unschedulable",
            f"pod demo-6d5f-x7k2p has no node: 0/2 nodes are available: 2 {OTHER_LABELS}. The accelerator needs nodes with the label nvidia.com/gpu.product=H100-MIG-1g.10gb",
        ),
    ),
    "no node has one of the products": (
        {
            "resource": manifests.resource(accelerator={**SINGLE, "products": ["A100", "H100"]}),
            "children": NOT_READY,
            "pods": [unscheduled(f"0/2 nodes are available: 2 {OTHER_LABELS}.")],
        },
        (
            "Unschedulable",
            f"pod demo-6d5f-x7k2p has no node: 0/2 nodes are available: 2 {OTHER_LABELS}. The accelerator needs nodes with the label nvidia.com/gpu.product in (A100-MIG-1g.10gb, H100-MIG-1g.10gb)",
        ),
    ),
    "no node can serve the claim": (
        {
            "resource": manifests.resource(accelerator={"strategy": "dra"}),
            "children": NOT_READY,
            "pods": [unscheduled("0/1 nodes are available: 1 cannot allocate all claims.")],
        },
        (
            "AcceleratorUnavailable",
            "pod demo-6d5f-x7k2p has no node: no node can give what the claim asks for: 0/1 nodes are available: 1 cannot allocate all claims.",
        ),
    ),
    "no node fits a pod with a claim for another reason": (
        {
            "resource": manifests.resource(accelerator={"strategy": "dra"}),
            "children": NOT_READY,
            "pods": [unscheduled("0/1 nodes are available: 1 Insufficient cpu.")],
        },
        ("Unschedulable", "pod demo-6d5f-x7k2p has no node: 0/1 nodes are available: 1 Insufficient cpu."),
    ),
    "no node fits for another reason": (
        {"children": NOT_READY, "pods": [unscheduled("0/3 nodes are available: 3 Insufficient memory.")]},
        ("Unschedulable", "pod demo-6d5f-x7k2p has no node: 0/3 nodes are available: 3 Insufficient memory."),
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
        ("CrashLoopBackOff", "pod demo-6d5f-x7k2p ends each time it is started: exit code 139"),
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
    "a node may be on its way": (
        {
            "resource": manifests.resource(**MIG),
            "children": NOT_READY,
            "pods": [unscheduled(NO_NODE, since=ago(minutes=9))],
            "facts": manifests.facts(node_resources={"cpu": 64}),
        },
        (
            "WaitingForNode",
            "pod demo-6d5f-x7k2p waits for a node: no node offers nvidia.com/mig-1g.10gb; no node offers any accelerator (is the device plugin running?)",
        ),
    ),
    "a node makes room": (
        {
            "children": NOT_READY,
            "pods": [unscheduled("0/3 nodes are available: 3 Insufficient memory.", since=ago(minutes=1), nominatedNodeName="n1")],
        },
        (
            "WaitingForNode",
            "pod demo-6d5f-x7k2p waits for node n1, which is to make room: 0/3 nodes are available: 3 Insufficient memory.",
        ),
    ),
    "an autoscaler adds a node": (
        {
            "children": NOT_READY,
            "pods": [unscheduled("0/3 nodes are available: 3 Insufficient memory.", since=ago(minutes=12))],
            "facts": manifests.facts(scale_ups={POD: scale_up("[{gpus 1->2 (max: 5)}]", is_coming=True)}),
        },
        (
            "WaitingForNode",
            "pod demo-6d5f-x7k2p waits for a node that is coming (cluster-autoscaler: [{gpus 1->2 (max: 5)}]): 0/3 nodes are available: 3 Insufficient memory.",
        ),
    ),
    "an autoscaler adds no node": (
        {
            "children": NOT_READY,
            "pods": [unscheduled("0/3 nodes are available: 3 Insufficient memory.", since=ago(minutes=12))],
            "facts": manifests.facts(scale_ups={POD: scale_up("1 max node group size reached", is_coming=False)}),
        },
        (
            "Unschedulable",
            "pod demo-6d5f-x7k2p has no node: 0/3 nodes are available: 3 Insufficient memory; cluster-autoscaler adds no node: 1 max node group size reached",
        ),
    ),
    "an autoscaler adds no node for now": (
        {
            "children": NOT_READY,
            "pods": [unscheduled("0/3 nodes are available: 3 Insufficient memory.", since=ago(minutes=1))],
            "facts": manifests.facts(scale_ups={POD: scale_up("1 in backoff after failed scale-up", is_coming=False)}),
        },
        (
            "WaitingForNode",
            "pod demo-6d5f-x7k2p waits for a node: 0/3 nodes are available: 3 Insufficient memory; cluster-autoscaler adds no node: 1 in backoff after failed scale-up",
        ),
    ),
    "a claim is missing, which no new node provides": (
        {
            "children": NOT_READY,
            "pods": [unscheduled('0/3 nodes are available: persistentvolumeclaim "models" not found.', since=ago(seconds=1))],
        },
        ("Unschedulable", 'pod demo-6d5f-x7k2p has no node: 0/3 nodes are available: persistentvolumeclaim "models" not found.'),
    ),
    "a queue holds the pod back": (
        {
            "children": NOT_READY,
            "pods": [unscheduled("Scheduling is blocked due to non-empty scheduling gates", reason="SchedulingGated")],
        },
        (
            "SchedulingGated",
            "pod demo-6d5f-x7k2p is not scheduled until its scheduling gates are removed (a queue such as Kueue sets them)",
        ),
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
        ("PodsRefused", 'pods "demo-x" is forbidden: violates PodSecurity'),
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
        ("QuotaExceeded", 'pods "demo-x" is forbidden: exceeded quota: gpus'),
    ),
    "a queue holds the pod back for longer than models may take to load": (
        {
            "children": {("Deployment", "demo"): deployment(ready=1, conditions=[TOO_LONG])},
            "pods": [unscheduled("Scheduling is blocked due to non-empty scheduling gates", reason="SchedulingGated")],
        },
        (
            "SchedulingGated",
            "pod demo-6d5f-x7k2p is not scheduled until its scheduling gates are removed (a queue such as Kueue sets them)",
        ),
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
    "the Deployment has another owner": (
        {"children": {("Deployment", "demo"): None}, "conflicts": [Conflict("Deployment", "demo", "Helm release web")]},
        (
            "ResourceConflict",
            "Deployment demo exists already and belongs to Helm release web: delete it, or give this service another name",
        ),
    ),
    "the Service has no owner": (
        {"conflicts": [Conflict("Service", "demo", "")]},
        ("ResourceConflict", "Service demo exists already and has no owner: delete it, or give this service another name"),
    ),
    "an Ingress that is wanted again is held by a finalizer": (
        {"resource": spec(ingress={"enabled": True, "host": "a.example"}), "terminating": [("Ingress", "demo")]},
        ("BeingDeleted", "Ingress demo is still being deleted; it is made again once it is gone"),
    ),
    "the Deployment of the service that had this name goes": (
        {"children": {("Deployment", "demo"): None}, "terminating": [("Deployment", "demo")]},
        ("BeingDeleted", "Deployment demo is still being deleted; it is made again once it is gone"),
    ),
    "pods that are too many end": (
        {"children": {("Deployment", "demo"): deployment(1, total=4)}},
        ("RollingOut", "4 pods are there and 1 wanted: the others are being ended"),
    ),
    "the Deployment is refused": (
        {"errors": [ApiError("Deployment", "demo", 'strict decoding error: unknown field "spec.template.spec.x"')]},
        ("ApplyFailed", 'Deployment demo was refused: strict decoding error: unknown field "spec.template.spec.x"'),
    ),
    "the Ingress is refused": (
        {"resource": spec(ingress={"enabled": True, "host": "a.example"}), "errors": [ApiError("Ingress", "demo", "host taken")]},
        ("ApplyFailed", "Ingress demo was refused: host taken"),
    ),
    "the load balancer has no address": (
        {"resource": spec(service={"type": "LoadBalancer"})},
        ("NoAddress", "Service demo waits for an address from the cluster's load balancer"),
    ),
    "no Gateway has taken the route up": (
        {"resource": GATEWAY, "children": route()},
        ("RouteNotAccepted", "HTTPRoute demo: no Gateway has taken it up; is there a Gateway of the name in spec.gateway.parentRefs?"),
    ),
    "the Gateway refuses the route": (
        {
            "resource": GATEWAY,
            "children": route({
                "parentRef": {"name": "public"},
                "conditions": [said("Accepted", "False", "NotAllowedByListeners", "namespace not allowed")],
            }),
        },
        ("RouteNotAccepted", "HTTPRoute demo: Gateway public says NotAllowedByListeners: namespace not allowed"),
    ),
    "the cluster has no Gateway API": (
        {"resource": GATEWAY, "facts": manifests.facts(missing=["gateway.networking.k8s.io/v1/HTTPRoute"])},
        (
            "GatewayApiMissing",
            "this cluster has no HTTPRoute (gateway.networking.k8s.io/v1): install the Gateway API, or use spec.ingress",
        ),
    ),
    "the autoscaler gets no metrics": (
        {
            "resource": manifests.resource(**HPA),
            "children": hpa(said("ScalingActive", "False", "FailedGetPodsMetric", "no metrics returned from custom metrics API")),
        },
        (
            "MetricsUnavailable",
            "no metrics returned from custom metrics API (is prometheus-adapter installed with the rules of manifests/monitoring, and is there a PodMonitor?)",
        ),
    ),
    "the autoscaler gets no CPU's use": (
        {
            "resource": manifests.resource(**HPA),
            "children": hpa(said("ScalingActive", "False", "FailedGetResourceMetric", "unable to get metrics for resource cpu")),
        },
        ("MetricsUnavailable", "unable to get metrics for resource cpu (is metrics-server installed?)"),
    ),
    "the autoscaler cannot scale": (
        {"resource": manifests.resource(**HPA), "children": hpa(said("AbleToScale", "False", "FailedGetScale", "no scale"))},
        ("CannotScale", "FailedGetScale: no scale"),
    ),
    "the cluster has no KEDA": (
        {"resource": manifests.resource(**KEDA), "facts": manifests.facts(missing=["keda.sh/v1alpha1/ScaledObject"])},
        ("KedaMissing", "this cluster has no ScaledObject (keda.sh/v1alpha1): install KEDA 2.17 or newer, or set autoscaling.class: hpa"),
    ),
    "KEDA refuses its object": (
        {
            "resource": manifests.resource(**KEDA),
            "children": {("ScaledObject", "demo"): {"status": {"conditions": [said("Ready", "False", "Error", "no such trigger")]}}},
        },
        ("ScaledObjectNotReady", "Error: no such trigger"),
    ),
    "KEDA cannot read a metric": (
        {
            "resource": manifests.resource(**KEDA),
            "children": {("ScaledObject", "demo"): {"status": {"conditions": [said("Ready", "Unknown", "PartialTriggerError", "Some triggers do not work")]}}},
        },
        (
            "MetricsUnavailable",
            "Some triggers do not work (does Prometheus answer at autoscaling.prometheusAddress, does it want autoscaling.prometheusAuth, and does it scrape these pods and the ingress controller?)",
        ),
    ),
    "KEDA falls back": (
        {
            "resource": manifests.resource(**KEDA),
            "children": {
                ("ScaledObject", "demo"): {
                    "status": {"conditions": [said("Ready", "True", ""), said("Fallback", "True", "FallbackExists")]}
                }
            },
        },
        ("MetricsUnavailable", "KEDA cannot read its metrics and keeps the fallback number of pods"),
    ),
    "the monitor cannot be": (
        {
            "resource": spec(monitoring={"podMonitor": True}),
            "facts": manifests.facts(missing=["monitoring.coreos.com/v1/PodMonitor"]),
        },
        (
            "PrometheusOperatorMissing",
            "this cluster has no PodMonitor (monitoring.coreos.com/v1): install the Prometheus operator, or leave spec.monitoring out",
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
    "KEDA scaled it to nothing": (
        {"resource": manifests.resource(**KEDA), "children": {("Deployment", "demo"): deployment(0)}},
        ("ScaledToZero", "the autoscaler keeps no pod while there are no requests"),
    ),
}  # fmt: skip

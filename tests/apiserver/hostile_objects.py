"""Hostile objects of the other kinds that the operator lists, watches and reads: pods, Events, claims, children with its labels, namespaces and profiles.

A user who may write one of these may write any content into it that the API server takes.
"""

import itertools
import typing

from tests.apiserver.client import NAIAD, Kubectl, Object, RefusedError
from tests.apiserver.kubelet import unschedulable
from tests.apiserver.objects import deployed, inference_service

VICTIM = "victim"
"""The service of the hostile tenant, which its own objects concern."""
WAITING = "waiting"
"""Another one, whose pods and their Events are strange, and which has no child that cannot be read."""
BINDING = "hostile-binding"
YEAR_0 = "0000-01-01T00:00:00Z"
COMMAS = "," * 60_000
BRACKETS = '{"[' * 60_000
_QUOTES = '"' * 100_000
LARGE = "".join(map(chr, range(0x4E00, 0x4E00 + 5_000))) * 10
TEXTS = {"commas": COMMAS, "brackets": BRACKETS, "quotes": _QUOTES, "large": LARGE}

_CONTAINER: Object = {"name": "server", "image": "a"}
_SELECTED: Object = {"matchLabels": {"a": "b"}}
SPECS: dict[str, Object] = {
    "Pod": {"containers": [_CONTAINER]},
    "Deployment": {
        "selector": _SELECTED,
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [_CONTAINER]}},
    },
    "Service": {"ports": [{"port": 1}]},
    "HorizontalPodAutoscaler": {
        "maxReplicas": 1,
        "scaleTargetRef": {"apiVersion": "a/b", "kind": "C", "name": "d"},
    },
    "PodDisruptionBudget": {"selector": _SELECTED, "maxUnavailable": "100%"},
    "Ingress": {"defaultBackend": {"service": {"name": "a", "port": {"number": 1}}}},
    "NetworkPolicy": {"podSelector": _SELECTED},
    "PersistentVolumeClaim": {
        "accessModes": ["ReadWriteOncePod"],
        "resources": {"requests": {"storage": "1"}},
    },
}
"""Of each kind that a tenant may write, the least that the API server takes."""
OPTIONAL: dict[str, Object] = {
    "ScaledObject": {
        "scaleTargetRef": {"name": "a"},
        "triggers": [{"type": "cpu", "metadata": {"value": "1"}}],
    },
    "HTTPRoute": {},
    "GRPCRoute": {},
    "PodMonitor": {"selector": {}, "podMetricsEndpoints": [{"port": "a"}]},
    "ServiceMonitor": {"selector": {}, "endpoints": [{"port": "a"}]},
    "ResourceClaimTemplate": {"spec": {}},
}
"""The same of each kind that an API server may lack."""
_API = {
    "ScaledObject": "keda.sh/v1alpha1",
    "HTTPRoute": "gateway.networking.k8s.io/v1",
    "GRPCRoute": "gateway.networking.k8s.io/v1",
    "PodMonitor": "monitoring.coreos.com/v1",
    "ServiceMonitor": "monitoring.coreos.com/v1",
    "ResourceClaimTemplate": "resource.k8s.io/v1",
    "Pod": "v1",
    "Service": "v1",
    "PersistentVolumeClaim": "v1",
    "Deployment": "apps/v1",
    "HorizontalPodAutoscaler": "autoscaling/v2",
    "PodDisruptionBudget": "policy/v1",
    "Ingress": "networking.k8s.io/v1",
    "NetworkPolicy": "networking.k8s.io/v1",
}
_numbers = itertools.count()


def owners(count: int, **controller: typing.Any) -> list[Object]:
    """So many owners of any kind, of which the first may be the controller."""
    made: list[Object] = [
        {"apiVersion": "a/b", "kind": "K" * 500, "name": "n" * 500, "uid": str(number)}
        for number in range(count)
    ]
    return [made[0] | controller, *made[1:]]


def child(
    kind: str, namespace: str, *, name: str = "", of: str = VICTIM, **metadata: typing.Any
) -> Object:
    """An object with the operator's labels for a service."""
    labels = {
        "app.kubernetes.io/managed-by": "naiad-operator",
        "app.kubernetes.io/instance": of,
        "app.kubernetes.io/name": "naiad-server",
    }
    names = {"name": name or f"hostile-{next(_numbers)}", "namespace": namespace, "labels": labels}
    api = {"apiVersion": _API[kind], "kind": kind}
    return {**api, "metadata": names | metadata, "spec": {**SPECS, **OPTIONAL}[kind]}


def children(namespace: str, uid: str, kinds: typing.Iterable[str]) -> list[Object]:
    """Of each kind: giant annotations, strange owners, and names and digests that only the operator's own objects have."""
    owner = {"apiVersion": NAIAD, "kind": "InferenceService", "name": VICTIM, "uid": uid}
    made: list[Object] = []
    for kind in kinds:
        made += [child(kind, namespace, annotations={"a": text}) for text in TEXTS.values()]
        made += [
            child(kind, namespace, ownerReferences=owners(500, controller=True)),
            child(kind, namespace, ownerReferences=[owner | {"controller": True}]),
            child(
                kind,
                namespace,
                ownerReferences=[owner | {"controller": True}],
                annotations={
                    f"serving.naiad.dev/{name}": text
                    for name, text in zip(
                        ("applied", "template", "template-version", "upgrade", "spec-hash"),
                        (
                            "\ud83d\ude00",
                            "eJzT0yMAAGTvBe8=",
                            "v99999999.1e308.-1",
                            "{}",
                            "[" * 90_000,
                        ),
                        strict=True,
                    )
                },
            ),
            child(kind, namespace, finalizers=[f"example.com/{n}" for n in range(900)]),
        ]
    return made


def deployments(namespace: str) -> list[Object]:
    """With two thousand million pods, and with more variables than an object may have."""
    pods = [child("Deployment", namespace) for _ in range(2)]
    pods[0]["spec"] = {**pods[0]["spec"], "replicas": 2**31 - 1, "paused": True}
    pods[1]["spec"] = {
        **pods[1]["spec"],
        "paused": True,
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {
                "containers": [
                    _CONTAINER
                    | {"env": [{"name": f"A{n}", "value": "{" * 20} for n in range(9_000)]}
                ]
            },
        },
    }
    return pods


def statuses(pod: Object) -> list[Object]:
    """What no kubelet writes into a pod."""
    container: Object = {
        "name": "server",
        "image": "",
        "imageID": "",
        "ready": False,
        "restartCount": -5,
    }
    ended: Object = {"exitCode": -(2**31), "signal": 99, "reason": "", "startedAt": YEAR_0, "finishedAt": YEAR_0, "message": BRACKETS}  # fmt: skip
    scheduled = unschedulable(pod, message=_QUOTES[:9_000], since=YEAR_0)
    return [
        {"phase": "Pending", "conditions": []},
        {"phase": "x" * 10_000, "reason": COMMAS, "message": BRACKETS},
        scheduled,
        {**scheduled, "conditions": scheduled["conditions"] * 2_000},
        {
            "phase": "Running",
            "startTime": YEAR_0,
            "containerStatuses": [
                container | {"state": {"terminated": ended}, "lastState": {"terminated": ended}}
            ],
        },
        {
            "phase": "Running",
            "containerStatuses": [
                container | {"state": {"waiting": {"reason": LARGE, "message": COMMAS}}}
            ],
        },
        {
            "phase": "Failed",
            "reason": "Evicted",
            "conditions": [
                {
                    "type": "DisruptionTarget",
                    "status": "perhaps",
                    "lastTransitionTime": "9999-12-31T23:59:59Z",
                }
            ],
        },
    ]


def event(namespace: str, pod: str, reason: str, **fields: typing.Any) -> Object:
    """An Event about a pod, as autoscalers of nodes write them."""
    about = {"kind": "Pod", "name": pod, "namespace": namespace}
    metadata = {"name": f"hostile-{next(_numbers)}", "namespace": namespace}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": metadata,
        "involvedObject": about,
        "reason": reason,
        **fields,
    }


def events(namespace: str, pod: str) -> list[Object]:
    """Without times, with times that no calendar has, and with texts of any length."""
    made = [
        event(namespace, pod, reason, **fields)
        for reason in ("TriggeredScaleUp", "NotTriggerScaleUp", "FailedScheduling", "")
        for fields in (
            {},
            {"lastTimestamp": YEAR_0, "message": ""},
            {"lastTimestamp": "9999-12-31T23:59:59Z", "message": f"Failed to schedule pod, {BRACKETS}"},
            {"eventTime": "0000-01-01T00:00:00.000000Z", "action": "a", "reportingComponent": "a", "reportingInstance": "b"},
            {"series": {"count": -1, "lastObservedTime": "0000-01-01T00:00:00.000001Z"}},
            {"message": COMMAS, "source": {"component": LARGE[:500]}},
        )
    ]  # fmt: skip
    return [*made, *(event(namespace, pod, "TriggeredScaleUp", message=str(n)) for n in range(40))]


def profiles() -> list[Object]:
    """That are not valid, too large or too deep, or that bind other namespaces by strange selectors."""
    deep: typing.Any = 1
    for _ in range(150):
        deep = {"x": deep}
    wide: Object = {"nodeAffinity": [{}] * 30_000}
    specs: list[Object] = [
        {"affinity": wide},
        {"affinity": deep},
        {"podTemplate": {"spec": {"containers": [{"name": "server", "resources": 7}]}}},
        {"env": [{"name": "A", "value": COMMAS}]},
    ]
    bound = [spec | {"policy": {"namespaces": {"names": ["hostile-nowhere"]}}} for spec in specs]
    many = [f"hostile-{number}" for number in range(500)]
    selectors: list[Object] = [
        {"matchExpressions": [{"key": "a", "operator": "In", "values": many}]},
        {"matchExpressions": [{"key": f"k{n}", "operator": "Exists"} for n in range(90)]},
    ]
    bound += [{"policy": {"namespaces": {"selector": selector}}} for selector in selectors]
    return [
        {"apiVersion": NAIAD, "kind": "NaiadProfile", "metadata": {"name": f"{BINDING}-{number}"}, "spec": spec}
        for number, spec in enumerate(bound)
    ]  # fmt: skip


def written(kubectl: Kubectl, *manifests: Object) -> list[Object]:
    """Those that the API server takes."""
    made = []
    for manifest in manifests:
        try:
            made.append(kubectl.create(manifest))
        except RefusedError:
            continue
    return made


def removed(kubectl: Kubectl, kind: str) -> None:
    for each in kubectl.list(kind):
        if each["metadata"]["name"].startswith("hostile-"):
            kubectl.delete(kind, each["metadata"]["name"])


def attack(kubectl: Kubectl, namespace: str) -> dict[str, int]:
    """Writes everything; how many the API server took, by kind."""
    victim = kubectl.create(inference_service(VICTIM, namespace))
    kubectl.wait_for("Deployment", VICTIM, namespace)
    deployed(kubectl, WAITING, namespace)
    uid = victim["metadata"]["uid"]
    made = written(kubectl, *children(namespace, uid, SPECS), *deployments(namespace))
    for pod in written(kubectl, *(child("Pod", namespace, name=f"hostile-status-{n}", of=WAITING) for n in range(7))):  # fmt: skip
        number = int(pod["metadata"]["name"].rpartition("-")[2])
        try:
            kubectl.replace_status(pod | {"status": statuses(pod)[number]})
        except RefusedError:
            continue
        made += written(kubectl, *events(namespace, pod["metadata"]["name"]))
    made += written(kubectl, *profiles())
    strange = {f"example.com/{'k' * 50}{number}": "v" * 63 for number in range(2_000)}
    for number, metadata in enumerate(({"labels": strange}, {"annotations": {"a": COMMAS}})):
        name = {"name": f"hostile-{next(_numbers)}-{number}"}
        made += written(kubectl, {"apiVersion": "v1", "kind": "Namespace", "metadata": name | metadata})  # fmt: skip
    kinds = [each["kind"] for each in made]
    return {kind: kinds.count(kind) for kind in kinds}

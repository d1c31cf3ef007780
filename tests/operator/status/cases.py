"""What a cluster can show of a service, and what its Ready condition then says."""

from naiad_operator.status import ModelState
from tests.operator.status.parts import GATEWAY, HPA, Manifest, hpa, route, said
from tests.operator.status.situations import autoscaling, children, scheduling, traffic, workload
from tests.support import manifests, tables
from tests.support.observations import (
    READY_MODEL,
    ago,
    deployment,
    pod,
)

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

NOT = tables.joined(workload.NOT, scheduling.NOT, children.NOT, traffic.NOT, autoscaling.NOT)

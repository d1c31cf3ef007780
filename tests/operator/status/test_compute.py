"""Tables of what a cluster shows and what a resource's status says of it."""

import typing

import pytest

from naiad_operator.api import schema, validation
from naiad_operator.api.status import Status
from naiad_operator.errors import Problem
from naiad_operator.status import ApiError, Conflict, ModelState, compute_invalid
from tests.support import manifests
from tests.support.observations import (
    NOW,
    READY_MODEL,
    condition,
    container,
    deployment,
    ended,
    pod,
    status,
    unscheduled,
    waiting,
)

Manifest = dict[str, typing.Any]

MIG = {"accelerator": {"type": "mig", "profile": "1g.10gb"}, "replicas": 2}
HPA = {"autoscaling": {"class": "hpa", "queueTimeMs": 5, "minReplicas": 2}}
KEDA = {"autoscaling": {"class": "keda", "queueTimeMs": 5}}
NO_NODE = "0/3 nodes are available: 3 Insufficient nvidia.com/mig-1g.10gb."
NOT_READY = {("Deployment", "demo"): deployment(ready=0)}
ONE_READY = {("Deployment", "demo"): deployment(ready=1)}


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


GATEWAY = spec(gateway={"parentRefs": [{"name": "public"}], "hostnames": ["demo.example.com"]})

READY: dict[str, Manifest] = {
    "two pods of two": {},
    "a pod that an autoscaler just added still starts": {
        "resource": manifests.resource(**HPA),
        "children": {("Deployment", "demo"): deployment(3, ready=2), **hpa(said("ScalingActive", "True", "ValidMetricFound"))},
    },
    "an autoscaler that has not looked yet": {"resource": manifests.resource(**HPA)},
    "models that nobody could be asked about": {"models": None},
    "a route that a Gateway has taken up": {
        "resource": GATEWAY,
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
    "a new template is not seen yet": (
        {"children": {("Deployment", "demo"): deployment(stale=True)}},
        ("NewTemplate", "a new pod template is being rolled out"),
    ),
    "pods start": (
        {"children": ONE_READY, "models": None},
        ("RollingOut", "1 of 2 pods serve, 2 of the newest template"),
    ),
    "old pods still serve": (
        {"children": {("Deployment", "demo"): deployment(total=2, updated=1)}},
        ("RollingOut", "2 of 2 pods serve, 1 of the newest template"),
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
        ("RepositoryEmpty", "the repository holds no model: storageUri names the folder that holds one folder a model, not a model's own folder"),
    ),
    "no node offers the slice, and nodes may be read": (
        {
            "resource": manifests.resource(**MIG),
            "children": NOT_READY,
            "pods": [unscheduled(NO_NODE)],
            "facts": manifests.facts(node_resources={"cpu": 64, "nvidia.com/mig-3g.40gb": 2, "nvidia.com/gpu": 4, "pods": 110}),
        },
        ("AcceleratorUnavailable", "no node offers nvidia.com/mig-1g.10gb; nodes offer nvidia.com/gpu (4), nvidia.com/mig-3g.40gb (2)"),
    ),
    "no node offers any accelerator": (
        {
            "resource": manifests.resource(**MIG),
            "children": NOT_READY,
            "pods": [unscheduled(NO_NODE)],
            "facts": manifests.facts(node_resources={"cpu": 64}),
        },
        ("AcceleratorUnavailable", "no node offers nvidia.com/mig-1g.10gb; no node offers any accelerator (is the device plugin running?)"),
    ),
    "no node offers the slice, and nodes may not be read": (
        {"resource": manifests.resource(**MIG), "children": NOT_READY, "pods": [unscheduled(NO_NODE)]},
        ("AcceleratorUnavailable", f"no node has 1 free nvidia.com/mig-1g.10gb: {NO_NODE}"),
    ),
    "every slice is taken": (
        {
            "resource": manifests.resource(**MIG),
            "children": ONE_READY,
            "pods": [unscheduled(NO_NODE)],
            "facts": manifests.facts(node_resources={"nvidia.com/mig-1g.10gb": 1}),
        },
        ("AcceleratorUnavailable", f"every nvidia.com/mig-1g.10gb is taken or on a node that does not fit: {NO_NODE}"),
    ),
    "no node can serve the claim": (
        {
            "resource": manifests.resource(accelerator={"strategy": "dra"}),
            "children": NOT_READY,
            "pods": [unscheduled("0/1 nodes are available: 1 cannot allocate all claims.")],
        },
        (
            "AcceleratorUnavailable",
            "no node can give what the claim asks for: 0/1 nodes are available: 1 cannot allocate all claims.",
        ),
    ),
    "no node fits a pod with a claim for another reason": (
        {
            "resource": manifests.resource(accelerator={"strategy": "dra"}),
            "children": NOT_READY,
            "pods": [unscheduled("0/1 nodes are available: 1 Insufficient cpu.")],
        },
        ("Unschedulable", "0/1 nodes are available: 1 Insufficient cpu."),
    ),
    "no node fits for another reason": (
        {"children": NOT_READY, "pods": [unscheduled("0/3 nodes are available: 3 Insufficient memory.")]},
        ("Unschedulable", "0/3 nodes are available: 3 Insufficient memory."),
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
        ("CrashLoopBackOff", "pod demo-6d5f-x7k2p ended and was started again 3 times: ERROR --model-repository=/x: no such folder"),
    ),
    "the server ends without a word": (
        {"children": NOT_READY, "pods": [ended("", code=139, restarts=1)], "models": None},
        ("CrashLoopBackOff", "pod demo-6d5f-x7k2p ended and is started again: exit code 139"),
    ),
    "the server needs too much memory": (
        {"children": NOT_READY, "pods": [ended("", code=137, reason="OOMKilled")], "models": None},
        (
            "OOMKilled",
            "pod demo-6d5f-x7k2p ended and was started again 3 times: it needed more memory than its limit: raise predictor.resources.limits.memory",
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
    "a pod is evicted": (
        {"children": ONE_READY, "pods": [pod(phase="Failed", reason="Evicted", message="The node was low on resource: memory.")]},
        ("Evicted", "pod demo-6d5f-x7k2p: The node was low on resource: memory."),
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
    "pods took too long": (
        {
            "children": {
                ("Deployment", "demo"): deployment(ready=1, conditions=[said("Progressing", "False", "ProgressDeadlineExceeded")])
            },
            "models": None,
        },
        (
            "DeadlineExceeded",
            "1 of 2 pods became ready in the time that they have to load their models: raise predictor.probes.startup.failureThreshold, or look at the pods' logs",
        ),
    ),
    "the Deployment is somebody else's": (
        {"children": {("Deployment", "demo"): None}, "conflicts": [Conflict("Deployment", "demo", "Helm release web")]},
        (
            "ResourceConflict",
            "Deployment demo exists already and belongs to Helm release web: delete it, or give this service another name",
        ),
    ),
    "the Service is somebody else's": (
        {"conflicts": [Conflict("Service", "demo", "nobody")]},
        ("ResourceConflict", "Service demo exists already and belongs to nobody: delete it, or give this service another name"),
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
        ("NotAccepted", "HTTPRoute demo: no Gateway has taken it up; is there a Gateway of the name in spec.gateway.parentRefs?"),
    ),
    "the Gateway refuses the route": (
        {
            "resource": GATEWAY,
            "children": route({
                "parentRef": {"name": "public"},
                "conditions": [said("Accepted", "False", "NotAllowedByListeners", "namespace not allowed")],
            }),
        },
        ("NotAllowedByListeners", "HTTPRoute demo: Gateway public says namespace not allowed"),
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
    "the autoscaler cannot scale": (
        {"resource": manifests.resource(**HPA), "children": hpa(said("AbleToScale", "False", "FailedGetScale", "no scale"))},
        ("FailedGetScale", "no scale"),
    ),
    "the cluster has no KEDA": (
        {"resource": manifests.resource(**KEDA), "facts": manifests.facts(missing=["keda.sh/v1alpha1/ScaledObject"])},
        ("KedaMissing", "this cluster has no ScaledObject (keda.sh/v1alpha1): install KEDA, or set autoscaling.class: hpa"),
    ),
    "KEDA refuses its object": (
        {
            "resource": manifests.resource(**KEDA),
            "children": {("ScaledObject", "demo"): {"status": {"conditions": [said("Ready", "False", "Error", "no such trigger")]}}},
        },
        ("Error", "no such trigger"),
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
        ("ScaledToZero", "the autoscaler keeps no pod while nothing is asked"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", READY)
def test_ready_when(case: str) -> None:
    assert condition(status(**READY[case])) == ("True", "Ready", "")


@pytest.mark.parametrize("case", NOT)
def test_not_ready_and_why_when(case: str) -> None:
    given, (reason, message) = NOT[case]
    assert condition(status(**given)) == ("False", reason, message)


@pytest.mark.parametrize("case", [*READY, *NOT])
def test_a_status_is_what_the_definition_allows(case: str) -> None:
    given = READY[case] if case in READY else NOT[case][0]
    assert validation.problems_of(schema.of(Status), status(**given), "status") == []


def test_pods_that_serve_are_told_of_while_others_are_replaced() -> None:
    given = status(children={("Deployment", "demo"): deployment(total=3, updated=1, ready=2)})
    assert condition(given, "Available") == ("True", "Serving", "2 pods serve")
    assert condition(given, "Progressing")[:2] == ("True", "RollingOut")


def test_a_scaled_up_pod_without_a_gpu_is_told_of_while_the_service_is_ready() -> None:
    given = status(
        manifests.resource(**HPA),
        children={("Deployment", "demo"): deployment(3, ready=2)},
        pods=[unscheduled("0/3 nodes are available: 3 Insufficient nvidia.com/gpu.")],
    )
    assert condition(given)[0] == "True"
    assert condition(given, "Progressing")[:2] == ("False", "AcceleratorUnavailable")


def test_a_model_that_fails_beside_serving_pods_does_not_take_ready_away() -> None:
    """A bad new version in a watched repository: the old one serves on, and ModelsLoaded says what is wrong."""
    bad = ModelState(name="m", version="2", state="UNAVAILABLE", reason="truncated file")
    given = status(models=[READY_MODEL, bad])
    assert condition(given)[0] == "True"
    assert condition(given, "ModelsLoaded") == (
        "False",
        "ModelFailed",
        "model m version 2: truncated file",
    )
    assert given["modelStatus"]["transitionStatus"] == "BlockedByFailedLoad"
    assert given["modelCount"] == "1/2"
    assert [model["name"] for model in given["models"]] == ["m", "magika"], (
        "what is not ready comes first"
    )


def test_the_failure_of_a_pod_is_kept_for_machines() -> None:
    given = status(children=NOT_READY, pods=[ended("error: no license")], models=None)
    assert given["modelStatus"] == {
        "transitionStatus": "BlockedByFailedLoad",
        "copies": {"totalCopies": 2, "failedCopies": 1},
        "lastFailureInfo": {
            "reason": "CrashLoopBackOff",
            "message": "pod demo-6d5f-x7k2p ended and was started again 3 times: error: no license",
            "pod": "demo-6d5f-x7k2p",
            "exitCode": 1,
            "time": "2026-01-31T11:59:30Z",
        },
    }


def test_the_last_words_of_a_json_log_are_its_message() -> None:
    line = '{"level": "error", "message": "the error is this"}'
    given = status(children=NOT_READY, pods=[ended(f"{line}\n")], models=None)
    assert condition(given)[2].endswith("times: the error is this")


def test_an_evicted_pod_stands_in_nobodys_way_when_others_serve_in_its_place() -> None:
    evicted = pod(phase="Failed", reason="Evicted", message="The node was low on resource: memory.")
    given = status(pods=[evicted])
    assert condition(given, "Progressing")[:2] == ("False", "Complete")
    assert "lastFailureInfo" not in given["modelStatus"]


def test_a_pod_that_goes_says_nothing() -> None:
    going = waiting("ImagePullBackOff", "no such image")
    going["metadata"]["deletionTimestamp"] = NOW
    assert condition(status(children=ONE_READY, pods=[going], models=None))[1] == "RollingOut"


def test_a_running_pod_that_loads_its_models_is_no_failure() -> None:
    running = container(state={"running": {}})
    assert condition(status(children=ONE_READY, pods=[running], models=None))[1] == "RollingOut"


def test_a_condition_keeps_its_time_until_it_changes_its_mind() -> None:
    before = status(children=ONE_READY, now="2026-01-31T10:00:00Z")
    resource = {**manifests.resource(replicas=2), "status": before}
    after = status(resource, now="2026-01-31T11:00:00Z")
    times = {c["type"]: c["lastTransitionTime"] for c in after["conditions"]}
    assert times["Ready"] == "2026-01-31T11:00:00Z"
    assert times["SpecValid"] == "2026-01-31T10:00:00Z"


def test_the_same_observation_gives_the_same_status() -> None:
    """So that nothing is written when nothing changed."""
    before = status()
    resource = {**manifests.resource(replicas=2), "status": before}
    assert status(resource, now="2026-02-01T00:00:00Z") == before


def test_every_condition_carries_the_generation_that_it_is_about() -> None:
    given = status()
    assert {c["observedGeneration"] for c in given["conditions"]} == {3}
    assert given["observedGeneration"] == 3


def kept(resource: Manifest, now: int | None, before: Manifest | None = None) -> int | None:
    given = status(
        {**resource, "status": before or {}}, facts=manifests.facts(current_replicas=now)
    )
    found: int | None = given.get("keptReplicas")
    return found


def test_a_number_is_kept_only_where_nobody_else_says_one() -> None:
    suspended = manifests.resource()
    suspended["spec"]["suspend"] = True
    assert kept(manifests.resource(), None) == 1
    assert kept(manifests.resource(), 5) == 5, "an autoscaler was switched off"
    assert kept(manifests.resource(), 7, {"keptReplicas": 5}) == 5
    assert kept(manifests.resource(replicas=3), 3) is None
    assert kept(manifests.resource(**HPA), 5) is None, (
        "so that the number of the moment of switching it off counts"
    )
    assert kept(suspended, 0, {"keptReplicas": 5}) == 5
    assert kept(suspended, 0) is None


URLS = {
    "inside": (spec(), "http://demo.models.svc:8000", "demo.models.svc:8001"),
    "ingress": (
        spec(ingress={"enabled": True, "host": "a.example", "grpcHost": "g.example", "tls": {"secretName": "t"}}),
        "https://a.example",
        "g.example:443",
    ),
    "ingress with a path": (
        spec(ingress={"enabled": True, "host": "a.example", "path": "/demo/"}),
        "http://a.example/demo",
        "demo.models.svc:8001",
    ),
    "an ingress that is off": (spec(ingress={"host": "a.example"}), "http://demo.models.svc:8000", "demo.models.svc:8001"),
    "gateway": (
        spec(gateway={"parentRefs": [{"name": "g"}], "hostnames": ["a.example"], "grpcHostnames": ["g.example"], "tls": True}),
        "https://a.example",
        "g.example:443",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", URLS)
def test_addresses_are_those_that_clients_use(case: str) -> None:
    resource, url, grpc_url = URLS[case]
    given = status(resource)
    assert (given["url"], given["grpcUrl"]) == (url, grpc_url)
    assert given["address"] == {
        "url": "http://demo.models.svc:8000",
        "grpcUrl": "demo.models.svc:8001",
    }


@pytest.mark.parametrize(
    ("accelerator", "shown"),
    [
        ({"type": "none"}, {"resourceName": "none", "strategy": "mixed", "count": 0}),
        ({"count": 2}, {"resourceName": "nvidia.com/gpu", "strategy": "mixed", "count": 2}),
        (
            {"type": "mig", "profile": "1g.10gb", "strategy": "dra"},
            {"resourceName": "mig.nvidia.com", "strategy": "dra", "count": 1},
        ),
    ],
)
def test_the_accelerator_is_shown(accelerator: Manifest, shown: Manifest) -> None:
    assert status(manifests.resource(accelerator=accelerator))["accelerator"] == shown


def test_the_selector_matches_the_pods() -> None:
    """An autoscaler on the scale subresource finds its pods by it."""
    wanted = dict(pair.split("=") for pair in status()["selector"].split(","))
    template = manifests.built(manifests.INPUTS[0])[0]["spec"]["template"]
    assert wanted.items() <= template["metadata"]["labels"].items()


def test_an_invalid_resource_says_so_and_keeps_what_was_known() -> None:
    """Its children live on as they are, so the addresses and numbers of before still hold."""
    before = status()
    manifest = {**manifests.resource(), "status": before}
    given = compute_invalid(manifest, [Problem("spec.x", "is wrong: write y")], NOW)
    assert condition(given) == ("False", "InvalidSpec", "spec.x: is wrong: write y")
    assert condition(given, "SpecValid")[:2] == ("False", "InvalidSpec")
    assert condition(given, "Available")[0] == "True"
    assert given["url"] == before["url"]
    assert given["modelStatus"] == {"transitionStatus": "InvalidSpec"}
    assert validation.problems_of(schema.of(Status), given, "status") == []

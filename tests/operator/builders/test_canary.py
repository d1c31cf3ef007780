"""A canary: children of its own that no selector of the main ones matches, and weights that follow whether it serves."""

import re
import typing

import pytest

from naiad_operator.api.parsing import service
from naiad_operator.builders import build
from naiad_operator.builders.facts import CanaryFacts, ClusterFacts
from tests.operator.api.specs import gateway, hpa
from tests.support import manifests

Manifest = dict[str, typing.Any]

HOSTS = {"hostnames": ["a.example"], "grpcHostnames": ["b.example"]}
SERVES = manifests.facts(canary=CanaryFacts(serves=True))


def built(resource: Manifest, facts: ClusterFacts = SERVES) -> dict[tuple[str, str], Manifest]:
    """The children by kind and name."""
    return {
        (child["kind"], child["metadata"]["name"]): child
        for child in build(service.parse(resource), facts)
    }


def canary(**fields: typing.Any) -> Manifest:
    fields.setdefault("weight", 10)
    return gateway(
        hosts=HOSTS, canary=fields, networkPolicy={"enabled": True}, monitoring={"podMonitor": True}
    )


def weights(children: dict[tuple[str, str], Manifest], kind: str) -> dict[str, int]:
    [rule] = children[kind, "demo"]["spec"]["rules"]
    return {reference["name"]: reference["weight"] for reference in rule["backendRefs"]}


def selectors(child: Manifest) -> list[Manifest]:
    """Every selector of pods in a child."""
    spec = child["spec"]
    selector = spec.get("selector") or spec.get("podSelector")
    if selector is None:
        return []
    return [selector.get("matchLabels", selector)]


def matches(selector: Manifest, labels: Manifest) -> bool:
    return selector.items() <= labels.items()


def test_a_service_without_a_canary_is_as_before() -> None:
    with_canary = built(canary())
    resource = canary()
    del resource["spec"]["canary"]
    without = built(resource)
    assert not [name for _, name in without if "canary" in name]
    routes = ("HTTPRoute", "GRPCRoute")
    assert {
        key: child
        for key, child in with_canary.items()
        if "canary" not in key[1] and key[0] not in routes
    } == {key: child for key, child in without.items() if key[0] not in routes}
    assert weights(without, "HTTPRoute") == {"demo": 1}


def test_no_selector_matches_the_pods_of_the_other() -> None:
    children = built(canary(replicas=2, autoscaling={"class": "none"}))
    pods = {
        name: children["Deployment", name]["spec"]["template"]["metadata"]["labels"]
        for name in ("demo", "demo-canary")
    }
    seen = set()
    for (kind, name), child in children.items():
        for selector in selectors(child):
            seen.add((kind, name))
            assert [pod for pod, labels in pods.items() if matches(selector, labels)] == [name]
    assert seen >= {
        (kind, name)
        for kind in ("Deployment", "Service", "NetworkPolicy", "PodMonitor")
        for name in pods
    }
    assert ("PodDisruptionBudget", "demo-canary") in seen


def test_both_belong_to_the_one_resource() -> None:
    for child in built(canary()).values():
        metadata = child["metadata"]
        assert metadata["labels"]["app.kubernetes.io/instance"] == "demo"
        assert [owner["name"] for owner in metadata["ownerReferences"]] == ["demo"]


@pytest.mark.parametrize("weight", [0, 1, 50, 100])
def test_the_routes_of_both_protocols_divide_requests(weight: int) -> None:
    children = built(canary(weight=weight))
    for kind in ("HTTPRoute", "GRPCRoute"):
        assert weights(children, kind) == {"demo": 100 - weight, "demo-canary": weight}


def test_a_canary_that_does_not_serve_gets_no_request() -> None:
    children = built(canary(weight=100), manifests.facts())
    assert weights(children, "HTTPRoute") == {"demo": 100, "demo-canary": 0}


def test_the_service_that_routes_refer_to_is_made_before_them() -> None:
    order = list(built(canary()))
    assert order.index(("Service", "demo-canary")) < order.index(("HTTPRoute", "demo"))
    assert order.index(("Deployment", "demo-canary")) < order.index(("Service", "demo-canary"))


def test_fields_of_the_canary_stand_in_place_of_the_predictors() -> None:
    resource = canary(
        model={"storageUri": "pvc://models/next"},
        image="a/b:2",
        args=["--log-verbose=2"],
        env=[{"name": "A", "value": "canary"}],
        resources={"limits": {"memory": "2Gi"}},
        accelerator={"count": 2},
    )
    resource["spec"]["predictor"] |= {
        "image": "a/b:1",
        "args": ["--log-verbose=1", "--strict-readiness=false"],
        "env": [{"name": "A", "value": "main"}, {"name": "B", "value": "main"}],
        "serviceAccountName": "models",
    }
    children = built(resource)
    [main] = children["Deployment", "demo"]["spec"]["template"]["spec"]["containers"]
    pod = children["Deployment", "demo-canary"]["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert (main["image"], container["image"]) == (
        "registry.example.com/naiad-server:0.2.0",
        "a/b:2",
    )
    assert "--log-verbose=2" in container["args"]
    assert not {"--log-verbose=1", "--strict-readiness=false"} & set(container["args"])
    variables = {variable["name"]: variable["value"] for variable in container["env"]}
    assert variables["A"] == "canary"
    assert "B" not in variables
    assert container["resources"]["limits"] == {"memory": "2Gi", "nvidia.com/gpu": "2"}
    assert pod["serviceAccountName"] == "models", "what the canary leaves out is the predictor's"
    assert "pvc" not in str(main)
    assert "models/next" not in str(main)


def test_what_leads_to_the_main_pods_from_outside_is_not_made_twice() -> None:
    resource = canary()
    resource["spec"] |= {
        "service": {"type": "LoadBalancer", "annotations": {"a": "b"}, "headless": True},
        "pathPrefix": "/api/predict/demo",
    }
    children = built(resource)
    beside = children["Service", "demo-canary"]
    assert beside["spec"]["type"] == "ClusterIP"
    assert "annotations" not in beside["metadata"]
    assert [name for kind, name in children if kind == "Service" and "headless" in name] == [
        "demo-headless"
    ]
    assert "--http-base-path" not in str(children), "the Gateway removes the prefix for both"


def test_each_has_an_autoscaler_of_its_own() -> None:
    resource = hpa(minReplicas=3, maxReplicas=9)
    resource["spec"] |= {"gateway": {"parentRefs": [{"name": "g"}]}, "canary": {"weight": 5}}
    children = built(resource)
    assert [key for key in children if key[0] == "HorizontalPodAutoscaler"] == [
        ("HorizontalPodAutoscaler", "demo")
    ]
    assert children["Deployment", "demo-canary"]["spec"]["replicas"] == 1
    assert "replicas" not in children["Deployment", "demo"]["spec"]
    resource["spec"]["canary"]["autoscaling"] = {
        "class": "hpa",
        "pendingRequests": 4,
        "maxReplicas": 2,
    }
    children = built(resource)
    scaler = children["HorizontalPodAutoscaler", "demo-canary"]["spec"]
    assert scaler["scaleTargetRef"]["name"] == "demo-canary"
    assert scaler["maxReplicas"] == 2
    assert "replicas" not in children["Deployment", "demo-canary"]["spec"]


@pytest.mark.parametrize("name", ["demo", "d" * 39, "d" * 45, "d" * 50])
def test_keda_counts_the_requests_of_each_alone(name: str) -> None:
    """With a long name the hash of a pod's name is truncated, down to nothing."""
    resource = canary(autoscaling={"class": "keda", "pendingRequests": 8})
    resource["metadata"]["name"] = name
    resource["spec"]["predictor"]["autoscaling"] = {"class": "keda", "pendingRequests": 8}
    children = built(resource)
    pods = {of: f"{of}-7d5f8c9b6d-"[:58] + "x7k2p" for of in (name, f"{name}-canary")}
    for of in pods:
        [trigger] = children["ScaledObject", of]["spec"]["triggers"]
        query = trigger["metadata"]["query"]
        positive = re.findall(r'pod=~"([^"]*)"', query)
        negative = re.findall(r'pod!~"([^"]*)"', query)
        counted = [
            other
            for other, pod in pods.items()
            if all(re.fullmatch(p, pod) for p in positive)
            and not any(re.fullmatch(p, pod) for p in negative)
        ]
        assert counted == [of]


def test_a_suspended_service_has_no_canary_either() -> None:
    resource = canary(autoscaling={"class": "hpa", "pendingRequests": 4})
    resource["spec"]["suspend"] = True
    children = built(resource)
    for name in ("demo", "demo-canary"):
        assert children["Deployment", name]["spec"]["replicas"] == 0
    assert not [key for key in children if key[0] == "HorizontalPodAutoscaler"]


def test_an_autoscaler_that_took_a_suspended_canary_over_gets_its_first_pods() -> None:
    facts = manifests.facts(current_replicas=5, canary=CanaryFacts(current_replicas=0))
    children = built(
        canary(autoscaling={"class": "hpa", "pendingRequests": 4, "minReplicas": 2}), facts
    )
    assert children["Deployment", "demo-canary"]["spec"]["replicas"] == 2

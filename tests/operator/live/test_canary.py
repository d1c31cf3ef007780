"""A canary from its first pod to its promotion, in a cluster with the Gateway API: pods that no other Deployment adopts, and weights that follow."""

import collections.abc
import typing

import pytest

from tests.apiserver import control_plane, leftovers
from tests.apiserver.client import Kubectl, Object, RefusedError, until
from tests.apiserver.control_plane import OPERATOR_TOKEN, OPERATOR_USER, ControlPlane
from tests.apiserver.kubelet import Kubelet, crash_looping, now, ready, unschedulable
from tests.apiserver.objects import condition, event_of, inference_service, is_true, make_namespace
from tests.apiserver.operator import OperatorProcess, bugs

GATEWAY = {
    "parentRefs": [{"name": "public"}],
    "hostnames": ["a.example"],
    "grpcHostnames": ["g.example"],
}
KINDS = ("Deployment", "Service", "NetworkPolicy", "PodMonitor", "PodDisruptionBudget")


@pytest.fixture(scope="module")
def own_plane(full_plane: ControlPlane) -> ControlPlane:
    """Every optional kind."""
    return full_plane


@pytest.fixture(scope="module")
def here(
    own_plane: ControlPlane, admin: Kubectl, tmp_path_factory: pytest.TempPathFactory
) -> collections.abc.Iterator[str]:
    """A namespace that an operator watches."""
    Kubelet(admin).register()
    namespace = make_namespace(admin, "canary")
    log = tmp_path_factory.mktemp("operator") / "operator.log"
    options = ("--default-image=registry.example.com/naiad:1", f"--watch-namespaces={namespace}")
    with control_plane.may_do_everything(OPERATOR_USER, admin):
        operator = OperatorProcess(own_plane.kubeconfig(OPERATOR_TOKEN), *options, log=log)
        try:
            operator.wait_ready()
            yield namespace
        finally:
            assert operator.stop() == 0, operator.tail()
            assert not bugs(operator.lines())
            leftovers.empty(admin, namespace, ("InferenceService",))


def service(namespace: str, name: str, canary: Object | None, **predictor: typing.Any) -> Object:
    rest: Object = {
        "gateway": GATEWAY,
        "networkPolicy": {"enabled": True},
        "monitoring": {"podMonitor": True},
    }
    if canary is not None:
        rest["canary"] = canary
    return inference_service(name, namespace, replicas=2, **predictor, spec_=rest)


def is_canary(pod: Object) -> bool:
    return bool(pod["metadata"]["labels"]["app.kubernetes.io/component"] == "canary")


def weights(admin: Kubectl, name: str, namespace: str) -> tuple[dict[str, int], dict[str, int]]:
    """The weights of the HTTPRoute and of the GRPCRoute."""
    routes = []
    for kind in ("HTTPRoute", "GRPCRoute"):
        [rule] = admin.get(kind, name, namespace)["spec"]["rules"]
        routes.append({entry["name"]: entry["weight"] for entry in rule["backendRefs"]})
    return routes[0], routes[1]


class World:
    """What a Gateway and a node do for the pods and routes of a service, until something holds."""

    def __init__(self, admin: Kubectl, namespace: str, name: str) -> None:
        self.admin, self.namespace, self.name = admin, namespace, name
        self.kubelet = Kubelet(admin)
        self.main: collections.abc.Callable[[Object], Object] = ready
        self.canary: collections.abc.Callable[[Object], Object] = ready

    def step(self) -> None:
        def become(pod: Object) -> Object:
            return self.canary(pod) if is_canary(pod) else self.main(pod)

        self.kubelet.step(self.namespace, become=become)
        for kind in ("HTTPRoute", "GRPCRoute"):
            route = self.admin.find(kind, self.name, self.namespace)
            if route is not None and not is_accepted(route):
                route["status"] = {"parents": [accepted(route)]}
                try:
                    self.admin.replace_status(route)
                except RefusedError as refused:
                    if refused.code not in (404, 409):
                        raise  # gone or changed meanwhile: the next round sees it

    def until(self, what: str, look: collections.abc.Callable[[Object], typing.Any]) -> Object:
        """The resource, as soon as it is so in its present generation."""

        def seen() -> Object | None:
            self.step()
            resource = self.admin.get("InferenceService", self.name, self.namespace)
            generation = resource["metadata"]["generation"]
            current = (resource.get("status") or {}).get("observedGeneration") == generation
            return resource if current and look(resource) else None

        return until(what, seen)

    def pods_of(self, deployment: str) -> set[str]:
        """The pods of a Deployment, by its ReplicaSets."""
        sets = {
            one["metadata"]["name"]
            for one in self.admin.list("ReplicaSet", self.namespace)
            for owner in one["metadata"].get("ownerReferences", ())
            if owner["name"] == deployment
        }
        return {
            pod["metadata"]["name"]
            for pod in self.kubelet.pods(self.namespace)
            if pod["metadata"]["ownerReferences"][0]["name"] in sets
        }


def is_accepted(route: Object) -> bool:
    """Whether the Gateway has this version of the route."""
    parents = (route.get("status") or {}).get("parents") or ()
    seen = [one["observedGeneration"] for parent in parents for one in parent["conditions"]]
    return seen == [route["metadata"]["generation"]]


def accepted(route: Object) -> Object:
    return {
        "controllerName": "example.com/gateway",
        "parentRef": {"name": "public"},
        "conditions": [
            {
                "type": "Accepted",
                "status": "True",
                "reason": "Accepted",
                "message": "",
                "lastTransitionTime": now(),
                "observedGeneration": route["metadata"]["generation"],
            }
        ],
    }


def test_a_canary_from_its_first_pod_to_its_promotion(admin: Kubectl, here: str) -> None:
    world = World(admin, here, "demo")
    args = {"args": ["--log-verbose=1"]}
    world.canary = lambda pod: unschedulable(pod, message="0/1 nodes are available.")
    admin.apply(service(here, "demo", {"weight": 10, "replicas": 2, **args}))
    waits = world.until("Ready", lambda it: is_true(it, "Ready"))
    assert condition(waits, "CanaryReady")["status"] == "False"
    assert waits["status"]["canary"]["weight"] == 0
    assert waits["status"]["replicas"] == 2, "the canary's pods do not count"
    assert weights(admin, "demo", here) == ({"demo": 100, "demo-canary": 0},) * 2

    world.canary = ready
    serves = world.until("CanaryReady", lambda it: is_true(it, "CanaryReady"))
    until("the weights", lambda: weights(admin, "demo", here)[0]["demo-canary"] == 10)
    assert weights(admin, "demo", here) == ({"demo": 90, "demo-canary": 10},) * 2
    assert serves["status"]["canary"]["readyReplicas"] == 2
    assert event_of(admin, "demo", here, reason="CanaryReady")["type"] == "Normal"
    for kind in KINDS:
        assert admin.find(kind, "demo-canary", here), kind
    assert {len(world.pods_of(name)) for name in ("demo", "demo-canary")} == {2}
    assert not world.pods_of("demo") & world.pods_of("demo-canary")

    # A canary that ends gives its requests back.
    world.canary = lambda pod: crash_looping(pod, message="error: no such tensor")
    fails = world.until(
        "the canary to fail",
        lambda it: condition(it, "CanaryReady")["reason"] == "CrashLoopBackOff",
    )
    assert "no such tensor" in condition(fails, "CanaryReady")["message"]
    assert is_true(fails, "Ready")
    until("no weight", lambda: weights(admin, "demo", here)[0]["demo-canary"] == 0)
    assert event_of(admin, "demo", here, reason="CrashLoopBackOff")["type"] == "Warning"

    # Promotion: the main pods are replaced while the canary has all requests.
    world.canary = ready
    admin.apply(service(here, "demo", {"weight": 100, "replicas": 2, **args}, **args), force=True)
    world.until("both", lambda it: is_true(it, "Ready") and is_true(it, "CanaryReady"))
    until("all weight", lambda: weights(admin, "demo", here)[0] == {"demo": 0, "demo-canary": 100})
    canaries = world.pods_of("demo-canary")

    admin.apply(service(here, "demo", None, **args), force=True)
    done = world.until("Ready", lambda it: is_true(it, "Ready"))
    assert not condition(done, "CanaryReady")
    assert "canary" not in done["status"]
    world.until("the canary to go", lambda it: not admin.find("Deployment", "demo-canary", here))
    assert weights(admin, "demo", here) == ({"demo": 1},) * 2
    for kind in KINDS:
        until(f"no {kind}", lambda kind=kind: not admin.find(kind, "demo-canary", here))  # type: ignore[misc] # mypy cannot infer it
    assert not canaries & world.pods_of("demo")
    admin.delete("InferenceService", "demo", here)


def test_a_share_of_the_requests_is_mirrored_as_the_routes_of_the_cluster_have_it(
    admin: Kubectl, here: str
) -> None:
    """The API server publishes whether routes have a share, and keeps it."""
    made = service(here, "copied", None)
    made["spec"]["mirror"] = {"service": "next", "percent": 5}
    admin.apply(made)

    def mirrors() -> list[Object] | None:
        routes = [admin.find(kind, "copied", here) for kind in ("HTTPRoute", "GRPCRoute")]
        rules = [route["spec"]["rules"][0] for route in routes if route is not None]
        found = [rule["filters"][0]["requestMirror"] for rule in rules if "filters" in rule]
        return found if len(found) == len(routes) else None

    http, grpc = until("the filters", mirrors)
    assert http == {"backendRef": {"group": "", "kind": "Service", "name": "next", "port": 8000}, "percent": 5}  # fmt: skip
    assert (grpc["backendRef"]["port"], grpc["percent"]) == (8001, 5)
    del made["spec"]["mirror"]["percent"]
    admin.apply(made, force=True)
    until("all", lambda: all("percent" not in one for one in mirrors() or [{"percent": 5}]))
    admin.delete("InferenceService", "copied", here)


def test_neither_deployment_adopts_what_the_other_leaves(admin: Kubectl, here: str) -> None:
    """A Deployment adopts every ReplicaSet without an owner that its selector matches."""
    world = World(admin, here, "left")
    admin.apply(service(here, "left", {"weight": 50}))
    world.until("both", lambda it: is_true(it, "Ready") and is_true(it, "CanaryReady"))
    before = {name: world.pods_of(name) for name in ("left", "left-canary")}
    assert [len(pods) for pods in before.values()] == [2, 1]
    for name, pods in before.items():
        path = f"/apis/apps/v1/namespaces/{here}/deployments/{name}"
        uid = admin.get("Deployment", name, here)["metadata"]["uid"]
        admin.request("DELETE", path, body={"propagationPolicy": "Orphan"})

        def is_back(name: str = name, uid: str = uid, pods: set[str] = pods) -> bool:
            world.step()
            there = admin.find("Deployment", name, here)
            return (
                there is not None
                and there["metadata"]["uid"] != uid
                and world.pods_of(name) == pods
            )

        until(f"Deployment {name} with its own pods", is_back)
    world.until("both", lambda it: is_true(it, "Ready") and is_true(it, "CanaryReady"))
    assert {name: world.pods_of(name) for name in before} == before
    admin.delete("InferenceService", "left", here)


def test_services_lead_to_their_own_pods(admin: Kubectl, here: str) -> None:
    world = World(admin, here, "apart")
    addresses: dict[str, str] = {}

    def addressed(pod: Object) -> Object:
        """A ready pod with an address of its own, outside the loopback range, which an EndpointSlice does not take."""
        name = pod["metadata"]["name"]
        return ready(pod, ip=addresses.setdefault(name, f"192.0.2.{len(addresses) + 1}"))

    world.main = world.canary = addressed
    admin.apply(service(here, "apart", {"weight": 50}))
    world.until("both", lambda it: is_true(it, "Ready") and is_true(it, "CanaryReady"))
    for name in ("apart", "apart-canary"):

        def targets(name: str = name) -> bool:
            slices = admin.list("EndpointSlice", here, labels=f"kubernetes.io/service-name={name}")
            found = {
                point["targetRef"]["name"] for one in slices for point in one["endpoints"] or ()
            }
            return found == world.pods_of(name)

        until(f"Service {name} to lead to its pods", targets)
    admin.delete("InferenceService", "apart", here)

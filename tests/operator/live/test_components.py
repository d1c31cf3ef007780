"""A transformer and an explainer in a cluster with the Gateway API: who gets the requests, what the conditions say, and what stays when they go."""

import collections.abc

import pytest

from tests.apiserver import control_plane, leftovers
from tests.apiserver.client import Kubectl, Object, until
from tests.apiserver.control_plane import OPERATOR_TOKEN, OPERATOR_USER, ControlPlane
from tests.apiserver.kubelet import Kubelet, crash_looping, ready, unschedulable
from tests.apiserver.objects import condition, inference_service, is_true, make_namespace
from tests.apiserver.operator import OperatorProcess, at_rest, bugs
from tests.operator.live.test_canary import GATEWAY, World, weights


def failing(pod: Object) -> Object:
    """The program ends again and again."""
    return crash_looping(pod, message="no such model")


COMPONENT: Object = {"image": "registry.example.com/qa:1"}


@pytest.fixture(scope="module")
def own_plane(full_plane: ControlPlane) -> ControlPlane:
    """Every optional kind."""
    return full_plane


@pytest.fixture(scope="module")
def operator(
    own_plane: ControlPlane, admin: Kubectl, tmp_path_factory: pytest.TempPathFactory
) -> collections.abc.Iterator[tuple[OperatorProcess, str]]:
    """An operator as a new installation starts it, and the namespace that it watches."""
    Kubelet(admin).register()
    namespace = make_namespace(admin, "components")
    log = tmp_path_factory.mktemp("operator") / "operator.log"
    options = ("--default-image=registry.example.com/naiad:1", f"--watch-namespaces={namespace}", "--pod-template=Restricted")  # fmt: skip
    with control_plane.may_do_everything(OPERATOR_USER, admin):
        running = OperatorProcess(own_plane.kubeconfig(OPERATOR_TOKEN), *options, log=log)
        try:
            yield running.wait_ready(), namespace
        finally:
            assert running.stop() == 0, running.tail()
            assert not bugs(running.lines())
            leftovers.empty(admin, namespace, ("InferenceService",))


@pytest.fixture
def here(operator: tuple[OperatorProcess, str]) -> str:
    return operator[1]


class Parts(World):
    """A Gateway and a node, which may treat the pods of each part in another way."""

    def __init__(self, admin: Kubectl, namespace: str, name: str) -> None:
        super().__init__(admin, namespace, name)
        self.of: dict[str, collections.abc.Callable[[Object], Object]] = {}
        self.main = self.become

    def become(self, pod: Object) -> Object:
        component = pod["metadata"]["labels"]["app.kubernetes.io/component"]
        return self.of.get(component, ready)(pod)

    def backends(self, kind: str = "HTTPRoute") -> list[str]:
        """Where the rules of a route lead."""
        rules = self.admin.get(kind, self.name, self.namespace)["spec"]["rules"]
        return [one["name"] for rule in rules for one in rule["backendRefs"]]


def service(name: str, namespace: str, **parts: Object) -> Object:
    rest = {"gateway": GATEWAY, "networkPolicy": {"enabled": True}, **parts}
    return inference_service(name, namespace, replicas=1, spec_=rest)


def test_a_service_with_both_is_ready_once_all_three_are(
    own_plane: ControlPlane, operator: tuple[OperatorProcess, str], admin: Kubectl, here: str
) -> None:
    world = Parts(admin, here, "qa")
    transformer = {**COMPONENT, "replicas": 2}
    world.of["transformer"] = failing
    admin.create(service("qa", here, transformer=transformer, explainer=COMPONENT))
    stuck = world.until(
        "the transformer to fail",
        lambda one: condition(one, "Ready").get("message", "").startswith("transformer: "),
    )
    assert condition(stuck, "TransformerReady")["reason"] == "CrashLoopBackOff"
    assert is_true(stuck, "ExplainerReady")
    assert is_true(stuck, "Available")
    world.of.clear()
    for pod in admin.list("Pod", here):
        admin.delete("Pod", pod["metadata"]["name"], here)
    served = world.until("all to be ready", lambda one: is_true(one, "Ready"))
    assert is_true(served, "TransformerReady")
    assert served["status"]["transformer"]["url"] == f"http://qa-transformer.{here}.svc:8080"
    assert served["status"]["address"]["url"] == f"http://qa-transformer.{here}.svc:8080"
    assert served["status"]["replicas"] == 1, "the servers alone"
    assert world.backends() == ["qa-explainer", "qa-transformer"]
    assert world.backends("GRPCRoute") == ["qa"]
    for kind in ("Deployment", "Service", "NetworkPolicy"):
        for name in ("qa", "qa-transformer", "qa-explainer"):
            assert admin.find(kind, name, here), (kind, name)
    [budget] = admin.list("PodDisruptionBudget", here)
    assert budget["metadata"]["name"] == "qa-transformer"
    before = at_rest(own_plane, operator[0])
    assert at_rest(own_plane, operator[0]) == before, "nothing is written again and again"
    # Here no server has metrics, so that a service with an autoscaler is not ready for long.
    scaled = {"replicas": None, "autoscaling": {"minReplicas": 1, "maxReplicas": 3}}
    admin.patch("InferenceService", "qa", here, body={"spec": {"transformer": scaled}})
    until("the autoscaler", lambda: admin.find("HorizontalPodAutoscaler", "qa-transformer", here))
    admin.delete("InferenceService", "qa", here)
    until("no Deployment", lambda: not admin.list("Deployment", here))


def test_a_transformer_that_is_added_gets_requests_once_it_serves_and_is_taken_out_of_the_routes_first(
    admin: Kubectl, here: str
) -> None:
    world = Parts(admin, here, "later")
    admin.create(service("later", here))
    world.until("the service to be ready", lambda one: is_true(one, "Ready"))
    assert world.backends() == ["later"]
    pods = world.pods_of("later")
    world.of["transformer"] = lambda pod: unschedulable(pod, message="no node")
    admin.patch("InferenceService", "later", here, body={"spec": {"transformer": COMPONENT}})
    waiting = world.until(
        "a transformer that waits", lambda one: (one["status"].get("transformer") or {}).get("replicas")
    )  # fmt: skip
    assert waiting["status"]["transformer"]["leads"] is False
    assert world.backends() == ["later"], "clients are served meanwhile"
    assert world.pods_of("later") == pods, "the servers' pods stay"
    world.of.clear()
    for name in world.pods_of("later-transformer"):
        admin.delete("Pod", name, here)
    world.until(
        "the transformer to lead",
        lambda one: is_true(one, "Ready") and one["status"]["transformer"]["leads"],
    )
    assert world.backends() == ["later-transformer"]
    world.of["transformer"] = failing
    for name in world.pods_of("later-transformer"):
        admin.delete("Pod", name, here)
    world.until("a transformer that fails", lambda one: condition(one, "TransformerReady").get("status") == "False")  # fmt: skip
    assert world.backends() == ["later-transformer"], "raw requests do not reach the servers"
    admin.patch("InferenceService", "later", here, body={"spec": {"transformer": None}})
    alone = world.until(
        "the service alone",
        lambda one: is_true(one, "Ready") and not condition(one, "TransformerReady"),
    )
    assert "transformer" not in alone["status"]
    assert world.backends() == ["later"]
    until("no transformer", lambda: admin.find("Deployment", "later-transformer", here) is None)
    assert world.pods_of("later") == pods
    admin.delete("InferenceService", "later", here)


def test_the_pods_of_a_component_are_held_to_the_platforms_rules(admin: Kubectl, here: str) -> None:
    """Nothing is created for a service with such a component, the servers included."""
    patch = {"spec": {"volumes": [{"name": "root", "hostPath": {"path": "/"}}]}}
    admin.create(service("held", here, explainer={**COMPONENT, "podTemplate": patch}))

    def said() -> str | None:
        shown = condition(admin.get("InferenceService", "held", here), "SpecValid")
        return shown["message"] if shown.get("status") == "False" else None

    message = until("the refusal", said)
    assert "spec.explainer.podTemplate.spec.volumes[0].hostPath" in message
    assert "podTemplate is Restricted here" in message
    assert admin.find("Deployment", "held", here) is None
    assert admin.find("Deployment", "held-explainer", here) is None
    admin.delete("InferenceService", "held", here)


def test_routes_divide_requests_between_the_transformers_of_both_tracks(
    admin: Kubectl, here: str
) -> None:
    world = Parts(admin, here, "split")
    world.of["canary-transformer"] = failing
    parts = {"canary": {"weight": 30}, "transformer": COMPONENT}
    admin.create(service("split", here, **parts))
    stuck = world.until(
        "the canary's transformer to fail",
        lambda one: (
            condition(one, "CanaryReady").get("reason") == "CrashLoopBackOff"
            and is_true(one, "Ready")
        ),
    )
    assert condition(stuck, "CanaryReady")["message"].startswith("transformer: ")
    assert weights(admin, "split", here) == (
        {"split-transformer": 100, "split-canary-transformer": 0},
        {"split": 100, "split-canary": 0},
    )
    world.of.clear()
    for name in world.pods_of("split-canary-transformer"):
        admin.delete("Pod", name, here)
    world.until("the canary to be ready", lambda one: is_true(one, "CanaryReady"))
    until("its share", lambda: weights(admin, "split", here)[0]["split-canary-transformer"] == 30)
    assert weights(admin, "split", here) == (
        {"split-transformer": 70, "split-canary-transformer": 30},
        {"split": 70, "split-canary": 30},
    )
    admin.patch("InferenceService", "split", here, body={"spec": {"canary": None}})
    world.until(
        "the canary to go", lambda one: not admin.find("Deployment", "split-canary-transformer", here)
    )  # fmt: skip
    assert world.backends() == ["split-transformer"]
    admin.delete("InferenceService", "split", here)


def test_a_transformer_leads_to_no_service_of_its_name_and_changes_nothing_of_it(
    admin: Kubectl, here: str
) -> None:
    """The name of a transformer may be that of another service, whichever is there first."""
    kinds = ("Deployment", "Service", "NetworkPolicy")
    first = Parts(admin, here, "ask-transformer")
    admin.create(service("ask-transformer", here))
    first.until("the first to be ready", lambda one: is_true(one, "Ready"))
    before = {kind: versions(admin.get(kind, "ask-transformer", here)) for kind in kinds}
    scaling = {"minReplicas": 1, "maxReplicas": 3}
    world = Parts(admin, here, "ask")
    admin.create(service("ask", here, transformer={**COMPONENT, "autoscaling": scaling}))
    refused = world.until(
        "the conflict", lambda one: condition(one, "Ready").get("reason") == "ResourceConflict"
    )
    message = condition(refused, "TransformerReady")["message"]
    assert "ask-transformer exists already" in message
    assert "InferenceService ask-transformer" in message
    assert refused["status"]["transformer"]["leads"] is False
    route = admin.find("HTTPRoute", "ask", here)
    assert route is None or world.backends() == ["ask"]
    assert admin.find("HorizontalPodAutoscaler", "ask-transformer", here) is None
    assert {kind: versions(admin.get(kind, "ask-transformer", here)) for kind in kinds} == before
    alone = {"transformer": {"autoscaling": None}}  # here no server has metrics
    admin.patch("InferenceService", "ask", here, body={"spec": alone})
    admin.delete("InferenceService", "ask-transformer", here)

    def is_gone() -> bool:
        return all(owner(admin, kind, here) != "ask-transformer" for kind in kinds)

    until("nothing of the first", is_gone)
    world.until("the transformer to lead", lambda one: is_true(one, "Ready"))
    assert world.backends() == ["ask-transformer"]
    # The other way round: what the transformer has, a younger service does not get.
    admin.create(service("ask-transformer", here))
    first.until(
        "the conflict", lambda one: condition(one, "Ready").get("reason") == "ResourceConflict"
    )
    assert admin.find("HTTPRoute", "ask-transformer", here) is None
    assert owner(admin, "Deployment", here) == "ask"
    for name in ("ask", "ask-transformer"):
        admin.delete("InferenceService", name, here)


def owner(admin: Kubectl, kind: str, namespace: str) -> str | None:
    found = admin.find(kind, "ask-transformer", namespace)
    return found["metadata"]["ownerReferences"][0]["name"] if found else None


def versions(thing: Object) -> tuple[str, int | None, object]:
    """What changes with a write of its spec or of its owners."""
    metadata = thing["metadata"]
    return metadata["uid"], metadata.get("generation"), (metadata["ownerReferences"], metadata["labels"], thing["spec"])  # fmt: skip

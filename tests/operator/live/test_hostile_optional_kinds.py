"""Hostile objects of the kinds that an API server may lack, and hostile nodes, beside an ordinary service, which is served.

Children with the operator's labels, and the statuses of a service's own routes and autoscaler, which other controllers write. `test_hostile_objects` does
the same with the kinds that every API server has.
"""

import collections.abc
import itertools

import pytest

from tests.apiserver import control_plane, hostile_optional
from tests.apiserver.client import Kubectl, Object, RefusedError, until
from tests.apiserver.control_plane import OPERATOR_TOKEN, OPERATOR_USER, ControlPlane
from tests.apiserver.hostile_objects import OPTIONAL, SPECS, VICTIM, children, written
from tests.apiserver.kubelet import Kubelet, unschedulable
from tests.apiserver.objects import CHILDREN, condition, inference_service, is_true, make_namespace
from tests.apiserver.operator import OperatorProcess
from tests.operator.live.test_hostile_objects import ordinary, said

SLICE = {"type": "mig", "profile": "1g.10gb"}
WITHOUT_NODE = "without-node"
_edits = itertools.count()


@pytest.fixture(scope="module")
def own_plane(full_plane: ControlPlane) -> ControlPlane:
    """Every optional kind."""
    return full_plane


@pytest.fixture(scope="module")
def teams(admin: Kubectl) -> collections.abc.Iterator[tuple[str, str]]:
    """The namespaces of an ordinary tenant and of the hostile one; in the end nothing in them is left for other modules of the plane."""
    mine, theirs = make_namespace(admin, "optional-mine"), make_namespace(admin, "optional-theirs")
    with control_plane.may_do_everything(OPERATOR_USER, admin):
        yield mine, theirs
    for kind in ("InferenceService", *OPTIONAL):
        for each in (*admin.list(kind, mine), *admin.list(kind, theirs)):
            discard(admin, kind, each["metadata"])
    for node in admin.list("Node"):
        if node["metadata"]["name"].startswith("hostile-"):
            admin.delete("Node", node["metadata"]["name"])


def discard(kubectl: Kubectl, kind: str, of: Object) -> None:
    """Deletes an object whose finalizers no controller serves: with one of them left, its CustomResourceDefinition could never be removed."""
    if of.get("finalizers"):
        body: Object = {"metadata": {"finalizers": None}}
        kubectl.patch(kind, of["name"], of["namespace"], body=body)
    try:
        kubectl.delete(kind, of["name"], of["namespace"])
    except RefusedError as refused:
        if refused.code != 404:  # it went with its owner
            raise


@pytest.fixture
def start(
    own_plane: ControlPlane, teams: tuple[str, str], tmp_path_factory: pytest.TempPathFactory
) -> collections.abc.Callable[[], OperatorProcess]:
    """Starts an operator that watches both namespaces."""

    def one() -> OperatorProcess:
        log = tmp_path_factory.mktemp("operator") / "operator.log"
        config = own_plane.kubeconfig(OPERATOR_TOKEN)
        return OperatorProcess(config, f"--watch-namespaces={','.join(teams)}", log=log)

    return one


def with_optional_kinds(name: str, namespace: str) -> Object:
    """A service that has a child of each optional kind but a ServiceMonitor."""
    scaling = {
        "class": "keda",
        "queueTimeMs": 5,
        "maxReplicas": 2,
        "prometheusAddress": "http://prometheus.monitoring:9090",
    }
    rest = {
        "gateway": {
            "parentRefs": [{"name": "public"}],
            "hostnames": ["demo.example.com"],
            "grpcHostnames": ["grpc.example.com"],
        },
        "monitoring": {"podMonitor": True},
    }
    return inference_service(name, namespace, autoscaling=scaling, spec_=rest)


def attack(kubectl: Kubectl, namespace: str) -> set[str]:
    """Writes everything; the kinds of which the API server took some."""
    victim = kubectl.get("InferenceService", VICTIM, namespace)
    made = written(kubectl, *children(namespace, victim["metadata"]["uid"], OPTIONAL))
    for node in hostile_optional.nodes():
        for created in written(kubectl, {**node, "status": {}}):
            made.append(created)
            try:
                kubectl.replace_status(created | {"status": node["status"]})
            except RefusedError:
                continue
    return {each["kind"] for each in made}


def looked_at(kubectl: Kubectl, operator: OperatorProcess, name: str, namespace: str) -> None:
    """Waits until an edit of a service was reconciled, which comes after what was written before."""
    edit: Object = {"metadata": {"annotations": {"edit": str(next(_edits))}}}
    before = operator.looks()
    kubectl.patch("InferenceService", name, namespace, body=edit)
    until("a look", lambda: operator.looks() > before)
    until("no backlog", lambda: operator.metric("naiad_operator_queue_depth") == 0)


def test_an_ordinary_service_is_served_beside_hostile_optional_kinds_and_nodes(
    admin: Kubectl,
    teams: tuple[str, str],
    start: collections.abc.Callable[[], OperatorProcess],
) -> None:
    """While the operator watches, and after a start that finds them; what a node offers is still said."""
    mine, theirs = teams
    Kubelet(admin).register(resources={"nvidia.com/mig-2g.20gb": "2k"})
    with start() as operator:
        operator.wait_ready()
        admin.create(with_optional_kinds(VICTIM, theirs))
        for kind in ("ScaledObject", "HTTPRoute", "GRPCRoute", "PodMonitor"):
            admin.wait_for(kind, VICTIM, theirs)
        for kind, given in (
            ("ScaledObject", hostile_optional.scaled()),
            ("HTTPRoute", hostile_optional.parents("HTTPRoute")),
            ("GRPCRoute", hostile_optional.parents("GRPCRoute")),
        ):
            taken = 0
            for status in (
                *given,
                {"conditions": []} if kind == "ScaledObject" else {"parents": []},
            ):
                try:
                    admin.replace_status(admin.get(kind, VICTIM, theirs) | {"status": status})
                except RefusedError:
                    continue
                taken += 1
                looked_at(admin, operator, VICTIM, theirs)
            assert taken, kind
        until(
            "strange statuses to be no error of the service once they are gone",
            lambda: is_true(admin.get("InferenceService", VICTIM, theirs), "SpecValid"),
        )
        assert attack(admin, theirs) == {*OPTIONAL, "Node"}
        until("a look at all", lambda: said(admin, theirs))
        serve(admin, mine, "beside")
        admin.create(inference_service(WITHOUT_NODE, mine, accelerator=SLICE))
        until("the devices that nodes offer", lambda: offers(admin, mine))
        assert operator.metric('naiad_operator_unreadable_objects_total{resource="nodes"}') > 0
        ordinary(operator)
        assert operator.stop() == 0, operator.tail()
    with start() as again:
        again.wait_ready()
        serve(admin, mine, "after")
        ordinary(again)
        assert again.stop() == 0, again.tail()


def test_there_are_hostile_objects_of_every_kind_of_child() -> None:
    assert set(CHILDREN) <= {*SPECS, *OPTIONAL}


def serve(kubectl: Kubectl, namespace: str, name: str) -> None:
    kubectl.create(with_optional_kinds(name, namespace))
    for kind in ("Deployment", "ScaledObject", "HTTPRoute", "GRPCRoute", "PodMonitor"):
        kubectl.wait_for(kind, name, namespace)


def offers(kubectl: Kubectl, namespace: str) -> bool:
    """Whether the condition of a service without a node says what nodes offer; plays the scheduler."""

    def refused(pod: Object) -> Object:
        return unschedulable(pod, message="0/6 nodes are available.", since="2026-01-31T12:00:00Z")

    Kubelet(kubectl).step(namespace, become=refused)
    shown = condition(kubectl.get("InferenceService", WITHOUT_NODE, namespace), "Ready")
    return "no node offers nvidia.com/mig-1g.10gb; nodes offer " in shown.get("message", "")

"""Hostile objects of the kinds that an API server may lack, and hostile nodes, beside an ordinary service, which is served.

Children with the operator's labels, and the statuses of a service's own routes and autoscaler, which other controllers write. `test_hostile_objects` does
the same with the kinds that every API server has.
"""

import collections.abc
import functools
import itertools
import pathlib

import pytest

from tests.apiserver import control_plane, hostile_optional, leftovers
from tests.apiserver.client import Kubectl, Object, RefusedError, until
from tests.apiserver.control_plane import OPERATOR_TOKEN, OPERATOR_USER, ControlPlane
from tests.apiserver.hostile_objects import (
    COMMAS,
    OPTIONAL,
    SPECS,
    VICTIM,
    child,
    children,
    written,
)
from tests.apiserver.kubelet import Kubelet, unschedulable
from tests.apiserver.objects import CHILDREN, condition, inference_service, is_true, make_namespace
from tests.apiserver.operator import OperatorProcess
from tests.apiserver.proxy import Fault, Proxy, proxying
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
    for namespace in (mine, theirs):
        leftovers.empty(admin, namespace, ("InferenceService", *OPTIONAL))
    for node in admin.list("Node"):
        if node["metadata"]["name"].startswith("hostile-"):
            admin.delete("Node", node["metadata"]["name"])


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


def test_optional_kinds_are_read_on_with_an_object_among_them_that_cannot_be(
    own_plane: ControlPlane,
    admin: Kubectl,
    teams: tuple[str, str],
    tmp_path: pathlib.Path,
) -> None:
    """At the start, in the watch and when the watch is too old and everything is listed again: that object is marked, and changes of the others are seen."""
    mine, _ = teams
    unread = {
        kind: f'naiad_operator_unreadable_objects_total{{resource="{plural}"}}'
        for kind, plural in _PLURALS.items()
    }

    def hostile() -> None:
        for kind in unread:
            [_] = written(admin, child(kind, mine, of="resynced", annotations={"a": COMMAS}))

    def put_back(operator: OperatorProcess) -> None:
        """One of each kind is deleted, which the operator sees and makes good."""
        gone = {kind: admin.get(kind, "resynced", mine)["metadata"]["uid"] for kind in _MADE}
        for kind in gone:
            admin.delete(kind, "resynced", mine)
        for kind, uid in gone.items():
            until(f"another {kind}", functools.partial(_is_another, admin, kind, mine, uid))
        ordinary(operator)

    hostile()
    options = (f"--watch-namespaces={mine}", "--discovery-seconds=3600")
    with (
        proxying(own_plane.server, str(own_plane.certificates.ca)) as proxy,
        OperatorProcess(
            own_plane.kubeconfig(OPERATOR_TOKEN, server=proxy.url), *options, log=tmp_path / "log"
        ) as operator,
    ):
        operator.wait_ready()
        assert {kind: operator.metric(metric) for kind, metric in unread.items()} == dict.fromkeys(unread, 1)  # fmt: skip
        serve(admin, mine, "resynced")
        put_back(operator)
        hostile()
        for kind, metric in unread.items():
            until(f"the {kind} to be marked", lambda metric=metric: operator.metric(metric) == 2)  # type: ignore[misc]
        put_back(operator)
        for plural in _PLURALS.values():
            fault = proxy.add(Fault("WATCH", f"/{plural}$", status=410, reason="Expired"))
            until("the watch to be too old", functools.partial(_expired, proxy, fault))
        for plural in _PLURALS.values():
            until(f"{plural} to be listed again", lambda plural=plural: _listed(proxy, plural) >= 2)  # type: ignore[misc]
        put_back(operator)
        assert {kind: operator.metric(metric) for kind, metric in unread.items()} == dict.fromkeys(unread, 2)  # fmt: skip
        assert operator.stop() == 0, operator.tail()


_MADE = ("ScaledObject", "HTTPRoute", "GRPCRoute", "PodMonitor")
"""What the service of `with_optional_kinds` has."""
_PLURALS = {
    "ScaledObject": "scaledobjects",
    "HTTPRoute": "httproutes",
    "GRPCRoute": "grpcroutes",
    "PodMonitor": "podmonitors",
    "ServiceMonitor": "servicemonitors",
}
"""The optional kinds of other projects."""


def _is_another(kubectl: Kubectl, kind: str, namespace: str, uid: str) -> bool:
    found = kubectl.find(kind, "resynced", namespace)
    return found is not None and found["metadata"]["uid"] != uid


def _expired(proxy: Proxy, fault: Fault) -> bool:
    proxy.cut_watches()
    return bool(fault.used)


def _listed(proxy: Proxy, plural: str) -> int:
    """How often a kind was listed, by the first page of each list."""
    return len(
        [
            one
            for one in list(proxy.requests)
            if f"/{plural}?" in one.path
            and "watch=true" not in one.path
            and "continue=" not in one.path
        ]
    )


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

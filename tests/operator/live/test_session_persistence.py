"""Routes with session persistence on a cluster whose Gateway API has the standard channel: they are made without, and NetworkReady says what to install."""

import collections.abc

import pytest

from tests.apiserver import control_plane, foreign, leftovers
from tests.apiserver.client import Kubectl, Object, RefusedError, until
from tests.apiserver.control_plane import OPERATOR_TOKEN, OPERATOR_USER, ControlPlane
from tests.apiserver.kubelet import now
from tests.apiserver.objects import condition, inference_service, is_refused, make_namespace
from tests.apiserver.operator import OperatorProcess, bugs


@pytest.fixture(scope="module")
def own_plane(full_plane: ControlPlane) -> ControlPlane:
    """With the Gateway API."""
    return full_plane


@pytest.fixture(scope="module")
def here(
    own_plane: ControlPlane, admin: Kubectl, tmp_path_factory: pytest.TempPathFactory
) -> collections.abc.Iterator[str]:
    """A namespace that an operator watches."""
    namespace = make_namespace(admin, "sessions")
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
            leftovers.empty(admin, namespace, ("InferenceService", "HTTPRoute"))


def accept(admin: Kubectl, namespace: str, name: str) -> None:
    """What a Gateway does with a route that it takes."""
    route = admin.find("HTTPRoute", name, namespace)
    if route is None or (route.get("status") or {}).get("parents"):
        return
    said = {
        "type": "Accepted",
        "status": "True",
        "reason": "Accepted",
        "message": "",
        "lastTransitionTime": now(),
        "observedGeneration": route["metadata"]["generation"],
    }
    parent = {
        "controllerName": "example.com/gateway",
        "parentRef": {"name": "public"},
        "conditions": [said],
    }
    route["status"] = {"parents": [parent]}
    try:
        admin.replace_status(route)
    except RefusedError as refused:
        if refused.code not in (404, 409):
            raise


def test_routes_with_persistence_wait_for_the_experimental_channel(
    admin: Kubectl, here: str
) -> None:
    gateway = {
        "parentRefs": [{"name": "public"}],
        "hostnames": ["a.example"],
        "sessionPersistence": {"type": "Cookie", "name": "pod", "maxAgeSeconds": 604_800},
    }
    admin.apply(inference_service("demo", here, spec_={"gateway": gateway}))

    def network(reason: str) -> Object | None:
        accept(admin, here, "demo")
        found = condition(admin.get("InferenceService", "demo", here), "NetworkReady")
        return found if found and found["reason"] == reason else None

    missing = until("the condition", lambda: network("SessionAffinityWithoutEffect"))
    assert missing["status"] == "True"
    assert "install the experimental channel" in missing["message"]
    [rule] = admin.get("HTTPRoute", "demo", here)["spec"]["rules"]
    assert "sessionPersistence" not in rule
    try:
        for definition in foreign.routes("experimental"):
            admin.apply(definition, force=True)
        until("the route", lambda: network("Applied"))
        [rule] = admin.get("HTTPRoute", "demo", here)["spec"]["rules"]
        assert rule["sessionPersistence"] == {
            "type": "Cookie",
            "sessionName": "pod",
            "absoluteTimeout": "168h0s",
            "cookieConfig": {"lifetimeType": "Permanent"},
        }
    finally:
        for definition in foreign.routes("standard"):
            admin.apply(definition, force=True)
        until("the standard channel to be back", lambda: _lacks_persistence(admin, here))


def _lacks_persistence(admin: Kubectl, namespace: str) -> bool:
    """Whether the API server refuses a route with session persistence, as other modules of the plane expect."""
    rule = {"sessionPersistence": {"sessionName": "a"}}
    route = {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": {"name": "probe", "namespace": namespace},
        "spec": {"rules": [rule]},
    }
    return is_refused(admin, route, words="sessionPersistence")

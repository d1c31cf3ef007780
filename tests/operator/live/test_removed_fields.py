"""What is removed from a spec is removed from the children, and what blocks that is reported."""

from collections.abc import Callable

import pytest

from tests.apiserver.client import Kubectl, Object, until
from tests.apiserver.kubelet import Kubelet
from tests.apiserver.objects import condition, inference_service, make_namespace
from tests.apiserver.operator import OperatorProcess, in_turns

Start = Callable[..., OperatorProcess]


def pod_of(kubectl: Kubectl, name: str, namespace: str) -> Object:
    """The pod of the Deployment's template."""
    spec: Object = kubectl.get("Deployment", name, namespace)["spec"]["template"]["spec"]
    return spec


def says(
    kubectl: Kubectl, kubelet: Kubelet, *, name: str, namespace: str, reason: str
) -> tuple[str, str]:
    """Status and sentence of Ready, once it has this reason."""

    def look() -> Object | None:
        kubelet.step(namespace)
        shown = condition(kubectl.get("InferenceService", name, namespace), "Ready")
        return shown if shown.get("reason") == reason else None

    found = until(f"Ready to say {reason}", look)
    return found["status"], found["message"]


@pytest.mark.usefixtures("operator")
@pytest.mark.parametrize("way", ["serviceAccountName", "podTemplate"])
def test_a_service_account_goes(kubectl: Kubectl, namespace: str, way: str) -> None:
    """The API server copies the name into a second, older field, and from there back where it is missing."""
    name = way.lower()
    given = {"serviceAccountName": "robot"}
    with_it = given if way == "serviceAccountName" else {"podTemplate": {"spec": given}}
    kubectl.apply(inference_service(name, namespace, **with_it))
    until("the Deployment", lambda: kubectl.find("Deployment", name, namespace))
    assert pod_of(kubectl, name, namespace)["serviceAccountName"] == "robot"

    kubectl.apply(inference_service(name, namespace))
    until(
        "no account",
        lambda: "serviceAccountName" not in pod_of(kubectl, name, namespace) or None,
    )
    assert "serviceAccount" not in pod_of(kubectl, name, namespace)


@pytest.mark.usefixtures("operator")
def test_secrets_for_pulling_are_named_once(kubectl: Kubectl, namespace: str) -> None:
    twice = [{"name": "a"}, {"name": "b"}, {"name": "a"}]
    kubectl.apply(inference_service("pulls", namespace, imagePullSecrets=twice))
    until("the Deployment", lambda: kubectl.find("Deployment", "pulls", namespace))
    named = pod_of(kubectl, "pulls", namespace)["imagePullSecrets"]
    assert named == [{"name": "a"}, {"name": "b"}]


@pytest.mark.usefixtures("operator")
def test_an_edit_that_waits_for_a_paused_deployment_is_reported(
    kubectl: Kubectl, kubelet: Kubelet, namespace: str
) -> None:
    kubectl.apply(inference_service("paused", namespace))
    says(kubectl, kubelet, name="paused", namespace=namespace, reason="Ready")
    # What `kubectl rollout pause` does.
    kubectl.patch("Deployment", "paused", namespace, body={"spec": {"paused": True}})
    kubectl.apply(inference_service("paused", namespace, env=[{"name": "A", "value": "1"}]))
    message = says(kubectl, kubelet, name="paused", namespace=namespace, reason="DeploymentPaused")
    assert message == (
        "False",
        "Deployment paused is paused, so its pods stay as they are: kubectl rollout resume deployment/paused",
    )
    kubectl.patch("Deployment", "paused", namespace, body={"spec": {"paused": None}})
    assert says(kubectl, kubelet, name="paused", namespace=namespace, reason="Ready")[0] == "True"


@pytest.mark.usefixtures("operator")
def test_a_child_that_is_wanted_again_while_a_finalizer_holds_it_is_reported(
    kubectl: Kubectl, kubelet: Kubelet, namespace: str
) -> None:
    outside = {"ingress": {"enabled": True, "host": "held.example.com"}}
    kubectl.apply(inference_service("held", namespace, spec_=outside))
    first = kubectl.wait_for("Ingress", "held", namespace)
    held = {"metadata": {"finalizers": ["balancers.example.com/release"]}}
    kubectl.patch("Ingress", "held", namespace, body=held)
    kubectl.apply(inference_service("held", namespace))

    def leaves() -> bool | None:
        return "deletionTimestamp" in kubectl.get("Ingress", "held", namespace)["metadata"] or None

    until("the Ingress to go", leaves)
    kubectl.apply(inference_service("held", namespace, spec_=outside))
    message = says(kubectl, kubelet, name="held", namespace=namespace, reason="BeingDeleted")
    assert message == (
        "False",
        "Ingress held is still being deleted; it is made again once it is gone",
    )

    kubectl.patch("Ingress", "held", namespace, body={"metadata": {"finalizers": None}})
    assert says(kubectl, kubelet, name="held", namespace=namespace, reason="Ready")[0] == "True"
    again = kubectl.get("Ingress", "held", namespace)
    assert again["metadata"]["uid"] != first["metadata"]["uid"]


def test_nothing_waits_for_an_operator_that_does_not_lead(kubectl: Kubectl, start: Start) -> None:
    """Otherwise an alert would fire for every service, because the waiting operator reconciles none."""
    namespace = make_namespace(kubectl, "standby")
    options = in_turns(namespace)
    first = start(*options).wait_ready()
    until("a leader", lambda: first.metric("naiad_operator_leader") or None)
    kubectl.create(inference_service("one", namespace))
    second = start(*options).wait_ready()
    kubectl.wait_for("Deployment", "one", namespace)
    assert second.metric("naiad_operator_leader") == 0
    assert second.metric("naiad_operator_queue_depth") == 0
    assert second.metric("naiad_operator_queue_oldest_seconds") == 0

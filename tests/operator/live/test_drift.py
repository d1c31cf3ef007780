"""What other clients do to the children: changes of ours are put back, what is not ours is left alone."""

import pytest

from tests.apiserver.client import Kubectl, Object, until
from tests.apiserver.objects import (
    condition,
    event_of,
    inference_service,
    is_true,
    replicas_of,
    status_of,
)
from tests.apiserver.operator import OperatorProcess

pytestmark = pytest.mark.usefixtures("operator")


@pytest.fixture(scope="module", autouse=True)
def service(kubectl: Kubectl, namespace: str, operator: OperatorProcess) -> str:
    """A service whose children exist."""
    host = {"ingress": {"enabled": True, "host": "drift.example.com"}}
    kubectl.create(inference_service("drift", namespace, replicas=2, spec_=host))
    for kind in ("Deployment", "Service", "Ingress", "PodDisruptionBudget"):
        kubectl.wait_for(kind, "drift", namespace)
    until("a status", lambda: status_of(kubectl, "drift", namespace))
    return "drift"


def test_replicas_are_put_back_and_the_event_says_how_to_scale(
    kubectl: Kubectl, namespace: str
) -> None:
    kubectl.patch(
        "Deployment", "drift", namespace, body={"spec": {"replicas": 7}}, subresource="scale"
    )
    until(
        "the replicas",
        lambda: replicas_of(kubectl, "drift", namespace) == 2,
    )
    event = event_of(kubectl, "drift", namespace, reason="DriftCorrected")
    assert "kubectl scale infsvc" in event["message"]


def test_an_image_is_until(kubectl: Kubectl, namespace: str) -> None:
    live = kubectl.get("Deployment", "drift", namespace)
    image = live["spec"]["template"]["spec"]["containers"][0]["image"]
    live["spec"]["template"]["spec"]["containers"][0]["image"] = "evil:1"
    del live["metadata"]["resourceVersion"]
    kubectl.request("PUT", f"/apis/apps/v1/namespaces/{namespace}/deployments/drift", body=live)

    def same() -> bool | None:
        spec = kubectl.get("Deployment", "drift", namespace)["spec"]["template"]["spec"]
        return spec["containers"][0]["image"] == image or None

    until("the image", same)


def test_a_port_is_until(kubectl: Kubectl, namespace: str) -> None:
    ports = kubectl.get("Service", "drift", namespace)["spec"]["ports"]
    kubectl.patch(
        "Service", "drift", namespace, body={"spec": {"ports": [{"name": "x", "port": 1234}]}}
    )

    def same() -> bool | None:
        now = kubectl.get("Service", "drift", namespace)["spec"]["ports"]
        return {port["port"] for port in ports} <= {port["port"] for port in now} or None

    until("the ports", same)


@pytest.mark.parametrize("kind", ["Deployment", "Service", "Ingress", "PodDisruptionBudget"])
def test_a_deleted_child_is_made_again(kubectl: Kubectl, namespace: str, kind: str) -> None:
    uid = kubectl.get(kind, "drift", namespace)["metadata"]["uid"]
    kubectl.delete(kind, "drift", namespace)

    def another() -> Object | None:
        resource = kubectl.find(kind, "drift", namespace)
        return resource if resource and resource["metadata"]["uid"] != uid else None

    until(f"another {kind}", another)


def test_labels_by_which_a_child_is_found_are_until(kubectl: Kubectl, namespace: str) -> None:
    label = "app.kubernetes.io/managed-by"
    for removed in (None, "another"):
        kubectl.patch(
            "Service", "drift", namespace, body={"metadata": {"labels": {label: removed}}}
        )
        until(
            "the label",
            lambda: (
                kubectl.get("Service", "drift", namespace)["metadata"]["labels"].get(label)
                == "naiad-operator"
                or None
            ),
        )


def test_a_child_whose_owner_reference_was_removed_is_no_longer_managed(
    kubectl: Kubectl, namespace: str
) -> None:
    """A removed owner reference means that the object is to be kept: it is reported and not restored."""
    live = kubectl.get("PodDisruptionBudget", "drift", namespace)
    kubectl.patch(
        "PodDisruptionBudget", "drift", namespace, body={"metadata": {"ownerReferences": None}}
    )

    def reported() -> Object | None:
        service = kubectl.get("InferenceService", "drift", namespace)
        reasons = [each["reason"] for each in service["status"]["conditions"]]
        return service if "ResourceConflict" in reasons else None

    until("a conflict", reported)
    kubectl.delete("PodDisruptionBudget", "drift", namespace)
    until(
        "a new one",
        lambda: (
            p
            if (p := kubectl.find("PodDisruptionBudget", "drift", namespace))
            and p["metadata"]["uid"] != live["metadata"]["uid"]
            else None
        ),
        seconds=150,
    )


def test_what_others_add_is_left_alone(kubectl: Kubectl, namespace: str) -> None:
    body = {"metadata": {"annotations": {"their/own": "x"}, "labels": {"team": "a"}}}
    kubectl.patch("Deployment", "drift", namespace, body=body)
    # A change of ours afterwards shows that the operator has looked at it and applied.
    kubectl.patch(
        "Deployment", "drift", namespace, body={"spec": {"replicas": 5}}, subresource="scale"
    )
    until(
        "the replicas",
        lambda: replicas_of(kubectl, "drift", namespace) == 2,
    )
    metadata = kubectl.get("Deployment", "drift", namespace)["metadata"]
    assert metadata["annotations"]["their/own"] == "x"
    assert metadata["labels"]["team"] == "a"


def test_a_status_that_another_client_overwrote_is_restored(
    kubectl: Kubectl, namespace: str
) -> None:
    wrong = {"status": {"replicas": 99}}
    kubectl.patch("InferenceService", "drift", namespace, body=wrong, subresource="status")
    until(
        "the status",
        lambda: (
            kubectl.get("InferenceService", "drift", namespace)["status"]["replicas"] != 99 or None
        ),
    )


def test_the_service_stays_whole(kubectl: Kubectl, namespace: str) -> None:
    service = kubectl.get("InferenceService", "drift", namespace)
    assert is_true(service, "SpecValid")
    assert condition(service, "Ready")["observedGeneration"] == service["metadata"]["generation"]

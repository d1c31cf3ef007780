"""Services as GitOps and neighbours see them: two tools apply them, something scales them, two claim one host; the operator writes the status alone."""

import pytest

from tests.apiserver.client import Kubectl, Object, RefusedError, until
from tests.apiserver.control_plane import ControlPlane
from tests.apiserver.kubelet import Kubelet
from tests.apiserver.objects import condition, inference_service, make_namespace, ready
from tests.apiserver.operator import OperatorProcess, at_rest
from tests.support import kstatus

pytestmark = pytest.mark.usefixtures("operator")


def with_labels(name: str, namespace: str, **labels: str) -> Object:
    """What a second tool sends of a service: labels, and nothing that the first one sends."""
    api = inference_service(name, namespace)
    return {
        "apiVersion": api["apiVersion"],
        "kind": api["kind"],
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
    }


def managers(service: Object) -> dict[str, set[str]]:
    """By manager, what it wrote: "spec", "metadata", "status"."""
    return {
        f"{entry['manager']}/{entry.get('subresource', '')}".rstrip("/"): {
            field.removeprefix("f:") for field in entry["fieldsV1"]
        }
        for entry in service["metadata"]["managedFields"]
    }


def test_two_tools_that_apply_one_service_again_and_again_change_nothing(
    plane: ControlPlane,
    operator: OperatorProcess,
    kubectl: Kubectl,
    kubelet: Kubelet,
    namespace: str,
) -> None:
    file = inference_service("shared", namespace, env=[{"name": "A", "value": "1"}])
    labels = with_labels("shared", namespace, team="search")
    kubectl.apply(file, manager="kustomize-controller")
    kubectl.apply(labels, manager="argocd-controller")
    service = ready(kubectl, kubelet, "shared", namespace)
    assert kstatus.state(service) == "Current"
    at_rest(plane, operator)
    service = kubectl.get("InferenceService", "shared", namespace)
    assert managers(service) == {
        "kustomize-controller": {"spec"},
        "argocd-controller": {"metadata"},
        "naiad-operator/status": {"status"},
    }
    for _ in range(3):
        again = kubectl.apply(file, manager="kustomize-controller")
        assert again["metadata"]["resourceVersion"] == service["metadata"]["resourceVersion"]
        again = kubectl.apply(labels, manager="argocd-controller")
        assert again["metadata"]["resourceVersion"] == service["metadata"]["resourceVersion"]


def test_a_service_that_no_operator_has_seen_is_waited_for(kubectl: Kubectl) -> None:
    """A resource without conditions is ready for kstatus: the API server fills in that none was observed."""
    unwatched = make_namespace(kubectl, "gitops-unwatched")
    kubectl.create(inference_service("new", unwatched))
    service = kubectl.get("InferenceService", "new", unwatched)
    assert service["status"] == {"conditions": [], "observedGeneration": 0}
    assert kstatus.state(service) == "InProgress"


def test_a_number_that_was_scaled_survives_an_apply_without_one(
    kubectl: Kubectl, kubelet: Kubelet, namespace: str
) -> None:
    file = inference_service("counted", namespace)
    kubectl.apply(file, manager="kustomize-controller")
    ready(kubectl, kubelet, "counted", namespace)
    kubectl.patch(
        "InferenceService",
        "counted",
        namespace,
        body={"spec": {"replicas": 3}},
        subresource="scale",
    )
    ready(kubectl, kubelet, "counted", namespace)
    applied = kubectl.apply(file, manager="kustomize-controller")
    assert applied["spec"]["predictor"]["replicas"] == 3
    # A number in the file is the tool's own. Something that scales takes it over, and the next apply is a conflict.
    file["spec"]["predictor"]["replicas"] = 1
    assert kubectl.apply(file, manager="kustomize-controller")["spec"]["predictor"]["replicas"] == 1
    kubectl.patch(
        "InferenceService",
        "counted",
        namespace,
        body={"spec": {"replicas": 2}},
        subresource="scale",
    )
    with pytest.raises(RefusedError) as refused:
        kubectl.apply(file, manager="kustomize-controller")
    assert refused.value.code == 409
    assert ".spec.predictor.replicas" in str(refused.value)


def test_two_services_of_one_host_both_say_so_until_one_is_gone(
    plane: ControlPlane, operator: OperatorProcess, kubectl: Kubectl, namespace: str
) -> None:
    entry = {"ingress": {"enabled": True, "className": "nginx", "host": "a.example.com"}}

    def seen(name: str) -> str:
        return str(condition(kubectl.get("InferenceService", name, namespace), "NetworkReady"))

    for name in ("first", "second"):
        kubectl.create(inference_service(name, namespace, spec_=entry))
    until("first", lambda: "InferenceService second as well" in seen("first"))
    until("second", lambda: "InferenceService first as well" in seen("second"))
    at_rest(plane, operator)
    kubectl.delete("InferenceService", "first", namespace)
    until("the end", lambda: "'reason': 'Applied'" in seen("second"))

"""A service's life: applied, ready, edited, scaled, suspended, rolled back, deleted."""

from collections.abc import Callable

import pytest

from tests.apiserver.client import Kubectl, Object, RefusedError, until
from tests.apiserver.control_plane import ControlPlane
from tests.apiserver.kubelet import Kubelet
from tests.apiserver.objects import (
    condition,
    event_of,
    events_of,
    inference_service,
    is_true,
    make_namespace,
    ready,
    replicas_of,
    status_of,
)
from tests.apiserver.operator import OperatorProcess, at_rest

pytestmark = pytest.mark.usefixtures("operator")


def test_an_applied_service_has_all_its_children_owned_and_becomes_ready(
    kubectl: Kubectl, kubelet: Kubelet, namespace: str
) -> None:
    service = kubectl.create(inference_service("applied", namespace, replicas=2))
    found = ready(kubectl, kubelet, "applied", namespace)
    for kind in ("Deployment", "Service", "PodDisruptionBudget"):
        [owner] = kubectl.get(kind, "applied", namespace)["metadata"]["ownerReferences"]
        assert (owner["uid"], owner["controller"]) == (service["metadata"]["uid"], True)
    status = found["status"]
    assert (status["replicas"], status["readyReplicas"], status["availableReplicas"]) == (2, 2, 2)
    pods = kubectl.list("Pod", namespace, labels=status["selector"])
    assert len(pods) == 2
    event_of(kubectl, "applied", namespace, reason="Ready")
    reasons = [event["reason"] for event in events_of(kubectl, "applied", namespace)]
    assert reasons[-1] == "Ready"
    assert len(reasons) <= 3


def test_a_second_look_writes_nothing(
    plane: ControlPlane,
    operator: OperatorProcess,
    kubectl: Kubectl,
    kubelet: Kubelet,
    namespace: str,
) -> None:
    kubectl.create(inference_service("idle", namespace))
    ready(kubectl, kubelet, "idle", namespace)
    before = at_rest(plane, operator)
    looks = operator.looks()
    # An annotation of the user's own changes nothing that the operator cares about, and makes it look.
    kubectl.patch(
        "InferenceService", "idle", namespace, body={"metadata": {"annotations": {"note": "x"}}}
    )
    until("another look", lambda: operator.looks() > looks)
    at_rest(plane, operator)
    assert plane.audit.writes(before) == []


def test_an_edit_replaces_the_pods_and_is_reported_until_it_is_complete(
    kubectl: Kubectl, kubelet: Kubelet, namespace: str
) -> None:
    kubectl.create(inference_service("edited", namespace))
    ready(kubectl, kubelet, "edited", namespace)
    image = "registry.example.com/other:2"
    kubectl.patch(
        "InferenceService", "edited", namespace, body={"spec": {"predictor": {"image": image}}}
    )
    until(
        "the new image",
        lambda: _image(kubectl.get("Deployment", "edited", namespace)) == image or None,
    )
    rolling = until(
        "a status that says so",
        lambda: (
            s
            if not is_true(s := kubectl.get("InferenceService", "edited", namespace), "Ready")
            else None
        ),
    )
    assert condition(rolling, "Ready")["reason"] in ("RollingOut", "NewTemplate")
    ready(kubectl, kubelet, "edited", namespace)


def test_a_rollback_of_the_spec_brings_the_old_pods_back(
    kubectl: Kubectl, kubelet: Kubelet, namespace: str
) -> None:
    kubectl.apply(inference_service("back", namespace, env=[{"name": "A", "value": "1"}]))
    ready(kubectl, kubelet, "back", namespace)
    template = kubectl.get("Deployment", "back", namespace)["spec"]["template"]
    kubectl.apply(inference_service("back", namespace, env=[{"name": "B", "value": "2"}]))
    until(
        "the edit",
        lambda: (
            kubectl.get("Deployment", "back", namespace)["spec"]["template"] != template or None
        ),
    )
    kubectl.apply(inference_service("back", namespace, env=[{"name": "A", "value": "1"}]))
    until(
        "the old",
        lambda: (
            kubectl.get("Deployment", "back", namespace)["spec"]["template"] == template or None
        ),
    )
    ready(kubectl, kubelet, "back", namespace)


def test_scaling_the_resource_scales_the_pods(
    kubectl: Kubectl, kubelet: Kubelet, namespace: str
) -> None:
    kubectl.create(inference_service("scaled", namespace, replicas=1))
    ready(kubectl, kubelet, "scaled", namespace)
    kubectl.patch(
        "InferenceService", "scaled", namespace, body={"spec": {"replicas": 3}}, subresource="scale"
    )
    until(
        "three",
        lambda: replicas_of(kubectl, "scaled", namespace) == 3,
    )
    assert ready(kubectl, kubelet, "scaled", namespace)["status"]["replicas"] == 3


def test_a_suspended_service_has_no_pods_and_comes_back(
    kubectl: Kubectl, kubelet: Kubelet, namespace: str
) -> None:
    kubectl.create(inference_service("paused", namespace, replicas=2))
    ready(kubectl, kubelet, "paused", namespace)
    kubectl.patch("InferenceService", "paused", namespace, body={"spec": {"suspend": True}})

    def stopped() -> Object | None:
        kubelet.step(namespace)
        service = kubectl.get("InferenceService", "paused", namespace)
        return (
            service if is_true(service, "Stopped") and not service["status"]["replicas"] else None
        )

    service = until("no pods", stopped)
    assert condition(service, "Ready")["reason"] == "Suspended"
    kubectl.patch("InferenceService", "paused", namespace, body={"spec": {"suspend": False}})
    assert ready(kubectl, kubelet, "paused", namespace)["status"]["replicas"] == 2


def test_a_restart_on_demand_survives_the_reconcile(
    plane: ControlPlane,
    operator: OperatorProcess,
    kubectl: Kubectl,
    kubelet: Kubelet,
    namespace: str,
) -> None:
    kubectl.create(inference_service("restarted", namespace))
    ready(kubectl, kubelet, "restarted", namespace)
    labels = "app.kubernetes.io/instance=restarted"
    stamp = {"kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z"}
    kubectl.patch(
        "Deployment",
        "restarted",
        namespace,
        body={"spec": {"template": {"metadata": {"annotations": stamp}}}},
    )
    until("new pods", lambda: len(kubectl.list("ReplicaSet", namespace, labels=labels)) == 2)
    ready(kubectl, kubelet, "restarted", namespace)
    at_rest(plane, operator)
    template = kubectl.get("Deployment", "restarted", namespace)["spec"]["template"]
    assert template["metadata"]["annotations"].items() >= stamp.items()


def test_a_child_that_is_no_longer_wanted_goes(
    kubectl: Kubectl, kubelet: Kubelet, namespace: str
) -> None:
    host = {"ingress": {"enabled": True, "host": "demo.example.com"}}
    kubectl.apply(inference_service("trimmed", namespace, spec_=host))
    until("an ingress", lambda: kubectl.find("Ingress", "trimmed", namespace))
    kubectl.apply(inference_service("trimmed", namespace))
    until("no ingress", lambda: kubectl.find("Ingress", "trimmed", namespace) is None or None)
    assert kubectl.find("Deployment", "trimmed", namespace)


def test_deleting_the_resource_deletes_everything_with_the_operator_down(
    kubectl: Kubectl, start: Callable[..., OperatorProcess]
) -> None:
    namespace = make_namespace(kubectl, "deleted")
    operator = start(f"--watch-namespaces={namespace}").wait_ready()
    kubectl.create(inference_service("deleted", namespace))
    until("a status", lambda: status_of(kubectl, "deleted", namespace))
    assert operator.stop() == 0
    service = kubectl.get("InferenceService", "deleted", namespace)
    assert "finalizers" not in service["metadata"]
    kubectl.delete("InferenceService", "deleted", namespace)
    labels = "app.kubernetes.io/instance=deleted"
    for kind in ("Deployment", "Service", "ReplicaSet"):
        kubectl.gone(kind, namespace, labels=labels)


def test_a_typo_is_named_by_the_api_server(kubectl: Kubectl, namespace: str) -> None:
    manifest = inference_service("typo", namespace)
    manifest["spec"]["predictor"]["replcas"] = 2
    with pytest.raises(RefusedError, match="replcas"):
        kubectl.create(manifest)


def test_an_image_that_is_left_open_is_recorded(kubectl: Kubectl, namespace: str) -> None:
    kubectl.create(inference_service("image", namespace))
    status = until("a status", lambda: status_of(kubectl, "image", namespace))
    assert status["image"]["name"] == "registry.example.com/naiad:1"


def _image(deployment: Object) -> str:
    image: str = deployment["spec"]["template"]["spec"]["containers"][0]["image"]
    return image

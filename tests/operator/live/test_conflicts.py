"""Objects of other owners are never adopted, changed or deleted; the resource's condition names the owner."""

import pytest

from tests.apiserver.client import Kubectl, Object, until
from tests.apiserver.objects import condition, events_of, inference_service
from tests.apiserver.operator import OperatorProcess

pytestmark = pytest.mark.usefixtures("operator")


def somebody_elses(name: str, namespace: str, **metadata: object) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace, **metadata},
        "spec": {"ports": [{"port": 80, "name": "web"}], "selector": {"app": "theirs"}},
    }


def conflict(kubectl: Kubectl, name: str, namespace: str) -> Object:
    def look() -> Object | None:
        service = kubectl.find("InferenceService", name, namespace) or {}
        found = [
            c
            for c in (service.get("status") or {}).get("conditions", [])
            if c["reason"] == "ResourceConflict"
        ]
        return found[0] if found else None

    return until("a conflict", look)


def without_noise(thing: Object) -> Object:
    metadata = {k: v for k, v in thing["metadata"].items() if k != "managedFields"}
    return {**thing, "metadata": metadata}


def test_a_foreign_object_is_left_as_it_is_and_named(kubectl: Kubectl, namespace: str) -> None:
    before = kubectl.create(somebody_elses("taken", namespace))
    kubectl.create(inference_service("taken", namespace))
    assert "Service taken" in conflict(kubectl, "taken", namespace)["message"]
    assert without_noise(kubectl.get("Service", "taken", namespace)) == without_noise(before)
    until("the others all the same", lambda: kubectl.find("Deployment", "taken", namespace))
    conflict_events = [
        event
        for event in events_of(kubectl, "taken", namespace)
        if event["reason"] == "ResourceConflict"
    ]
    assert len(conflict_events) <= 1


def test_the_owner_of_a_foreign_object_is_named(kubectl: Kubectl, namespace: str) -> None:
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "boss", "namespace": namespace},
    }
    uid = kubectl.create(config)["metadata"]["uid"]
    owner = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "boss",
        "uid": uid,
        "controller": True,
    }
    kubectl.create(somebody_elses("owned", namespace, ownerReferences=[owner]))
    kubectl.create(inference_service("owned", namespace))
    assert "ConfigMap boss" in conflict(kubectl, "owned", namespace)["message"]


def test_an_object_with_the_operators_labels_and_no_owner_is_not_managed(
    kubectl: Kubectl, namespace: str
) -> None:
    labels = {
        "app.kubernetes.io/name": "naiad",
        "app.kubernetes.io/instance": "labelled",
        "app.kubernetes.io/managed-by": "naiad-operator",
        "app.kubernetes.io/component": "server",
    }
    before = kubectl.create(somebody_elses("labelled", namespace, labels=labels))
    extra = kubectl.create(somebody_elses("labelled-extra", namespace, labels=labels))
    kubectl.create(inference_service("labelled", namespace))
    conflict(kubectl, "labelled", namespace)
    assert without_noise(kubectl.get("Service", "labelled", namespace)) == without_noise(before)
    assert (
        kubectl.get("Service", "labelled-extra", namespace)["metadata"]["uid"]
        == extra["metadata"]["uid"]
    )


def test_it_works_out_once_the_foreign_object_is_gone(kubectl: Kubectl, namespace: str) -> None:
    kubectl.create(somebody_elses("freed", namespace))
    kubectl.create(inference_service("freed", namespace))
    conflict(kubectl, "freed", namespace)
    kubectl.delete("Service", "freed", namespace)
    until(
        "a Service of ours",
        lambda: (kubectl.find("Service", "freed", namespace) or {"metadata": {}})["metadata"].get(
            "ownerReferences"
        ),
        seconds=150,
    )

    def resolved() -> bool | None:
        service = kubectl.get("InferenceService", "freed", namespace)
        return (
            all(c["reason"] != "ResourceConflict" for c in service["status"]["conditions"]) or None
        )

    until("no conflict", resolved)


def test_a_service_made_again_under_its_name_waits_for_the_old_ones_children(
    kubectl: Kubectl, namespace: str, operator: OperatorProcess
) -> None:
    first = kubectl.create(inference_service("again", namespace))
    until("its Deployment", lambda: kubectl.find("Deployment", "again", namespace))
    kubectl.delete("InferenceService", "again", namespace)
    second = kubectl.create(inference_service("again", namespace))
    assert first["metadata"]["uid"] != second["metadata"]["uid"]

    def new_ones() -> bool | None:
        resource = kubectl.find("Deployment", "again", namespace)
        owners = resource["metadata"]["ownerReferences"] if resource else []
        return any(owner["uid"] == second["metadata"]["uid"] for owner in owners) or None

    until("the second's Deployment", new_ones)
    until(
        "no conflict",
        lambda: (
            (
                condition(kubectl.get("InferenceService", "again", namespace), "Ready").get(
                    "reason"
                )
                not in (None, "ResourceConflict")
            )
            or None
        ),
    )

"""The store of children: always the newest version, found by service, and small."""

import json
import random
import string
from typing import Any

import pytest

from naiad_operator.api import names
from naiad_operator.cluster.child_store import APPLIED_ANNOTATION, ChildStore, Labels, trim_pod
from naiad_operator.status import canary
from tests.support import manifests

INSTANCE = "app.kubernetes.io/instance"


class Changes(list[tuple[str, str]]):
    """Who was changes."""

    def __call__(self, namespace: str, name: str) -> None:
        self.append((namespace, name))


@pytest.fixture
def changes() -> Changes:
    return Changes()


@pytest.fixture
def store(changes: Changes) -> ChildStore:
    labels = Labels(instance=INSTANCE, manager="naiad-operator")
    return ChildStore(labels, on_change=changes, transforms={"Pod": trim_pod})


def item(version: int, *, uid: str = "u1", instance: str = "demo", **spec: Any) -> dict[str, Any]:
    ours = {"manager": "naiad-operator", "operation": "Apply", "fieldsV1": {"f:spec": {}}}
    status = {**ours, "subresource": "status", "fieldsV1": {"f:status": {}}}
    return {
        "metadata": {
            "name": "demo",
            "namespace": "ns",
            "uid": uid,
            "resourceVersion": str(version),
            "labels": {INSTANCE: instance},
            "annotations": {APPLIED_ANNOTATION: "abc"},
            "ownerReferences": [
                {"uid": "o1", "kind": "InferenceService", "name": "demo", "controller": True}
            ],
            "managedFields": [{"manager": "kubectl", "operation": "Update"}, status, ours],
        },
        "spec": spec,
    }


def test_a_new_version_calls_on_change_and_the_echo_of_an_own_write_does_not(
    store: ChildStore, changes: Changes
) -> None:
    store.update("Deployment", item(1))
    assert changes == [("ns", "demo")]
    store.put("Deployment", item(2))
    store.update("Deployment", item(2))
    assert changes == [("ns", "demo")]


def test_an_older_version_from_a_watch_does_not_replace_an_own_write(store: ChildStore) -> None:
    store.put("Deployment", item(10, replicas=5))
    store.update("Deployment", item(9, replicas=1))
    [child] = store.of_service("ns", "demo")
    assert child.manifest()["spec"] == {"replicas": 5}


def test_versions_are_compared_as_numbers(store: ChildStore) -> None:
    store.put("Deployment", item(9))
    store.put("Deployment", item(10, replicas=5))
    [child] = store.of_service("ns", "demo")
    assert child.version == "10"


def test_only_the_fields_of_own_applies_are_kept(store: ChildStore) -> None:
    child = store.put("Deployment", item(1))
    assert child.owned() == {"f:spec": {}}
    assert "managedFields" not in child.manifest()["metadata"]
    assert (child.applied, child.controller_uid) == ("abc", "o1")


def test_an_object_that_moves_to_another_service_changes_both(
    store: ChildStore, changes: Changes
) -> None:
    store.update("Deployment", item(1))
    changes.clear()
    store.update("Deployment", item(2, instance="other"))
    assert sorted(changes) == [("ns", "demo"), ("ns", "other")]
    assert store.of_service("ns", "demo") == []
    assert len(store.of_service("ns", "other")) == 1


def test_a_deleted_object_is_removed_and_its_service_changes(
    store: ChildStore, changes: Changes
) -> None:
    store.update("Deployment", item(1))
    store.remove("u1", "2")
    assert store.of_service("ns", "demo") == []
    assert len(changes) == 2
    store.remove("u1", "3")
    assert len(changes) == 2


def test_an_old_removal_does_not_undo_a_newer_write(store: ChildStore) -> None:
    store.put("Deployment", item(5))
    store.remove("u1", "4")
    assert len(store) == 1


def test_a_complete_list_removes_other_objects_unless_they_are_newer(
    store: ChildStore,
) -> None:
    store.put("Deployment", item(3, uid="old"))
    store.put("Deployment", item(9, uid="newer"))
    store.put("Service", item(3, uid="another kind"))
    store.prune("Deployment", "", present=set(), version="5")
    assert sorted(child.uid for child in store.of_service("ns", "demo")) == [
        "another kind",
        "newer",
    ]


def test_a_list_of_one_namespace_keeps_the_objects_of_others(store: ChildStore) -> None:
    store.put("Deployment", item(3))
    store.prune("Deployment", "elsewhere", present=set(), version="5")
    assert len(store) == 1


SERVICE = {
    "apiVersion": "serving.naiad.dev/v1alpha1",
    "kind": "InferenceService",
    "name": "demo",
    "uid": "o1",
    "controller": True,
}
LARGE = "".join(random.Random(1).choices(string.printable, k=1_200_000))


def large(uid: str, *owners: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """An object of 1.2 MB that does not compress, with the operator's labels."""
    made = item(1, uid=uid, template={"text": LARGE}) | {"status": {"text": LARGE}}
    made["metadata"] |= {"ownerReferences": list(owners), **metadata}
    return made


@pytest.mark.parametrize(
    "owners",
    [
        (),
        (SERVICE | {"controller": False},),
        (SERVICE | {"apiVersion": "serving.kserve.io/v1beta1"},),
        (SERVICE | {"kind": "InferenceServices"},),
        (SERVICE | {"kind": LARGE, "name": LARGE, "uid": LARGE},),
    ],
    ids=["none", "no controller", "another group", "another kind", "long names"],
)
def test_of_an_object_that_no_service_controls_only_its_identity_is_stored(
    changes: Changes, owners: tuple[dict[str, Any], ...]
) -> None:
    """Sixty Deployments of 1.2 MB would take 70 MB; a tenant may write them."""
    labels = Labels(instance=INSTANCE, manager="naiad-operator", owner=names.OWNER)
    store = ChildStore(labels, on_change=changes, transforms={"Pod": trim_pod})
    for number in range(3):
        annotations = {APPLIED_ANNOTATION: LARGE}
        child = store.put("Deployment", large(f"u{number}", *owners, annotations=annotations))
        assert child.manifest()["metadata"]["name"] == "demo"
        assert child.owned() == {}
        assert len(child.body) + len(child.applied) < 1_000
        assert len(child.controller_name) + len(child.controller_uid) < 2_000
    own = store.put("Deployment", large("own", SERVICE))
    assert own.manifest()["spec"] == {"template": {"text": LARGE}}
    assert (own.controller_uid, own.owned()) == ("o1", {"f:spec": {}})
    assert len(store.of_service("ns", "demo")) == 4


def test_a_pod_is_stored_without_the_labels_that_no_status_needs(store: ChildStore) -> None:
    labels = {f"example.com/{number}": "v" * 63 for number in range(9_000)}
    own = {INSTANCE: "demo", "app.kubernetes.io/component": "canary", "pod-template-hash": "a"}
    child = store.put("Pod", large("u1", labels=labels | own) | {"status": {"phase": "Running"}})
    assert child.instance == "demo"
    assert canary.is_canary(child.manifest())
    assert len(child.body) < 1_000


def test_a_pod_is_kept_without_its_spec(store: ChildStore) -> None:
    pod = item(1, containers=[{"name": "server"}], nodeName="n1") | {"status": {"phase": "Running"}}
    kept = store.put("Pod", pod).manifest()
    assert (kept["spec"], kept["status"]) == ({"nodeName": "n1"}, {"phase": "Running"})


def test_a_manifest_takes_less_than_half_of_its_json(store: ChildStore) -> None:
    """A thousand services have five objects each, or more."""
    [path] = [path for path in manifests.INPUTS if path.stem == "minimal"]
    [deployment] = [one for one in manifests.built(path) if one["kind"] == "Deployment"]
    plain = json.dumps(deployment)
    metadata = {**deployment["metadata"], "uid": "u1", "resourceVersion": "1"}
    child = store.put("Deployment", {**deployment, "metadata": metadata})
    assert child.manifest()["spec"] == deployment["spec"]
    assert len(child.body) < len(plain) / 2

"""The store of children: always the newest version, found by service, and small."""

from typing import Any

import pytest

from naiad_operator.cluster.children import APPLIED_ANNOTATION, Children, Labels, trim_pod

INSTANCE = "app.kubernetes.io/instance"


class Woken(list[tuple[str, str]]):
    """Who was woken."""

    def __call__(self, namespace: str, name: str) -> None:
        self.append((namespace, name))


@pytest.fixture
def woken() -> Woken:
    return Woken()


@pytest.fixture
def store(woken: Woken) -> Children:
    labels = Labels(instance=INSTANCE, manager="naiad-operator")
    return Children(labels, wake=woken, trims={"Pod": trim_pod})


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


def test_news_wakes_the_service_and_an_echo_of_our_own_write_does_not(
    store: Children, woken: Woken
) -> None:
    store.hear("Deployment", item(1))
    assert woken == [("ns", "demo")]
    store.put("Deployment", item(2))
    store.hear("Deployment", item(2))
    assert woken == [("ns", "demo")]


def test_a_watch_that_lags_behind_our_own_write_is_not_believed(store: Children) -> None:
    store.put("Deployment", item(10, replicas=5))
    store.hear("Deployment", item(9, replicas=1))
    [child] = store.of("ns", "demo")
    assert child.manifest()["spec"] == {"replicas": 5}


def test_versions_are_compared_as_numbers(store: Children) -> None:
    store.put("Deployment", item(9))
    store.put("Deployment", item(10, replicas=5))
    [child] = store.of("ns", "demo")
    assert child.version == "10"


def test_only_our_own_applies_fields_are_kept(store: Children) -> None:
    child = store.put("Deployment", item(1))
    assert child.owned() == {"f:spec": {}}
    assert "managedFields" not in child.manifest()["metadata"]
    assert (child.applied, child.controller) == ("abc", "o1")


def test_an_object_that_moves_to_another_service_wakes_both(store: Children, woken: Woken) -> None:
    store.hear("Deployment", item(1))
    woken.clear()
    store.hear("Deployment", item(2, instance="other"))
    assert sorted(woken) == [("ns", "demo"), ("ns", "other")]
    assert store.of("ns", "demo") == []
    assert len(store.of("ns", "other")) == 1


def test_what_is_gone_is_forgotten_and_its_service_woken(store: Children, woken: Woken) -> None:
    store.hear("Deployment", item(1))
    store.drop("u1", "2")
    assert store.of("ns", "demo") == []
    assert len(woken) == 2
    store.drop("u1", "3")
    assert len(woken) == 2


def test_an_old_removal_does_not_undo_a_newer_write(store: Children) -> None:
    store.put("Deployment", item(5))
    store.drop("u1", "4")
    assert len(store) == 1


def test_a_complete_list_removes_what_it_does_not_hold_unless_that_is_newer(
    store: Children,
) -> None:
    store.put("Deployment", item(3, uid="old"))
    store.put("Deployment", item(9, uid="newer"))
    store.put("Service", item(3, uid="another kind"))
    store.keep_only("Deployment", "", present=set(), version="5")
    assert sorted(child.uid for child in store.of("ns", "demo")) == ["another kind", "newer"]


def test_a_list_of_one_namespace_says_nothing_about_others(store: Children) -> None:
    store.put("Deployment", item(3))
    store.keep_only("Deployment", "elsewhere", present=set(), version="5")
    assert len(store) == 1


def test_a_pod_is_kept_without_its_spec(store: Children) -> None:
    pod = item(1, containers=[{"name": "server"}], nodeName="n1") | {"status": {"phase": "Running"}}
    kept = store.put("Pod", pod).manifest()
    assert (kept["spec"], kept["status"]) == ({"nodeName": "n1"}, {"phase": "Running"})

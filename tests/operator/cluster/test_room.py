"""How many objects the store of children keeps: many with the operator's labels cost no more memory than some."""

import logging
import random
import tracemalloc
from typing import Any

import pytest

from naiad_operator.api import names
from naiad_operator.cluster.child_store import LARGE, ChildStore, Labels, trim_pod
from naiad_operator.cluster.room import Group, Limit, Room
from tests.operator.cluster.test_child_store import INSTANCE, SERVICE, large

REPLICAS = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "demo-1", "uid": "r1", "controller": True}  # fmt: skip
FEW = {
    Group.CLAIMED: Limit(service=3, namespace=5),
    Group.POD: Limit(service=2, namespace=3),
    Group.OTHER: Limit(service=2, namespace=3),
}


class Wakes(list[tuple[str, str]]):
    def __call__(self, namespace: str, name: str) -> None:
        self.append((namespace, name))


@pytest.fixture
def wakes() -> Wakes:
    return Wakes()


def store_with(wakes: Wakes, room: Room | None = None) -> ChildStore:
    labels = Labels(instance=INSTANCE, manager="naiad-operator", owner=names.OWNER)
    return ChildStore(labels, on_change=wakes, transforms={"Pod": trim_pod}, room=room)


def named(name: str, *owners: dict[str, Any], of: str = "demo", version: int = 1, namespace: str = "ns") -> dict[str, Any]:  # fmt: skip
    metadata = {"name": name, "namespace": namespace, "uid": f"{namespace}/{name}", "resourceVersion": str(version)}  # fmt: skip
    return {"metadata": {**metadata, "labels": {INSTANCE: of}, "ownerReferences": list(owners)}}


@pytest.mark.parametrize(
    ("kind", "owners", "kept"),
    [("Service", (), 2), ("Service", (SERVICE,), 3), ("Pod", (REPLICAS,), 2), ("Pod", (), 2)],
    ids=["others'", "own", "pods", "bare pods"],
)
def test_of_one_service_so_many_objects_are_kept(
    wakes: Wakes, kind: str, owners: tuple[dict[str, Any], ...], kept: int
) -> None:
    """Those that came first; the rest is counted, and wakes no reconcile."""
    store = store_with(wakes, Room(FEW))
    for number in range(9):
        store.update(kind, named(f"x{number}", *owners))
    assert len(store) == len(wakes) == kept
    assert store.left_out() == {"ns": 9 - kept}


def test_of_one_namespace_so_many_are_kept_whatever_services_they_name(wakes: Wakes) -> None:
    store = store_with(wakes, Room(FEW))
    for number in range(9):
        store.update("Service", named(f"x{number}", of=f"of-{number}"))
        store.update("Service", named(f"x{number}", of=f"of-{number}", namespace="quiet"))
    store.update("Service", named("y", namespace="other"))
    assert len(store) == 3 + 3 + 1
    assert store.left_out() == {"ns": 6, "quiet": 6}


def test_what_has_the_name_of_its_service_is_kept_and_so_is_what_the_operator_wrote(
    wakes: Wakes,
) -> None:
    """A flood of others' objects must not hide that one of them is in the way of a child, nor a child."""
    store = store_with(wakes, Room(FEW))
    for number in range(9):
        store.update("Service", named(f"x{number}", SERVICE))
    store.update("Service", named("demo"))
    store.put("Deployment", named("written", SERVICE))
    store.update("Deployment", named("written", SERVICE, version=2))
    kept = {child.name: child.version for child in store.of_service("ns", "demo")}
    assert kept == {"x0": "1", "x1": "1", "x2": "1", "demo": "1", "written": "2"}


def test_there_is_room_again_once_objects_are_gone(wakes: Wakes) -> None:
    store = store_with(wakes, Room(FEW))
    for number in range(4):
        store.update("Service", named(f"x{number}"))
    store.remove("ns/x0", "2")
    store.remove("ns/x3", "2")
    assert store.left_out() == {"ns": 1}
    store.update("Service", named("x2", version=2))
    assert store.left_out() == {}
    assert {child.name for child in store.of_service("ns", "demo")} == {"x1", "x2"}
    store.prune("Service", "", present=set(), version="9")
    assert len(store) == 0
    for number in range(2):
        store.update("Service", named(f"y{number}", of="another"))
    assert len(store) == 2, "what was removed is counted no more"


def test_an_object_that_moves_to_a_service_without_room_is_gone_from_the_other(
    wakes: Wakes,
) -> None:
    store = store_with(wakes, Room(FEW))
    for number in range(2):
        store.update("Service", named(f"x{number}"))
    store.update("Service", named("y", of="another"))
    wakes.clear()
    store.update("Service", named("y", version=2))
    assert wakes == [("ns", "another")]
    assert (len(store), store.left_out()) == (2, {"ns": 1})


def test_a_namespace_is_logged_once(wakes: Wakes, caplog: pytest.LogCaptureFixture) -> None:
    store = store_with(wakes, Room(FEW))
    with caplog.at_level(logging.WARNING):
        for number in range(9):
            store.update("Service", named(f"x{number}"))
    [line] = caplog.messages
    assert line.startswith("Service ns/x2 is left out: there are too many objects")


def test_twenty_thousand_objects_of_a_tenant_take_little_memory(wakes: Wakes) -> None:
    """Of every form, and of each more than are kept: for one service, for as many as there are, of any owner."""
    store = store_with(wakes)
    for number in range(50):
        store.put("Deployment", named(f"own-{number}", SERVICE, of=f"own-{number}"))
    tracemalloc.start()
    for number in range(5_000):
        store.update("Service", named(f"a{number}", namespace="bad"))
        store.update("Service", named(f"b{number}", of=f"of-{number}", namespace="bad"))
        store.update("Service", named(f"c{number}", SERVICE, namespace="bad"))
        for part in "def":
            store.update("Pod", named(f"{part}{number}", REPLICAS, namespace="bad"))
    grown, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    kept = 64 + (2_000 - 64) + 64 + 10_000
    assert len(store) == 50 + kept
    assert store.left_out() == {"bad": 10_000}, "more are not told apart"
    assert grown < 16_000_000
    assert len(store.of_service("ns", "own-7")) == 1


def test_many_children_that_are_not_quite_large_do_not_fill_the_memory(wakes: Wakes) -> None:
    """Twenty thousand of 60 KB would take 1.2 GB: from a sum for each namespace on, only what identifies them is stored."""
    store = store_with(wakes, Room(namespace_bytes=100_000))
    for number in range(40):
        item = named(f"c{number}", SERVICE, of=f"of-{number}", namespace="bad")
        store.update("Deployment", item | {"data": random.Random(number).randbytes(10_000).hex()})
        store.update("Service", named(f"s{number}", SERVICE, of=f"of-{number}", namespace="bad"))
    children = [child for number in range(40) for child in store.of_service("bad", f"of-{number}")]
    assert len(children) == 80
    assert sum(child.size for child in children) < 120_000
    assert {child.kind for child in children if child.is_partial} == {"Deployment"}
    other = named("c", SERVICE) | {"data": "x" * 50_000}
    store.update("Deployment", other)
    assert not store.of_service("ns", "demo")[0].is_partial, "of another namespace"
    for child in children:
        store.remove(child.uid, "2")
    store.update(
        "Deployment",
        named("c", SERVICE, namespace="bad") | {"data": random.Random(1).randbytes(10_000).hex()},
    )
    assert not store.of_service("bad", "demo")[0].is_partial, "there is room again"


def test_a_large_child_of_a_watch_is_read_when_it_is_needed(wakes: Wakes) -> None:
    """Any tenant may write any owner into large objects: of two hundred the operator's memory would be full."""
    store = store_with(wakes)
    for number in range(20):
        store.update("Deployment", large(f"u{number}", SERVICE))
    children = store.of_service("ns", "demo")
    assert all(child.is_partial and child.controller_uid == "o1" for child in children)
    assert sum(len(child.body) + len(child.fields) for child in children) < 20_000
    read = large("u7", SERVICE)
    store.complete("Deployment", read)
    [child] = [child for child in store.of_service("ns", "demo") if not child.is_partial]
    assert (child.uid, len(child.body) > LARGE) == ("u7", True)
    assert child.owned() == {"f:spec": {}}
    store.update("Deployment", large("u7", SERVICE, resourceVersion="2"))
    assert all(child.is_partial for child in store.of_service("ns", "demo"))
    store.complete("Deployment", read)
    assert all(child.is_partial for child in store.of_service("ns", "demo")), "it is older"
    store.remove("u7", "3")
    store.complete("Deployment", read)
    assert len(store.of_service("ns", "demo")) == 19, "it is gone"


def test_of_a_pod_with_a_giant_status_it_is_known_that_it_exists(wakes: Wakes) -> None:
    store = store_with(wakes)
    store.update("Pod", large("u1", REPLICAS))
    [child] = store.of_service("ns", "demo")
    assert child.manifest()["status"] == {}
    assert len(child.body) < 1_000


def test_after_a_reconcile_a_large_child_that_the_operator_wrote_takes_little(wakes: Wakes) -> None:
    """A tenant with two hundred services of large specs would fill the operator's memory."""
    store = store_with(wakes)
    written = store.put("Deployment", large("u1", SERVICE))
    store.put("Service", named("u2", SERVICE))
    assert not written.is_partial, "the reconcile goes on with it"
    store.shrink("ns", "demo")
    kept = {child.kind: child for child in store.of_service("ns", "demo")}
    assert kept["Deployment"].is_partial
    assert kept["Deployment"].size < 1_000
    assert (kept["Deployment"].applied, kept["Deployment"].controller_uid) == (
        written.applied,
        written.controller_uid,
    )
    store.complete("Deployment", large("u1", SERVICE))
    assert [
        child.is_partial for child in store.of_service("ns", "demo") if child.kind == "Deployment"
    ] == [False]

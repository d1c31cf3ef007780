"""A node that is killed, cut off, or whose disk is full: its pods are replaced within 20 s, no request hangs, and the status is true within 30 s."""

import contextlib
import dataclasses
import json
import os
import time
from collections.abc import Callable, Iterator

import pytest

from e2e import faults, load, truth
from e2e.cluster.cluster import Cluster
from e2e.cluster.layout import Node
from e2e.kubernetes import Kubernetes, condition_of

pytestmark = pytest.mark.full

_REPLACED_S = 20
_TIMEOUT_S = 5
"""Of one request: what a client waits for a server that is gone."""
_DISK_MIB = 256


@pytest.fixture
def node(cluster: Cluster) -> Node:
    """The node that is lost. The operator is lost with it."""
    node = faults.spare_node(cluster)
    faults.move_operator(cluster, node)
    return node


@contextlib.contextmanager
def _dead(cluster: Cluster, node: Node) -> Iterator[None]:
    cluster.kill_node(node)
    try:
        yield
    finally:
        cluster.revive_node(node)


_WAYS: "dict[str, Callable[[Cluster, Node], contextlib.AbstractContextManager[None]]]" = {
    "killed": _dead,
    "partitioned": Cluster.partitioned,
}


@pytest.mark.parametrize("way", _WAYS)
def test_a_node_is_lost(kubernetes: Kubernetes, cluster: Cluster, node: Node, way: str) -> None:
    _one_pod_per_node(kubernetes, cluster, node)
    with faults.requests(timeout=_TIMEOUT_S) as result:
        try:
            with _WAYS[way](cluster, node):
                _wait_until_replaced(kubernetes, node, f"the node was {way}")
                _no_request_fails(result)
                truth.wait(kubernetes, "demo", since="the pods were replaced")
        finally:
            _wait_until_ready(kubernetes, cluster, node)
        truth.wait(kubernetes, "demo", since="the node was back")
        kubernetes.wait("the lost pods to be gone", lambda: len(kubernetes.list("pods")) == 2)
        assert _serving(kubernetes, node) == (0, 2)
        _no_request_fails(result)
        kubernetes.wait("one operator", lambda: len(faults.operator_pods()) == 1)
    assert result.slowest < _TIMEOUT_S + 1, "no request hangs"


def _one_pod_per_node(kubernetes: Kubernetes, cluster: Cluster, node: Node) -> None:
    """A service of two pods. The scheduler only prefers to spread them, so that it can replace both on one node, and may also begin so."""
    with faults.cordoned(node):
        faults.service(kubernetes, replicas=1)
    with faults.cordoned(*(other for other in cluster.nodes if other != node)):
        faults.edit(kubernetes, replicas=2)
        kubernetes.wait_ready("demo")
    assert _serving(kubernetes, node) == (1, 1)


def _serving(kubernetes: Kubernetes, node: Node) -> tuple[int, int]:
    """How many pods serve on this node, and on others."""
    found = {name: len(pods) for name, pods in faults.pods_by_node(kubernetes).items()}
    here = found.pop(node.name, 0)
    return here, sum(found.values())


def _wait_until_replaced(kubernetes: Kubernetes, node: Node, since: str) -> None:
    """Waits until two pods serve on other nodes."""
    started = time.monotonic()
    kubernetes.wait(
        "two pods on the other node",
        lambda: _serving(kubernetes, node)[1] == 2,
        seen=lambda: faults.pods_by_node(kubernetes),
        timeout=truth.LONGEST_WAIT_S,
    )
    truth.hold(f"two pods serve after {since}", time.monotonic() - started, _REPLACED_S)


def _no_request_fails(result: load.Result) -> None:
    """From now on. Those that wait for a server that is gone have their timeout."""
    time.sleep(_TIMEOUT_S)
    before = len(result.failures)
    time.sleep(5)
    assert len(result.failures) == before, result.failures[before:]


def _wait_until_ready(kubernetes: Kubernetes, cluster: Cluster, node: Node) -> None:
    """Waits for what the kubelet that runs now has written."""
    boot_id = cluster.places[node.name].path("/run/own/boot_id").read_text().strip()

    def ready() -> bool:
        info = (kubernetes.get("node", node.name) or {})["status"]["nodeInfo"]
        return info["bootID"] == boot_id and _condition(kubernetes, node, "Ready") == "True"

    kubernetes.wait("the node", ready)


def _condition(kubernetes: Kubernetes, node: Node, kind: str) -> str:
    return str(condition_of(kubernetes.get("node", node.name) or {}, kind).get("status"))


def test_a_disk_is_full(kubernetes: Kubernetes, cluster: Cluster) -> None:
    node = faults.spare_node(cluster)
    faults.move_operator(cluster, cluster.nodes[0])  # or it would be evicted first
    with _small_disk(kubernetes, cluster, node):
        _one_pod_per_node(kubernetes, cluster, node)
        with faults.requests(timeout=_TIMEOUT_S) as result:
            with _full_disk(cluster, node):
                kubernetes.wait("the eviction in the status", lambda: "was evicted" in _said(kubernetes), seen=lambda: _said(kubernetes), timeout=truth.LONGEST_WAIT_S)  # fmt: skip
                print(_said(kubernetes))
                _wait_until_replaced(kubernetes, node, "the eviction")
                truth.wait(kubernetes, "demo", since="the pods were replaced")
            kubernetes.wait("room", lambda: _condition(kubernetes, node, "DiskPressure") == "False")
            faults.edit(kubernetes, replicas=3)
            truth.wait(kubernetes, "demo", since="the disk has room again and an edit")
            assert _serving(kubernetes, node) == (1, 2)
        assert len(result.failures) <= faults.SENDERS, (
            "those that the evicted server was working on"
        )


@contextlib.contextmanager
def _small_disk(kubernetes: Kubernetes, cluster: Cluster, node: Node) -> Iterator[None]:
    """The node with a small disk for what pods write."""
    try:
        cluster.kill_node(node)
        cluster.revive_node(dataclasses.replace(node, nodefs_mib=_DISK_MIB))
        _wait_until_ready(kubernetes, cluster, node)
        yield
    finally:
        cluster.kill_node(node)
        cluster.revive_node(node)
        _wait_until_ready(kubernetes, cluster, node)


@contextlib.contextmanager
def _full_disk(cluster: Cluster, node: Node) -> Iterator[None]:
    """A file that leaves less room than the hundredth at which the kubelet evicts pods, and enough for the kubelet itself."""
    folder = cluster.places[node.name].path("/var/lib/kubelet")
    file = folder / "full"
    with file.open("wb") as output:
        while (room := os.statvfs(folder)).f_bavail * room.f_bsize > 1 << 20:
            output.write(bytes(1 << 16))
            output.flush()
    try:
        yield
    finally:
        file.unlink()


def _said(kubernetes: Kubernetes) -> str:
    return json.dumps(kubernetes.condition("demo", "Progressing").get("message", ""))

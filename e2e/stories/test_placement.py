"""Pods of a service are spread over nodes, whether these have labels of zones or not, and over zones where they have.

The scheduler ignores every ScheduleAnyway constraint for a node that lacks the label of one of them: with a constraint for zones beside that for nodes, two pods ended
on one of two nodes without zones, each time.
"""

import contextlib
from collections.abc import Iterator

import pytest

from e2e import faults, services
from e2e.cluster.cluster import Cluster
from e2e.kubernetes import Kubernetes

pytestmark = pytest.mark.full

_ZONE = "topology.kubernetes.io/zone"
_TIMES = 2
"""How often pods are placed again: one of two nodes is also found by chance."""

ZONES: "dict[str, tuple[str, ...]]" = {
    "without zones": (),
    "in two zones": ("a", "b"),
    "in one zone": ("a", "a"),
    "one of them without a zone": ("a",),
}
"""The zones of the nodes, in their order."""


@contextlib.contextmanager
def _zones(cluster: Cluster, zones: "tuple[str, ...]") -> Iterator[None]:
    """Nodes with these zones for the length of a context."""
    admin = Kubernetes("default")
    labelled = list(zip(cluster.nodes, zones, strict=False))
    for node, zone in labelled:
        admin.run("label", "node", node.name, f"{_ZONE}={zone}")
    try:
        yield
    finally:
        for node, _ in labelled:
            admin.run("label", "node", node.name, f"{_ZONE}-")


@pytest.mark.parametrize("zones", ZONES.values(), ids=ZONES)
def test_two_pods_are_on_two_nodes(
    kubernetes: Kubernetes, cluster: Cluster, zones: "tuple[str, ...]"
) -> None:
    kubernetes.apply(services.secret())
    with _zones(cluster, zones):
        for number in range(_TIMES):
            name = f"demo-{number}"
            kubernetes.apply(services.service(name, replicas=2))
            kubernetes.wait_ready(name)
            assert _spread(kubernetes) == [1, 1], "created together"
            kubernetes.run("rollout", "restart", f"deployment/{name}")
            kubernetes.run("rollout", "status", f"deployment/{name}", "--timeout=120s")
            kubernetes.wait_ready(name)
            kubernetes.wait("two pods", lambda: faults.serving(kubernetes) == 2)
            assert _spread(kubernetes) == [1, 1], "replaced one after the other"
            kubernetes.delete("infsvc", name)
            kubernetes.wait("no pods", lambda: not kubernetes.list("pods"))


def _spread(kubernetes: Kubernetes) -> "list[int]":
    """How many pods serve on each node."""
    return sorted(len(pods) for pods in faults.pods_by_node(kubernetes).values())

"""Story b: pods are replaced under 200 requests per second, and no request fails."""

import collections.abc
import contextlib
import functools
import time

import pytest

from e2e import load, services
from e2e.cluster.cluster import Cluster
from e2e.kubernetes import Kubernetes

HOST = "demo.example.com"
_RATE = 200
_BEFORE_S = 2.0
_AFTER_S = 3.0


@pytest.fixture
def demo(kubernetes: Kubernetes) -> Kubernetes:
    """A Ready service of two pods behind the ingress."""
    made = services.service("demo", replicas=2, ingress=services.ingress(HOST))
    kubernetes.apply(services.secret(), made)
    kubernetes.wait_ready("demo")
    for sender in (lambda: load.http(f"{HOST}:80"), lambda: load.grpc(f"grpc.{HOST}:80")):
        kubernetes.wait("the route", functools.partial(load.responds, sender), timeout=20)
    return kubernetes


@contextlib.contextmanager
def no_request_fails() -> collections.abc.Iterator[None]:
    """Load over HTTP, gRPC and streams of gRPC around what happens in the context."""
    grpc = f"grpc.{HOST}:80"
    senders = [
        *[lambda: load.http(f"{HOST}:80")] * 8,
        *[lambda: load.grpc(grpc)] * 6,
        *[lambda: load.grpc_stream(grpc)] * 2,
    ]
    with load.running(senders, rate=_RATE) as result:
        time.sleep(_BEFORE_S)
        assert not result.failures, f"before anything happened: {result.failures[:5]}"
        yield
        time.sleep(_AFTER_S)
    assert not result.failures, f"{len(result.failures)} of {result.sent}: {result.failures[:10]}"
    assert result.sent > _RATE * _BEFORE_S


def test_a_rolling_update(demo: Kubernetes) -> None:
    with no_request_fails():
        env = [{"name": "RELEASE", "value": "2"}]
        demo.patch("inferenceservice", "demo", {"spec": {"predictor": {"env": env}}})
        demo.wait_ready("demo")


def test_a_deleted_pod(demo: Kubernetes) -> None:
    with no_request_fails():
        name = demo.list("pods")[0]["metadata"]["name"]
        demo.delete("pod", name)
        demo.wait_ready("demo")


def test_a_drained_node(demo: Kubernetes, cluster: Cluster) -> None:
    node = cluster.nodes[1].name
    with no_request_fails():
        try:
            demo.run("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--pod-selector=app.kubernetes.io/name", "--timeout=90s")  # fmt: skip
            demo.wait_ready("demo")
        finally:
            demo.run("uncordon", node)

"""Story b: pods are replaced under 200 requests per second, and no request fails."""

import collections.abc
import contextlib
import time

import pytest

from e2e import faults, load, services
from e2e.cluster.cluster import Cluster
from e2e.kubernetes import Kubernetes

HOST = "demo.example.com"
_RATE = 200
_SENDERS = 16
_BEFORE_S = 2.0
_AFTER_S = 3.0


@pytest.fixture
def demo(kubernetes: Kubernetes) -> Kubernetes:
    """A Ready service of two pods behind the ingress."""
    made = services.service("demo", replicas=2, ingress=services.ingress(HOST))
    kubernetes.apply(services.secret(), made)
    kubernetes.wait_ready("demo")
    load.wait_for_routes(kubernetes, *load.both(HOST))
    return kubernetes


_three_runs = pytest.mark.parametrize("run", [1, *(pytest.param(run, marks=pytest.mark.full) for run in (2, 3))])  # fmt: skip


@contextlib.contextmanager
def no_request_fails(*, allowed: int = 0) -> collections.abc.Iterator[list[str]]:
    """Load over HTTP, gRPC and streams of gRPC around what happens in the context; at most `allowed` requests may fail.

    Yields:
        The errors of streams that outlasted the drain of their server. They do not count: the client opens another.
    """
    ended: list[str] = []
    with load.running(load.mixed(HOST, ended), rate=_RATE) as result:
        time.sleep(_BEFORE_S)
        assert not result.failures, f"before anything happened: {result.failures[:5]}"
        yield ended
        time.sleep(_AFTER_S)
    failures = result.failures
    print(f"{len(failures)} of {result.sent} requests failed, {len(ended)} long streams ended")
    assert len(failures) <= allowed, f"{len(failures)} of {result.sent}: {failures[:10]}"
    assert result.sent > _RATE * _BEFORE_S


@_three_runs
def test_a_rolling_update(demo: Kubernetes, run: int) -> None:
    with no_request_fails() as ended:
        env = [{"name": "RELEASE", "value": f"2.{run}"}]
        demo.patch("infsvc", "demo", {"spec": {"predictor": {"env": env}}})
        demo.wait_ready("demo")
        demo.wait("the streams to the old pods to end", lambda: len(ended) >= load.KEPT_STREAMS)


def test_a_deleted_pod(demo: Kubernetes) -> None:
    with no_request_fails():
        name = demo.list("pods")[0]["metadata"]["name"]
        demo.delete("pod", name)
        demo.wait_ready("demo")


@_three_runs
def test_a_drained_node(demo: Kubernetes, cluster: Cluster, run: int) -> None:
    with no_request_fails(), demo.drained(cluster.nodes[run % len(cluster.nodes)].name):
        demo.wait_ready("demo")


def test_a_crashed_server(demo: Kubernetes, cluster: Cluster) -> None:
    """Only requests that it was working on may fail, at most one per connection."""
    with no_request_fails(allowed=_SENDERS):
        faults.crash(demo.list("pods")[0])
        demo.wait_ready("demo")


def test_a_pod_that_was_preempted_and_left_failed(demo: Kubernetes) -> None:
    with no_request_fails():
        name = demo.list("pods")[0]["metadata"]["name"]
        failed = {"phase": "Failed", "reason": "Preempting", "message": "made room for another pod"}
        demo.patch("pod", name, {"status": failed}, subresource="status")
        demo.wait_ready("demo")

"""Faults of what Naiad stands on: the API server, etcd, the metrics, the clock. Services go on answering, and their status is true within 30 s."""

import contextlib
import time
from collections.abc import Iterator

import pytest

from e2e import clock, faults, truth
from e2e.addons import install
from e2e.cluster.cluster import Cluster
from e2e.cluster.faults import api_server_away, slow_etcd
from e2e.demo import install_chart
from e2e.kubernetes import Kubernetes

pytestmark = pytest.mark.full

_HOUR = 3600
_SCALING = {
    "class": "hpa",
    "minReplicas": 1,
    "maxReplicas": 3,
    "queueTimeMs": 10,
    "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}},
}


@pytest.fixture
def demo(kubernetes: Kubernetes, cluster: Cluster) -> Kubernetes:
    """A Ready service of two pods behind the ingress."""
    faults.service(kubernetes, replicas=2)
    return kubernetes


def test_the_api_server_restarts(demo: Kubernetes, cluster: Cluster) -> None:
    with faults.requests() as result:
        with api_server_away(cluster):
            pass
        faults.edit(demo, replicas=3)
        truth.wait(demo, "demo", since="the API server was back and an edit")
        assert faults.serving(demo) == 3
    assert not result.failures
    assert faults.restarts_of_operator() == 0


def test_the_api_server_is_away_for_20_seconds(demo: Kubernetes, cluster: Cluster) -> None:
    """A server that crashes meanwhile starts again; only requests that it was working on may fail."""
    pod = demo.list("pods")[0]
    name = pod["metadata"]["name"]
    with faults.requests() as result:
        with api_server_away(cluster):
            time.sleep(10)
            assert not result.failures
            faults.crash(pod)
            time.sleep(10)
        crashed = len(result.failures)
        truth.wait(demo, "demo", since="the API server was back")
        demo.wait("the crash in the status", lambda: faults.restarts(demo.get("pod", name)) == 1)
        faults.wait_for_ingress_controller(demo)
        demo.delete("pod", name)
        truth.wait(demo, "demo", since="a pod was deleted")
    assert crashed <= faults.SENDERS
    assert len(result.failures) == crashed, result.failures
    assert faults.restarts_of_operator() == 0


@pytest.mark.parametrize(("stopped", "running"), [(1.5, 0.3), (3, 2)], ids=["slow", "very slow"])
def test_etcd_is_slow(demo: Kubernetes, cluster: Cluster, stopped: float, running: float) -> None:
    """Two operators elect one that works. Longer than this cluster's grace period, Kubernetes itself would take all nodes for lost."""
    try:
        install_chart(cluster, "replicas=2")
        with faults.requests() as result:
            with slow_etcd(cluster, stopped=stopped, running=running):
                time.sleep(30)
            faults.edit(demo, replicas=3)
            truth.wait(demo, "demo", since="etcd was well again")
        assert not result.failures
        assert faults.restarts_of_operator() == 0
        holder = clock.lease().holder
        assert any(holder.startswith(pod["metadata"]["name"]) for pod in faults.operator_pods())
    finally:
        install_chart(cluster)


@pytest.fixture
def scaled(kubernetes: Kubernetes, cluster: Cluster) -> Kubernetes:
    """A service whose autoscaler reads the queue time from Prometheus."""
    install.monitoring(cluster)
    faults.service(kubernetes, autoscaling=_SCALING)
    kubernetes.wait_condition("demo", "AutoscalingReady", status="True", reason="Scaling")
    return kubernetes


@pytest.mark.parametrize("gone", ["prometheus", "adapter"])
def test_the_metrics_are_gone(scaled: Kubernetes, cluster: Cluster, gone: str) -> None:
    """The number of pods stays as it is, and the condition says that nothing decides it."""
    with faults.requests() as result:
        with _without(cluster, gone):
            print(_wait_for(scaled, "False", "MetricsUnavailable", f"{gone} was gone", 60))
            scaled.run("scale", "deployment", "demo", "--replicas=2")
            scaled.wait("two pods", lambda: faults.serving(scaled) == 2)
            time.sleep(10)
            assert faults.serving(scaled) == 2, "the autoscaler would have one"
        _wait_for(scaled, "True", "Scaling", f"{gone} was back", truth.WITHIN_S)
        scaled.wait("one pod", lambda: faults.serving(scaled) == 1)
        truth.wait(scaled, "demo", since="the autoscaler worked again")
    assert not result.failures


def _wait_for(scaled: Kubernetes, status: str, reason: str, since: str, within: float) -> str:
    """Waits for the condition AutoscalingReady; its message. A failure is seen late: the autoscaler's request waits for a Prometheus that does not respond."""
    started = time.monotonic()
    message = scaled.wait_condition(
        "demo", "AutoscalingReady", status=status, reason=reason, timeout=truth.LONGEST_WAIT_S
    )
    truth.hold(f"{status} after {since}", time.monotonic() - started, within)
    return message


@contextlib.contextmanager
def _without(cluster: Cluster, deployment: str) -> Iterator[None]:
    """Without the pod of one of the add-ons of monitoring."""
    monitoring = Kubernetes("monitoring")
    monitoring.run("scale", "deployment", deployment, "--replicas=0")
    try:
        yield
    finally:
        monitoring.run("scale", "deployment", deployment, "--replicas=1")
        install.wait_for_deployments(cluster, f"monitoring/{deployment}")


def test_the_operators_clock_jumps(demo: Kubernetes, cluster: Cluster) -> None:
    """An hour ahead, an hour late, and right again: Leases are measured by the time that passes, not by the time of day."""
    with clock.turned(cluster, "replicas=2") as own, faults.requests() as result:
        _wait_for_leader(demo, ahead=0)
        before = clock.lease()
        for replicas, seconds in ((3, _HOUR), (2, -_HOUR), (1, 0)):
            own.turn(seconds)
            _wait_for_leader(demo, ahead=seconds)
            faults.edit(demo, replicas=replicas)
            truth.wait(demo, "demo", since=f"the clock was {seconds:+d} s wrong and an edit")
            assert faults.serving(demo) == replicas
        after = clock.lease()
        assert (after.holder, after.transitions) == (before.holder, before.transitions)
        assert faults.restarts_of_operator() == 0
        assert not faults.errors_of_operator()
    assert not result.failures


def _wait_for_leader(demo: Kubernetes, *, ahead: int) -> None:
    """Waits until a Lease is renewed whose time is ahead of the true one by so many seconds."""
    demo.wait("a leader", lambda: abs(clock.lease().ahead - ahead) < 10, seen=clock.lease)

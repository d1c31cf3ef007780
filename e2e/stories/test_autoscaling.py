"""Story c: an autoscaler follows the queue time that pods report, through a real Prometheus; the operator's, KEDA's, and one of the user's own."""

import functools
import http.client
import time
import typing

import pytest

from e2e import load, services
from e2e.addons import install, keda
from e2e.bucket import EXAMPLES, Bucket
from e2e.cluster.cluster import Cluster
from e2e.kubernetes import Kubernetes

HOST = "demo.example.com"
PROMETHEUS = "http://prometheus.monitoring:9090"
_BEHAVIOR = {
    "scaleUp": {"stabilizationWindowSeconds": 0},
    "scaleDown": {"stabilizationWindowSeconds": 10},
}
_SCALING = {
    "class": "hpa",
    "minReplicas": 1,
    "maxReplicas": 3,
    "queueTimeMs": 10,
    "behavior": _BEHAVIOR,
}
_KEDA = {**_SCALING, "class": "keda", "prometheusAddress": PROMETHEUS}
_RATE = 200
"""Twice what one pod can do, and two thirds of what three can."""


@pytest.mark.full
@pytest.mark.parametrize("scaling", [_SCALING, _KEDA], ids=["hpa", "keda"])
def test_load_that_queues_scales_out_and_its_end_scales_in(
    kubernetes: Kubernetes, cluster: Cluster, scaling: dict[str, typing.Any]
) -> None:
    install.monitoring(cluster)
    if scaling is _KEDA:
        keda.ensure(cluster)
    _apply(kubernetes, scaling)
    kubernetes.wait_ready("demo")
    kubernetes.wait_condition("demo", "AutoscalingReady", status="True", reason="Scaling")
    _load_scales_out(kubernetes)
    # The average is over two minutes, so the end of the load shows only after them.
    _wait_for_pods(kubernetes, 1, timeout=240)


@pytest.mark.full
def test_an_autoscaler_of_the_users_own_takes_over(
    kubernetes: Kubernetes, cluster: Cluster
) -> None:
    """It scales the InferenceService, and the operator the Deployment."""
    install.monitoring(cluster)
    _apply(kubernetes, {**_SCALING, "minReplicas": 2})
    kubernetes.wait_ready("demo")
    _wait_for_pods(kubernetes, 2)
    before = _pods(kubernetes)
    unset = dict.fromkeys(_SCALING)
    switched = {"replicas": 2, "autoscaling": {**unset, "class": "external"}}
    kubernetes.patch("infsvc", "demo", {"spec": {"predictor": switched}})
    kubernetes.wait("no HorizontalPodAutoscaler", lambda: kubernetes.list("hpa") == [])
    kubernetes.wait_condition("demo", "AutoscalingReady", status="True", reason="Disabled")
    assert _pods(kubernetes) == before, "no pod was replaced"
    kubernetes.run("scale", "infsvc", "demo", "--replicas=3")
    _wait_for_pods(kubernetes, 3)
    assert _pods(kubernetes) > before

    kubernetes.apply(_horizontal_pod_autoscaler("InferenceService", "serving.naiad.dev/v1alpha1"))
    _wait_for_pods(kubernetes, 1, timeout=120)  # there is no load
    _load_scales_out(kubernetes)
    service = kubernetes.get("infsvc", "demo") or {}
    assert service["spec"]["predictor"]["replicas"] == 3


@pytest.mark.full
def test_a_service_moves_between_autoscalers(kubernetes: Kubernetes, cluster: Cluster) -> None:
    """KEDA's webhook refuses a ScaledObject for a Deployment that another autoscaler scales."""
    install.monitoring(cluster)
    keda.ensure(cluster)
    _apply(kubernetes, {**_SCALING, "minReplicas": 2})
    kubernetes.wait_ready("demo")
    _wait_for_pods(kubernetes, 2)
    before = _pods(kubernetes)
    for scaling, name in ((_KEDA, "keda-hpa-demo"), (_SCALING, "demo"), (_KEDA, "keda-hpa-demo")):
        started = time.monotonic()
        unset = {"prometheusAddress": None}
        switched = {"autoscaling": {**unset, **scaling, "minReplicas": 2}}
        kubernetes.patch("infsvc", "demo", {"spec": {"predictor": switched}})
        names = functools.partial(_autoscalers, kubernetes)
        kubernetes.wait(f"only {name}", functools.partial(_equal, names, [name]), seen=names)
        print(f"{scaling['class']} alone after {time.monotonic() - started:.1f} s")
    kubernetes.wait_condition("demo", "AutoscalingReady", status="True", reason="Scaling")
    assert _pods(kubernetes) == before, "no pod was replaced"
    reasons = {event["reason"] for event in kubernetes.list("events")}
    assert "ApplyFailed" not in reasons


@pytest.mark.full
def test_a_second_autoscaler_is_refused_and_the_condition_says_so(
    kubernetes: Kubernetes, cluster: Cluster
) -> None:
    install.monitoring(cluster)
    keda.ensure(cluster)
    kubernetes.apply(_horizontal_pod_autoscaler("Deployment", "apps/v1"))
    _apply(kubernetes, _KEDA)
    message = kubernetes.wait_condition(
        "demo", "AutoscalingReady", status="False", reason="ApplyFailed"
    )
    assert "is already managed by the hpa 'mine'" in message
    kubernetes.delete("hpa", "mine")
    kubernetes.wait_condition("demo", "AutoscalingReady", status="True", reason="Scaling")


@pytest.mark.full
def test_the_first_request_starts_a_service_that_has_no_pod(
    kubernetes: Kubernetes, cluster: Cluster
) -> None:
    """The ingress controller refuses requests until a pod is Ready; its count of them is what starts the pod."""
    install.monitoring(cluster)
    keda.ensure(cluster)
    _apply(kubernetes, {**_KEDA, "minReplicas": 0, "activation": {"idleSeconds": 60}})
    kubernetes.wait_ready("demo")
    started = time.monotonic()
    kubernetes.wait_condition("demo", "Stopped", status="True", reason="ScaledToZero", timeout=180)
    _wait_for_pods(kubernetes, 0)
    print(f"no pod {time.monotonic() - started:.0f} s after the first was Ready")

    started = time.monotonic()
    statuses: list[int] = []
    while 200 not in statuses and time.monotonic() < started + 120:
        statuses.append(_status(HOST))
        time.sleep(1)
    print(f"an answer after {time.monotonic() - started:.0f} s, {len(statuses)} requests")
    assert statuses[0] == 503
    assert set(statuses) == {503, 200}
    kubernetes.wait_ready("demo")
    # No more requests: two minutes until their rate is 0, and the time without requests.
    kubernetes.wait_condition("demo", "Stopped", status="True", reason="ScaledToZero", timeout=300)


def _apply(kubernetes: Kubernetes, scaling: dict[str, typing.Any]) -> None:
    made = services.service(
        "demo",
        uri=_slow_model(kubernetes.namespace),
        replicas=None,
        predictor={"autoscaling": scaling},
        ingress=services.ingress(HOST),
    )
    kubernetes.apply(services.secret(), made)


def _load_scales_out(kubernetes: Kubernetes) -> None:
    """From one pod to three within 45 s, and three stay."""
    sender = functools.partial(load.http, f"{HOST}:80")
    load.wait_for_routes(kubernetes, sender)
    seen = []
    with load.running([sender] * 32, rate=_RATE) as result:
        started = time.monotonic()
        replicas = functools.partial(_replicas, kubernetes)
        kubernetes.wait("three pods", lambda: replicas() == 3, seen=replicas, timeout=45)
        print(f"1 to 3 pods after {time.monotonic() - started:.0f} s")
        end = time.monotonic() + 15
        while time.monotonic() < end:
            seen.append(replicas())
            time.sleep(0.2)
    assert set(seen) == {3}, f"the number of pods went up and down: {seen}"
    assert not result.failures


def _slow_model(prefix: str) -> str:
    """A model that takes 10 ms for each request: one pod answers 100 per second."""
    bucket = Bucket("slow")
    config = (EXAMPLES / "word_count" / "config.pbtxt").read_text()
    model = (EXAMPLES / "word_count" / "1" / "model.py").read_text()
    unbatched = config.replace("max_batch_size: 32", "max_batch_size: 1")
    slow = model.replace("        texts = ", "        time.sleep(0.01)\n        texts = ", 1)
    bucket.put(f"{prefix}/word_count/config.pbtxt", unbatched.encode())
    bucket.put(f"{prefix}/word_count/1/model.py", f"import time\n{slow}".encode())
    return bucket.uri(prefix)


def _horizontal_pod_autoscaler(kind: str, version: str) -> dict[str, typing.Any]:
    """An autoscaler of the user's own, by the same metric."""
    metric = {"name": "nv_inference_avg_queue_time_us"}
    target = {"type": "AverageValue", "averageValue": "10000"}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "mine"},
        "spec": {
            "scaleTargetRef": {"apiVersion": version, "kind": kind, "name": "demo"},
            "minReplicas": 1,
            "maxReplicas": 3,
            "metrics": [{"type": "Pods", "pods": {"metric": metric, "target": target}}],
            "behavior": _BEHAVIOR,
        },
    }


def _replicas(kubernetes: Kubernetes) -> int:
    """The number of pods that the Deployment should have."""
    deployment = kubernetes.get("deployment", "demo") or {}
    return int(deployment["spec"]["replicas"])


def _wait_for_pods(kubernetes: Kubernetes, number: int, *, timeout: float = 60) -> None:
    """Waits until so many are wanted, and no others exist."""

    def reached() -> bool:
        return _replicas(kubernetes) == number == len(_pods(kubernetes))

    seen = functools.partial(_replicas, kubernetes)
    kubernetes.wait(f"{number} pods", reached, seen=seen, timeout=timeout)


def _pods(kubernetes: Kubernetes) -> set[str]:
    return {pod["metadata"]["name"] for pod in kubernetes.list("pods")}


def _autoscalers(kubernetes: Kubernetes) -> list[str]:
    return [each["metadata"]["name"] for each in kubernetes.list("hpa")]


def _equal(read: typing.Callable[[], list[str]], expected: list[str]) -> bool:
    return read() == expected


def _status(host: str) -> int:
    """The status of one request to the model, without a kept connection."""
    connection = http.client.HTTPConnection(host, 80, timeout=20)
    try:
        connection.request("GET", "/v2/models/word_count/ready")
        return connection.getresponse().status
    finally:
        connection.close()

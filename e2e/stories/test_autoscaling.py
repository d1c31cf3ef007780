"""Story c: the autoscaler follows the queue time that pods report, through a real Prometheus and prometheus-adapter."""

import time

import pytest

from e2e import load, services
from e2e.kubernetes import Kubernetes

HOST = "demo.example.com"


@pytest.mark.full
def test_load_that_queues_scales_out_and_its_end_scales_in(kubernetes: Kubernetes) -> None:
    scaling = {
        "class": "hpa",
        "minReplicas": 1,
        "maxReplicas": 3,
        "queueTimeMs": 2,
        "behavior": {
            "scaleUp": {"stabilizationWindowSeconds": 0},
            "scaleDown": {"stabilizationWindowSeconds": 10},
        },
    }
    made = services.service(
        "demo", replicas=None, predictor={"autoscaling": scaling}, ingress=services.ingress(HOST)
    )
    kubernetes.apply(services.secret(), made)
    kubernetes.wait_ready("demo")

    def replicas() -> int:
        deployment = kubernetes.get("deployment", "demo") or {}
        return int(deployment["spec"]["replicas"])

    seen = []
    with load.running([lambda: load.http(f"{HOST}:80")] * 64, rate=2000) as result:
        started = time.monotonic()
        kubernetes.wait("three pods", lambda: replicas() == 3, seen=replicas, timeout=45)
        print(f"1 to 3 pods after {time.monotonic() - started:.0f} s")
        for _ in range(50):
            seen.append(replicas())
            time.sleep(0.2)
    assert set(seen) == {3}, f"the number of pods went up and down: {seen}"
    kubernetes.wait("one pod", lambda: replicas() == 1, seen=replicas, timeout=90)
    assert result.sent

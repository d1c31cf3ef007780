"""Story c: the autoscaler follows the queue time that pods report, through a real Prometheus and prometheus-adapter."""

import functools
import time

import pytest

from e2e import load, services
from e2e.addons import install
from e2e.bucket import EXAMPLES, Bucket
from e2e.cluster.cluster import Cluster
from e2e.kubernetes import Kubernetes

HOST = "demo.example.com"
_SCALING = {
    "class": "hpa",
    "minReplicas": 1,
    "maxReplicas": 3,
    "queueTimeMs": 10,
    "behavior": {
        "scaleUp": {"stabilizationWindowSeconds": 0},
        "scaleDown": {"stabilizationWindowSeconds": 10},
    },
}
_RATE = 200
"""Twice what one pod can do, and two thirds of what three can."""


@pytest.mark.full
def test_load_that_queues_scales_out_and_its_end_scales_in(
    kubernetes: Kubernetes, cluster: Cluster
) -> None:
    install.monitoring(cluster)
    made = services.service(
        "demo",
        uri=_slow_model(kubernetes.namespace),
        replicas=None,
        predictor={"autoscaling": _SCALING},
        ingress=services.ingress(HOST),
    )
    kubernetes.apply(services.secret(), made)
    kubernetes.wait_ready("demo")
    sender = functools.partial(load.http, f"{HOST}:80")
    load.wait_for_routes(kubernetes, sender)

    def replicas() -> int:
        deployment = kubernetes.get("deployment", "demo") or {}
        return int(deployment["spec"]["replicas"])

    seen = []
    with load.running([sender] * 32, rate=_RATE) as result:
        started = time.monotonic()
        kubernetes.wait("three pods", lambda: replicas() == 3, seen=replicas, timeout=45)
        print(f"1 to 3 pods after {time.monotonic() - started:.0f} s")
        end = time.monotonic() + 15
        while time.monotonic() < end:
            seen.append(replicas())
            time.sleep(0.2)
    assert set(seen) == {3}, f"the number of pods went up and down: {seen}"
    assert not result.failures
    # The average is over two minutes, so the end of the load shows only after them.
    kubernetes.wait("one pod", lambda: replicas() == 1, seen=replicas, timeout=240)


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

"""Story d: MIG slices of a device plugin that registered with the real kubelet: one slice per pod, and what no node offers."""

import json
import urllib.request

from e2e import load, services
from e2e.cluster.cluster import Cluster
from e2e.devices import nodes
from e2e.kubernetes import Kubernetes, Object

_SLICE = "mig-1g.10gb"


def test_seven_pods_have_one_slice_each_and_an_eighth_waits(
    kubernetes: Kubernetes, cluster: Cluster
) -> None:
    accelerator = {"type": "mig", "profile": "1g.10gb"}
    made = services.service("demo", replicas=7, predictor={"accelerator": accelerator})
    with nodes.advertised(cluster, cluster.nodes[0], **{_SLICE: 7}):
        kubernetes.apply(services.secret(), made)
        kubernetes.wait_ready("demo", timeout=180)
        assert len(set(_devices(kubernetes))) == 7
        _requests_reach_every_pod(kubernetes)
        kubernetes.patch("inferenceservice", "demo", {"spec": {"predictor": {"replicas": 8}}})
        kubernetes.wait(
            "the reason",
            lambda: (
                "nvidia.com/mig-1g.10gb" in json.dumps(kubernetes.condition("demo", "Progressing"))
            ),
            seen=lambda: kubernetes.condition("demo", "Progressing"),
            timeout=90,
        )
        assert len(_devices(kubernetes)) == 7, "the seven go on serving"
        kubernetes.delete("inferenceservice", "demo")
        kubernetes.wait("no pods", lambda: not kubernetes.list("pods"))


def test_a_plugin_that_registers_again_and_an_unhealthy_slice(
    kubernetes: Kubernetes, cluster: Cluster
) -> None:
    node = cluster.nodes[0]
    with nodes.advertised(cluster, node, **{_SLICE: 2}) as unhealthy:
        (unhealthy / f"{node.name}-{_SLICE}-0").touch()

        def offered() -> str:
            item = kubernetes.get("node", node.name) or {}
            return str(item["status"]["allocatable"][f"nvidia.com/{_SLICE}"])

        kubernetes.wait("one healthy slice", lambda: offered() == "1", seen=offered)


def _devices(kubernetes: Kubernetes) -> list[str]:
    """The slices that the running pods were given."""
    running = [pod for pod in kubernetes.list("pods") if pod["status"]["phase"] == "Running"]
    return [
        kubernetes.run(
            "exec", pod["metadata"]["name"], "--", "printenv", "NVIDIA_VISIBLE_DEVICES"
        ).strip()
        for pod in running
    ]


def _requests_reach_every_pod(kubernetes: Kubernetes) -> None:
    """New connections to the Service are spread over all pods, as their own metrics say."""
    host = f"demo.{kubernetes.namespace}.svc.cluster.local:8000"
    for _ in range(20 * 7):
        with load.http(host) as send:
            send()
    assert all(_answered(pod) > 0 for pod in kubernetes.list("pods"))


def _answered(pod: Object) -> float:
    """How many requests a pod has answered."""
    address = f"http://{pod['status']['podIP']}:8002/metrics"
    with urllib.request.urlopen(address, timeout=5) as page:
        lines = page.read().decode().splitlines()
    counts = [line for line in lines if line.startswith("nv_inference_request_success{")]
    return sum(float(line.rpartition(" ")[2]) for line in counts)

"""Story d: MIG slices of a device plugin that registered with the real kubelet: one slice per pod, and what no node offers."""

import json
import urllib.request

from e2e import load, services
from e2e.cluster.cluster import Cluster
from e2e.devices import nodes
from e2e.kubernetes import Kubernetes, Object

_SLICE = "mig-1g.10gb"
_ACCELERATOR = {"type": "mig", "profile": "1g.10gb"}


def test_seven_pods_have_one_slice_each_and_an_eighth_waits(
    kubernetes: Kubernetes, cluster: Cluster
) -> None:
    made = services.service("demo", replicas=7, predictor={"accelerator": _ACCELERATOR})
    with nodes.advertised(cluster, cluster.nodes[0], **{_SLICE: 7}):
        kubernetes.apply(services.secret(), made)
        kubernetes.wait_ready("demo", timeout=180)
        assert len(set(nodes.visible(kubernetes))) == 7
        _requests_reach_every_pod(kubernetes)
        kubernetes.patch("infsvc", "demo", {"spec": {"predictor": {"replicas": 8}}})
        kubernetes.wait(
            "the reason",
            lambda: (
                "nvidia.com/mig-1g.10gb" in json.dumps(kubernetes.condition("demo", "Progressing"))
            ),
            seen=lambda: kubernetes.condition("demo", "Progressing"),
            timeout=90,
        )
        assert len(nodes.visible(kubernetes)) == 7, "the seven go on serving"
        services.end(kubernetes, "demo")


def test_an_unhealthy_slice_is_no_longer_offered(kubernetes: Kubernetes, cluster: Cluster) -> None:
    node = cluster.nodes[0]
    with nodes.advertised(cluster, node, **{_SLICE: 2}) as plugin:
        plugin.fail(f"nvidia.com/{_SLICE}", 0)

        def offered() -> str:
            item = kubernetes.get("node", node.name) or {}
            return str(item["status"]["allocatable"][f"nvidia.com/{_SLICE}"])

        kubernetes.wait("one healthy slice", lambda: offered() == "1", seen=offered)


def test_a_kubelet_starts_again_and_the_plugin_registers_again(
    kubernetes: Kubernetes, cluster: Cluster
) -> None:
    node = cluster.nodes[0]
    made = services.service("demo", predictor={"accelerator": _ACCELERATOR})
    with nodes.advertised(cluster, node, **{_SLICE: 2}) as plugin:
        kubernetes.apply(services.secret(), made)
        kubernetes.wait_ready("demo")
        containers, registrations = _containers(kubernetes), plugin.registrations
        cluster.restart_kubelet(node)
        kubernetes.wait(
            "the plugin registers again",
            lambda: plugin.registrations > registrations,
            seen=plugin.log.read_text,
        )
        # A second pod gets the slice that is left, and the first pod's container is the one of before.
        kubernetes.patch("infsvc", "demo", {"spec": {"predictor": {"replicas": 2}}})
        kubernetes.wait_ready("demo")
        assert len(set(nodes.visible(kubernetes))) == 2
        assert containers < _containers(kubernetes)
        services.end(kubernetes, "demo")


def _containers(kubernetes: Kubernetes) -> set[str]:
    """The ids of the containers that run."""
    return {
        status["containerID"]
        for pod in kubernetes.list("pods")
        for status in pod["status"].get("containerStatuses", [])
        if "running" in status["state"]
    }


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

"""Story d, the other ways to slices: several in one pod, the strategy `single`, a claim, and a node that arrives late."""

import concurrent.futures
import time

import numpy as np
import pytest
import tritonclient.http

from e2e import services
from e2e.bucket import Bucket
from e2e.cluster.cluster import Cluster
from e2e.cluster.layout import Node
from e2e.devices import driver, nodes
from e2e.kubernetes import Kubernetes
from tests.support import sliced_gpu

_SLICE = "mig-1g.10gb"
_MIG = {"type": "mig", "profile": "1g.10gb"}
_SINGLE = {**_MIG, "strategy": "single", "product": nodes.PRODUCT}
_LATE = Node("node-c", "172.30.0.13", "10.244.3.0/24")
_LATE_S = 90


def test_one_pod_with_seven_slices_has_a_worker_on_each(
    kubernetes: Kubernetes, cluster: Cluster
) -> None:
    bucket = Bucket("slices")
    bucket.upload(sliced_gpu.MODELS, "one-pod")
    predictor = {"accelerator": {**_MIG, "count": 7}, **driver.fields()}
    made = services.service("demo", uri=bucket.uri("one-pod"), predictor=predictor)
    with nodes.advertised(cluster, cluster.nodes[0], **{_SLICE: 7}):
        kubernetes.apply(services.secret(), driver.config_map(), made)
        kubernetes.wait_ready("demo", timeout=180)
        [given] = nodes.visible(kubernetes)
        workers = _workers(f"demo.{kubernetes.namespace}.svc.cluster.local:8000")
        assert sorted(workers) == given.split(",")
        assert len(set(workers.values())) == 7, "processes"
        services.end(kubernetes, "demo")


def test_whole_gpus_and_slices_of_the_single_strategy_are_kept_apart(
    kubernetes: Kubernetes, cluster: Cluster
) -> None:
    sliced, whole = cluster.nodes
    product = f"{nodes.PRODUCT}-MIG-1g.10gb"
    labels = {"mig.strategy": "single", "gpu.product": product, "gpu.slices.gi": "1"}
    with (
        nodes.labelled(sliced, **labels),
        nodes.advertised(cluster, sliced, gpu=7),
    ):
        kubernetes.apply(
            services.secret(),
            services.service("slice", predictor={"accelerator": _SINGLE}),
            services.service("gpu", predictor={"accelerator": {"type": "gpu"}}),
        )
        kubernetes.wait_ready("slice")
        assert nodes.of_pods(kubernetes, "slice") == [sliced.name]
        # Six slices are free, and they are called nvidia.com/gpu. A pod that asks for a whole GPU gets none of them.
        message = kubernetes.wait_condition(
            "gpu", "Progressing", status="True", reason="WaitingForNode"
        )
        assert "nvidia.com/gpu is a MIG slice, so pods with whole GPUs do not go there" in message
        with nodes.advertised(cluster, whole, gpu=1):
            kubernetes.wait_ready("gpu")
            assert nodes.of_pods(kubernetes, "gpu") == [whole.name]
            services.end(kubernetes, "gpu")
        services.end(kubernetes, "slice")


@pytest.mark.full
def test_a_node_that_arrives_90_seconds_late(kubernetes: Kubernetes, cluster: Cluster) -> None:
    kubernetes.apply(services.secret(), services.service("demo", predictor={"accelerator": _MIG}))
    kubernetes.wait_condition("demo", "Progressing", status="True", reason="WaitingForNode")
    late = time.monotonic() + _LATE_S
    while time.monotonic() < late:
        condition = kubernetes.condition("demo", "Progressing")
        assert condition["reason"] == "WaitingForNode", condition
        assert "no node offers nvidia.com/mig-1g.10gb" in condition["message"]
        time.sleep(1)
    [pod] = kubernetes.list("pods")
    image = pod["spec"]["containers"][0]["image"]
    with cluster.joined(_LATE, image), nodes.advertised(cluster, _LATE, **{_SLICE: 1}):
        kubernetes.wait_ready("demo")
        assert nodes.of_pods(kubernetes, "demo") == [_LATE.name]
        assert [one["metadata"]["name"] for one in kubernetes.list("pods")] == [
            pod["metadata"]["name"]
        ], "the pod that waited"
        services.end(kubernetes, "demo")


@pytest.mark.full
def test_a_slice_by_a_resource_claim(kubernetes: Kubernetes, cluster: Cluster) -> None:
    node = cluster.nodes[0]
    accelerator = {**_MIG, "strategy": "dra"}
    with nodes.claimable(cluster, node, "1g.10gb", 1):
        kubernetes.apply(
            services.secret(), services.service("demo", predictor={"accelerator": accelerator})
        )
        kubernetes.wait_ready("demo")
        assert nodes.of_pods(kubernetes, "demo") == [node.name]
        assert nodes.visible(kubernetes) == ["MIG-node-a-1g.10gb-0"]
        # One slice, so a second pod waits for what its claim asks for.
        kubernetes.patch("infsvc", "demo", {"spec": {"predictor": {"replicas": 2}}})
        message = kubernetes.wait_condition(
            "demo", "Progressing", status="True", reason="WaitingForNode"
        )
        assert "no node can give what the claim asks for" in message
        services.end(kubernetes, "demo")
        kubernetes.wait("no claims", lambda: not kubernetes.list("resourceclaims"))


def _workers(host: str) -> "dict[str, str]":
    """The process of each slice that answered: as many requests at once as there are slices."""

    def answer(_: int) -> tuple[str, str]:
        client = tritonclient.http.InferenceServerClient(host, network_timeout=120)
        tensor = tritonclient.http.InferInput("X", [1], "FP32")
        tensor.set_data_from_numpy(np.zeros(1, np.float32))
        said = client.infer(sliced_gpu.MODEL, [tensor]).as_numpy("SAID")
        client.close()
        visible, _, pid = (text.decode() for text in said)
        return visible, pid

    with concurrent.futures.ThreadPoolExecutor(7) as clients:
        return dict(clients.map(answer, range(7)))

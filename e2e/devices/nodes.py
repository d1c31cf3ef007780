"""The device plugins of the nodes: started and ended by stories."""

import contextlib
import os
import pathlib
import signal
import sys
from collections.abc import Iterator

from e2e.cluster import namespaces
from e2e.cluster.cluster import Cluster
from e2e.cluster.layout import Node
from e2e.kubernetes import Kubernetes

_PLUGIN = pathlib.Path(__file__).with_name("plugin.py")


@contextlib.contextmanager
def advertised(cluster: Cluster, node: Node, **resources: int) -> Iterator[pathlib.Path]:
    """Devices on a node, for a context.

    Args:
        cluster: the cluster.
        node: which node.
        resources: how many of each; the name without `nvidia.com/`, such as `{"mig-1g.10gb": 7}`.

    Yields:
        The folder in which a file with the name of a device makes it unhealthy.
    """
    folder = cluster.folders.node(node) / "unhealthy"
    folder.mkdir(exist_ok=True)
    for file in folder.iterdir():
        file.unlink()
    wanted = {f"nvidia.com/{name}": count for name, count in resources.items()}
    arguments = [f"{name}={count}" for name, count in wanted.items()]
    command = [sys.executable, str(_PLUGIN), *arguments, "--unhealthy", str(folder)]
    place = cluster.places[node.name]
    plugin = namespaces.start(f"device-plugin-{node.name}", place.entered(*command), cluster.folders.logs)  # fmt: skip
    kubernetes = Kubernetes("default")
    try:
        kubernetes.wait(
            f"{wanted} on {node.name}",
            lambda: _allocatable(kubernetes, node, wanted) == wanted,
            seen=lambda: f"{_allocatable(kubernetes, node, wanted)}; {plugin.last_lines()}",
        )
        yield folder
    finally:
        os.killpg(plugin.process.pid, signal.SIGKILL)
        plugin.process.wait()
        kubernetes.wait(
            f"no devices on {node.name}",
            lambda: not any(_allocatable(kubernetes, node, wanted).values()),
        )


def _allocatable(kubernetes: Kubernetes, node: Node, wanted: dict[str, int]) -> dict[str, int]:
    item = kubernetes.get("node", node.name) or {}
    amounts = item.get("status", {}).get("allocatable", {})
    return {name: int(amounts.get(name, 0)) for name in wanted}

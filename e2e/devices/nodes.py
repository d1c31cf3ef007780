"""The devices of the nodes: advertised by a device plugin or offered to claims, for as long as a story wants them."""

import contextlib
import dataclasses
import os
import pathlib
import signal
import sys
import typing
from collections.abc import Iterator

from e2e.cluster import namespaces
from e2e.cluster.cluster import Cluster
from e2e.cluster.layout import Node
from e2e.devices import claims, plugin
from e2e.kubernetes import Kubernetes

Object = dict[str, typing.Any]

PRODUCT = "NVIDIA-H100-80GB-HBM3"
"""The product in the labels of a node."""


@dataclasses.dataclass(frozen=True, slots=True)
class DevicePlugin:
    """A running device plugin.

    Attributes:
        node: where it runs.
        unhealthy: a file with the name of a device makes that unhealthy.
        log: its output.
    """

    node: Node
    unhealthy: pathlib.Path
    log: pathlib.Path

    def fail(self, resource: str, number: int) -> None:
        """Makes a device unhealthy."""
        (self.unhealthy / plugin.device_id(resource, self.node.name, number)).touch()

    @property
    def registrations(self) -> int:
        """How often a plugin on this node has registered a resource, since the cluster exists."""
        lines = self.log.read_text(errors="replace").splitlines()
        return sum(line.startswith("registered") for line in lines)


@contextlib.contextmanager
def advertised(cluster: Cluster, node: Node, **resources: int) -> Iterator[DevicePlugin]:
    """Devices on a node, for a context.

    Args:
        cluster: the cluster.
        node: which node.
        resources: how many of each; the name without `nvidia.com/`, such as `{"mig-1g.10gb": 7}`.
    """
    folder = cluster.folders.node(node) / "unhealthy"
    folder.mkdir(exist_ok=True)
    for file in folder.iterdir():
        file.unlink()
    wanted = {f"nvidia.com/{name}": count for name, count in resources.items()}
    arguments = [f"{name}={count}" for name, count in wanted.items()]
    kubernetes = Kubernetes("default")
    with _running(cluster, node, plugin.__file__, *arguments, "--unhealthy", str(folder)) as made:
        kubernetes.wait(
            f"{wanted} on {node.name}",
            lambda: _allocatable(kubernetes, node, wanted) == wanted,
            seen=lambda: f"{_allocatable(kubernetes, node, wanted)}; {made.last_lines()}",
        )
        yield DevicePlugin(node, folder, made.log)
    kubernetes.wait(
        f"no devices on {node.name}",
        lambda: not any(_allocatable(kubernetes, node, wanted).values()),
    )


@contextlib.contextmanager
def labelled(node: Node, **labels: str) -> Iterator[None]:
    """Labels on a node, as NVIDIA's feature discovery sets them, for a context; the names without `nvidia.com/`."""
    kubernetes = Kubernetes("default")
    given = {f"nvidia.com/{name}": value for name, value in labels.items()}
    kubernetes.patch("node", node.name, {"metadata": {"labels": given}})
    try:
        yield
    finally:
        kubernetes.patch("node", node.name, {"metadata": {"labels": dict.fromkeys(given)}})


@contextlib.contextmanager
def claimable(cluster: Cluster, node: Node, profile: str, count: int) -> Iterator[None]:
    """MIG slices on a node that pods get by resource claims, and their DeviceClass, for a context.

    Args:
        cluster: the cluster.
        node: which node.
        profile: the MIG profile.
        count: how many slices.
    """
    kubernetes = Kubernetes("default")
    kubernetes.apply(_device_class())
    keys = cluster.folders.certificates / f"{node.name}.kubeconfig"
    arguments = (f"{profile}={count}", f"--kubectl={cluster.programs['kubectl']}", f"--kubeconfig={keys}")  # fmt: skip
    with _running(cluster, node, claims.__file__, *arguments) as made:
        kubernetes.wait(
            f"the slices of {node.name}",
            lambda: bool(_published(kubernetes, node)),
            seen=made.last_lines,
        )
        yield
    # Otherwise a kubelet that starts again would go on trying to register the driver.
    cluster.places[node.name].path(str(claims.REGISTRATION_SOCKET)).unlink(missing_ok=True)
    for name in _published(kubernetes, node):
        kubernetes.delete("resourceslice", name)
    kubernetes.delete("deviceclass", _device_class()["metadata"]["name"])


def visible(kubernetes: Kubernetes) -> list[str]:
    """NVIDIA_VISIBLE_DEVICES in each running pod of a namespace."""
    return [
        kubernetes.run(
            "exec", pod["metadata"]["name"], "--", "printenv", "NVIDIA_VISIBLE_DEVICES"
        ).strip()
        for pod in kubernetes.list("pods")
        if pod["status"]["phase"] == "Running"
    ]


def of_pods(kubernetes: Kubernetes, service: str) -> list[str]:
    """The nodes of a service's pods."""
    pods = kubernetes.list("pods", f"app.kubernetes.io/instance={service}")
    return [pod["spec"].get("nodeName", "") for pod in pods]


@contextlib.contextmanager
def _running(
    cluster: Cluster, node: Node, script: str, *arguments: str
) -> Iterator[namespaces.Component]:
    """A script of this package that runs in a node, for a context."""
    name = f"{pathlib.Path(script).stem}-{node.name}"
    command = cluster.places[node.name].entered(sys.executable, script, *arguments)
    component = namespaces.start(name, command, cluster.folders.logs)
    try:
        yield component
    finally:
        os.killpg(component.process.pid, signal.SIGKILL)
        component.process.wait()


def _device_class() -> Object:
    """As NVIDIA's driver brings it."""
    ours = f"device.driver == '{claims.DRIVER}' && device.attributes['{claims.DRIVER}'].type == 'mig'"  # fmt: skip
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "mig.nvidia.com"},
        "spec": {"selectors": [{"cel": {"expression": ours}}]},
    }


def _published(kubernetes: Kubernetes, node: Node) -> list[str]:
    """The names of the node's ResourceSlices."""
    slices = kubernetes.list("resourceslices")
    return [one["metadata"]["name"] for one in slices if one["spec"].get("nodeName") == node.name]


def _allocatable(kubernetes: Kubernetes, node: Node, wanted: dict[str, int]) -> dict[str, int]:
    item = kubernetes.get("node", node.name) or {}
    amounts = item.get("status", {}).get("allocatable", {})
    return {name: int(amounts.get(name, 0)) for name in wanted}

"""The cluster's network: a cable from each node to the control plane's bridge, and a route to the pods of each node.

There is no link to the machine's own network: nothing leaves the cluster, and the machine's interfaces and rules stay as they are.
"""

import json
import pathlib
import subprocess

from e2e.cluster.layout import CONTROL_PLANE_ADDRESS, SERVICE_CIDR, Node
from e2e.cluster.namespaces import Namespaces


def connect(
    control_plane: Namespaces, place: Namespaces, node: Node, nodes: tuple[Node, ...]
) -> None:
    """Puts the cable in, and gives the node its address and routes."""
    peer = ("peer", "name", "eth0", "netns", str(place.pid))
    _ip(control_plane, "link", "add", node.link, "type", "veth", *peer)
    _ip(control_plane, "link", "set", node.link, "master", "br0", "up")
    _ip(control_plane, "route", "replace", node.pod_cidr, "via", node.address)
    _ip(place, "address", "add", f"{node.address}/24", "dev", "eth0")
    _ip(place, "link", "set", "eth0", "up")
    _ip(place, "route", "add", "default", "via", CONTROL_PLANE_ADDRESS)
    for other in nodes:
        if other.name != node.name:  # a node may be revived with other sizes
            route_pods(place, other)


def route_pods(place: Namespaces, node: Node) -> None:
    """Lets a node reach the pods of another."""
    _ip(place, "route", "replace", node.pod_cidr, "via", node.address)


def route_services(control_plane: Namespaces, node: Node) -> None:
    """Lets the control plane, and tests in its network, reach Services: by way of one node, whose kube-proxy knows them."""
    _ip(control_plane, "route", "replace", SERVICE_CIDR, "via", node.address)


def set_link(control_plane: Namespaces, node: Node, *, up: bool) -> None:
    """Pulls the cable of a node, or puts it in again."""
    _ip(control_plane, "link", "set", node.link, "up" if up else "down")


def write_pod_network(folder: pathlib.Path, node: Node) -> None:
    """The configuration of the CNI plugins of a node."""
    addresses = {
        "type": "host-local",
        "dataDir": str(folder / "addresses"),
        "ranges": [[{"subnet": node.pod_cidr}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "hairpinMode": True,  # a pod may reach itself through its Service
        "ipMasq": False,
        "ipam": addresses,
    }
    ports = {"type": "portmap", "capabilities": {"portMappings": True}, "snat": True}
    content = {"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge, ports]}
    (folder / "cni").mkdir(parents=True, exist_ok=True)
    (folder / "cni" / "10-pods.conflist").write_text(json.dumps(content, indent=1))


def _ip(place: Namespaces, *arguments: str) -> None:
    command = place.networked("ip", *arguments)
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    if finished.returncode:
        raise RuntimeError(f"{place.name}: ip {' '.join(arguments)}: {finished.stderr.strip()}")

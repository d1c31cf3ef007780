"""What the cluster consists of: its nodes, addresses and folders. Everything else reads these; nothing here does anything."""

import dataclasses
import os
import pathlib
import zlib

CONTROL_PLANE = "control-plane"
CONTROL_PLANE_ADDRESS = "172.30.0.1"
"""Of the bridge that joins the nodes, in the control plane's network namespace, which has no link to the machine's."""

API_SERVER = f"https://{CONTROL_PLANE_ADDRESS}:6443"
SERVICE_CIDR = "10.96.0.0/16"
API_SERVICE_ADDRESS = "10.96.0.1"
DNS_ADDRESS = "10.96.0.10"
INGRESS_ADDRESS = "10.96.0.80"
"""The Service of the ingress controller: 80 without TLS, 443 with it."""

HOSTS = (
    "quickstart.example.com",
    "grpc.quickstart.example.com",
    "demo.example.com",
    "grpc.demo.example.com",
)
"""Names that resolve to the ingress controller for commands in the cluster's network."""

POD_CIDR = "10.244.0.0/16"
FOLDER_VARIABLE = "NAIAD_CLUSTER"
"""The environment variable with the folder of the cluster."""

PAUSE_IMAGE = "cluster.local/pause:1"


@dataclasses.dataclass(frozen=True, slots=True)
class Node:
    """One node.

    Attributes:
        name: also the name of its host.
        address: on the bridge.
        pod_cidr: the addresses of its pods.
        memory_mib: what it reports and may use.
        nodefs_mib: the size of the file system of the kubelet's folder, where pods write; 0 for the machine's disk.
    """

    name: str
    address: str
    pod_cidr: str
    memory_mib: int = 8192
    nodefs_mib: int = 0

    @property
    def link(self) -> str:
        """The end of its cable at the bridge; names of interfaces have at most 15 characters."""
        return f"veth-{self.name}"[:15]


NODES = (
    Node("node-a", "172.30.0.11", "10.244.1.0/24"),
    Node("node-b", "172.30.0.12", "10.244.2.0/24"),
)


@dataclasses.dataclass(frozen=True, slots=True)
class Folders:
    """Where a cluster keeps everything. The folder must be on a disk: overlayfs does not lie on overlayfs or tmpfs."""

    root: pathlib.Path

    @property
    def cgroup(self) -> str:
        """The folder of the cluster in each cgroup hierarchy of the machine; no other cluster has it, nor the machine."""
        return f"{self.root.name}-{zlib.crc32(os.fsencode(self.root)):08x}"

    @property
    def logs(self) -> pathlib.Path:
        """One file per component."""
        return self.root / "logs"

    @property
    def certificates(self) -> pathlib.Path:
        """Keys, certificates and kubeconfig files."""
        return self.root / "certificates"

    @property
    def etcd(self) -> pathlib.Path:
        """The database."""
        return self.root / "etcd"

    @property
    def state(self) -> pathlib.Path:
        """The process ids of the running cluster."""
        return self.root / "state.json"

    @property
    def complete(self) -> pathlib.Path:
        """A file that exists once all nodes were Ready."""
        return self.root / "complete"

    @property
    def admin_kubeconfig(self) -> pathlib.Path:
        """May do everything; its server is only reachable within the cluster's network namespace."""
        return self.certificates / "admin.kubeconfig"

    def node(self, node: Node) -> pathlib.Path:
        """What belongs to one node."""
        return self.root / node.name


def default_folders() -> Folders:
    """`$NAIAD_CLUSTER` or `/var/tmp/naiad-cluster`."""
    default = "/var/tmp/naiad-cluster"  # noqa: S108 - its own folder, made by root
    return Folders(pathlib.Path(os.environ.get(FOLDER_VARIABLE) or default).absolute())

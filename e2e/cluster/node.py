"""A node: containerd, kubelet and kube-proxy in namespaces of its own, and their configuration files."""

import contextlib
import json
import os
import pathlib
import signal
import textwrap
import typing

from e2e.cluster import cgroups, namespaces, network
from e2e.cluster.images import SOCKET
from e2e.cluster.layout import DNS_ADDRESS, PAUSE_IMAGE, POD_CIDR, Folders, Node
from e2e.cluster.namespaces import Component, Namespaces
from tests.toolchain import debian
from tests.toolchain.programs import Programs

PROGRAMS = ("containerd", "containerd-shim-runc-v2", "ctr", "kubelet", "kube-proxy")

_MIB_TO_KB = 1024


def create(
    node: Node, nodes: tuple[Node, ...], control_plane: Namespaces, folders: Folders
) -> Namespaces:
    """Makes a node's namespaces and connects them; nothing runs in them yet."""
    folder = folders.node(node)
    folder.mkdir(parents=True, exist_ok=True)
    ready = folder / "ready"
    memory = str(node.memory_mib * _MIB_TO_KB)
    place = namespaces.create(
        node.name,
        ["node.sh", node.name, str(folder), str(ready), memory, str(node.nodefs_mib)],
        ready,
        folders.logs,
        inside=control_plane,
        cgroup=cgroups.of(folders, node),
    )
    network.connect(control_plane, place, node, nodes)
    network.write_pod_network(folder, node)
    return place


def start_containerd(
    node: Node, place: Namespaces, programs: Programs, folders: Folders
) -> Component:
    """Starts containerd; it is ready once its socket exists."""
    folder = folders.node(node)
    runc = debian.unpacked("runc")
    config = folder / "containerd.toml"
    config.write_text(_containerd(folder, runc, debian.unpacked("containernetworking-plugins")))
    command = place.entered(programs["containerd"], "--config", str(config))
    search = [pathlib.Path(programs["containerd-shim-runc-v2"]).parent, runc.parent]
    component = namespaces.start(f"containerd-{node.name}", command, folders.logs, search=search)
    namespaces.wait(component.name, place.path(SOCKET).exists, [component])
    return component


def start_kubelet(node: Node, place: Namespaces, programs: Programs, folders: Folders) -> Component:
    """Starts the kubelet; the API server and containerd must run."""
    folder, keys = folders.node(node), folders.certificates
    config = _write(folder / "kubelet.json", _kubelet(node, folders))
    command = place.entered(
        programs["kubelet"],
        f"--config={config}",
        f"--kubeconfig={keys / node.name}.kubeconfig",
        f"--hostname-override={node.name}",
        f"--node-ip={node.address}",
        "--root-dir=/var/lib/kubelet",
    )
    return namespaces.start(f"kubelet-{node.name}", command, folders.logs)


def kill_kubelet(node: Node, programs: Programs, folders: Folders) -> None:
    """Ends the kubelet of a node at once; its pods go on."""
    config = f"--config={folders.node(node) / 'kubelet.json'}"
    for pid in namespaces.processes(programs["kubelet"], config):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def start_proxy(node: Node, place: Namespaces, programs: Programs, folders: Folders) -> Component:
    """Starts kube-proxy. It ends when its file is written again, even with the same content."""
    config = folders.node(node) / "kube-proxy.json"
    if not config.exists():
        _write(config, _proxy(folders))
    command = place.entered(
        programs["kube-proxy"], f"--config={config}", f"--hostname-override={node.name}"
    )
    return namespaces.start(f"kube-proxy-{node.name}", command, folders.logs)


def _write(path: pathlib.Path, content: "dict[str, typing.Any]") -> pathlib.Path:
    path.write_text(json.dumps(content, indent=1))
    return path


def _containerd(folder: pathlib.Path, runc: pathlib.Path, plugins: pathlib.Path) -> str:
    # volatile: otherwise each container's end writes everything of the machine's disk that is not written yet, half a minute after images were imported.
    # restrict_oom_score_adj: without CAP_SYS_RESOURCE runc may not lower the score, and every pod would fail.
    return textwrap.dedent(f"""\
        version = 3
        root = "{folder}/containerd"
        state = "/run/containerd"
        [grpc]
          address = "{SOCKET}"
        [plugins.'io.containerd.internal.v1.opt']
          path = "{folder}/opt"
        [plugins.'io.containerd.snapshotter.v1.overlayfs']
          mount_options = ["volatile"]
        [plugins.'io.containerd.cri.v1.images']
          snapshotter = "overlayfs"
          [plugins.'io.containerd.cri.v1.images'.pinned_images]
            sandbox = "{PAUSE_IMAGE}"
        [plugins.'io.containerd.cri.v1.runtime']
          disable_apparmor = true
          tolerate_missing_hugetlb_controller = true
          restrict_oom_score_adj = true
          [plugins.'io.containerd.cri.v1.runtime'.cni]
            bin_dirs = ["{plugins}"]
            conf_dir = "{folder}/cni"
          [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
            runtime_type = "io.containerd.runc.v2"
            [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
              BinaryName = "{runc}"
              SystemdCgroup = false
        """)


def _kubelet(node: Node, folders: Folders) -> "dict[str, typing.Any]":
    folder, keys = folders.node(node), folders.certificates
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": f"{keys}/ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": f"{keys}/{node.name}.crt",
        "tlsPrivateKeyFile": f"{keys}/{node.name}.key",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": "/",
        "failCgroupV1": False,
        "failSwapOn": False,
        "protectKernelDefaults": True,
        "resolvConf": "",  # there is no DNS outside of the cluster
        "clusterDNS": [DNS_ADDRESS],
        "clusterDomain": "cluster.local",
        "containerRuntimeEndpoint": f"unix://{SOCKET}",
        "podLogsDir": f"{folder}/pod-logs",
        "volumePluginDir": f"{folder}/volume-plugins",
        "evictionHard": {
            "memory.available": "100Mi",
            "nodefs.available": "1%",
            "imagefs.available": "1%",
            "nodefs.inodesFree": "1%",
        },
        # At the default a node refuses pods for five minutes after its disk has room again.
        "evictionPressureTransitionPeriod": "5s",
        # Images come from archives: one that was collected would be gone.
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "nodeStatusUpdateFrequency": "1s",
        "nodeLeaseDurationSeconds": 4,
        "registerWithTaints": [],
    }


def _proxy(folders: Folders) -> "dict[str, typing.Any]":
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "clusterCIDR": POD_CIDR,
        "clientConnection": {"kubeconfig": f"{folders.certificates}/kube-proxy.kubeconfig"},
        # The machine's table may not be resized from here.
        "conntrack": {"maxPerCore": 0, "min": 0},
    }

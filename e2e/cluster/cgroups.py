"""The cgroups of the nodes: one folder per node in every hierarchy of the machine, with the node's limits; removed with the cluster.

The machine must have cgroups of version 1, with one hierarchy per controller.
"""

import contextlib
import pathlib
import time

from e2e.cluster.layout import Folders, Node

ROOT = pathlib.Path("/sys/fs/cgroup")
_NEEDED = ("cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "blkio", "pids")


def missing() -> list[str]:
    """The hierarchies that a node needs and the machine does not have."""
    return [name for name in _NEEDED if not (ROOT / name / "cgroup.procs").exists()]


def create(folders: Folders, nodes: tuple[Node, ...]) -> None:
    """Makes the folders of all nodes."""
    for hierarchy in _hierarchies():
        whole = hierarchy / folders.cgroup
        for folder in (whole, *(whole / node.name for node in nodes)):
            folder.mkdir(exist_ok=True)
            if hierarchy.name == "cpuset":  # a new cpuset is empty, and nothing may run in it
                for setting in ("cpuset.cpus", "cpuset.mems"):
                    (folder / setting).write_text((hierarchy / setting).read_text())
    for node in nodes:
        limit = node.memory_mib << 20
        (ROOT / "memory" / name(folders, node) / "memory.limit_in_bytes").write_text(str(limit))


def name(folders: Folders, node: Node) -> str:
    """The cgroup of a node, below the root of every hierarchy."""
    return f"{folders.cgroup}/{node.name}"


def remove_pods(folders: Folders, node: Node) -> None:
    """Removes what a dead node's pods have left: each folder would cost its next kubelet three seconds."""
    for hierarchy in _hierarchies():
        _remove(hierarchy / name(folders, node) / "kubepods")


def remove(folders: Folders, *, timeout: float = 5) -> list[pathlib.Path]:
    """Removes all folders of the cluster, and gives those that stay because a process is still in them."""
    deadline = time.monotonic() + timeout
    while True:
        owned = [hierarchy / folders.cgroup for hierarchy in _hierarchies()]
        for folder in owned:
            _remove(folder)
        left = [folder for folder in owned if folder.exists()]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.05)


def _hierarchies() -> list[pathlib.Path]:
    names = [*_NEEDED, "systemd"]
    return [ROOT / name for name in names if (ROOT / name / "cgroup.procs").exists()]


def _remove(folder: pathlib.Path) -> None:
    folders = [path for path in folder.rglob("*") if path.is_dir()] if folder.exists() else []
    for path in [*sorted(folders, key=lambda path: -len(path.parts)), folder]:
        with contextlib.suppress(OSError):
            path.rmdir()

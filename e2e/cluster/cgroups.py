"""The cgroups of the nodes: one per node, with the node's memory limit, made with the cluster and removed with it.

Version 1: a folder in every hierarchy of the machine, also in those that no limit needs: runc and the kubelets make cgroups in all that they find, which would be
the machine's own. Version 2: a folder in the only hierarchy. There, a cgroup that gives controllers to its children may not hold processes: those of a
node are in its child `init`, beside the `kubepods` of its kubelet.
"""

import contextlib
import pathlib
import time

from e2e.cluster.layout import Folders, Node
from e2e.cluster.namespaces import Cgroup, ComponentError

ROOT = pathlib.Path("/sys/fs/cgroup")
_NEEDED = ("cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "blkio", "pids")
"""Controllers of version 1; each is the name of its hierarchy, or of a link to that of several (`cpu,cpuacct`)."""

_CONTROLLERS = ("cpu", "cpuset", "io", "memory", "pids")
_PROCESSES = "cgroup.procs"
_REMOVAL_S = 5

_Plan = dict[pathlib.Path, dict[str, str]]
"""Folders in the order in which they are made, each with the content of files in it."""


def problem() -> str:
    """Why the nodes cannot have cgroups on this machine, and what to do; "" if they can."""
    if not _unified():
        missing = [name for name in _NEEDED if not (ROOT / name / _PROCESSES).exists()]
        if missing:
            return f"the cgroup hierarchies {', '.join(missing)} are not mounted in {ROOT}: mount them, or boot with version 2 (systemd.unified_cgroup_hierarchy=1)"  # fmt: skip
        return ""
    available = (ROOT / "cgroup.controllers").read_text().split()
    missing = [name for name in _CONTROLLERS if name not in available]
    if (ROOT / "cgroup.type").exists():  # the machine's root has none
        holds = "it holds processes, so that no cgroup in it can have limits"
        lacks = f"its cgroup.controllers does not list {', '.join(missing)}"
        reason = holds if (ROOT / _PROCESSES).read_text() else lacks if missing else ""
        return reason and f"{ROOT} is a container's, and {reason}: start the cluster outside of the container"  # fmt: skip
    if missing:
        return f"{ROOT}/cgroup.controllers does not list {', '.join(missing)}: enable them on the kernel's command line (cgroup_enable=memory)"  # fmt: skip
    return ""


def create(folders: Folders, nodes: tuple[Node, ...]) -> None:
    """Makes the cgroups of nodes, each after removing that of a dead node with its name: what pods have left in it would cost the kubelet three seconds each.

    Raises:
        ComponentError: a process is still in the cgroup of a dead node.
    """
    _remove([folder for node in nodes for folder in _of(folders, node)])
    plan = _plan_2(folders, nodes) if _unified() else _plan_1(folders, nodes)
    for folder, files in plan.items():
        folder.mkdir(exist_ok=True)
        for name, content in files.items():
            (folder / name).write_text(content)


def of(folders: Folders, node: Node) -> Cgroup:
    """The cgroup that the namespaces of a node have as their root, and the one of their processes."""
    root = _of(folders, node)
    leaf = [folder / "init" for folder in root] if _unified() else root
    return Cgroup(*([str(folder / _PROCESSES) for folder in part] for part in (root, leaf)))


def remove(folders: Folders) -> None:
    """Removes all cgroups of the cluster.

    Raises:
        ComponentError: a process is still in one.
    """
    _remove([hierarchy / folders.cgroup for hierarchy in _hierarchies()])


def _unified() -> bool:
    """Whether the machine has version 2 alone. With both mounted ("hybrid"), the controllers are in the hierarchies of version 1."""
    return (ROOT / "cgroup.controllers").exists()


def _hierarchies() -> list[pathlib.Path]:
    if _unified():
        return [ROOT]
    mounted = [path for path in sorted(ROOT.iterdir()) if (path / _PROCESSES).exists()]
    return [path for path in mounted if not (path.is_symlink() or (path / "cgroup.controllers").exists())]  # fmt: skip


def _of(folders: Folders, node: Node) -> list[pathlib.Path]:
    return [hierarchy / folders.cgroup / node.name for hierarchy in _hierarchies()]


def _plan_1(folders: Folders, nodes: tuple[Node, ...]) -> _Plan:
    plan: _Plan = {}
    for hierarchy in _hierarchies():
        # A new cpuset is empty, and nothing may run in it.
        controllers = hierarchy.name.split(",")
        names = ("cpuset.cpus", "cpuset.mems") if "cpuset" in controllers else ()
        cpuset = {name: (hierarchy / name).read_text() for name in names}
        plan[hierarchy / folders.cgroup] = cpuset
        for node in nodes:
            limit = {"memory.limit_in_bytes": _bytes(node)} if "memory" in controllers else {}
            plan[hierarchy / folders.cgroup / node.name] = cpuset | limit
    return plan


def _plan_2(folders: Folders, nodes: tuple[Node, ...]) -> _Plan:
    for_children = {"cgroup.subtree_control": " ".join(f"+{name}" for name in _CONTROLLERS)}
    whole = ROOT / folders.cgroup
    plan: _Plan = {ROOT: for_children, whole: for_children}
    for node in nodes:
        # It hands its controllers on once its processes are in `init`: the kubelet sees to that.
        plan[whole / node.name] = {"memory.max": _bytes(node)}
        plan[whole / node.name / "init"] = {}
    return plan


def _bytes(node: Node) -> str:
    return str(node.memory_mib << 20)


def _remove(folders: list[pathlib.Path]) -> None:
    """Removes folders with all below them. A killed process stays in its cgroup for a moment."""
    deadline = time.monotonic() + _REMOVAL_S
    while True:
        for folder in folders:
            _remove_once(folder)
        left = [folder for folder in folders if folder.exists()]
        if not left:
            return
        if time.monotonic() > deadline:
            raise ComponentError(f"processes are still in {', '.join(map(str, left))}")
        time.sleep(0.05)


def _remove_once(folder: pathlib.Path) -> None:
    folders = [path for path in folder.rglob("*") if path.is_dir()] if folder.exists() else []
    for path in [*sorted(folders, key=lambda path: -len(path.parts)), folder]:
        with contextlib.suppress(OSError):
            path.rmdir()

"""The cgroups of nodes on machines with version 1, with version 2, and with both, as folders in a copy of `/sys/fs/cgroup`."""

import pathlib
import subprocess

import pytest

from e2e.cluster import cgroups, namespaces
from e2e.cluster.layout import Folders, Node
from e2e.cluster.namespaces import ComponentError, Namespaces

FOLDERS = Folders(pathlib.Path("/var/tmp/own"))
OWN = FOLDERS.cgroup
NODES = (
    Node("node-a", "172.30.0.11", "10.244.1.0/24", memory_mib=1024),
    Node("node-b", "172.30.0.12", "10.244.2.0/24"),
)
CONTROLLERS = "+cpu +cpuset +io +memory +pids"
VERSION_1 = ("cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "blkio", "pids")


@pytest.fixture
def root(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.setattr(cgroups, "ROOT", tmp_path)
    monkeypatch.setattr(cgroups, "_REMOVAL_S", 0)
    return tmp_path


@pytest.fixture
def version_1(root: pathlib.Path) -> pathlib.Path:
    """One hierarchy per controller, and as in systemd's "hybrid" one of version 2 beside them."""
    for name in (*VERSION_1, "unified"):
        (root / name).mkdir()
        (root / name / "cgroup.procs").write_text("1\n")
    (root / "unified" / "cgroup.controllers").write_text("hugetlb\n")
    (root / "cpuset" / "cpuset.cpus").write_text("0-1\n")
    (root / "cpuset" / "cpuset.mems").write_text("0\n")
    return root


@pytest.fixture
def version_2(root: pathlib.Path) -> pathlib.Path:
    (root / "cgroup.procs").write_text("1\n")
    (root / "cgroup.controllers").write_text("cpuset cpu io memory hugetlb pids rdma misc\n")
    return root


def _content(folder: pathlib.Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}  # fmt: skip


def test_version_1_has_the_cgroup_of_a_node_in_every_hierarchy(version_1: pathlib.Path) -> None:
    assert not cgroups.problem()
    cgroups.create(FOLDERS, NODES)
    for name in VERSION_1:
        assert (version_1 / name / OWN / "node-a").is_dir()
    assert _content(version_1 / "memory" / OWN) == {
        "node-a/memory.limit_in_bytes": str(1 << 30),
        "node-b/memory.limit_in_bytes": str(8 << 30),
    }
    folders = ("", "node-a/", "node-b/")
    assert _content(version_1 / "cpuset" / OWN) == {
        f"{folder}cpuset.{name}": content
        for folder in folders
        for name, content in (("cpus", "0-1\n"), ("mems", "0\n"))
    }
    assert not (version_1 / "unified" / OWN).exists()
    cgroup = cgroups.of(FOLDERS, NODES[0])
    assert cgroup.root == [
        str(version_1 / name / OWN / "node-a/cgroup.procs") for name in sorted(VERSION_1)
    ]
    assert cgroup.leaf == cgroup.root


def test_no_hierarchy_of_version_1_is_left_out(root: pathlib.Path) -> None:
    """As systemd mounts them: some with two controllers and links to them, and some that the nodes need no limit of."""
    mounted = ["blkio", "cpu,cpuacct", "cpuset", "devices", "freezer", "hugetlb", "memory", "misc", "net_cls,net_prio", "perf_event", "pids", "rdma", "systemd"]  # fmt: skip
    for name in (*mounted, "unified"):
        (root / name).mkdir()
        (root / name / "cgroup.procs").write_text("1\n")
        for link in name.split(",") if "," in name else ():
            (root / link).symlink_to(name)
    (root / "unified" / "cgroup.controllers").write_text("")
    for name in ("cpuset.cpus", "cpuset.mems"):
        (root / "cpuset" / name).write_text("0\n")
    assert not cgroups.problem()
    (root / "hugetlb" / OWN / "node-a" / "kubepods").mkdir(parents=True)
    cgroups.remove(FOLDERS)
    assert not (root / "hugetlb" / OWN).exists()
    cgroups.create(FOLDERS, NODES)
    cgroup = cgroups.of(FOLDERS, NODES[0])
    assert cgroup.root == [str(root / name / OWN / "node-a/cgroup.procs") for name in mounted]
    assert all((root / name / OWN / "node-a").is_dir() for name in mounted)
    assert (root / "memory" / OWN / "node-a/memory.limit_in_bytes").exists()


def test_version_2_has_the_processes_of_a_node_in_a_child(version_2: pathlib.Path) -> None:
    assert not cgroups.problem()
    cgroups.create(FOLDERS, NODES)
    assert (version_2 / "cgroup.subtree_control").read_text() == CONTROLLERS
    assert _content(version_2 / OWN) == {
        "cgroup.subtree_control": CONTROLLERS,
        "node-a/memory.max": str(1 << 30),
        "node-b/memory.max": str(8 << 30),
    }
    cgroup = cgroups.of(FOLDERS, NODES[0])
    assert cgroup.root == [str(version_2 / OWN / "node-a/cgroup.procs")]
    assert cgroup.leaf == [str(version_2 / OWN / "node-a/init/cgroup.procs")]
    assert (version_2 / OWN / "node-a/init").is_dir()


@pytest.mark.parametrize("version", ["version_1", "version_2"])
def test_what_a_dead_node_has_left_is_removed_first(
    version: str, request: pytest.FixtureRequest
) -> None:
    root: pathlib.Path = request.getfixturevalue(version)
    base = root / OWN if version == "version_2" else root / "pids" / OWN
    left = base / "node-a" / "kubepods" / "burstable" / "pod1"
    other = base / "node-b" / "kubepods"
    left.mkdir(parents=True)
    other.mkdir(parents=True)
    cgroups.create(FOLDERS, NODES[:1])
    assert (base / "node-a").is_dir()
    assert not (base / "node-a" / "kubepods").exists()
    assert other.is_dir()


@pytest.mark.parametrize("version", ["version_1", "version_2"])
def test_nothing_is_left_of_a_cluster(version: str, request: pytest.FixtureRequest) -> None:
    root: pathlib.Path = request.getfixturevalue(version)
    before = sorted(root.rglob("*"))
    base = root / OWN if version == "version_2" else root / "pids" / OWN
    for name in ("init", "kubepods/pod1/container"):
        (base / "node-a" / name).mkdir(parents=True)
    cgroups.remove(FOLDERS)
    assert sorted(root.rglob("*")) == before


def test_a_process_that_does_not_end_is_an_error_with_its_cgroup(version_2: pathlib.Path) -> None:
    held = version_2 / OWN / "node-a"
    held.mkdir(parents=True)
    (held / "file").touch()  # as little to be removed as a cgroup with processes
    message = f"processes are still in {version_2}/{OWN}"
    with pytest.raises(ComponentError, match=message):
        cgroups.create(FOLDERS, NODES)
    with pytest.raises(ComponentError, match=message):
        cgroups.remove(FOLDERS)


def test_a_machine_without_the_memory_controller_is_refused(version_2: pathlib.Path) -> None:
    (version_2 / "cgroup.controllers").write_text("cpuset cpu io pids\n")
    assert "cgroup.controllers does not list memory:" in cgroups.problem()


def test_a_machine_without_a_hierarchy_is_refused(version_1: pathlib.Path) -> None:
    (version_1 / "memory" / "cgroup.procs").unlink()
    assert "hierarchies memory are not mounted" in cgroups.problem()


def test_a_container_with_processes_in_its_root_or_without_controllers_is_refused(
    version_2: pathlib.Path,
) -> None:
    (version_2 / "cgroup.type").write_text("domain\n")
    assert "outside of the container" in cgroups.problem()
    (version_2 / "cgroup.controllers").write_text("cpu memory pids\n")
    assert "outside of the container" in cgroups.problem()
    (version_2 / "cgroup.procs").write_text("")
    assert "does not list cpuset, io: start the cluster outside" in cgroups.problem()
    (version_2 / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    assert not cgroups.problem()


def test_a_process_joins_the_cgroup_of_a_node_before_its_namespaces(root: pathlib.Path) -> None:
    files = [str(root / name) for name in ("one", "with space")]
    place = Namespaces("node-a", 7, files)
    command = place.entered("/bin/ctr", "images")
    assert command[-2:] == ["/bin/ctr", "images"]
    assert "-C" in command
    assert max(map(command.index, files)) < command.index("nsenter")
    assert Namespaces("control-plane", 7).entered("/bin/etcd")[0] == "nsenter"


def test_a_process_that_joins_writes_itself_to_every_hierarchy(root: pathlib.Path) -> None:
    files = [str(root / name) for name in ("one", "with space")]
    command = namespaces.joining(files, "echo", "done", "--")
    finished = subprocess.run(command, capture_output=True, text=True, check=True)
    assert finished.stdout == "done --\n"
    assert [pathlib.Path(file).read_text() for file in files] == ["0\n", "0\n"]
    failed = namespaces.joining([str(root / "none" / "file")], "echo", "done")
    finished = subprocess.run(failed, capture_output=True, text=True, check=False)
    assert (finished.returncode, finished.stdout) == (9, "")


def test_clusters_in_folders_of_the_same_name_have_cgroups_of_their_own(
    version_1: pathlib.Path,
) -> None:
    for folder in ("/var/tmp/own", "/home/own"):
        cgroups.create(Folders(pathlib.Path(folder)), NODES)
    assert len([child for child in (version_1 / "pids").iterdir() if child.is_dir()]) == 2

"""Start and end of the cluster, in the order that its parts need each other; every wait ends with the component that did not come up."""

import concurrent.futures
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import typing
from collections.abc import Callable, Iterator

from e2e import kubectl
from e2e.cluster import (
    certificates,
    cgroups,
    control_plane,
    images,
    machine,
    namespaces,
    network,
    node,
)
from e2e.cluster.layout import (
    CONTROL_PLANE,
    CONTROL_PLANE_ADDRESS,
    DNS_ADDRESS,
    HOSTS,
    INGRESS_ADDRESS,
    NODES,
    PAUSE_IMAGE,
    Folders,
    Node,
    default_folders,
)
from e2e.cluster.namespaces import Component, Namespaces
from tests.toolchain import debian, programs

PROGRAMS = (*control_plane.PROGRAMS, *node.PROGRAMS)

Step = Callable[[str], None]


class Cluster:
    """A cluster that runs, or may be started.

    Args:
        folders: where it keeps everything.
        step: called with each step that is done.

    Raises:
        ComponentError: this machine cannot run it; the message has everything that is missing.
    """

    def __init__(self, folders: Folders | None = None, step: Step = lambda _: None) -> None:
        self.folders = folders if folders is not None else default_folders()
        self.nodes = NODES
        self._step = step
        machine.check()  # before programs are built for minutes
        self.programs = programs.find(PROGRAMS)
        self.places = self._read_state()

    @property
    def running(self) -> bool:
        """Whether its first process runs."""
        return CONTROL_PLANE in self.places and self.places[CONTROL_PLANE].alive

    def up(self) -> None:
        """Starts the cluster unless it runs; returns when all nodes are Ready. One whose start was interrupted is started again from nothing.

        Raises:
            ComponentError: something did not come up.
        """
        if self.running and self.folders.complete.exists():
            self._wait_for_nodes(())
            self._step("was running already")
            return
        self.down()
        self.folders.root.mkdir(parents=True, exist_ok=True)
        pause = self._pause_archive()
        self._create_control_plane()
        plane = self.places[CONTROL_PLANE]
        etcd = control_plane.start_etcd(plane, self.programs, self.folders)
        certificates.make(self.folders.certificates)
        api_server = control_plane.start_api_server(plane, self.programs, self.folders)
        self._step("certificates, etcd and API server started")

        cgroups.create(self.folders, self.nodes)
        for each in self.nodes:
            self.places[each.name] = node.create(each, self.nodes, plane, self.folders)
        self._write_state()
        network.route_services(plane, self.nodes[0])
        started = [etcd, api_server]
        for each in self.nodes:
            place = self.places[each.name]
            started.append(node.start_containerd(each, place, self.programs, self.folders))
        for each in self.nodes:
            images.import_archive(self.places[each.name], self.programs, pause)
        self._step("namespaces and containerd of the nodes")

        def api_ready() -> bool:
            return control_plane.ready(plane, self.programs, self.folders)

        namespaces.wait("the API server", api_ready, started)
        self._step("API server ready")
        started += control_plane.start_controllers(plane, self.programs, self.folders)
        for each in self.nodes:
            place = self.places[each.name]
            started.append(node.start_kubelet(each, place, self.programs, self.folders))
            started.append(node.start_proxy(each, place, self.programs, self.folders))
        self._wait_for_nodes(started)
        self.folders.complete.touch()
        self._step("all nodes Ready")

    def down(self) -> None:
        """Ends everything and removes it from the machine.

        Raises:
            ComponentError: something is left that could not be removed.
        """
        plane = self.places.get(CONTROL_PLANE)
        if plane is not None and plane.alive:
            os.kill(plane.pid, signal.SIGKILL)
            namespaces.wait("the cluster's end", lambda: not namespaces.exists(plane.pid), timeout=10)  # fmt: skip
        cgroups.remove(self.folders)
        self.places = {}
        _remove(self.folders.root)

    def kubectl(self, *arguments: str, text: str = "") -> str:
        """The output of a kubectl that may do everything.

        Args:
            arguments: of kubectl.
            text: its standard input.

        Raises:
            KubectlError: it failed; the message has what it printed.
        """
        plane = self.places[CONTROL_PLANE]
        command = control_plane.kubectl(plane, self.programs, self.folders, *arguments)
        return kubectl.output(command, arguments, text)

    @property
    def archives(self) -> pathlib.Path:
        """A folder for image archives."""
        return self.folders.root / "images"

    def image(self, name: str) -> str:
        """The image's own name: archives are imported, nothing is pulled."""
        return name

    @property
    def chart_values(self) -> "typing.Sequence[str]":
        """None: the chart's defaults are the names of this tree's images."""
        return ()

    def adapted(self, manifest: str) -> str:
        """A manifest of this project as it is: they are written for this cluster."""
        return manifest

    def import_archive(self, archive: pathlib.Path) -> None:
        """Makes the images of an archive known to every node; nothing when this very file was imported before."""
        note = self.archives / f"{archive.stem}.imported"
        file = archive.stat()
        stamp = f"{archive} {file.st_size} {file.st_mtime_ns}"
        if note.exists() and note.read_text() == stamp:
            return
        places = [self.places[each.name] for each in self.nodes]
        with concurrent.futures.ThreadPoolExecutor(len(places)) as pool:
            for done in [pool.submit(images.import_archive, place, self.programs, archive) for place in places]:  # fmt: skip
                done.result()
        note.write_text(stamp)

    def run(self, *command: str) -> list[str]:
        """The command line that runs a command with the machine's files in the cluster's network: KUBECONFIG is set, names of Services and the hosts in `HOSTS` resolve."""
        environment = ["env", f"KUBECONFIG={self.folders.admin_kubeconfig}"]
        folder = self.folders.root
        _keep(folder / "hosts", f"127.0.0.1 localhost\n{INGRESS_ADDRESS} {' '.join(HOSTS)}\n")
        _keep(
            folder / "resolv.conf",
            f"nameserver {DNS_ADDRESS}\nsearch svc.cluster.local cluster.local\noptions ndots:5\n",
        )
        own = 'mount --bind $0/hosts /etc/hosts && mount --bind $0/resolv.conf /etc/resolv.conf && exec "$@"'
        separate = ["unshare", "--mount", "bash", "-c", own, str(folder)]
        return self.places[CONTROL_PLANE].networked(*separate, *environment, *command)

    def processes(self, program: str) -> list[int]:
        """The process ids of a program of this cluster's control plane or nodes, e.g. `etcd`."""
        return namespaces.processes(self.programs[program], f"{self.folders.root}/")

    def start_api_server(self) -> None:
        """Starts the API server again after it has ended; returns when it is ready."""
        plane = self.places[CONTROL_PLANE]
        started = control_plane.start_api_server(plane, self.programs, self.folders)
        namespaces.wait(
            "the API server",
            lambda: control_plane.ready(plane, self.programs, self.folders),
            [started],
            timeout=180,  # everything connects to it at once
        )

    def kill_node(self, which: Node) -> None:
        """Ends a node as a power failure does."""
        os.kill(self.places[which.name].pid, signal.SIGKILL)

    def revive_node(self, which: Node) -> None:
        """Starts a node again that was killed. `which` may say other sizes than before."""
        cgroups.create(self.folders, (which,))
        plane = self.places[CONTROL_PLANE]
        place = node.create(which, self.nodes, plane, self.folders)
        self.places[which.name] = place
        self._write_state()
        node.start_containerd(which, place, self.programs, self.folders)
        node.start_kubelet(which, place, self.programs, self.folders)
        node.start_proxy(which, place, self.programs, self.folders)

    def restart_kubelet(self, which: Node) -> None:
        """Ends the kubelet of a node as a crash does, and starts it again."""
        node.kill_kubelet(which, self.programs, self.folders)
        node.start_kubelet(which, self.places[which.name], self.programs, self.folders)

    @contextlib.contextmanager
    def joined(self, new: Node, image: str) -> Iterator[None]:
        """A further node, for a context.

        Args:
            new: the node; its name and addresses must be free.
            image: the image of the pods that it gets; it is copied from the first node.
        """
        plane, first = self.places[CONTROL_PLANE], self.places[self.nodes[0].name]
        certificates.add_node(self.folders.certificates, new)
        cgroups.create(self.folders, (new,))
        place = node.create(new, (*self.nodes, new), plane, self.folders)
        self.places[new.name] = place
        for each in self.nodes:
            network.route_pods(self.places[each.name], new)
        try:
            node.start_containerd(new, place, self.programs, self.folders)
            for name in (PAUSE_IMAGE, image):
                images.copy(first, place, self.programs, name)
            node.start_kubelet(new, place, self.programs, self.folders)
            node.start_proxy(new, place, self.programs, self.folders)
            yield
        finally:
            os.kill(place.pid, signal.SIGKILL)
            del self.places[new.name]
            self.kubectl("delete", "node", new.name, "--ignore-not-found")
            _remove(self.folders.node(new))

    @contextlib.contextmanager
    def partitioned(self, which: Node) -> Iterator[None]:
        """Pulls the cable of a node for a context."""
        plane = self.places[CONTROL_PLANE]
        network.set_link(plane, which, up=False)
        try:
            yield
        finally:
            network.set_link(plane, which, up=True)

    def _create_control_plane(self) -> None:
        ready = self.folders.root / "ready"
        arguments = ["control-plane.sh", str(ready), CONTROL_PLANE_ADDRESS]
        plane = namespaces.create(CONTROL_PLANE, arguments, ready, self.folders.logs)
        self.places = {CONTROL_PLANE: plane}
        self._write_state()

    def _pause_archive(self) -> pathlib.Path:
        archive = self.archives / "pause.tar"
        files = {"bin/busybox": debian.unpacked("busybox-static")}
        images.write(archive, PAUSE_IMAGE, files, ["/bin/busybox", "sleep", "2147483647"])
        return archive

    def _wait_for_nodes(self, components: "typing.Sequence[Component]") -> None:
        def ready() -> bool:
            try:
                listed = json.loads(self.kubectl("get", "nodes", "-o", "json"))["items"]
                self.kubectl("get", "serviceaccount", "default")
            except RuntimeError:
                return False
            states = {item["metadata"]["name"]: _is_ready(item) for item in listed}
            return all(states.get(each.name, False) for each in self.nodes)

        namespaces.wait("the nodes", ready, components)

    def _read_state(self) -> dict[str, Namespaces]:
        if not self.folders.state.exists():
            return {}
        content = json.loads(self.folders.state.read_text())
        return {
            name: Namespaces(name, fields["pid"], fields.get("joined", ()))
            for name, fields in content.items()
        }

    def _write_state(self) -> None:
        content = {
            place.name: {"pid": place.pid, "joined": place.joined} for place in self.places.values()
        }
        self.folders.state.write_text(json.dumps(content))


def _is_ready(item: "dict[str, typing.Any]") -> bool:
    conditions = item["status"].get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _remove(folder: pathlib.Path) -> None:
    """Removes a folder with tens of thousands of files of unpacked images: `shutil.rmtree` takes twice as long."""
    subprocess.run(["/bin/rm", "-rf", "--", str(folder)], check=False)


def _keep(file: pathlib.Path, text: str) -> None:
    """Writes a file that commands read while others are started: only when it says something else, since for a moment it would be empty."""
    if not file.exists() or file.read_text() != text:
        file.write_text(text)

"""etcd, kube-apiserver and kube-controller-manager on loopback, from nothing to answering in about four seconds.

The cluster has no real nodes and no scheduler: a Node object and what a kubelet would write come from `kubelet.py`. Of the controllers
only those run that an InferenceService's life needs; those that would evict pods from a node that never reports are not
among them. Everything lies in one folder: certificates, etcd's data, each program's log, the API server's audit log (`audit.py`).
"""

import json
import os
import random
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.apiserver import audit, certificates, commands
from tests.apiserver.client import Kubectl
from tests.apiserver.objects import served
from tests.toolchain.programs import Programs, find

PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager")
"""What it starts."""

ADMIN_TOKEN = "admin-of-the-tests"
OPERATOR_TOKEN = "operator-of-the-tests"
OPERATOR_USER = "naiad-operator"

_AUDIT_LOG = "audit.log"
_MANAGER_TOKEN = "controller-manager-of-the-tests"
_START_TIMEOUT_S = 180.0
_STOP_TIMEOUT_S = 30.0
# Below those of the servers under test, and each process of a parallel test run has its own.
_PORTS = range(10_000, 18_000)[int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]) % 8 :: 8]


class DidNotStartError(RuntimeError):
    """A program ended or did not answer; the message has its name and its last log lines."""


@dataclass
class ControlPlane:
    """A running control plane.

    Attributes:
        folder: where it keeps everything.
        server: the API server's address.
    """

    folder: Path
    server: str
    binaries: Programs
    certificates: certificates.Certificates
    _processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _commands: dict[str, list[str]] = field(default_factory=dict)

    def admin(self) -> Kubectl:
        """A client that may do everything."""
        return self.user(ADMIN_TOKEN)

    def user(self, token: str) -> Kubectl:
        """A client with another token."""
        return Kubectl(self.server, str(self.certificates.ca), token)

    def kubeconfig(self, token: str, *, server: str = "") -> Path:
        """A kubeconfig file for a token, perhaps by way of a proxy in front of the API server."""
        address = server or self.server
        path = self.folder / f"kubeconfig-{abs(hash((token, address)))}"
        path.write_text(self._kubeconfig(address, token), encoding="utf-8")
        return path

    def _kubeconfig(self, server: str, token: str) -> str:
        cluster = {"server": server, "certificate-authority": str(self.certificates.ca)}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "tests",
            "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": "tests"}}],
            "clusters": [{"name": "tests", "cluster": cluster}],
            "users": [{"name": "tests", "user": {"token": token}}],
        }
        return json.dumps(content)

    @property
    def audit(self) -> audit.AuditLog:
        """The operator's requests."""
        return audit.AuditLog(self.folder / _AUDIT_LOG)

    def restart(self, name: str) -> None:
        """Stops one program and starts it again with the same data."""
        _end(self._processes.pop(name))
        self._start(name, self._commands[name])
        if name == "kube-apiserver":
            self._wait_until_ready()

    def stop(self) -> None:
        """Ends every program, the API server before its database."""
        for name in reversed(list(self._processes)):
            _end(self._processes.pop(name))

    def cpu_seconds(self) -> dict[str, float]:
        """What each program has used of the processor."""
        return {name: cpu_seconds(process.pid) for name, process in self._processes.items()}

    def memory_mb(self, name: str) -> float:
        """Resident memory of a program."""
        status = Path(f"/proc/{self._processes[name].pid}/statm").read_text(encoding="ascii")
        return int(status.split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6

    def _start(self, name: str, command: list[str]) -> None:
        self._commands[name] = command
        with (self.folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                # Thrown away soon: memory is cheaper than the sixth of their time that they would spend on collecting it.
                env={**os.environ, "GOGC": "300"},
            )

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + _START_TIMEOUT_S
        headers = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
        verify = ssl.create_default_context(cafile=str(self.certificates.ca))
        with httpx.Client(verify=verify, headers=headers, trust_env=False, timeout=5) as http:
            while True:
                for name, process in self._processes.items():
                    if process.poll() is not None:
                        raise DidNotStartError(f"{name} ended: {self._last_lines(name)}")
                try:
                    if http.get(f"{self.server}/readyz").status_code == 200:
                        return
                except httpx.TransportError:
                    pass
                if time.monotonic() > deadline:
                    raise DidNotStartError(
                        f"no answer in {_START_TIMEOUT_S:g} s: {self._last_lines('kube-apiserver')}"
                    )
                time.sleep(0.05)

    def _last_lines(self, name: str) -> str:
        text = (self.folder / f"{name}.log").read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.splitlines()[-15:])


def start(
    folder: Path,
    binaries: Programs,
    *,
    crds: Sequence[dict[str, Any]] = (),
    autoscaler_sync: str = "2s",
    manager_rate: int = 500,
) -> ControlPlane:
    """Starts a control plane with its data in `folder`, and gives it when the API server is ready.

    Args:
        folder: an empty folder; everything that is written lies in it.
        binaries: the programs.
        crds: installed before the controllers start, because the garbage collector looks for new kinds only every
            half minute.
        manager_rate: requests per second of each controller. At Kubernetes' own default, 20, they start four seconds later.
        autoscaler_sync: between two looks of the HPA controller; Kubernetes' own default is 15s.
    """
    made = certificates.make(folder / "certificates")
    etcd_port, peer_port, api_port = _free_ports(3)
    plane = ControlPlane(
        folder=folder,
        server=f"https://127.0.0.1:{api_port}",
        binaries=binaries,
        certificates=made,
    )
    try:
        etcd = commands.etcd(binaries["etcd"], folder, port=etcd_port, peer_port=peer_port)
        plane._start("etcd", etcd)
        api_server = commands.api_server(
            binaries["kube-apiserver"],
            folder,
            made,
            etcd_port=etcd_port,
            port=api_port,
            tokens=_tokens(folder),
            audit_policy=_audit_policy(folder),
            audit_log=folder / _AUDIT_LOG,
        )
        plane._start("kube-apiserver", api_server)
        plane._wait_until_ready()
        admin = plane.admin()
        for crd in crds:
            admin.apply(crd, force=True)
        for crd in crds:
            served(admin, crd)
        admin.close()
        controller_manager = commands.controller_manager(
            binaries["kube-controller-manager"],
            made,
            kubeconfig=plane.kubeconfig(_MANAGER_TOKEN),
            autoscaler_sync=autoscaler_sync,
            rate=manager_rate,
        )
        plane._start("kube-controller-manager", controller_manager)
    except BaseException:
        plane.stop()
        raise
    return plane


@contextmanager
def running(folder: Path, *, crds: Sequence[dict[str, Any]] = ()) -> Iterator[ControlPlane]:
    """A control plane that runs as long as the block; see `start`."""
    plane = start(folder, find(PROGRAMS), crds=crds)
    try:
        yield plane
    finally:
        plane.stop()


@contextmanager
def may_do_everything(user: str, admin: Kubectl) -> Iterator[None]:
    """Lets a user do everything as long as the block, also where a run before this one has left it the right."""
    binding = everything_for(user)
    admin.apply(binding, force=True)
    try:
        yield
    finally:
        admin.delete("ClusterRoleBinding", binding["metadata"]["name"])


def everything_for(user: str) -> dict[str, Any]:
    """A binding that lets a user do everything."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"{user}-everything"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "cluster-admin",
        },
        "subjects": [{"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}],
    }


def _tokens(folder: Path) -> Path:
    """The file of the users who have a token."""
    path = folder / "tokens.csv"
    path.write_text(
        f'{ADMIN_TOKEN},admin,1,"system:masters"\n'
        f"{_MANAGER_TOKEN},system:kube-controller-manager,2\n"
        f"{OPERATOR_TOKEN},{OPERATOR_USER},3\n",
        encoding="utf-8",
    )
    return path


def _audit_policy(folder: Path) -> Path:
    path = folder / "audit-policy.json"
    path.write_text(json.dumps(audit.policy(OPERATOR_USER)), encoding="utf-8")
    return path


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _free_ports(count: int) -> list[int]:
    """Ports below those that the kernel gives away by itself.

    A program here listens seconds after its port was chosen. A port chosen by the kernel could be an outgoing connection by then, even
    the one that asks whether the program is there yet.
    """
    found: list[int] = []
    while len(found) < count:
        port = random.SystemRandom().choice(_PORTS)
        with socket.socket() as tried:
            try:
                tried.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in found:
            found.append(port)
    return found


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_STOP_TIMEOUT_S / 5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(_STOP_TIMEOUT_S)

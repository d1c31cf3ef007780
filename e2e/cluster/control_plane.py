"""etcd, kube-apiserver, kube-controller-manager and kube-scheduler, and what each is started with."""

import subprocess

from e2e.cluster import namespaces
from e2e.cluster.layout import CONTROL_PLANE_ADDRESS, SERVICE_CIDR, Folders
from e2e.cluster.namespaces import Component, Namespaces
from tests.toolchain.programs import Programs

PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")

_ETCD = "http://127.0.0.1:2379"
_ETCD_PEER = "http://127.0.0.1:2380"


def start_etcd(place: Namespaces, programs: Programs, folders: Folders) -> Component:
    """The database, which must not survive the cluster: it does not wait for the disk."""
    command = [
        programs["etcd"],
        f"--data-dir={folders.etcd}",
        "--unsafe-no-fsync",
        f"--listen-client-urls={_ETCD}",
        f"--advertise-client-urls={_ETCD}",
        f"--listen-peer-urls={_ETCD_PEER}",
        f"--initial-advertise-peer-urls={_ETCD_PEER}",
        f"--initial-cluster=default={_ETCD_PEER}",
        "--log-level=warn",
    ]
    return namespaces.start("etcd", place.entered(*command), folders.logs)


def start_api_server(place: Namespaces, programs: Programs, folders: Folders) -> Component:
    """The API server; `ready` tells when it responds."""
    keys = folders.certificates
    command = [
        programs["kube-apiserver"],
        f"--etcd-servers={_ETCD}",
        "--bind-address=0.0.0.0",
        f"--advertise-address={CONTROL_PLANE_ADDRESS}",
        f"--service-cluster-ip-range={SERVICE_CIDR}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
        f"--client-ca-file={keys}/ca.crt",
        f"--tls-cert-file={keys}/apiserver.crt",
        f"--tls-private-key-file={keys}/apiserver.key",
        # logs and exec
        f"--kubelet-certificate-authority={keys}/ca.crt",
        f"--kubelet-client-certificate={keys}/apiserver-kubelet.crt",
        f"--kubelet-client-key={keys}/apiserver-kubelet.key",
        "--kubelet-preferred-address-types=InternalIP",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={keys}/sa.pub",
        f"--service-account-signing-key-file={keys}/sa.key",
        # aggregated APIs, such as prometheus-adapter's
        f"--requestheader-client-ca-file={keys}/front-proxy-ca.crt",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={keys}/front-proxy.crt",
        f"--proxy-client-key-file={keys}/front-proxy.key",
        "--enable-aggregator-routing=true",
        # a lost node's pods are replaced after 5 s instead of 5 minutes
        "--default-not-ready-toleration-seconds=5",
        "--default-unreachable-toleration-seconds=5",
        "--profiling=false",
    ]
    return namespaces.start("kube-apiserver", place.entered(*command), folders.logs)


def ready(place: Namespaces, programs: Programs, folders: Folders) -> bool:
    """Whether the API server says that it is ready."""
    request = kubectl(place, programs, folders, "get", "--raw", "/readyz", "--request-timeout=2s")
    return subprocess.run(request, capture_output=True, check=False).returncode == 0


def kubectl(place: Namespaces, programs: Programs, folders: Folders, *arguments: str) -> list[str]:
    """The command line of a kubectl that may do everything."""
    kubeconfig = f"--kubeconfig={folders.admin_kubeconfig}"
    return place.networked(programs["kubectl"], kubeconfig, *arguments)


def start_controllers(
    place: Namespaces, programs: Programs, folders: Folders
) -> tuple[Component, ...]:
    """The controller-manager and the scheduler, with short periods: at the defaults a lost node is noticed after 40 s."""
    keys = folders.certificates
    manager = [
        programs["kube-controller-manager"],
        f"--kubeconfig={keys}/kube-controller-manager.kubeconfig",
        "--use-service-account-credentials",
        f"--service-account-private-key-file={keys}/sa.key",
        f"--root-ca-file={keys}/ca.crt",
        f"--cluster-signing-cert-file={keys}/ca.crt",
        f"--cluster-signing-key-file={keys}/ca.key",
        "--leader-elect=false",
        "--kube-api-qps=500",
        "--kube-api-burst=500",
        f"--flex-volume-plugin-dir={folders.root}/flex-volumes",
        "--node-monitor-period=1s",
        "--node-monitor-grace-period=6s",
        "--horizontal-pod-autoscaler-sync-period=2s",
    ]
    scheduler = [
        programs["kube-scheduler"],
        f"--kubeconfig={keys}/kube-scheduler.kubeconfig",
        "--leader-elect=false",
    ]
    commands = {"kube-controller-manager": manager, "kube-scheduler": scheduler}
    return tuple(
        namespaces.start(name, place.entered(*command), folders.logs)
        for name, command in commands.items()
    )

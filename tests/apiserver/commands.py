"""The command lines of the control plane's programs."""

from pathlib import Path

from tests.apiserver.certificates import Certificates

_CONTROLLERS = (
    "deployment-controller",
    "replicaset-controller",
    "horizontal-pod-autoscaler-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "serviceaccount-controller",
    "endpointslice-controller",
    "disruption-controller",
    "resourcequota-controller",
    "resourceclaim-controller",
    "validatingadmissionpolicy-status-controller",
)


def etcd(program: str, folder: Path, *, port: int, peer_port: int) -> list[str]:
    """etcd, with its data below `folder`."""
    client, peer = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peer_port}"
    return [
        program,
        f"--data-dir={folder / 'etcd'}",
        "--name=tests",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=tests={peer}",
        "--unsafe-no-fsync",  # thrown away afterwards
        "--log-level=warn",
    ]


def api_server(
    program: str,
    folder: Path,
    made: Certificates,
    *,
    etcd_port: int,
    port: int,
    tokens: Path,
    audit_policy: Path,
    audit_log: Path,
) -> list[str]:
    """kube-apiserver for the holders of `tokens` and of client certificates."""
    certificate, key = made.serving
    return [
        program,
        f"--etcd-servers=http://127.0.0.1:{etcd_port}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        "--endpoint-reconciler-type=none",
        f"--secure-port={port}",
        f"--cert-dir={folder}",
        f"--tls-cert-file={certificate}",
        f"--tls-private-key-file={key}",
        f"--client-ca-file={made.ca}",
        f"--token-auth-file={tokens}",
        "--authorization-mode=RBAC",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={made.service_account_key}",
        f"--service-account-signing-key-file={made.service_account_key}",
        # Pods that tests write name no service account's token volume; a missing one would refuse them.
        "--disable-admission-plugins=ServiceAccount",
        # As OpenShift has it: an owner reference that blocks deletion needs a permission of its own.
        "--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
        f"--audit-policy-file={audit_policy}",
        f"--audit-log-path={audit_log}",
        "--profiling=false",
        "--v=1",
    ]


def controller_manager(
    program: str, made: Certificates, *, kubeconfig: Path, autoscaler_sync: str, rate: int
) -> list[str]:
    """kube-controller-manager with the controllers that an InferenceService's life needs.

    Args:
        program: the program.
        made: the cluster's certificates.
        kubeconfig: as which user.
        autoscaler_sync: between two looks of the HPA controller.
        rate: requests per second of each controller.
    """
    return [
        program,
        f"--kubeconfig={kubeconfig}",
        f"--controllers={','.join(_CONTROLLERS)}",
        "--use-service-account-credentials",
        f"--service-account-private-key-file={made.service_account_key}",
        f"--root-ca-file={made.ca}",
        "--leader-elect=false",
        f"--kube-api-qps={rate}",
        f"--kube-api-burst={rate + rate // 2}",
        f"--horizontal-pod-autoscaler-sync-period={autoscaler_sync}",
        "--secure-port=0",
        "--v=1",
    ]

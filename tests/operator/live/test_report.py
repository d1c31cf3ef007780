"""`naiad-operator report` against an API server: what is in the archive, what is not, and what a person without rights gets."""

import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml

from tests.apiserver import kubelet as kubelets
from tests.apiserver.client import Kubectl, Object, until
from tests.apiserver.control_plane import ADMIN_TOKEN, ControlPlane
from tests.apiserver.kubelet import Kubelet
from tests.apiserver.objects import condition, inference_service, make_namespace, token_of
from tests.apiserver.operator import OperatorProcess
from tests.apiserver.proxy import proxying

ROOT = Path(__file__).parents[3]
S = "pl4nted-Value"


def report(kubeconfig: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Runs the command; the archive is its standard output."""
    command = [sys.executable, "-m", "naiad_operator", "report", f"--kubeconfig={kubeconfig}"]
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "operator")}
    return subprocess.run(
        [*command, "-o", "-", *arguments], env=environ, capture_output=True, check=False
    )


def unpacked(archive: bytes) -> dict[str, str]:
    """The files by name, without the folder."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        return {
            member.name.partition("/")[2]: extracted.read().decode()
            for member in tar
            if (extracted := tar.extractfile(member)) is not None
        }


def secret_and_config_map(namespace: str) -> list[Object]:
    return [
        {"apiVersion": "v1", "kind": kind, "metadata": {"name": "models", "namespace": namespace}, field: {"key": f"{S}-{kind}"}}
        for kind, field in (("Secret", "stringData"), ("ConfigMap", "data"))
    ]  # fmt: skip


def service(name: str, namespace: str) -> Object:
    """A service with a credential in each field that takes text."""
    made = inference_service(
        name,
        namespace,
        model={"storageUri": "s3://models/production", "storage": {"secretName": "models"}},
        env=[{"name": "API_TOKEN", "value": f"{S}-env"}, {"name": "PROXY", "value": f"http://u:{S}@proxy"}],
        args=[f"--http-restricted-api=metadata:admin={S}-args"],
        podTemplate={"metadata": {"annotations": {"example.com/hook": f"https://x/?sig={S}-pod"}}},
        spec_={"annotations": {"example.com/secret": f"{S}-annotation"}},
    )  # fmt: skip
    made["metadata"]["annotations"] = {
        "kubectl.kubernetes.io/last-applied-configuration": f'{{"env": "{S}-applied"}}'
    }
    return made


@pytest.fixture(scope="module")
def here(kubectl: Kubectl, kubelet: Kubelet, operator: OperatorProcess, namespace: str) -> str:
    """A namespace with two services: the pods of one cannot pull their image."""
    for manifest in [*secret_and_config_map(namespace), service("demo", namespace), service("other", namespace)]:  # fmt: skip
        kubectl.create(manifest)

    def failing() -> bool:
        kubelet.step(namespace, become=_pods)
        shown = condition(kubectl.get("InferenceService", "demo", namespace), "Ready")
        return shown.get("reason") == "ImagePullBackOff"

    until("demo to say why it is not ready", failing)
    return namespace


def _pods(pod: Object) -> Object:
    if not pod["metadata"]["name"].startswith("demo"):
        return kubelets.ready(pod)
    message = f"Back-off pulling image with Authorization: Bearer {S}-status"
    return kubelets.waiting(pod, reason="ImagePullBackOff", message=message)


def test_the_archive_has_what_is_needed_and_no_secret(
    plane: ControlPlane, kubectl: Kubectl, here: str
) -> None:
    event = {
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": here}, "type": "Warning", "reason": "Failed",
        "involvedObject": {"kind": "Pod", "name": "demo-gone-1", "namespace": here}, "message": f"cannot log in: password={S}-event",
    }  # fmt: skip
    kubectl.create(event)
    with proxying(plane.server, str(plane.certificates.ca)) as proxy:
        ended = report(plane.kubeconfig(ADMIN_TOKEN, server=proxy.url), "-n", here)
        assert ended.returncode == 0, ended.stderr
        assert {request.method for request in proxy.requests} == {"GET"}
        read = [request.path for request in proxy.requests]
        assert [path for path in read if "secrets" in path or "configmaps" in path] == []
    files = unpacked(ended.stdout)
    assert [name for name, text in files.items() if S in text] == []
    assert S.encode() not in ended.stderr
    folder = f"namespaces/{here}"
    kinds = [
        "inferenceservices",
        "deployments",
        "replicasets",
        "pods",
        "services",
        "events",
        "namespace",
    ]
    assert {f"{folder}/{kind}.yaml" for kind in kinds} <= files.keys()
    assert {"cluster/nodes.yaml", "cluster/customresourcedefinitions.yaml"} <= files.keys()
    assert list(files)[:2] == ["summary.txt", "not-collected.txt"]
    summary = files["summary.txt"]
    assert "Ready=False (ImagePullBackOff)" in summary
    assert "Kubernetes v1." in summary
    assert "cannot log in: password=***" in summary
    pods = list(yaml.safe_load_all(files[f"{folder}/pods.yaml"]))
    assert {pod["kind"] for pod in pods} == {"Pod"}
    assert len(pods) == 2
    # No kubelet runs here, so no log can be read; the operator is a process of the tests.
    assert f"read the log of {here}/other-" in files["not-collected.txt"]
    assert "there is no operator with the label" in files["not-collected.txt"]


def test_one_service_alone(plane: ControlPlane, here: str) -> None:
    ended = report(plane.kubeconfig(ADMIN_TOKEN), "-n", here, "--service=other")
    files = unpacked(ended.stdout)
    for kind in ("inferenceservices", "deployments", "pods"):
        found = list(yaml.safe_load_all(files[f"namespaces/{here}/{kind}.yaml"]))
        assert [one["metadata"]["name"].partition("-")[0] for one in found] == ["other"]
    assert "Pods that are not ready\n  none" in files["summary.txt"]


def test_what_a_person_may_not_read_is_said_and_stops_nothing(
    plane: ControlPlane, kubectl: Kubectl, here: str
) -> None:
    user = make_namespace(kubectl, "report-user")
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "person", "namespace": user}}  # fmt: skip
    rules = [
        {"apiGroups": ["serving.naiad.dev"], "resources": ["inferenceservices"], "verbs": ["list"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
    ]
    api = "rbac.authorization.k8s.io"
    role = {"apiVersion": f"{api}/v1", "kind": "Role", "metadata": {"name": "some", "namespace": here}, "rules": rules}  # fmt: skip
    binding = {
        "apiVersion": f"{api}/v1", "kind": "RoleBinding", "metadata": {"name": "some", "namespace": here},
        "roleRef": {"apiGroup": api, "kind": "Role", "name": "some"},
        "subjects": [{"kind": "ServiceAccount", "name": "person", "namespace": user}],
    }  # fmt: skip
    for manifest in (account, role, binding):
        kubectl.create(manifest)
    ended = report(plane.kubeconfig(token_of(kubectl, "person", user)), "-n", here)
    assert ended.returncode == 0, ended.stderr
    files = unpacked(ended.stdout)
    assert "ImagePullBackOff" in files["summary.txt"]
    assert f"namespaces/{here}/deployments.yaml" not in files
    missing = files["not-collected.txt"]
    for words in ("deployments.apps is forbidden", "events is forbidden", "nodes is forbidden"):
        assert words in missing
    assert b"not collected: cannot list" in ended.stderr


def test_an_empty_namespace_says_so(plane: ControlPlane, kubectl: Kubectl) -> None:
    empty = make_namespace(kubectl, "report-empty")
    ended = report(plane.kubeconfig(ADMIN_TOKEN), "-n", empty)
    assert ended.returncode == 0
    assert f"there is no InferenceService in namespace {empty}".encode() in ended.stderr


def test_without_an_api_server_there_is_no_archive(plane: ControlPlane, tmp_path: Path) -> None:
    path = tmp_path / "report.tar.gz"
    kubeconfig = plane.kubeconfig(ADMIN_TOKEN, server="https://127.0.0.1:1")
    ended = report(kubeconfig, "-n", "default", "-o", str(path))
    assert ended.returncode == 1
    assert b"no response from the API server" in ended.stderr
    assert not path.exists()

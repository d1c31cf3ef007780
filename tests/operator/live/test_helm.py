"""Helm itself against a real API server: install, upgrade with a changed resource, uninstall, install again.

A control plane without anything of ours: whatever is missing in the chart is missing here. The cluster has no nodes, so the operator runs
beside it with a token of the account that the chart made and the arguments of the chart's Deployment.
"""

import pathlib
import shutil
import typing

import pytest
import yaml

from tests.apiserver.client import Kubectl, until
from tests.apiserver.control_plane import ADMIN_TOKEN, ControlPlane
from tests.apiserver.kubelet import Kubelet
from tests.apiserver.objects import CRD_NAME, ready, replicas_of, token_of
from tests.apiserver.operator import OperatorProcess
from tests.support import helm

helm_python = pytest.importorskip(
    "helm_python", reason="the Helm library is not installed: pip install helm-python-sdk"
)

NAMESPACE = "naiad-system"


def releases(own_plane: ControlPlane, namespace: str = NAMESPACE) -> typing.Any:
    """Helm as a person with all rights runs it."""
    return helm_python.Config(
        kubeconfig_path=own_plane.kubeconfig(ADMIN_TOKEN), namespace=namespace
    )


def started(
    own_plane: ControlPlane, admin: Kubectl, log: pathlib.Path, *, name: str = "naiad"
) -> OperatorProcess:
    """The operator as the release's Deployment would run it."""
    deployment = admin.get("Deployment", name, NAMESPACE)
    pod = deployment["spec"]["template"]["spec"]
    token = token_of(admin, pod["serviceAccountName"], NAMESPACE)
    args = [one for one in pod["containers"][0]["args"] if not one.startswith("--http-port")]
    return OperatorProcess(own_plane.kubeconfig(token), *args, log=log)


def changed(folder: pathlib.Path) -> pathlib.Path:
    """The chart of a later release, whose resource has one more field in its status."""
    chart = folder / "naiad"
    shutil.copytree(helm.CHART, chart)
    file = chart / "files" / "crd.yaml"
    definition = yaml.safe_load(file.read_text())
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["status"]["properties"]["later"] = {"type": "string", "maxLength": 8}
    file.write_text(yaml.safe_dump(definition))
    return chart


def test_a_release_is_installed_upgraded_taken_away_and_installed_again(
    own_plane: ControlPlane, admin: Kubectl, tmp_path: pathlib.Path
) -> None:
    kubelet = Kubelet(admin)
    kubelet.register()
    admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "models"}})
    with releases(own_plane) as config:
        made = config.install(str(helm.CHART), "naiad", create_namespace=True)
        assert made["status"] == "deployed"
        notes = config.get_all("naiad")["info"]["notes"]
        assert "kubectl -n naiad-system rollout status deployment/naiad" in notes
        assert "{{" not in notes
        definition = until("the resource", lambda: admin.find("CustomResourceDefinition", CRD_NAME))
        assert definition["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"

        with started(own_plane, admin, tmp_path / "first.log") as operator:
            operator.wait_ready()
            # The very manifest that the notes give, with a store of the tests'.
            text = notes.partition("<<'EOF'\n")[2].partition("\nEOF\n")[0]
            noted = yaml.safe_load(text)
            noted["metadata"]["namespace"] = "models"
            admin.create(noted)
            before = ready(admin, kubelet, "demo", "models")

            config.upgrade(str(changed(tmp_path)), "naiad", {"replicas": 2})
            definition = admin.get("CustomResourceDefinition", CRD_NAME)
            schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
            assert "later" in schema["properties"]["status"]["properties"], "CRDs are upgraded, too"
            assert replicas_of(admin, "naiad", NAMESPACE) == 2
            assert admin.get("InferenceService", "demo", "models")["spec"] == before["spec"]
            assert operator.stop() == 0, operator.tail()
        config.rollback("naiad")
        assert replicas_of(admin, "naiad", NAMESPACE) == 1

        config.uninstall("naiad")
        until("no operator", lambda: not admin.list("Deployment", NAMESPACE) or None)
        for kind in ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"):
            namespace = "" if kind.startswith("Cluster") else NAMESPACE
            left = admin.list(kind, namespace, labels="app.kubernetes.io/part-of=naiad")
            assert left == [], f"{kind} stayed"
        kept = admin.get("InferenceService", "demo", "models")
        assert kept["metadata"]["uid"] == before["metadata"]["uid"]
        assert len(admin.list("Pod", "models")) == 1, "pods serve on"

        config.install(str(helm.CHART), "naiad")
        with started(own_plane, admin, tmp_path / "second.log") as operator:
            operator.wait_ready()
            admin.patch(
                "InferenceService", "demo", "models", body={"spec": {"predictor": {"replicas": 2}}}
            )
            until(
                "the new operator's work",
                lambda: replicas_of(admin, "demo", "models") == 2,
            )
            assert operator.stop() == 0, operator.tail()
        config.uninstall("naiad")


def test_another_release_takes_over_the_crd_only_with_take_ownership(
    own_plane: ControlPlane, admin: Kubectl
) -> None:
    """After an uninstall the resource bears the old release's name; without it, or with ours already there, Helm refuses."""
    with releases(own_plane) as config:
        config.install(str(helm.CHART), "naiad", create_namespace=True)
        config.uninstall("naiad")
        with pytest.raises(helm_python.HelmError, match="invalid ownership metadata"):
            config.install(str(helm.CHART), "two")
        config.install(str(helm.CHART), "three", {"crds": {"install": False}})
        assert admin.find("Deployment", "three-naiad", NAMESPACE)
        config.uninstall("three")

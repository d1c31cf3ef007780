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
from tests.apiserver.objects import CRD_NAME, inference_service, ready, replicas_of, token_of
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


def options_of(admin: Kubectl) -> set[str]:
    """What the release's operator refuses."""
    args = admin.get("Deployment", "naiad", NAMESPACE)["spec"]["template"]["spec"]["containers"][0][
        "args"
    ]
    return {one for one in args if one.startswith(("--pod-template", "--triggers"))}


def of_a_time_without_them(folder: pathlib.Path) -> pathlib.Path:
    """The chart as it was before it said what services may have."""
    chart = folder / "earlier"
    shutil.copytree(helm.CHART, chart)
    file = chart / "templates" / "deployment.yaml"
    lines = file.read_text().splitlines(keepends=True)
    kept = [one for one in lines if "--pod-template" not in one and "--triggers" not in one]
    assert len(kept) == len(lines) - 2
    file.write_text("".join(kept))
    return chart


STRICT = {"--pod-template=Restricted", "--triggers=Refuse"}
OPEN = {"--pod-template=Allow", "--triggers=Allow"}


def test_a_new_release_refuses_what_gives_rights_and_an_upgrade_keeps_what_there_was(
    own_plane: ControlPlane, admin: Kubectl, tmp_path: pathlib.Path
) -> None:
    admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "trusted"}})
    with releases(own_plane) as config:
        config.install(str(helm.CHART), "naiad", create_namespace=True)
        assert options_of(admin) == STRICT
        admin.create(inference_service("demo", "trusted", podTemplate={"spec": {"hostPID": True}}))
    with releases(own_plane) as config:  # as another call of helm, which discovers the kinds again
        config.upgrade(str(helm.CHART), "naiad", {"workers": 3})
        assert options_of(admin) == STRICT
        notes = config.get_all("naiad")["info"]["notes"]
        assert "Some of these services may be refused" in notes
        assert "\n  trusted/demo\n" in notes
        config.upgrade(str(helm.CHART), "naiad", {"podTemplate": "Allow", "triggers": "Allow"})
        assert options_of(admin) == OPEN
        config.upgrade(str(helm.CHART), "naiad", {"workers": 3})
        assert options_of(admin) == OPEN
        config.uninstall("naiad")
        config.install(str(of_a_time_without_them(tmp_path)), "naiad")
        assert options_of(admin) == set()
        config.upgrade(str(helm.CHART), "naiad", {"workers": 4})
        assert options_of(admin) == OPEN
        notes = config.get_all("naiad")["info"]["notes"]
        assert "With podTemplate=Restricted and triggers=Refuse" in notes
        config.uninstall("naiad")
    admin.delete("InferenceService", "demo", "trusted")


def of_a_time_without_the_right(folder: pathlib.Path) -> pathlib.Path:
    """The chart as it was before podTemplate was a right of its own."""
    chart = folder / "without-the-right"
    shutil.copytree(helm.CHART, chart)
    (chart / "templates" / "podtemplate-right.yaml").unlink()
    return chart


def right_of(admin: Kubectl) -> str:
    """What happens to a change of podTemplate without the right to it."""
    binding = admin.find("ValidatingAdmissionPolicyBinding", "naiad-podtemplate")
    [action] = binding["spec"]["validationActions"] if binding else ["Off"]
    return str(action)


def test_a_new_release_asks_for_the_right_to_a_pod_template_and_an_upgrade_keeps_what_there_was(
    own_plane: ControlPlane, admin: Kubectl, tmp_path: pathlib.Path
) -> None:
    def upgraded(**rbac: typing.Any) -> str:
        config.upgrade(str(helm.CHART), "naiad", {"rbac": rbac})
        return right_of(admin)

    with releases(own_plane) as config:
        config.install(str(helm.CHART), "naiad", create_namespace=True)
        assert right_of(admin) == "Deny"
        notes = config.get_all("naiad")["info"]["notes"]
        assert "create rolebinding NAME --clusterrole=naiad-user --group=GROUP" in notes
        assert "needs the right to update inferenceservices/podtemplate; without it: Deny." in notes
        assert upgraded() == "Deny"
        assert upgraded(podTemplateRight="Warn") == "Warn"
        assert upgraded() == "Warn"
        assert upgraded(podTemplateRight="Off") == "Off"
        assert upgraded() == "Off"
        assert upgraded(podTemplateRight="Deny") == "Deny"
        assert upgraded(userRoles=False) == "Off"
        config.uninstall("naiad")
        assert admin.list("ValidatingAdmissionPolicy") == []
        config.install(str(of_a_time_without_the_right(tmp_path)), "naiad")
        assert upgraded() == "Off"
        notes = config.get_all("naiad")["info"]["notes"]
        assert "rbac.podTemplateRight=Deny asks for a right of its own" in notes
        assert admin.find("ClusterRole", "naiad-user")
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

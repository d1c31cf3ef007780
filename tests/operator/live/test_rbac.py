"""The operator with the rights that the chart gives it for a whole cluster, and not one more: a verb that is missing fails here.

Services with each set of children are made, edited, disturbed and deleted by an operator that logs in with its own ServiceAccount's token.
The kinds of KEDA, the Gateway API and the Prometheus operator come to the API server while it runs. Rights in chosen namespaces, and those of the
plain manifests, are in test_install.
"""

import collections
import copy
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.apiserver import foreign, leftovers, rights
from tests.apiserver.client import Kubectl, Object, RefusedError, until
from tests.apiserver.control_plane import ControlPlane
from tests.apiserver.kubelet import Kubelet, unschedulable
from tests.apiserver.objects import (
    CHILDREN,
    OF_OPERATOR,
    definitions,
    inference_service,
    make_namespace,
    served,
)
from tests.apiserver.operator import OperatorProcess, bugs
from tests.support import helm, manifests

pytestmark = helm.needed

_RBAC = frozenset({"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"})
_OPERATOR_NAMESPACE = "naiad-system"
_ALIKE = 3
_ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def admin(admin: Kubectl) -> Iterator[Kubectl]:
    """With ours installed; more kinds are later, which other tests do without. In the end nothing of it is left: test_helm installs everything itself."""
    for definition in definitions():
        admin.apply(definition, force=True)
        served(admin, definition)
    Kubelet(admin).register(resources={"nvidia.com/gpu": "8"})
    admin.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _OPERATOR_NAMESPACE}},
        force=True,
    )
    yield admin
    installed = (
        one for one in helm.manifests(namespace=_OPERATOR_NAMESPACE) if one["kind"] in _RBAC
    )
    leftovers.uninstall(admin, [*installed, *foreign.definitions(), *definitions()])


def everything(admin: Kubectl, namespace: str) -> set[str]:
    names = set()
    for kind in CHILDREN:
        try:
            names |= {kind for _ in admin.list(kind, namespace, labels=OF_OPERATOR)}
        except RefusedError as refused:
            if refused.code not in (404, 429):  # not served yet, or only just
                raise
    return names


def examples(namespace: str) -> list[Object]:
    """Up to three examples of the golden manifests for each set of kinds that a service may need, each under a name of its own.

    Permissions are of kinds: more services with the same children would need no others.
    """
    alike: collections.Counter[frozenset[str]] = collections.Counter()
    made = []
    for path in manifests.INPUTS:
        kinds = frozenset(child["kind"] for child in manifests.built(path))
        alike[kinds] += 1
        if alike[kinds] > _ALIKE:
            continue
        manifest = copy.deepcopy(dict(manifests.example(path)[0]))
        manifest["metadata"] = {"name": f"x-{path.stem}"[:50].rstrip("-"), "namespace": namespace}
        manifest.pop("status", None)
        manifest["spec"].pop("profile", None)  # it does not exist here; the others are the same
        made.append(manifest)
    return made


def test_cluster_wide_with_kinds_that_come_later(
    own_plane: ControlPlane, admin: Kubectl, tmp_path: Path
) -> None:
    namespace = make_namespace(admin, "everywhere")
    chart = helm.manifests(namespace=_OPERATOR_NAMESPACE)
    token = rights.given(own_plane, admin, [one for one in chart if one["kind"] in _RBAC])
    kubeconfig = own_plane.kubeconfig(token)
    # With an address: once KEDA is there, services that need one are invalid without.
    prometheus = "--prometheus-address=http://prometheus.example.com:9090"
    operator = OperatorProcess(
        kubeconfig, "--discovery-seconds=2", prometheus, log=tmp_path / "log"
    )
    try:
        operator.wait_ready()
        made = [admin.create(manifest) for manifest in examples(namespace)]
        for manifest in made:
            admin.wait_for("Deployment", manifest["metadata"]["name"], namespace)
        # For such pods it reads nodes and Events.
        until("pods", lambda: admin.list("Pod", namespace))
        Kubelet(admin).step(namespace, become=lambda pod: unschedulable(pod, message="no node"))
        for definition in foreign.definitions():
            admin.apply(definition, force=True)
        wanted = set(CHILDREN)
        until(
            "a child of every kind",
            lambda: everything(admin, namespace) == wanted or None,
        )
        plan = planned(kubeconfig, prometheus)
        assert "services: 0 would restart" in plan
        assert "forbidden" not in plan.lower()
        disturbed(admin, namespace)
        shrunk(admin, namespace)
        assert rights.refusals(operator) == []
        assert operator.stop() == 0, operator.tail()
        assert bugs(operator.lines()) == []
    finally:
        operator.kill()


def planned(kubeconfig: Path, *arguments: str) -> str:
    """What `naiad-operator plan` prints with these rights, errors included; it finds nothing that restarts."""
    command = [sys.executable, "-m", "naiad_operator", "plan", f"--kubeconfig={kubeconfig}"]
    paths = os.pathsep.join([str(_ROOT / "operator"), str(_ROOT)])
    ended = subprocess.run(
        [*command, *arguments],
        env={**os.environ, "PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout
    return ended.stdout


def disturbed(admin: Kubectl, namespace: str) -> None:
    """One object of each kind is deleted, and comes again."""
    for kind in CHILDREN:
        [first, *_] = admin.list(kind, namespace, labels=OF_OPERATOR)
        name, uid = first["metadata"]["name"], first["metadata"]["uid"]
        admin.delete(kind, name, namespace)

        def again(kind: str = kind, name: str = name, uid: str = uid) -> bool | None:
            resource = admin.find(kind, name, namespace)
            return (resource is not None and resource["metadata"]["uid"] != uid) or None

        until(f"another {kind} {name}", again)


def shrunk(admin: Kubectl, namespace: str) -> None:
    """Every service is edited to the least; what it had beside its Deployment and Service is deleted by the operator."""
    for manifest in examples(namespace):
        name = manifest["metadata"]["name"]
        least = inference_service(name, namespace, replicas=1)
        path = f"/apis/serving.naiad.dev/v1alpha1/namespaces/{namespace}/inferenceservices/{name}"

        def replaced(path: str = path, least: Object = least) -> Object | None:
            live = admin.request("GET", path)
            least["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"]
            try:
                return admin.request("PUT", path, body=least)
            except RefusedError as refused:
                if refused.code == 409:
                    return None  # the operator wrote the status meanwhile
                raise

        until(f"{name} to be replaced", replaced)
    until(
        "nothing but Deployments and Services",
        lambda: everything(admin, namespace) == {"Deployment", "Service"} or None,
    )

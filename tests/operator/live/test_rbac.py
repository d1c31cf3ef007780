"""The operator with the rights that the chart gives it, and not one more: a verb that is missing fails here.

Services with each set of children are made, edited, disturbed and deleted by an operator that logs in with its own ServiceAccount's token.
The kinds of KEDA, the Gateway API and the Prometheus operator come to the API server while it runs.
"""

import collections
import copy
import functools
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.apiserver import foreign
from tests.apiserver.client import Kubectl, Object, RefusedError, until
from tests.apiserver.control_plane import ControlPlane
from tests.apiserver.kubelet import Kubelet, unschedulable
from tests.apiserver.objects import (
    CHILDREN,
    definitions,
    event_of,
    inference_service,
    make_namespace,
    served,
    token_of,
)
from tests.apiserver.operator import OperatorProcess, bugs
from tests.support import helm, manifests

_RBAC = frozenset({"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"})
_OPERATOR_NAMESPACE = "naiad-system"
_ALIKE = 3
_ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def admin(admin: Kubectl) -> Kubectl:
    """With ours installed; more kinds are later, which other tests do without."""
    for definition in definitions():
        admin.apply(definition, force=True)
        served(admin, definition)
    Kubelet(admin).register(resources={"nvidia.com/gpu": "8"})
    admin.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _OPERATOR_NAMESPACE}},
        force=True,
    )
    return admin


def installed(admin: Kubectl, own_plane: ControlPlane, values: Object) -> Path:
    """The chart's rights, given; gives the kubeconfig of its ServiceAccount."""
    account, granted = "", []
    for manifest in helm.manifests(values, namespace=_OPERATOR_NAMESPACE):
        if manifest["kind"] in _RBAC:
            if manifest["kind"] not in ("ClusterRole", "ClusterRoleBinding"):
                manifest["metadata"].setdefault("namespace", _OPERATOR_NAMESPACE)
            admin.apply(manifest, force=True)
        if manifest["kind"] == "ServiceAccount":
            account = manifest["metadata"]["name"]
        if manifest["kind"] in ("ClusterRole", "Role"):
            granted += [
                (manifest["metadata"].get("namespace", ""), rule) for rule in manifest["rules"]
            ]
    token = token_of(admin, account, _OPERATOR_NAMESPACE)
    person = own_plane.user(token)
    # The API server learns of new roles and bindings by watches of its own, which are late on a busy machine.
    for namespace, rule in granted:
        until(f"{rule} to hold", functools.partial(is_allowed, person, namespace, rule))
    person.close()
    return own_plane.kubeconfig(token)


def is_allowed(person: Kubectl, namespace: str, rule: Object) -> bool:
    """Whether a person may what a rule of a role grants; of its resources and verbs the first."""
    [group, *_], [resource, *_], [verb, *_] = rule["apiGroups"], rule["resources"], rule["verbs"]
    resource, _, subresource = resource.partition("/")
    asked = {"group": group, "resource": resource, "subresource": subresource, "verb": verb}
    if rule.get("resourceNames"):
        asked["name"] = rule["resourceNames"][0]
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {**asked, "namespace": namespace}},
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    return bool(person.request("POST", path, body=review)["status"]["allowed"])


def refusals(operator: OperatorProcess) -> list[str]:
    return [line["message"] for line in operator.lines() if "forbidden" in line["message"].lower()]


def everything(admin: Kubectl, namespace: str, labels: str) -> set[str]:
    names = set()
    for kind in CHILDREN:
        try:
            names |= {kind for _ in admin.list(kind, namespace, labels=labels)}
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
    kubeconfig = installed(admin, own_plane, {})
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
            lambda: (
                everything(admin, namespace, "app.kubernetes.io/managed-by=naiad-operator")
                == wanted
                or None
            ),
        )
        plan = planned(kubeconfig, prometheus)
        assert "services: 0 would restart" in plan
        assert "forbidden" not in plan.lower()
        disturbed(admin, namespace)
        shrunk(admin, namespace)
        assert refusals(operator) == []
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
        [first, *_] = admin.list(
            kind, namespace, labels="app.kubernetes.io/managed-by=naiad-operator"
        )
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
        lambda: (
            everything(admin, namespace, "app.kubernetes.io/managed-by=naiad-operator")
            == {"Deployment", "Service"}
            or None
        ),
    )


def test_a_list_of_namespaces_with_roles_only_and_a_lease(
    own_plane: ControlPlane, admin: Kubectl, tmp_path: Path
) -> None:
    mine, theirs, other = (make_namespace(admin, name) for name in ("mine", "theirs", "other"))
    values = {"watchNamespaces": [mine, theirs], "replicas": 2}
    for manifest in (
        "naiad",
        "naiad-nodes",
        "naiad-profiles",
    ):  # what the test before gave cluster-wide
        for kind in ("ClusterRoleBinding", "ClusterRole"):
            if admin.find(kind, manifest) is not None:
                admin.delete(kind, manifest)
    kubeconfig = installed(admin, own_plane, values)
    [deployment] = [
        m
        for m in helm.manifests(values, namespace=_OPERATOR_NAMESPACE)
        if m["kind"] == "Deployment"
    ]
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    own_place = ("--http-port", "--log-")
    flags = [flag for flag in container["args"] if not flag.startswith(own_place)]
    operator = OperatorProcess(kubeconfig, *flags, log=tmp_path / "log")
    try:
        operator.wait_ready()
        for namespace in (mine, theirs, other):
            admin.create(inference_service("demo", namespace, replicas=2))
        for namespace in (mine, theirs):
            admin.wait_for("PodDisruptionBudget", "demo", namespace)
            admin.patch(
                "Deployment", "demo", namespace, body={"spec": {"replicas": 5}}, subresource="scale"
            )
            event_of(admin, "demo", namespace, reason="DriftCorrected")
        assert admin.find("Deployment", "demo", other) is None
        assert refusals(operator) == []
        assert operator.stop() == 0, operator.tail()
        assert bugs(operator.lines()) == []
    finally:
        operator.kill()

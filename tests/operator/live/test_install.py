"""The operator with the permissions that it is installed with, and no others: a verb that is missing fails here.

`manifests/install.yaml` and the chart's namespaced form are applied as a person would; then the operator runs with a token of the
ServiceAccount and the arguments of the Deployment that they made, and carries out a service that needs every kind of child.
"""

import collections.abc
import typing

import pytest

from tests.apiserver import leftovers, rights
from tests.apiserver.client import Kubectl, RefusedError, path_of, until
from tests.apiserver.control_plane import ControlPlane
from tests.apiserver.objects import (
    CHILDREN,
    CRD_NAME,
    OF_OPERATOR,
    condition,
    event_of,
    inference_service,
    installation,
)
from tests.apiserver.operator import OperatorProcess, bugs
from tests.support import helm

Manifest = dict[str, typing.Any]

FEATURES: list[Manifest] = [
    {
        "networkPolicy": {"enabled": True},
        "monitoring": {"podMonitor": True},
        "gateway": {
            "parentRefs": [{"name": "public"}],
            "hostnames": ["a.example"],
            "grpcHostnames": ["g.example"],
        },
    },
    {
        "monitoring": {"serviceMonitor": True},
        "ingress": {"enabled": True, "host": "a.example", "grpcHost": "g.example"},
    },
]
PREDICTORS: list[Manifest] = [
    {"autoscaling": {"class": "hpa", "queueTimeMs": 5}, "accelerator": {"strategy": "dra"}},
    {"autoscaling": {"class": "keda", "queueTimeMs": 5, "prometheusAddress": "http://p:9090"}},
]


@pytest.fixture(scope="module")
def own_plane(full_plane: ControlPlane) -> ControlPlane:
    """Every optional kind; and ours, which is installed again, since the garbage collector looks for kinds that came later only now and then."""
    return full_plane


_NARROW = "narrow"
_TEAMS = ("team-a", "team-b", "team-c")


@pytest.fixture(scope="module", autouse=True)
def _taken_away(admin: Kubectl) -> collections.abc.Iterator[None]:
    """In the end only the definitions stay, which other modules of the plane need."""
    yield
    for namespace in _TEAMS:
        if admin.find("Namespace", namespace):
            leftovers.empty(admin, namespace, ("InferenceService",))
    installed = [*installation(), *(narrow() if helm.AVAILABLE else ())]
    leftovers.uninstall(
        admin,
        [one for one in installed if one["kind"] not in {"CustomResourceDefinition", "Namespace"}],
    )


def narrow() -> list[Manifest]:
    """The chart for two of the teams."""
    values = {"watchNamespaces": list(_TEAMS[:2]), "replicas": 2}
    return helm.manifests(values, name=_NARROW, namespace="narrow-system")


def made(admin: Kubectl, *names: str) -> None:
    """Namespaces of these names, which a first try of a test may have made."""
    for name in names:
        admin.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


def install(plane: ControlPlane, admin: Kubectl, objects: list[Manifest]) -> tuple[str, list[str]]:
    """Apply the objects; a token of the operator's account and the arguments of its Deployment."""
    token = rights.given(plane, admin, objects)
    (deployment,) = (one for one in objects if one["kind"] == "Deployment")
    args: list[str] = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    return token, [one for one in args if not one.startswith("--http-port")]


def table(admin: Kubectl, namespace: str, name: str) -> tuple[list[str], dict[str, typing.Any]]:
    """What `kubectl get infsvc NAME -o wide` shows: the columns after the name, and the row."""
    path = path_of("InferenceService", namespace, name)
    answer = admin.request("GET", path, accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    columns = [column["name"] for column in answer["columnDefinitions"]]
    (row,) = answer["rows"]
    return columns[1:], dict(zip(columns, row["cells"], strict=True))


def carried_out(admin: Kubectl, operator: OperatorProcess, namespace: str) -> None:
    """Every kind of child comes, follows an edit, and goes."""
    wanted = set(CHILDREN)
    for number, (features, predictor) in enumerate(zip(FEATURES, PREDICTORS, strict=True)):
        service = inference_service(f"service-{number}", namespace, **predictor, spec_=features)
        admin.create(service)

    def there() -> bool | None:
        operator.check()
        found = {kind for kind in wanted if admin.list(kind, namespace, labels=OF_OPERATOR)}
        return found == wanted or None

    until(f"a child of every kind among {sorted(wanted)}", there)

    def has_status() -> bool | None:
        resource = admin.get("InferenceService", "service-0", namespace)
        return bool(condition(resource, "Ready")) or None

    until("a status", has_status)
    columns, row = table(admin, namespace, "service-0")
    assert columns[:7] == [
        "Ready",
        "Reason",
        "URL",
        "Replicas",
        "Available",
        "Accelerator",
        "Age",
    ]
    assert (row["Ready"], row["URL"], row["Accelerator"]) == (
        "False",
        "http://a.example",
        "gpu.nvidia.com",
    )
    assert row["Why"], "while it is not ready, a sentence says why"
    admin.patch("InferenceService", "service-1", namespace, body={"spec": {"suspend": True}})
    until("no ScaledObject", lambda: not admin.list("ScaledObject", namespace) or None)
    for number in range(len(FEATURES)):
        admin.delete("InferenceService", f"service-{number}", namespace)
    for kind in wanted:
        admin.gone(kind, namespace, labels=OF_OPERATOR)
    assert not rights.refusals(operator)
    assert not bugs(operator.lines())


def test_the_plain_manifests_permit_all_that_is_needed(
    own_plane: ControlPlane, admin: Kubectl, tmp_path_factory: pytest.TempPathFactory
) -> None:
    token, arguments = install(own_plane, admin, installation())
    made(admin, "anywhere")
    log = tmp_path_factory.mktemp("wide") / "operator.log"
    operator = OperatorProcess(own_plane.kubeconfig(token), *arguments, log=log)
    try:
        operator.wait_ready()
        carried_out(admin, operator, "anywhere")
    finally:
        assert operator.stop() == 0, operator.tail()


@helm.needed
def test_roles_in_chosen_namespaces_permit_all_that_is_needed_and_no_more(
    own_plane: ControlPlane, admin: Kubectl, tmp_path_factory: pytest.TempPathFactory
) -> None:
    made(admin, "narrow-system", *_TEAMS)
    objects = narrow()
    token, arguments = install(own_plane, admin, objects)
    log = tmp_path_factory.mktemp("narrow") / "operator.log"
    operator = OperatorProcess(own_plane.kubeconfig(token), *arguments, log=log)
    try:
        operator.wait_ready()
        carried_out(admin, operator, "team-b")
        user = own_plane.user(token)
        assert user.list("InferenceService", "team-a") == []
        for kind, namespace in (
            ("InferenceService", "team-c"),
            ("Secret", "team-a"),
            ("Deployment", ""),
        ):
            with pytest.raises(RefusedError, match="403"):
                user.list(kind, namespace)
        user.close()
        for namespace in _TEAMS:
            admin.create(inference_service("demo", namespace, replicas=2))
        for namespace in ("team-a", "team-b"):
            admin.wait_for("PodDisruptionBudget", "demo", namespace)
            scaled = {"spec": {"replicas": 5}}
            admin.patch("Deployment", "demo", namespace, body=scaled, subresource="scale")
            event_of(admin, "demo", namespace, reason="DriftCorrected")
        assert admin.find("Deployment", "demo", "team-c") is None
        assert not rights.refusals(operator)
    finally:
        assert operator.stop() == 0, operator.tail()


def test_a_resource_that_is_taken_away_ends_the_operator_with_a_sentence(
    own_plane: ControlPlane, admin: Kubectl, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """And the next one waits for it: a cluster's owner may delete the definition and apply it again."""
    objects = installation()
    token, arguments = install(own_plane, admin, objects)
    config = own_plane.kubeconfig(token)
    folder = tmp_path_factory.mktemp("gone")
    first = OperatorProcess(config, *arguments, log=folder / "first.log").wait_ready()
    definition = next(m for m in objects if m["metadata"]["name"] == CRD_NAME)
    admin.delete("CustomResourceDefinition", definition["metadata"]["name"])
    assert first.process.wait(60) == 1
    said = [line["message"] for line in first.lines() if line["level"] != "raw"]
    assert any("no longer serves inferenceservices" in line for line in said), first.tail()
    assert not [line for line in first.lines() if line["level"] == "raw"], "each line is JSON"
    second = OperatorProcess(config, *arguments, log=folder / "second.log")
    try:
        until("it to wait", lambda: "does not serve" in second.tail() or None)
        install(own_plane, admin, objects)
        second.wait_ready()
    finally:
        install(own_plane, admin, objects)
        assert second.stop() == 0, second.tail()

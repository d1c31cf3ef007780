"""Optional kinds that cannot be watched: rights that are missing or taken away, and a CRD that is removed."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.apiserver import foreign, leftovers
from tests.apiserver.client import Kubectl, Object, until
from tests.apiserver.control_plane import ControlPlane
from tests.apiserver.objects import (
    condition,
    inference_service,
    make_namespace,
    served,
    token_of,
)
from tests.apiserver.operator import OperatorProcess, bugs
from tests.apiserver.proxy import Proxy, proxying
from tests.support import helm

pytestmark = helm.needed

KEDA = {"autoscaling": {"class": "keda", "queueTimeMs": 5}}
MONITORED = {"spec_": {"monitoring": {"podMonitor": True}}}
ROLE = "written-by-hand"
KEDA_RULE = 'add to its role: apiGroups: ["keda.sh"], resources: [scaledobjects], verbs: [get, list, watch, create, patch, delete]'
METRIC = 'naiad_operator_unwatched{resource="scaledobjects"}'


@pytest.fixture(scope="module")
def own_plane(full_plane: ControlPlane) -> ControlPlane:
    """Every optional kind, and no rights."""
    return full_plane


@pytest.fixture(scope="module")
def here(admin: Kubectl) -> Iterator[str]:
    """A namespace; in the end there is nothing in it, and no right is left, for other modules of the plane."""
    namespace = make_namespace(admin, "watches")
    yield namespace
    leftovers.empty(admin, namespace, ("InferenceService",))
    for kind in ("ClusterRoleBinding", "ClusterRole"):
        leftovers.discard(admin, kind, ROLE)


def grant(admin: Kubectl, *, without: str = "") -> None:
    """The rights of the chart, but for one API group."""
    roles = [
        manifest
        for manifest in helm.manifests({})
        if manifest["kind"] == "ClusterRole"
        and manifest["metadata"]["name"] in {"naiad", "naiad-profiles"}
    ]
    rules = [
        rule
        for role in roles
        for rule in role["rules"]
        if without not in rule["apiGroups"] or not without
    ]
    admin.apply({**roles[0], "metadata": {"name": ROLE}, "rules": rules}, force=True)


@pytest.fixture(scope="module")
def token(admin: Kubectl, here: str) -> str:
    """Of an account that has the rights of `grant`."""
    account = {"name": ROLE, "namespace": here}
    admin.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})
    admin.create(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": ROLE},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": ROLE,
            },
            "subjects": [{"kind": "ServiceAccount", **account}],
        }
    )
    return token_of(admin, ROLE, here)


@pytest.fixture(scope="module")
def running(
    own_plane: ControlPlane, admin: Kubectl, token: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[OperatorProcess, Proxy]]:
    """An operator that may not list ScaledObjects when it starts, behind a proxy that can break its watches."""
    grant(admin, without="keda.sh")
    log = tmp_path_factory.mktemp("operator") / "log"
    with (
        proxying(own_plane.server, str(own_plane.certificates.ca)) as proxy,
        OperatorProcess(
            own_plane.kubeconfig(token, server=proxy.url),
            "--discovery-seconds=5",
            "--prometheus-address=http://prometheus.example.com:9090",
            log=log,
        ) as operator,
    ):
        yield operator.wait_ready(), proxy
        assert operator.stop() == 0, operator.tail()
        assert bugs(operator.lines()) == []


@pytest.fixture
def operator(running: tuple[OperatorProcess, Proxy]) -> OperatorProcess:
    return running[0]


@pytest.fixture
def proxy(running: tuple[OperatorProcess, Proxy]) -> Proxy:
    return running[1]


def not_named(operator: OperatorProcess, resource: str) -> bool:
    """Whether the operator is ready and names no problem with a kind."""
    answer = operator.get("/readyz")
    return answer.status_code == 200 and resource not in answer.text


def said(admin: Kubectl, name: str, namespace: str, *, type_: str, reason: str) -> Object:
    """A condition, once it has a reason."""

    def look() -> Object | None:
        given = condition(admin.get("InferenceService", name, namespace), type_)
        return given if given.get("reason") == reason else None

    return until(f"{type_} of {name} to say {reason}", look)


def test_a_right_that_is_missing_at_the_start_concerns_only_the_services_that_need_it(
    operator: OperatorProcess, admin: Kubectl, here: str
) -> None:
    for path in ("/healthz", "/readyz"):
        answer = operator.get(path)
        assert answer.status_code == 200
        assert KEDA_RULE in answer.text
    assert operator.metric(METRIC) == 1
    assert any(KEDA_RULE in line["message"] for line in operator.lines())
    admin.create(inference_service("plain", here))
    admin.create(inference_service("scaled", here, **KEDA))
    for name in ("plain", "scaled"):
        admin.wait_for("Deployment", name, here)
    refused = said(admin, "scaled", here, type_="AutoscalingReady", reason="WatchFailed")
    assert refused["status"] == "False"
    assert KEDA_RULE in refused["message"]
    plain = said(admin, "plain", here, type_="Progressing", reason="RollingOut")
    assert plain["status"] == "True"
    assert admin.find("ScaledObject", "scaled", here) is None


def test_once_the_right_is_there_the_services_are_reconciled(
    operator: OperatorProcess, admin: Kubectl, here: str
) -> None:
    grant(admin)
    admin.wait_for("ScaledObject", "scaled", here)
    until("no problem", lambda: not_named(operator, "scaledobjects"))
    assert operator.metric(METRIC) == 0

    def recovered() -> bool:
        service = admin.get("InferenceService", "scaled", here)
        return bool(condition(service, "AutoscalingReady")["reason"] != "WatchFailed")

    until("the condition", recovered)


def test_a_right_that_is_taken_away_while_it_runs_loses_no_object(
    operator: OperatorProcess, proxy: Proxy, admin: Kubectl, here: str
) -> None:
    uid = admin.get("ScaledObject", "scaled", here)["metadata"]["uid"]
    grant(admin, without="keda.sh")

    def noticed() -> bool:
        proxy.cut_watches()
        return operator.metric(METRIC) == 1

    until("the missing right to be noticed", noticed)
    kept = said(admin, "scaled", here, type_="AutoscalingReady", reason="WatchFailed")
    assert kept["status"] == "Unknown"
    # Edits still reach everything else, and nothing of the kind is deleted meanwhile.
    body = {"spec": {"predictor": {"env": [{"name": "MARK", "value": "edited"}]}}}
    admin.patch("InferenceService", "scaled", here, body=body)

    def edited() -> bool:
        pod = admin.get("Deployment", "scaled", here)["spec"]["template"]["spec"]
        return any(each["name"] == "MARK" for each in pod["containers"][0].get("env", ()))

    until("the edit", edited)
    assert admin.get("ScaledObject", "scaled", here)["metadata"]["uid"] == uid
    grant(admin)
    until("no problem", lambda: not_named(operator, "scaledobjects"))


_tries = itertools.count()
"""For names of objects that a second try of a test does not meet."""


def test_a_definition_that_is_removed_while_it_runs_stops_nothing(
    operator: OperatorProcess, admin: Kubectl, here: str
) -> None:
    [definition] = [d for d in foreign.definitions() if d["spec"]["names"]["kind"] == "PodMonitor"]
    watched, later = (f"{name}-{next(_tries)}" for name in ("watched", "later"))
    admin.create(inference_service(watched, here, **MONITORED))
    admin.wait_for("PodMonitor", watched, here)
    admin.delete("CustomResourceDefinition", definition["metadata"]["name"])
    try:
        said(admin, watched, here, type_="MonitoringReady", reason="PrometheusOperatorMissing")
        admin.create(inference_service(later, here))
        admin.wait_for("Deployment", later, here)
        assert operator.get("/healthz").status_code == 200
        until("nothing left of the kind", lambda: not_named(operator, "podmonitors"))
    finally:
        admin.apply(definition, force=True)
        served(admin, definition)
    admin.wait_for("PodMonitor", watched, here)


def test_a_required_kind_that_may_not_be_listed_is_said(
    own_plane: ControlPlane, admin: Kubectl, token: str, here: str, tmp_path: Path
) -> None:
    grant(admin, without="policy")
    try:
        with OperatorProcess(own_plane.kubeconfig(token), log=tmp_path / "log") as operator:
            rule = 'apiGroups: ["policy"], resources: [poddisruptionbudgets]'
            until("the rule in /readyz", lambda: rule in operator.get("/readyz").text)
            assert operator.get("/readyz").status_code == 503
            assert operator.get("/healthz").status_code == 200
            assert any(rule in line["message"] for line in operator.lines())
            grant(admin)
            operator.wait_ready()
            assert operator.stop() == 0
    finally:
        grant(admin)

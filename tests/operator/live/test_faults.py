"""An API server that refuses, disconnects and stops responding: the operator recovers, and loses nothing."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.apiserver.client import Kubectl, Object, until
from tests.apiserver.control_plane import OPERATOR_TOKEN, ControlPlane
from tests.apiserver.objects import inference_service, make_namespace, replicas_of, status_of
from tests.apiserver.operator import OperatorProcess
from tests.apiserver.proxy import Fault, Proxy, proxying

DEPLOYMENTS = r"/deployments/"


@pytest.fixture(scope="module")
def here(kubectl: Kubectl) -> str:
    return make_namespace(kubectl, "faults")


@pytest.fixture(scope="module")
def broken(plane: ControlPlane, start: Callable[..., OperatorProcess], here: str) -> object:
    """One operator behind one proxy, for the module: each test repairs what it breaks."""
    with proxying(plane.server, str(plane.certificates.ca)) as running:
        config = plane.kubeconfig(OPERATOR_TOKEN, server=running.url)
        operator = start(f"--watch-namespaces={here}", kubeconfig=config).wait_ready()
        yield running, operator
        running.clear()
        operator.stop()


@pytest.fixture
def proxy(broken: tuple[Proxy, OperatorProcess]) -> Proxy:
    broken[0].clear()
    return broken[0]


@pytest.fixture
def operator(broken: tuple[Proxy, OperatorProcess]) -> OperatorProcess:
    return broken[1]


def made(kubectl: Kubectl, name: str, namespace: str, *, seconds: float = 150) -> Object:
    return until(
        f"the Deployment of {name}",
        lambda: kubectl.find("Deployment", name, namespace),
        seconds=seconds,
    )


def replicas(kubectl: Kubectl, name: str, namespace: str, wanted: int) -> None:
    until(
        f"{wanted} replicas",
        lambda: replicas_of(kubectl, name, namespace) == wanted,
    )


@pytest.mark.parametrize(
    ("status", "reason"), [(409, "Conflict"), (500, "InternalError"), (503, "ServiceUnavailable")]
)
@pytest.mark.usefixtures("operator")
def test_a_refused_write_is_tried_again(
    proxy: Proxy, kubectl: Kubectl, here: str, status: int, reason: str
) -> None:
    fault = proxy.add(Fault("PATCH", DEPLOYMENTS, times=2, status=status, reason=reason))
    kubectl.create(inference_service(f"refused-{status}", here))
    made(kubectl, f"refused-{status}", here)
    assert fault.used == 2


@pytest.mark.usefixtures("operator")
def test_a_429_is_obeyed(proxy: Proxy, kubectl: Kubectl, here: str) -> None:
    refusal = Fault(
        "PATCH", DEPLOYMENTS, status=429, reason="TooManyRequests", headers={"Retry-After": "2"}
    )
    fault = proxy.add(refusal)
    kubectl.create(inference_service("many", here))
    made(kubectl, "many", here)
    assert fault.used == 1
    refused, again, *_ = [
        r for r in proxy.requests if r.method == "PATCH" and "/deployments/many" in r.path
    ]
    assert again.at - refused.at >= 2


@pytest.mark.usefixtures("operator")
def test_an_answer_that_is_lost_on_the_way_is_found_to_have_been_carried_out(
    proxy: Proxy, kubectl: Kubectl, here: str
) -> None:
    proxy.add(Fault("PATCH", DEPLOYMENTS, done=True))
    service = kubectl.create(inference_service("lost", here))
    [owner] = made(kubectl, "lost", here)["metadata"]["ownerReferences"]
    assert owner["uid"] == service["metadata"]["uid"]
    until(
        "a status",
        lambda: kubectl.get("InferenceService", "lost", here).get("status"),
    )


@pytest.mark.usefixtures("operator")
def test_a_status_that_another_writer_was_quicker_with_is_written_again(
    proxy: Proxy, kubectl: Kubectl, here: str
) -> None:
    fault = proxy.add(
        Fault("PATCH", r"/inferenceservices/stale/status", times=2, status=409, reason="Conflict")
    )
    kubectl.create(inference_service("stale", here))
    until("a status", lambda: status_of(kubectl, "stale", here))
    assert fault.used == 2


@pytest.mark.usefixtures("operator")
def test_watches_that_break_go_on_where_they_were(
    proxy: Proxy, kubectl: Kubectl, here: str
) -> None:
    kubectl.create(inference_service("cut", here, replicas=2))
    made(kubectl, "cut", here)
    for count in (4, 5):
        proxy.cut_watches()
        kubectl.patch(
            "Deployment", "cut", here, body={"spec": {"replicas": count}}, subresource="scale"
        )
        replicas(kubectl, "cut", here, 2)
    proxy.cut_watches()
    kubectl.patch("InferenceService", "cut", here, body={"spec": {"predictor": {"replicas": 3}}})
    replicas(kubectl, "cut", here, 3)


def test_a_request_that_fails_once_is_a_warning(
    proxy: Proxy, operator: OperatorProcess, kubectl: Kubectl, here: str
) -> None:
    """Of the operator's own, and of kopf's: it is sent again, and who alerts on errors in the log has nothing to do."""
    faults = [
        proxy.add(Fault("WATCH", path, status=503, reason="ServiceUnavailable"))
        for path in ("/inferenceservices$", "/services$")
    ]

    def met() -> bool:
        proxy.cut_watches()
        return all(fault.used for fault in faults)

    def said(words: str) -> bool:
        return any(words in line["message"] for line in operator.lines())

    until("the failures", met)
    until("kopf's line", lambda: said("will retry"))
    kubectl.create(inference_service("once", here))
    made(kubectl, "once", here)
    assert not [line for line in operator.lines() if line["level"] in {"error", "critical"}]


@pytest.mark.usefixtures("operator")
def test_a_version_that_is_too_old_is_listed_again(
    proxy: Proxy, kubectl: Kubectl, here: str
) -> None:
    kubectl.create(inference_service("old", here, replicas=2))
    made(kubectl, "old", here)
    expired = proxy.add(Fault("WATCH", "/deployments$", status=410, reason="Expired"))
    before = len(proxy.requests)

    def met() -> bool:
        proxy.cut_watches()  # again: a watch that was being opened is not cut by the first
        return bool(expired.used)

    until("the refusal", met)
    # Changes between two watches arrive with the list.
    kubectl.patch("Deployment", "old", here, body={"spec": {"replicas": 9}}, subresource="scale")
    replicas(kubectl, "old", here, 2)
    assert any("/deployments?limit=" in request.path for request in proxy.requests[before:])


def test_an_api_server_that_goes_away_for_a_while_is_waited_for(
    proxy: Proxy, operator: OperatorProcess, kubectl: Kubectl, here: str
) -> None:
    restarts = 'naiad_operator_watch_restarts_total{resource="deployments"}'
    before = operator.metric(restarts)
    proxy.down = True
    proxy.cut_watches()
    kubectl.create(inference_service("away", here))
    until("tries without success", lambda: operator.metric(restarts) > before + 1)
    # A restart would not help: the process is well, and says so.
    assert operator.get("/healthz").status_code == 200
    proxy.down = False
    made(kubectl, "away", here, seconds=150)


def test_reading_nodes_may_be_forbidden(
    plane: ControlPlane, kubectl: Kubectl, start: Callable[..., OperatorProcess], tmp_path: Path
) -> None:
    namespace = make_namespace(kubectl, "no-nodes")
    with proxying(plane.server, str(plane.certificates.ca)) as forbidding:
        forbidding.add(Fault("GET", "/api/v1/nodes$", times=99, status=403, reason="Forbidden"))
        config = plane.kubeconfig(OPERATOR_TOKEN, server=forbidding.url)
        operator = start(f"--watch-namespaces={namespace}", kubeconfig=config).wait_ready()
        kubectl.create(inference_service("blind", namespace))
        made(kubectl, "blind", namespace)
        operator.stop()

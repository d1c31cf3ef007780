"""What a service costs the API server, and an API server that refuses everything for a while."""

import dataclasses
import re
from collections.abc import Callable, Iterator

import pytest

from tests.apiserver import kubelet as kubelets
from tests.apiserver.client import Kubectl, Object, until
from tests.apiserver.control_plane import OPERATOR_TOKEN, ControlPlane
from tests.apiserver.kubelet import Kubelet
from tests.apiserver.objects import condition, inference_service, make_namespace, ready
from tests.apiserver.operator import OperatorProcess, in_turns
from tests.apiserver.proxy import Fault, Proxy, proxying

RESYNCS = 3
ALWAYS = 10**9


@pytest.fixture(scope="module")
def here(kubectl: Kubectl) -> str:
    return make_namespace(kubectl, "requests")


@pytest.fixture(scope="module")
def running(
    plane: ControlPlane, start: Callable[..., OperatorProcess], here: str
) -> Iterator[tuple[OperatorProcess, Proxy]]:
    with proxying(plane.server, str(plane.certificates.ca)) as proxy:
        config = plane.kubeconfig(OPERATOR_TOKEN, server=proxy.url)
        operator = start(f"--watch-namespaces={here}", "--resync-seconds=1", kubeconfig=config)
        yield operator.wait_ready(), proxy
        proxy.clear()
        operator.stop()


@pytest.fixture
def operator(running: tuple[OperatorProcess, Proxy]) -> OperatorProcess:
    return running[0]


@pytest.fixture
def proxy(running: tuple[OperatorProcess, Proxy]) -> Proxy:
    running[1].clear()
    return running[1]


def reads(proxy: Proxy, since: int) -> list[str]:
    """The paths that were read, without watches and discovery."""
    return [
        request.path
        for request in proxy.requests[since:]
        if request.method == "GET"
        and "watch=true" not in request.path
        and request.path not in ("/api", "/apis")
    ]


def resynced(operator: OperatorProcess) -> None:
    """Waits until the services were reconciled some more times."""
    before = operator.looks()
    until("resyncs", lambda: operator.looks() >= before + RESYNCS)


def test_services_at_rest_cost_no_request(
    operator: OperatorProcess, proxy: Proxy, kubectl: Kubectl, kubelet: Kubelet, here: str
) -> None:
    kubectl.create(inference_service("quiet", here))
    ready(kubectl, kubelet, "quiet", here)
    resynced(operator)
    since = len(proxy.requests)
    resynced(operator)
    assert reads(proxy, since) == []
    assert [r for r in proxy.requests[since:] if r.method != "GET"] == []


def test_nodes_are_read_only_for_a_pod_that_no_node_takes(
    operator: OperatorProcess, proxy: Proxy, kubectl: Kubectl, kubelet: Kubelet, here: str
) -> None:
    assert not any("/nodes" in request.path for request in proxy.requests)
    kubectl.create(
        inference_service("slice", here, accelerator={"type": "mig", "profile": "1g.10gb"})
    )

    def explained() -> str:
        kubelet.step(here, become=_unschedulable)
        service = kubectl.get("InferenceService", "slice", here)
        message: str = condition(service, "Progressing").get("message") or ""
        return message if "nodes offer" in message else ""

    assert "nvidia.com/gpu (8)" in until("what nodes offer", explained)
    assert len([r for r in proxy.requests if "/nodes" in r.path]) == 1
    kubectl.delete("InferenceService", "slice", here)


def _unschedulable(pod: Object) -> Object:
    if not pod["metadata"]["name"].startswith("slice"):
        return kubelets.ready(pod)
    return kubelets.unschedulable(
        pod, message="0/1 nodes are available: 1 Insufficient nvidia.com/mig-1g.10gb."
    )


def test_events_are_read_only_for_a_pod_without_a_node_and_say_whether_one_is_coming(
    proxy: Proxy, kubectl: Kubectl, kubelet: Kubelet, here: str
) -> None:
    kubectl.create(inference_service("slice-2", here))
    labels = "app.kubernetes.io/instance=slice-2"
    [pod] = until("a pod", lambda: kubelet.pods(here, labels=labels))
    name, now = pod["metadata"]["name"], kubelets.now()
    kubectl.create(
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{name}.1", "namespace": here},
            "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": name, "namespace": here},
            "type": "Normal",
            "reason": "TriggeredScaleUp",
            "message": "pod triggered scale-up: [{gpus 1->2 (max: 5)}]",
            "source": {"component": "cluster-autoscaler"},
            "firstTimestamp": now,
            "lastTimestamp": now,
        }
    )

    def said() -> bool:
        kubelet.step(here, become=_unschedulable)
        shown = condition(kubectl.get("InferenceService", "slice-2", here), "Progressing")
        return "a node that is coming (cluster-autoscaler: [{gpus" in shown.get("message", "")

    until("the node that is coming", said)
    read = [request.path for request in proxy.requests if "/events?" in request.path]
    assert 1 <= len([path for path in read if name in path]) <= 3
    assert not any("quiet" in path for path in read), "its pods have nodes"
    kubectl.delete("InferenceService", "slice-2", here)


@pytest.mark.parametrize(("mode", "surge"), [("ReadWriteOnce", 0), ("ReadWriteMany", 1)])
@pytest.mark.usefixtures("operator")
def test_the_access_modes_of_a_claim_decide_how_pods_are_replaced(
    proxy: Proxy, kubectl: Kubectl, here: str, mode: str, surge: int
) -> None:
    name = mode.lower()
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": here},
        "spec": {"accessModes": [mode], "resources": {"requests": {"storage": "1Gi"}}},
    }
    kubectl.create(claim)
    model = {
        "storageUri": "s3://models/production",
        "cache": {"type": "pvc", "claimName": name},
    }
    kubectl.create(inference_service(name, here, model=model))
    strategy = kubectl.wait_for("Deployment", name, here)["spec"]["strategy"]
    assert strategy["rollingUpdate"] == {"maxSurge": surge, "maxUnavailable": 1 - surge}
    asked = [r for r in proxy.requests if re.search(f"persistentvolumeclaims/{name}$", r.path)]
    assert len(asked) == 1


def test_an_operator_that_waits_for_the_lease_discovers_nothing(
    plane: ControlPlane, start: Callable[..., OperatorProcess], kubectl: Kubectl
) -> None:
    namespace = make_namespace(kubectl, "standby-idle")
    options = (*in_turns(namespace), "--discovery-seconds=1")
    first = start(*options).wait_ready()
    until("a leader", lambda: first.metric("naiad_operator_leader") or None)
    with proxying(plane.server, str(plane.certificates.ca)) as proxy:
        config = plane.kubeconfig(OPERATOR_TOKEN, server=proxy.url)
        second = start(*options, kubeconfig=config).wait_ready()

        def discoveries() -> int:
            return sum(request.path == "/apis" for request in proxy.requests)

        def attempts() -> int:
            return sum("/leases/" in request.path for request in proxy.requests)

        before, tried = discoveries(), attempts()
        until("attempts to get the Lease", lambda: attempts() >= tried + 3)
        # In four seconds and more; kopf has one of its own when it starts.
        assert discoveries() <= before + 1
        assert not any("/nodes" in request.path for request in proxy.requests)
        assert first.stop() == 0
        until("another leader", lambda: second.metric("naiad_operator_leader") or None)
        until("discoveries", lambda: discoveries() > before + 2)
        assert second.stop() == 0


def test_an_api_server_that_refuses_everything_for_a_while(
    operator: OperatorProcess, proxy: Proxy, kubectl: Kubectl, here: str
) -> None:
    """Every watch breaks, and no request succeeds until each kind has failed repeatedly: minutes are the same, with longer waits."""
    failed = 'naiad_operator_watch_restarts_total{resource="deployments"}'
    before = operator.metric(failed)
    busy = Fault(
        "GET", "", times=ALWAYS, status=429, reason="TooManyRequests", headers={"Retry-After": "1"}
    )
    broken = Fault("WATCH", "", times=ALWAYS, status=503, reason="ServiceUnavailable")
    faults = [busy, broken]
    faults += [dataclasses.replace(broken, method=method) for method in ("PATCH", "POST", "PUT")]
    for fault in faults:
        proxy.add(fault)
    proxy.cut_watches()
    kubectl.create(inference_service("during", here))
    until("repeated failures", lambda: operator.metric(failed) > before + 2)
    assert operator.get("/healthz").status_code == 200
    sent = sum(fault.used for fault in faults)
    assert sent < 200, "refused requests are repeated with growing waits"
    proxy.clear()
    kubectl.wait_for("Deployment", "during", here)
    until("readiness", lambda: operator.get("/readyz").status_code == 200)

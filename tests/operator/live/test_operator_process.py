"""The operator as a process: killed in the middle, two at once, one after the other, asked to stop."""

import pathlib
import signal
import socket
import time
from collections.abc import Callable

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.apiserver import metrics_port
from tests.apiserver.client import Kubectl, until
from tests.apiserver.control_plane import OPERATOR_TOKEN, ControlPlane
from tests.apiserver.kubelet import Kubelet
from tests.apiserver.objects import condition, inference_service, make_namespace, ready
from tests.apiserver.operator import OperatorProcess, at_rest, in_turns
from tests.apiserver.proxy import Fault, Proxy
from tests.support.waiting import within

Start = Callable[..., OperatorProcess]

_SERVICES = 3
"""Where several are wanted."""

_EXIT_TIMEOUT_S = 120.0
"""For a process to end that does so by itself: its start alone takes half a minute on a machine that is very busy."""

_KOPF_GIVES_S = 5.0
"""To whatever it finds running when it ends; an end without it takes a fifth of a second."""


def test_one_that_is_killed_in_a_rollout_is_followed_by_one_that_ends_it(
    kubectl: Kubectl, kubelet: Kubelet, start: Start
) -> None:
    namespace = make_namespace(kubectl, "killed")
    first = start(f"--watch-namespaces={namespace}").wait_ready()
    kubectl.create(inference_service("demo", namespace, replicas=3))
    ready(kubectl, kubelet, "demo", namespace)
    image = "registry.example.com/other:2"
    kubectl.patch(
        "InferenceService", "demo", namespace, body={"spec": {"predictor": {"image": image}}}
    )
    until(
        "the rollout",
        lambda: len(kubectl.list("ReplicaSet", namespace)) == 2 or None,
    )
    first.kill()
    # The first is gone while the pods are replaced and the spec is edited once more.
    kubelet.step(namespace)
    kubectl.patch(
        "InferenceService", "demo", namespace, body={"spec": {"predictor": {"replicas": 2}}}
    )
    start(f"--watch-namespaces={namespace}").wait_ready()
    status = ready(kubectl, kubelet, "demo", namespace)["status"]
    assert (status["replicas"], status["updatedReplicas"]) == (2, 2)


def test_it_runs_as_a_user_without_a_name(
    kubectl: Kubectl, start: Start, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in its image: the base has no entry for the number of its user."""
    nameless = "import getpass\ndef getuser():\n    raise KeyError('getpwuid(): uid not found')\ngetpass.getuser = getuser\n"
    (tmp_path / "sitecustomize.py").write_text(nameless)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    start(f"--watch-namespaces={make_namespace(kubectl, 'nameless')}").wait_ready()


def test_a_restart_with_nothing_to_do_writes_nothing(
    plane: ControlPlane, kubectl: Kubectl, kubelet: Kubelet, start: Start
) -> None:
    """Neither objects nor statuses nor Events, while pods report models that serve and models that fail."""
    namespace = make_namespace(kubectl, "restart")
    first = start(f"--watch-namespaces={namespace}").wait_ready()
    host = {
        "ingress": {"enabled": True, "host": "a.example.com"},
        "networkPolicy": {"enabled": True},
    }
    fails = {"name": "faces", "version": "1", "state": "UNAVAILABLE", "reason": "no such file"}
    serves = {"name": "digits", "version": "3", "state": "READY"}
    with metrics_port.serving([serves, fails]) as some, metrics_port.serving([fails]) as none:
        ports = {"some": some, "none": none}
        for name, port in ports.items():
            service = inference_service(
                name, namespace, replicas=2, ports={"metrics": port}, spec_=host
            )
            kubectl.create(service)

        def reported() -> bool:
            kubelet.step(namespace)
            services = [kubectl.get("InferenceService", name, namespace) for name in ports]
            return all(
                condition(it, "ModelsLoaded").get("reason") == "ModelFailed" for it in services
            )

        until("what the pods report", reported)
        before = at_rest(plane, first)
        assert first.stop() == 0
        second = start(f"--watch-namespaces={namespace}").wait_ready()
        assert second.metric('naiad_operator_reconciles_total{result="ok"}') >= len(ports)
        polls = 'naiad_operator_model_polls_total{result="ok"}'
        until("a response of each", lambda: second.metric(polls) >= len(ports))
        at_rest(plane, second)
        assert plane.audit.writes(before, namespace=namespace) == []


def test_two_at_once_come_to_the_same_end_and_then_rest(
    plane: ControlPlane, kubectl: Kubectl, kubelet: Kubelet, start: Start
) -> None:
    namespace = make_namespace(kubectl, "two")
    both = [start(f"--watch-namespaces={namespace}") for _ in range(2)]
    for each in both:
        each.wait_ready()
    for number in range(_SERVICES):
        kubectl.create(inference_service(f"demo-{number}", namespace, replicas=2))
    for number in range(_SERVICES):
        kubectl.patch(
            "InferenceService",
            f"demo-{number}",
            namespace,
            body={"spec": {"predictor": {"replicas": 3}}},
        )
    for number in range(_SERVICES):
        status = ready(kubectl, kubelet, f"demo-{number}", namespace)["status"]
        assert status["replicas"] == 3
    until(
        "both idle",
        lambda: all(not each.metric("naiad_operator_queue_failing") for each in both) or None,
    )
    at_rest(plane, *both)
    for number in range(_SERVICES):
        for kind in ("Deployment", "Service", "PodDisruptionBudget"):
            assert (
                len(kubectl.get(kind, f"demo-{number}", namespace)["metadata"]["ownerReferences"])
                == 1
            )


def test_of_two_with_a_lease_one_writes_and_the_other_takes_over(
    kubectl: Kubectl, start: Start
) -> None:
    namespace = make_namespace(kubectl, "lease")
    options = in_turns(namespace)
    first = start(*options).wait_ready()
    until("a leader", lambda: first.metric("naiad_operator_leader") or None)
    second = start(*options).wait_ready()
    kubectl.create(inference_service("one", namespace))
    until("the children", lambda: kubectl.find("Deployment", "one", namespace))
    assert second.metric("naiad_operator_leader") == 0
    assert second.metric('naiad_operator_reconciles_total{result="ok"}') == 0
    assert second.get("/healthz").status_code == 200
    holder = kubectl.get("Lease", "naiad-operator", namespace)["spec"]["holderIdentity"]
    assert first.stop() == 0
    lease = kubectl.get("Lease", "naiad-operator", namespace)
    assert lease["spec"].get("holderIdentity") != holder, "it is released, and does not expire"
    until("another leader", lambda: second.metric("naiad_operator_leader") or None)
    kubectl.create(inference_service("two", namespace))
    until("its children", lambda: kubectl.find("Deployment", "two", namespace))


def test_one_that_loses_its_lease_ends_as_failed(kubectl: Kubectl, start: Start) -> None:
    namespace = make_namespace(kubectl, "lost-lease")
    options = in_turns(namespace)
    operator = start(*options).wait_ready()
    until("a leader", lambda: operator.metric("naiad_operator_leader") or None)
    kubectl.patch(
        "Lease", "naiad-operator", namespace, body={"spec": {"holderIdentity": "another"}}
    )
    assert operator.process.wait(_EXIT_TIMEOUT_S) == 1
    assert any("the lease is lost" in line["message"] for line in operator.lines())


def test_an_operator_that_waits_for_the_api_server_logs_it_and_can_be_stopped(
    plane: ControlPlane, start: Start, proxy: Proxy
) -> None:
    proxy.add(Fault("GET", "/apis$", times=999, status=503, reason="ServiceUnavailable"))
    operator = start(kubeconfig=plane.kubeconfig(OPERATOR_TOKEN, server=proxy.url))
    line = until(
        "a line that says so",
        lambda: next((line for line in operator.lines() if "waiting" in line["message"]), None),
    )
    assert "the proxy of the tests says 503" in line["message"]
    assert operator.get("/readyz").status_code == 503
    assert operator.get("/healthz").status_code == 200
    assert operator.stop(seconds=_EXIT_TIMEOUT_S) == 0


def test_what_is_being_reconciled_when_it_is_asked_to_stop_comes_to_its_end(
    plane: ControlPlane, kubectl: Kubectl, start: Start, proxy: Proxy
) -> None:
    """Longer than the five seconds after which kopf cancels whatever is younger than itself; and nothing new is begun."""
    namespace = make_namespace(kubectl, "drain")
    config = plane.kubeconfig(OPERATOR_TOKEN, server=proxy.url)
    operator = start(f"--watch-namespaces={namespace}", kubeconfig=config).wait_ready()
    slow = proxy.add(Fault("PATCH", r"/deployments/slow", delay=7))
    kubectl.create(inference_service("slow", namespace))
    until("the slow write", lambda: slow.used or None)
    operator.process.send_signal(signal.SIGTERM)
    until("the signal", lambda: "stop requested" in operator.tail() or None)
    kubectl.create(inference_service("late", namespace))
    assert operator.stop(seconds=_EXIT_TIMEOUT_S) == 0
    assert kubectl.find("Deployment", "slow", namespace), "what was begun is done"
    assert kubectl.find("Service", "slow", namespace), "and so is the rest of it"
    assert kubectl.find("Deployment", "late", namespace) is None, "the next one's work"


def test_an_idle_operator_stops_at_once_despite_open_connections(
    kubectl: Kubectl, start: Start
) -> None:
    """Prometheus keeps its connection, and other clients may keep idle ones; kopf would give each five seconds."""
    namespace = make_namespace(kubectl, "idle")

    def stopped() -> float:
        operator = start(f"--watch-namespaces={namespace}").wait_ready()
        with (
            httpx.Client() as kept,
            socket.create_connection(("127.0.0.1", operator.port)),
        ):
            assert kept.get(f"http://127.0.0.1:{operator.port}/metrics").status_code == 200
            began = time.monotonic()
            assert operator.stop() == 0
            return time.monotonic() - began

    assert within(_KOPF_GIVES_S, stopped)


def test_an_operator_whose_port_is_taken_reports_it_and_ends(start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        # The last of an option counts.
        operator = start(f"--http-port={port}")
        assert operator.process.wait(_EXIT_TIMEOUT_S) == 1
    said = [line["message"] for line in operator.lines()]
    assert any(f"cannot listen on 127.0.0.1:{port}" in line for line in said), said
    assert not any("Unclosed" in line for line in said)


def test_each_log_line_about_a_service_names_it(kubectl: Kubectl, start: Start) -> None:
    namespace = make_namespace(kubectl, "lines")
    operator = start(f"--watch-namespaces={namespace}", "--log-level=debug").wait_ready()
    kubectl.create(inference_service("named", namespace, replicas=1))
    until("the children", lambda: kubectl.find("Deployment", "named", namespace))
    kubectl.patch(
        "Deployment", "named", namespace, body={"spec": {"replicas": 4}}, subresource="scale"
    )
    line = until(
        "a line about it",
        lambda: next(
            (line for line in operator.lines() if "put Deployment" in line["message"]), None
        ),
    )
    assert line["object"] == f"{namespace}/named"
    assert line["level"] == "info"


def test_its_metrics_page_is_one_that_prometheus_reads(kubectl: Kubectl, start: Start) -> None:
    namespace = make_namespace(kubectl, "metrics")
    operator = start(f"--watch-namespaces={namespace}").wait_ready()
    kubectl.create(inference_service("counted", namespace))
    state = (
        'naiad_operator_services{state="NewTemplate"}',
        'naiad_operator_services{state="RollingOut"}',
    )
    until("its state", lambda: any(operator.metric(name) for name in state) or None)
    families = {f.name: f for f in text_string_to_metric_families(operator.get("/metrics").text)}
    assert families["naiad_operator_queue_depth"].samples[0].value >= 0
    assert sum(s.value for s in families["naiad_operator_services"].samples) == 1
    assert families["naiad_operator_reconcile_seconds"].type == "histogram"

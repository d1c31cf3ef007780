"""Pods that wait for a node, were evicted, or crash: one condition each, and one Event at most, against a real Deployment controller."""

import itertools

import pytest

from tests.apiserver import kubelet as kubelets
from tests.apiserver.client import Kubectl, Object, until
from tests.apiserver.kubelet import Kubelet
from tests.apiserver.objects import condition, events_of, inference_service, ready
from tests.apiserver.operator import OperatorProcess
from tests.operator.live.conftest import Start

_WAIT_S = 90


@pytest.fixture(scope="module")
def operator(start: Start, namespace: str) -> OperatorProcess:
    """An operator for which a node is late after a time in which even a busy machine shows that it is not late yet."""
    options = (f"--watch-namespaces={namespace}", f"--node-wait-seconds={_WAIT_S}")
    return start(*options).wait_ready()


pytestmark = pytest.mark.usefixtures("operator")


def events(kubectl: Kubectl, name: str, namespace: str) -> list[tuple[str, str]]:
    """The types and reasons of the Events about a service."""
    return [(event["type"], event["reason"]) for event in events_of(kubectl, name, namespace)]


def shown(kubectl: Kubectl, name: str, namespace: str, type_: str) -> tuple[str, str]:
    found = condition(kubectl.get("InferenceService", name, namespace), type_)
    return found.get("status", ""), found.get("reason", "")


def test_a_pod_without_a_node_waits_and_is_late_without_any_further_event(
    kubectl: Kubectl, kubelet: Kubelet, namespace: str
) -> None:
    kubectl.create(inference_service("node", namespace))
    message = "0/1 nodes are available: 1 Insufficient memory."
    since = kubelets.now()

    def look() -> bool:
        kubelet.step(
            namespace,
            become=lambda pod: kubelets.unschedulable(pod, message=message, since=since),
        )
        return shown(kubectl, "node", namespace, "Progressing") == ("True", "WaitingForNode")

    until("Progressing to say WaitingForNode", look)
    assert shown(kubectl, "node", namespace, "Ready") == ("False", "WaitingForNode")
    assert events(kubectl, "node", namespace) == []
    # The rest of the time is short, and nothing more happens.
    since = kubelets.now(ago_s=_WAIT_S - 5)
    look()
    until(
        "Progressing to say Unschedulable",
        lambda: shown(kubectl, "node", namespace, "Progressing") == ("False", "Unschedulable"),
    )
    until("the Event", lambda: events(kubectl, "node", namespace) == [("Warning", "Unschedulable")])
    kubectl.delete("InferenceService", "node", namespace)


def test_an_evicted_pod_that_was_replaced_does_not_fail_the_next_rollout(
    kubectl: Kubectl, kubelet: Kubelet, namespace: str
) -> None:
    kubectl.create(inference_service("evicted", namespace, replicas=2))
    ready(kubectl, kubelet, "evicted", namespace)
    labels = "app.kubernetes.io/instance=evicted"
    victim = kubelet.pods(namespace, labels=labels)[0]["metadata"]["name"]

    def become(pod: Object) -> Object:
        return kubelets.evicted(pod) if pod["metadata"]["name"] == victim else kubelets.ready(pod)

    def is_replaced() -> bool:
        kubelet.step(namespace, become=become)
        return len(kubelet.pods(namespace, labels=labels)) == 3 and shown(
            kubectl, "evicted", namespace, "Ready"
        ) == ("True", "Ready")

    until("another pod in its place", is_replaced)
    kubectl.patch(
        "InferenceService",
        "evicted",
        namespace,
        body={"spec": {"predictor": {"env": [{"name": "A", "value": "b"}]}}},
    )
    reasons = set()

    def is_rolled_out() -> bool:
        kubelet.step(namespace, become=become)
        service = kubectl.get("InferenceService", "evicted", namespace)
        reasons.add(condition(service, "Ready")["reason"])
        current = service["status"].get("observedGeneration") == service["metadata"]["generation"]
        return bool(current and condition(service, "Ready")["status"] == "True")

    until("the rollout", is_rolled_out)
    deployment = kubectl.get("Deployment", "evicted", namespace)
    ready_pods = [pod for pod in kubelet.pods(namespace, labels=labels) if _is_ready(pod)]
    assert len(ready_pods) == 2
    template = ready_pods[0]["metadata"]["labels"]["pod-template-hash"]
    said = condition(deployment, "Progressing")["message"]
    assert f'"evicted-{template}"' in said, "by this message the operator knows the newest template"
    assert victim in [pod["metadata"]["name"] for pod in kubelet.pods(namespace)]
    written = {
        reason for type_, reason in events(kubectl, "evicted", namespace) if type_ == "Warning"
    }
    assert written == set()
    assert reasons <= {"Ready", "RollingOut", "NewTemplate"}
    kubectl.delete("InferenceService", "evicted", namespace)


def test_a_crash_loop_is_one_condition_and_one_event(
    kubectl: Kubectl, kubelet: Kubelet, namespace: str
) -> None:
    kubectl.create(inference_service("loop", namespace))
    states = itertools.cycle(("waiting", "running", "terminated"))
    restarts = itertools.count(2)
    seen = []

    def restarted() -> bool:
        phase = next(states)
        count = next(restarts)
        kubelet.step(
            namespace,
            become=lambda pod: kubelets.crash_looping(
                pod, message="error: no license", restarts=count, phase=phase
            ),
        )
        found = condition(kubectl.get("InferenceService", "loop", namespace), "Ready")
        if found.get("reason") == "CrashLoopBackOff":
            seen.append(found["message"])
        return len(seen) > 12

    until("a few restarts", restarted)
    assert len(set(seen)) == 1
    assert [reason for _, reason in events(kubectl, "loop", namespace)] == ["CrashLoopBackOff"]
    kubectl.delete("InferenceService", "loop", namespace)


def _is_ready(pod: Object) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any((one["type"], one["status"]) == ("Ready", "True") for one in conditions)

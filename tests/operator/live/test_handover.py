"""Replicas change hands between the resource and an autoscaler, both ways, and no pod is lost on the way."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.apiserver.client import Kubectl, until
from tests.apiserver.control_plane import OPERATOR_TOKEN, ControlPlane
from tests.apiserver.objects import condition, inference_service, make_namespace, replicas_of
from tests.apiserver.operator import OperatorProcess, at_rest
from tests.apiserver.proxy import Fault, Proxy

pytestmark = pytest.mark.usefixtures("operator")
HPA = {"class": "hpa", "minReplicas": 2, "maxReplicas": 8, "queueTimeMs": 10}


@contextmanager
def replicas_seen(plane: ControlPlane, name: str, namespace: str) -> Iterator[list[int]]:
    """Every value that the Deployment's replicas take, from a watch of its own: a dip of a moment is seen too."""
    seen: list[int] = []
    stop = threading.Event()
    started = threading.Event()

    def watch() -> None:
        kubectl = plane.admin()
        path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
        query = f"?watch=true&fieldSelector=metadata.name%3D{name}&timeoutSeconds=600"
        with kubectl.stream(path + query) as events:
            started.set()
            for event in events:
                seen.append(event["object"]["spec"]["replicas"])
                if stop.is_set():
                    return

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    assert started.wait(60)
    yield seen
    stop.set()
    # One more change, so that the watch comes round and ends.
    admin = plane.admin()
    body = {"metadata": {"annotations": {"the-end": "x"}}}
    admin.patch("Deployment", name, namespace, body=body)
    thread.join(60)
    admin.close()


def scaled(kubectl: Kubectl, name: str, namespace: str, count: int) -> None:
    """What the autoscaler does: it writes the Deployment's scale."""
    kubectl.patch(
        "Deployment", name, namespace, body={"spec": {"replicas": count}}, subresource="scale"
    )


def owner_of_replicas(kubectl: Kubectl, name: str, namespace: str) -> set[str]:
    entries: list[dict[str, Any]] = kubectl.get("Deployment", name, namespace)["metadata"][
        "managedFields"
    ]
    return {e["manager"] for e in entries if "f:replicas" in (e["fieldsV1"].get("f:spec") or {})}


def test_from_none_to_an_autoscaler_and_back(
    plane: ControlPlane, kubectl: Kubectl, namespace: str
) -> None:
    kubectl.apply(inference_service("both", namespace, replicas=4))
    until(
        "four",
        lambda: (
            (kubectl.find("Deployment", "both", namespace) or {}).get("spec", {}).get("replicas")
            == 4
            or None
        ),
    )
    with replicas_seen(plane, "both", namespace) as seen:
        kubectl.apply(inference_service("both", namespace, autoscaling=HPA))
        until("an autoscaler", lambda: kubectl.find("HorizontalPodAutoscaler", "both", namespace))
        until(
            "replicas that are not ours",
            lambda: "naiad-operator" not in owner_of_replicas(kubectl, "both", namespace) or None,
        )
        assert replicas_of(kubectl, "both", namespace) == 4
        scaled(kubectl, "both", namespace, 6)
        # Back, without naming a number: it stays what the autoscaler made it.
        kubectl.apply(inference_service("both", namespace))
        until(
            "no autoscaler",
            lambda: kubectl.find("HorizontalPodAutoscaler", "both", namespace) is None or None,
        )
        until(
            "replicas that are ours",
            lambda: "naiad-operator" in owner_of_replicas(kubectl, "both", namespace) or None,
        )
        assert replicas_of(kubectl, "both", namespace) == 6
    assert set(seen) <= {4, 6}, seen


def test_what_an_autoscaler_added_a_moment_before_it_is_switched_off_stays(
    plane: ControlPlane, kubectl: Kubectl, start: Callable[..., OperatorProcess], proxy: Proxy
) -> None:
    """Deployments and services have a watch each, and one may be late."""
    here = make_namespace(kubectl, "late")
    config = plane.kubeconfig(OPERATOR_TOKEN, server=proxy.url)
    operator = start(f"--watch-namespaces={here}", kubeconfig=config).wait_ready()
    kubectl.apply(inference_service("late", here, autoscaling=HPA))
    until("an autoscaler", lambda: kubectl.find("HorizontalPodAutoscaler", "late", here))
    until("its minimum", lambda: replicas_of(kubectl, "late", here) == 2)
    at_rest(plane, operator)
    deaf = proxy.add(Fault("WATCH", "/deployments$", silent=True))
    proxy.cut_watches()
    until("a watch that says nothing", lambda: deaf.used)
    scaled(kubectl, "late", here, 6)
    with replicas_seen(plane, "late", here) as seen:
        kubectl.apply(inference_service("late", here))
        until(
            "replicas that are ours",
            lambda: "naiad-operator" in owner_of_replicas(kubectl, "late", here),
        )
    assert set(seen) == {6}, seen
    operator.stop()


def test_replicas_that_an_autoscaler_owns_are_left_alone(kubectl: Kubectl, namespace: str) -> None:
    kubectl.apply(inference_service("left", namespace, autoscaling=HPA))
    until("an autoscaler", lambda: kubectl.find("HorizontalPodAutoscaler", "left", namespace))
    until("its minimum", lambda: replicas_of(kubectl, "left", namespace) == 2 or None)
    scaled(kubectl, "left", namespace, 5)
    # The operator applies something else to the same Deployment meanwhile.
    kubectl.apply(
        inference_service("left", namespace, autoscaling=HPA, env=[{"name": "A", "value": "1"}])
    )

    def env() -> bool | None:
        pod = kubectl.get("Deployment", "left", namespace)["spec"]["template"]["spec"]
        return any(each["name"] == "A" for each in pod["containers"][0].get("env", [])) or None

    until("the edit", env)
    assert replicas_of(kubectl, "left", namespace) == 5


def test_an_autoscaler_after_a_suspension_finds_pods_to_scale(
    kubectl: Kubectl, namespace: str
) -> None:
    manifest = inference_service("woken", namespace, autoscaling=HPA)
    kubectl.apply(manifest)
    until(
        "its minimum",
        lambda: (
            (
                kubectl.find("HorizontalPodAutoscaler", "woken", namespace)
                and replicas_of(kubectl, "woken", namespace) == 2
            )
            or None
        ),
    )
    manifest["spec"]["suspend"] = True
    kubectl.apply(manifest)
    until("none", lambda: replicas_of(kubectl, "woken", namespace) == 0 or None)
    assert kubectl.find("HorizontalPodAutoscaler", "woken", namespace) is None
    manifest["spec"]["suspend"] = False
    kubectl.apply(manifest)
    until("its minimum", lambda: replicas_of(kubectl, "woken", namespace) >= 2 or None)
    until("an autoscaler", lambda: kubectl.find("HorizontalPodAutoscaler", "woken", namespace))
    until(
        "replicas that are the autoscaler's",
        lambda: "naiad-operator" not in owner_of_replicas(kubectl, "woken", namespace) or None,
    )
    assert replicas_of(kubectl, "woken", namespace) >= 2


def test_a_scaler_of_the_users_own_writes_the_resources_scale(
    kubectl: Kubectl, namespace: str
) -> None:
    kubectl.apply(
        inference_service("external", namespace, replicas=1, autoscaling={"class": "external"})
    )
    until("a Deployment", lambda: kubectl.find("Deployment", "external", namespace))
    kubectl.patch(
        "InferenceService",
        "external",
        namespace,
        body={"spec": {"replicas": 4}},
        subresource="scale",
    )
    until("four", lambda: replicas_of(kubectl, "external", namespace) == 4 or None)


def test_a_service_that_keda_took_to_zero_stays_there_until_keda_starts_a_pod(
    kubectl: Kubectl, namespace: str
) -> None:
    """KEDA moves the Deployment between no pod and the first one; edits and resyncs of the operator do not."""
    scaling = {"class": "keda", "minReplicas": 0, "activation": {"query": "vector(1)"}}
    where = {"prometheusAddress": "http://p:9090"}
    kubectl.apply(inference_service("zero", namespace, autoscaling={**scaling, **where}))
    until("a Deployment", lambda: kubectl.find("Deployment", "zero", namespace))
    assert replicas_of(kubectl, "zero", namespace) == 1, "it loads its models once"
    scaled(kubectl, "zero", namespace, 0)
    env = [{"name": "A", "value": "1"}]
    kubectl.apply(inference_service("zero", namespace, autoscaling={**scaling, **where}, env=env))

    def edited() -> bool | None:
        pod = kubectl.get("Deployment", "zero", namespace)["spec"]["template"]["spec"]
        return any(each["name"] == "A" for each in pod["containers"][0].get("env", [])) or None

    until("the edit", edited)
    assert replicas_of(kubectl, "zero", namespace) == 0

    def reason() -> str:
        stopped = condition(kubectl.get("InferenceService", "zero", namespace), "Stopped")
        return str(stopped.get("reason", ""))

    until("a status", lambda: reason() == "ScaledToZero" or None)
    scaled(kubectl, "zero", namespace, 1)
    until("a status", lambda: reason() == "Running" or None)
    assert replicas_of(kubectl, "zero", namespace) == 1

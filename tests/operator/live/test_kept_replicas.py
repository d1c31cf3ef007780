"""A service whose spec says no number of pods: the number that it has is its own, and stays through a suspension."""

import pytest

from tests.apiserver.client import Kubectl, until
from tests.apiserver.objects import inference_service, replicas_of

pytestmark = pytest.mark.usefixtures("operator")


def kept(kubectl: Kubectl, name: str, namespace: str) -> int | None:
    status = kubectl.get("InferenceService", name, namespace).get("status") or {}
    value: int | None = status.get("keptReplicas")
    return value


def suspend(kubectl: Kubectl, name: str, namespace: str, *, on: bool) -> None:
    kubectl.patch("InferenceService", name, namespace, body={"spec": {"suspend": on}})


def test_scaling_the_deployment_is_drift_also_when_the_spec_sets_no_number(
    kubectl: Kubectl, namespace: str
) -> None:
    kubectl.create(inference_service("plain", namespace))
    until("a number", lambda: kept(kubectl, "plain", namespace) == 1 or None)
    kubectl.patch(
        "Deployment", "plain", namespace, body={"spec": {"replicas": 4}}, subresource="scale"
    )
    until("one again", lambda: replicas_of(kubectl, "plain", namespace) == 1 or None)


def test_a_number_that_an_autoscaler_left_survives_a_suspension(
    kubectl: Kubectl, namespace: str
) -> None:
    scaling = {"class": "hpa", "minReplicas": 3, "maxReplicas": 8, "queueTimeMs": 10}
    kubectl.create(inference_service("scaled", namespace, autoscaling=scaling))
    kubectl.wait_for("Deployment", "scaled", namespace)
    until("three", lambda: replicas_of(kubectl, "scaled", namespace) == 3 or None)
    assert kept(kubectl, "scaled", namespace) is None
    off = {"spec": {"predictor": {"autoscaling": None}}}
    kubectl.patch("InferenceService", "scaled", namespace, body=off)
    until("three kept", lambda: kept(kubectl, "scaled", namespace) == 3 or None)
    suspend(kubectl, "scaled", namespace, on=True)
    until("no pod", lambda: replicas_of(kubectl, "scaled", namespace) == 0 or None)
    suspend(kubectl, "scaled", namespace, on=False)
    until("three again", lambda: replicas_of(kubectl, "scaled", namespace) == 3 or None)

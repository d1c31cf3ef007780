"""What the API server accepts in a service and refuses in its children is reported at once, with the API server's message.

The CRD cannot know the fields of Kubernetes' own objects that a spec hands on (podTemplate, affinity, a metric), and a webhook of the cluster's may
refuse anything.
"""

import typing

import pytest

from tests.apiserver.client import Kubectl, Object, until
from tests.apiserver.objects import condition, inference_service, is_refused

pytestmark = pytest.mark.usefixtures("operator")

SPREAD: Object = {"topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule", "maxSkew": 1}
TYPOS: dict[str, tuple[Object, str]] = {
    "pod-field": ({"podTemplate": {"spec": {"nodeSelctor": {"a": "b"}}}}, "nodeSelctor: field not declared in schema"),
    "container-field": (
        {"podTemplate": {"spec": {"containers": [{"name": "server", "imagePullPolcy": "Always"}]}}},
        "imagePullPolcy: field not declared in schema",
    ),
    "pod-type": ({"podTemplate": {"spec": {"hostNetwork": "yes"}}}, "hostNetwork: expected boolean, got yes"),
    "annotation": ({"podTemplate": {"metadata": {"annotations": {"a": 1}}}}, "annotations.a: expected string, got 1"),
    "shape": ({"podTemplate": {"containers": []}}, "write spec.containers"),
    "affinity": ({"affinity": {"nodeAfinity": {}}}, "nodeAfinity: field not declared in schema"),
    "variable": (
        {"env": [{"name": "A", "valueFrom": {"secretKeyRf": {"name": "a", "key": "b"}}}]},
        "secretKeyRf: field not declared in schema",
    ),
    "twice": ({"podTemplate": {"spec": {"topologySpreadConstraints": [SPREAD, SPREAD]}}}, "duplicate entries for key"),
    "behavior": (
        {"autoscaling": {"class": "hpa", "queueTimeMs": 5, "behavior": {"scaleup": {}}}},
        "scaleup: field not declared in schema",
    ),
}  # fmt: skip


def ready(kubectl: Kubectl, name: str, namespace: str) -> Object:
    return condition(kubectl.get("InferenceService", name, namespace), "Ready")


def refused(
    kubectl: Kubectl, name: str, namespace: str, *, words: str, kind: str = "Ready"
) -> Object:
    def look() -> Object | None:
        shown = condition(kubectl.get("InferenceService", name, namespace), kind)
        return shown if words in shown.get("message", "") else None

    return until(f"{name} to say {words}", look)


@pytest.mark.parametrize("case", TYPOS)
def test_a_typo_in_a_kubernetes_object_is_reported(
    kubectl: Kubectl, namespace: str, case: str
) -> None:
    predictor, words = TYPOS[case]
    kubectl.create(inference_service(case, namespace, **predictor))
    # Starting pods are reported before the autoscaler.
    kind = "AutoscalingReady" if case == "behavior" else "Ready"
    reason = refused(kubectl, case, namespace, words=words, kind=kind)
    assert reason["status"] == "False"
    assert reason["reason"] in ("ApplyFailed", "InvalidSpec")
    assert "valueUnstructured" not in reason["message"]
    kubectl.delete("InferenceService", case, namespace)


def test_a_typo_that_is_fixed_is_forgotten(kubectl: Kubectl, namespace: str) -> None:
    typo: dict[str, typing.Any] = {"podTemplate": {"spec": {"nodeSelctor": {"a": "b"}}}}
    kubectl.create(inference_service("repaired", namespace, **typo))
    refused(kubectl, "repaired", namespace, words="nodeSelctor")
    patch = {"spec": {"predictor": {"podTemplate": None}}}
    kubectl.patch("InferenceService", "repaired", namespace, body=patch)
    kubectl.wait_for("Deployment", "repaired", namespace)
    until(
        "another reason",
        lambda: ready(kubectl, "repaired", namespace)["reason"] != "ApplyFailed" or None,
    )
    kubectl.delete("InferenceService", "repaired", namespace)


def test_a_webhook_that_is_down_is_reported_and_blocks_only_its_own_kind(
    kubectl: Kubectl, namespace: str
) -> None:
    """The API server responds with 500 until it is repaired; the status reports it."""
    hooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    hook = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "down"},
        "webhooks": [
            {
                "name": "down.example.com",
                "clientConfig": {"url": "https://127.0.0.1:1/"},
                "rules": [
                    {
                        "apiGroups": ["apps"],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["deployments"],
                    }
                ],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
                "timeoutSeconds": 1,
            }
        ],
    }
    labels = {"app": "any"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    any_deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "any", "namespace": namespace},
        "spec": {"selector": {"matchLabels": labels}, "template": pod},
    }
    kubectl.request("POST", hooks, body=hook)
    try:
        until(
            "the webhook to be asked",
            lambda: is_refused(kubectl, any_deployment, words="down.example.com"),
        )
        kubectl.create(inference_service("hooked", namespace))
        reason = refused(kubectl, "hooked", namespace, words="down.example.com")
        assert reason["reason"] == "ApplyFailed"
        assert kubectl.find("Service", "hooked", namespace), "the others are made"
    finally:
        kubectl.request("DELETE", f"{hooks}/down")
    until("the Deployment", lambda: kubectl.find("Deployment", "hooked", namespace))
    kubectl.delete("InferenceService", "hooked", namespace)

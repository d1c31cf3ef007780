"""What users see: the messages of failing pods, model states, the table of `kubectl get`."""

from collections.abc import Callable

import pytest

from tests.apiserver import kubelet as kubelets, metrics_port
from tests.apiserver.client import Kubectl, Object, path_of, until
from tests.apiserver.kubelet import Kubelet
from tests.apiserver.objects import condition, event_of, inference_service, is_refused, ready

pytestmark = pytest.mark.usefixtures("operator")


def reported(
    *,
    kubectl: Kubectl,
    kubelet: Kubelet,
    name: str,
    namespace: str,
    reason: str,
    become: Callable[[Object], Object],
) -> str:
    """What Ready says once the pods are as a test has them."""

    def look() -> Object | None:
        kubelet.step(namespace, become=become)
        shown = condition(kubectl.get("InferenceService", name, namespace), "Ready")
        return shown if shown.get("reason") == reason else None

    message: str = until(f"Ready to say {reason}", look)["message"]
    return message


def test_an_image_that_cannot_be_pulled(kubectl: Kubectl, kubelet: Kubelet, namespace: str) -> None:
    kubectl.create(inference_service("image", namespace))
    message = reported(
        kubectl=kubectl,
        kubelet=kubelet,
        name="image",
        namespace=namespace,
        reason="ImagePullBackOff",
        become=lambda pod: kubelets.waiting(
            pod, reason="ImagePullBackOff", message='Back-off pulling image "x"'
        ),
    )
    assert 'Back-off pulling image "x"' in message
    event = event_of(kubectl, "image", namespace, reason="ImagePullBackOff")
    assert event["type"] == "Warning"
    kubectl.delete("InferenceService", "image", namespace)


def test_a_crashing_container_is_reported_with_its_last_error_line(
    kubectl: Kubectl, kubelet: Kubelet, namespace: str
) -> None:
    kubectl.create(inference_service("crash", namespace))
    message = reported(
        kubectl=kubectl,
        kubelet=kubelet,
        name="crash",
        namespace=namespace,
        reason="CrashLoopBackOff",
        become=lambda pod: kubelets.crash_looping(pod, message="error: no such bucket: production"),
    )
    assert "no such bucket: production" in message
    kubectl.delete("InferenceService", "crash", namespace)


def test_a_slice_that_no_node_offers_is_reported_with_what_nodes_offer(
    kubectl: Kubectl, kubelet: Kubelet, namespace: str
) -> None:
    wanted = {"type": "mig", "profile": "1g.10gb"}
    kubectl.create(inference_service("slice", namespace, accelerator=wanted))
    message = reported(
        kubectl=kubectl,
        kubelet=kubelet,
        name="slice",
        namespace=namespace,
        reason="AcceleratorUnavailable",
        become=lambda pod: kubelets.unschedulable(
            pod,
            message="0/1 nodes are available: 1 Insufficient nvidia.com/mig-1g.10gb.",
            since="2026-01-31T12:00:00Z",
        ),
    )
    assert "nvidia.com/mig-1g.10gb" in message
    kubectl.delete("InferenceService", "slice", namespace)


def test_a_quota_that_is_spent(kubectl: Kubectl, kubelet: Kubelet, namespace: str) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "none", "namespace": namespace},
        "spec": {"hard": {"pods": "0"}},
    }
    kubectl.create(quota)
    container = {"name": "c", "image": "i"}
    metadata = {"name": "any", "namespace": namespace}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [container]},
    }
    until("the quota to hold", lambda: is_refused(kubectl, pod, words="exceeded quota"))
    kubectl.create(inference_service("quota", namespace))
    message = reported(
        kubectl=kubectl,
        kubelet=kubelet,
        name="quota",
        namespace=namespace,
        reason="QuotaExceeded",
        become=kubelets.ready,
    )
    assert "exceeded quota" in message
    kubectl.delete("ResourceQuota", "none", namespace)
    kubectl.delete("InferenceService", "quota", namespace)


NO_FILE = {
    "name": "digits",
    "version": "3",
    "state": "UNAVAILABLE",
    "reason": "no file model.onnx",
}
NO_FIELD = {
    "name": "faces",
    "version": None,
    "state": "UNAVAILABLE",
    "reason": "config.pbtxt:1: no such field",
}


def test_the_models_of_a_ready_pod_are_in_the_status(
    kubectl: Kubectl, kubelet: Kubelet, namespace: str
) -> None:
    with metrics_port.serving([NO_FILE, NO_FIELD]) as port:
        kubectl.create(inference_service("models", namespace, ports={"metrics": port}))

        def look() -> Object | None:
            kubelet.step(namespace)
            service = kubectl.get("InferenceService", "models", namespace)
            return service if (service.get("status") or {}).get("models") else None

        service = until("the models", look)
        assert service["status"]["models"] == [NO_FILE, {**NO_FIELD, "version": ""}]
        assert condition(service, "ModelsLoaded")["reason"] == "ModelFailed"
        assert "no file model.onnx" in condition(service, "ModelsLoaded")["message"]
    kubectl.delete("InferenceService", "models", namespace)


def test_kubectl_get_shows_what_a_person_asks_for(
    kubectl: Kubectl, kubelet: Kubelet, namespace: str
) -> None:
    kubectl.create(inference_service("table", namespace))
    ready(kubectl, kubelet, "table", namespace)
    table = kubectl.request(
        "GET",
        path_of("InferenceService", namespace),
        accept="application/json;as=Table;v=v1;g=meta.k8s.io",
    )
    columns = [column["name"] for column in table["columnDefinitions"] if not column["priority"]]
    [cells] = [r["cells"] for r in table["rows"] if r["object"]["metadata"]["name"] == "table"]
    row = dict(zip(columns, cells, strict=False))
    assert (row["Ready"], row["Reason"]) == ("True", "Ready")
    assert (row["Replicas"], row["Available"], row["Accelerator"]) == (1, 1, "none")
    assert "Why" not in row, "up to a thousand characters: only with -o wide"
    assert row["URL"].startswith("http://table.")

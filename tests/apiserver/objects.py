"""Small objects that many tests make, and questions that many tests ask of them."""

import itertools
from pathlib import Path
from typing import Any

import yaml

from tests.apiserver.client import NAIAD, Kubectl, Object, RefusedError, path_of, until
from tests.apiserver.kubelet import Kubelet

_ROOT = Path(__file__).parents[2]
_CRDS = _ROOT / "crds"
CRD_NAME = "inferenceservices.serving.naiad.dev"
CHILDREN = (
    "Deployment",
    "Service",
    "HorizontalPodAutoscaler",
    "PodDisruptionBudget",
    "Ingress",
    "NetworkPolicy",
    "ResourceClaimTemplate",
    "ScaledObject",
    "HTTPRoute",
    "GRPCRoute",
    "PodMonitor",
    "ServiceMonitor",
)
"""The kinds of objects that the operator makes for a service."""
OF_OPERATOR = "app.kubernetes.io/managed-by=naiad-operator"
"""A selector of these objects."""


def definitions() -> list[Object]:
    """The CustomResourceDefinitions of this release."""
    return [
        yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted(_CRDS.glob("*.yaml"))
    ]


def installation() -> list[Object]:
    """The objects of `manifests/install.yaml`."""
    text = (_ROOT / "manifests" / "install.yaml").read_text(encoding="utf-8")
    return list(yaml.safe_load_all(text))


def make_namespace(kubectl: Kubectl, like: str) -> str:
    """Makes a namespace, named after what it is for; a test that is repeated gets another one, since its first run has left its own."""
    stem = like.replace("_", "-").removeprefix("test-")
    taken = {namespace["metadata"]["name"] for namespace in kubectl.list("Namespace")}
    numbered = (f"{stem}-{number}" for number in itertools.count(2))
    name = next(name for name in itertools.chain((stem,), numbered) if name not in taken)
    kubectl.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return name


def served(kubectl: Kubectl, definition: Object) -> None:
    """Waits until the API server serves the kind of a CustomResourceDefinition, which it does not yet when it has taken the definition."""
    spec = definition["spec"]
    version = next(each["name"] for each in spec["versions"] if each["served"])
    path = f"/apis/{spec['group']}/{version}/{spec['names']['plural']}"

    def look() -> bool:
        try:
            kubectl.request("GET", f"{path}?limit=1")
        except RefusedError as refused:
            if refused.code not in (404, 429, 503):
                raise
            return False
        return True

    until(f"{definition['metadata']['name']} to be served", look)


def is_refused(kubectl: Kubectl, manifest: Object, *, words: str) -> bool:
    """Whether the API server would refuse to make this object now, in these words; it learns of a change a moment after it was written."""
    try:
        kubectl.create(manifest, dry_run=True)
    except RefusedError as refused:
        return words in str(refused)
    return False


def token_of(kubectl: Kubectl, account: str, namespace: str) -> str:
    """A token of a ServiceAccount, as its pods get one."""
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    path = f"{path_of('ServiceAccount', namespace, account)}/token"
    token: str = kubectl.request("POST", path, body=asked)["status"]["token"]
    return token


def ready(kubectl: Kubectl, kubelet: Kubelet, name: str, namespace: str) -> Object:
    """Plays the node until a service is ready in its present generation."""

    def look() -> Object | None:
        kubelet.step(namespace)
        service = kubectl.get("InferenceService", name, namespace)
        status, generation = service.get("status") or {}, service["metadata"]["generation"]
        current = status.get("observedGeneration") == generation
        return service if current and is_true(service, "Ready") else None

    return until(f"{name} to be ready", look)


def inference_service(name: str, namespace: str, **predictor: Any) -> Object:
    """An InferenceService without an accelerator, with other predictor fields as given; `spec_` holds the rest."""
    rest = predictor.pop("spec_", {})
    full = {
        "model": {"storageUri": "s3://models/production"},
        "accelerator": {"type": "none"},
        **predictor,
    }
    return {
        "apiVersion": NAIAD,
        "kind": "InferenceService",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"predictor": full, **rest},
    }


def status_of(kubectl: Kubectl, name: str, namespace: str) -> Object | None:
    """The status that an operator has written to a service; None before the first."""
    status: Object = kubectl.get("InferenceService", name, namespace).get("status") or {}
    return status if status.get("conditions") else None


def condition(thing: Object, kind: str) -> Object:
    """One of its conditions; empty where it has none such."""
    for each in (thing.get("status") or {}).get("conditions") or ():
        if each["type"] == kind:
            return dict(each)
    return {}


def is_true(thing: Object, kind: str) -> bool:
    """Whether a condition holds."""
    return condition(thing, kind).get("status") == "True"


def replicas_of(kubectl: Kubectl, name: str, namespace: str) -> int:
    """How many pods a Deployment should have."""
    count: int = kubectl.get("Deployment", name, namespace)["spec"]["replicas"]
    return count


def events_of(kubectl: Kubectl, name: str, namespace: str) -> list[Object]:
    """The Events about a service, oldest first."""
    found = [
        event
        for event in kubectl.list("Event", namespace)
        if event["involvedObject"].get("name") == name
        and event["involvedObject"].get("kind") == "InferenceService"
    ]
    return sorted(found, key=lambda event: int(event["metadata"]["resourceVersion"]))


def event_of(kubectl: Kubectl, name: str, namespace: str, *, reason: str) -> Object:
    """The first Event about a service with a reason, once it is there: an Event is written after the status that it tells of."""

    def look() -> Object | None:
        events = events_of(kubectl, name, namespace)
        return next((event for event in events if event["reason"] == reason), None)

    return until(f"an Event {reason} about {name}", look)


def deployed(kubectl: Kubectl, name: str, namespace: str) -> None:
    """Creates an ordinary service, and waits for its Deployment."""
    kubectl.create(inference_service(name, namespace))
    kubectl.wait_for("Deployment", name, namespace)

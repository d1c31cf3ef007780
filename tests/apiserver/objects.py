"""Small objects that many tests make, and questions that many tests ask of them."""

from typing import Any

from tests.apiserver.client import NAIAD, Kubectl, Object, until


def make_namespace(kubectl: Kubectl, like: str) -> str:
    """Makes a namespace, named after what it is for."""
    name = like.replace("_", "-").removeprefix("test-")
    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    kubectl.create(manifest)
    return name


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


def condition(thing: Object, kind: str) -> Object:
    """One of its conditions; empty where it has none such."""
    for each in (thing.get("status") or {}).get("conditions") or ():
        if each["type"] == kind:
            return dict(each)
    return {}


def is_true(thing: Object, kind: str) -> bool:
    """Whether a condition holds."""
    return condition(thing, kind).get("status") == "True"


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
        told = events_of(kubectl, name, namespace)
        return next((event for event in told if event["reason"] == reason), None)

    return until(f"an Event {reason} about {name}", look)

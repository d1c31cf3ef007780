"""Objects that were stored under the CRD of the first release stay valid under the present one."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.apiserver import leftovers
from tests.apiserver.client import Kubectl, Object, RefusedError, until
from tests.apiserver.objects import CRD_NAME, definitions, inference_service, make_namespace, served

pytestmark = pytest.mark.slow

DATA = Path(__file__).parents[2] / "data" / "operator"
GROUP = "stored.naiad.test"
"""Of its own, so that the definition can be changed beside that of the other tests."""
API = f"{GROUP}/v1alpha1"
STATUS: Object = {
    "observedGeneration": 1,
    "conditions": [
        {
            "type": "Ready",
            "status": "False",
            "reason": "CrashLoopBackOff",
            "message": "why",
            "lastTransitionTime": "2026-01-31T12:00:00Z",
            "observedGeneration": 1,
        }
    ],
    "url": "http://a",
    "grpcUrl": "a:1",
    "address": {"url": "http://a", "grpcUrl": "a:1"},
    "replicas": 1,
    "readyReplicas": 1,
    "updatedReplicas": 1,
    "availableReplicas": 1,
    "keptReplicas": 1,
    "selector": "a=b",
    "accelerator": {"resourceName": "nvidia.com/gpu", "strategy": "mixed", "count": 1},
    "image": {"name": "naiad", "forPods": "0123456789abcdef"},
    "modelStatus": {
        "transitionStatus": "BlockedByFailedLoad",
        "copies": {"totalCopies": 1, "failedCopies": 1},
        "lastFailureInfo": {"reason": "a", "message": "b", "pod": "c", "exitCode": 1, "time": "d"},
    },
    "models": [{"name": "a", "version": "1", "state": "READY", "reason": ""}],
    "modelCount": "1/1",
}


def first_definition() -> Object:
    found: Object = yaml.safe_load((DATA / "crd-0.1.0.yaml").read_text(encoding="utf-8"))
    return found


def elsewhere(definition: Object) -> Object:
    """The definition in a group of the test's own."""
    spec = {**definition["spec"], "group": GROUP}
    metadata = {"name": f"{spec['names']['plural']}.{GROUP}"}
    return {**definition, "metadata": metadata, "spec": spec}


def stored() -> list[Object]:
    text = (DATA / "stored-0.1.0.yaml").read_text(encoding="utf-8")
    return list(yaml.safe_load_all(text))


def fields_of(schema: Object, path: str = "") -> set[str]:
    """The paths of all fields of a schema."""
    paths = {path} if path else set()
    for name, below in schema.get("properties", {}).items():
        paths |= fields_of(below, f"{path}.{name}")
    items = schema.get("items")
    return paths | fields_of(items, f"{path}[]") if isinstance(items, dict) else paths


def written(value: Any, path: str = "") -> set[str]:
    """The paths of all fields of an object."""
    paths = {path} if path else set()
    if isinstance(value, dict):
        for name, below in value.items():
            paths |= written(below, f"{path}.{name}")
    elif isinstance(value, list):
        for below in value:
            paths |= written(below, f"{path}[]")
    return paths


def test_the_recorded_objects_have_every_field_of_the_first_release() -> None:
    schema = first_definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    objects = {path for one in stored() for path in written(one["spec"])}
    assert fields_of(schema["spec"]) - objects == set()
    assert fields_of(schema["status"]) - written(STATUS) == set()


def test_stored_objects_can_be_changed_under_the_present_definition(kubectl: Kubectl) -> None:
    namespace = make_namespace(kubectl, "stored")
    (found,) = (one for one in definitions() if one["metadata"]["name"] == CRD_NAME)
    present = elsewhere(found)
    try:
        kubectl.create(elsewhere(first_definition()))
        served(kubectl, present)
        changed_under(kubectl, present, namespace)
    finally:
        leftovers.uninstall(kubectl, [present])


def changed_under(kubectl: Kubectl, present: Object, namespace: str) -> None:
    """Stores the objects of the first release, has the present definition applied, and changes them."""
    objects = [
        kubectl.create(
            {
                "apiVersion": API,
                "kind": "InferenceService",
                "metadata": {"name": f"demo-{number}", "namespace": namespace},
                "spec": one["spec"],
            }
        )
        for number, one in enumerate(stored())
    ]
    for one in objects:
        kubectl.replace_status({**one, "status": STATUS})
    kubectl.apply(present, force=True)

    def is_known() -> bool:
        new = inference_service("new", namespace, serverVersion="0.2.0")
        try:
            kubectl.create({**new, "apiVersion": API}, dry_run=True)
        except RefusedError as refused:
            if refused.code != 400:
                raise
            return False
        return True

    until("the present definition", is_known)
    for one in objects:
        name = one["metadata"]["name"]
        body = {"metadata": {"annotations": {"note": "after"}}}
        live = kubectl.patch("InferenceService", name, namespace, body=body, api=API)
        assert live["status"] == STATUS, "nothing of it was pruned"
        changed = {**STATUS, "replicas": 2}
        live = kubectl.replace_status({**live, "status": changed})
        assert live["status"] == changed
        scaled = {"spec": {"suspend": True}}
        kubectl.patch("InferenceService", name, namespace, body=scaled, api=API)

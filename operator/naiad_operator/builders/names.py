"""Names and labels of children. Selectors contain only the operator's labels and never change, so no object has to be recreated."""

import collections.abc
import typing

from naiad_operator.api import names
from naiad_operator.api.parsing.service import InferenceService

Manifest = dict[str, typing.Any]

NAME_LABEL = "app.kubernetes.io/name"
INSTANCE_LABEL = "app.kubernetes.io/instance"
MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
COMPONENT_LABEL = "app.kubernetes.io/component"

CANARY = "canary"
"""The component label of a canary's objects; those of the service itself have another."""
MANAGED_BY = "naiad-operator"
CHILD_SELECTOR = f"{MANAGED_BY_LABEL}={MANAGED_BY}"
"""The label selector of every object the operator owns."""


def selector(service: InferenceService) -> dict[str, str]:
    """The labels that select the pods of a service."""
    return {
        NAME_LABEL: "naiad",
        INSTANCE_LABEL: service.instance,
        COMPONENT_LABEL: service.component or (CANARY if service.canary_of else "server"),
    }


def own_labels(service: InferenceService) -> dict[str, str]:
    """The operator's own labels, which every child and pod has and nothing overrides."""
    return {**selector(service), MANAGED_BY_LABEL: MANAGED_BY}


def labels(service: InferenceService) -> dict[str, str]:
    """The labels of every child and pod: the service's `spec.labels`, and the operator's own."""
    return {**(service.spec.labels or {}), **own_labels(service)}


def annotations(
    service: InferenceService, more: collections.abc.Mapping[str, str] | None = None
) -> dict[str, str]:
    """The annotations of a child or pod: the service's `spec.annotations`, and the object's own, which take precedence."""
    return {**(service.spec.annotations or {}), **(more or {})}


def owner_reference(service: InferenceService) -> dict[str, typing.Any]:
    """The owner reference, by which the garbage collector deletes a child with its service."""
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "name": service.instance,
        "uid": service.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def child(
    service: InferenceService,
    api_version: str,
    kind: str,
    *,
    name: str = "",
    own_annotations: collections.abc.Mapping[str, str] | None = None,
) -> Manifest:
    """The apiVersion, kind and metadata of a child's manifest; `name` defaults to the service's name."""
    metadata: dict[str, typing.Any] = {
        "name": name or service.name,
        "namespace": service.namespace,
        "labels": labels(service),
        "ownerReferences": [owner_reference(service)],
    }
    written = annotations(service, own_annotations)
    if written:
        metadata["annotations"] = written
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}

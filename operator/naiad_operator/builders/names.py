"""Names and labels of children. Selectors hold only labels of ours and never change, so nothing is ever recreated for them."""

import typing

from naiad_operator.api import names
from naiad_operator.api.service import InferenceService

Manifest = dict[str, typing.Any]

NAME_LABEL = "app.kubernetes.io/name"
INSTANCE_LABEL = "app.kubernetes.io/instance"
MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
COMPONENT_LABEL = "app.kubernetes.io/component"

MANAGED_BY = "naiad-operator"
CHILD_SELECTOR = f"{MANAGED_BY_LABEL}={MANAGED_BY}"
"""The label selector of every object the operator owns."""


def selector(service: InferenceService) -> dict[str, str]:
    """What picks the pods of a service."""
    return {
        NAME_LABEL: "naiad",
        INSTANCE_LABEL: service.name,
        COMPONENT_LABEL: "server",
    }


def labels(service: InferenceService) -> dict[str, str]:
    """What every child and pod carries."""
    return {**selector(service), MANAGED_BY_LABEL: MANAGED_BY}


def owner_reference(service: InferenceService) -> dict[str, typing.Any]:
    """Makes the garbage collector delete a child with its service."""
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "name": service.name,
        "uid": service.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def child(service: InferenceService, api_version: str, kind: str, *, name: str = "") -> Manifest:
    """The head of a child's manifest; `name` is the service's own when not given."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {
            "name": name or service.name,
            "namespace": service.namespace,
            "labels": labels(service),
            "ownerReferences": [owner_reference(service)],
        },
    }

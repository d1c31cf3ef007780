"""Generates the CustomResourceDefinition from the typed model. `make generate` writes it to crds/ and to the chart."""

import typing

from naiad_operator.api import names, rules, schema
from naiad_operator.api.spec import Spec
from naiad_operator.api.status import Status

Manifest = dict[str, typing.Any]


def _column(name: str, type_: str, path: str, description: str, *, wide: bool = False) -> Manifest:
    column: Manifest = {"name": name, "type": type_, "jsonPath": path, "description": description}
    if wide:
        column["priority"] = 1
    return column


def _condition(type_: str, field: str) -> str:
    return f'.status.conditions[?(@.type=="{type_}")].{field}'


COLUMNS = (
    _column(
        "Ready", "string", _condition("Ready", "status"), "Whether the service is as specified."
    ),
    _column("Reason", "string", _condition("Ready", "reason"), "Why, in one word."),
    _column("URL", "string", ".status.url", "Where clients reach HTTP."),
    _column("Replicas", "integer", ".status.replicas", "All pods."),
    _column("Available", "integer", ".status.availableReplicas", "Pods that serve."),
    _column("Accelerator", "string", ".status.accelerator.resourceName", "What each pod requests."),
    _column("Age", "date", ".metadata.creationTimestamp", "When it was created."),
    _column("Why", "string", _condition("Ready", "message"), "Why it is not ready.", wide=True),
    _column(
        "Models",
        "string",
        ".status.modelCount",
        "Ready models, and those that should be.",
        wide=True,
    ),
    _column("gRPC", "string", ".status.grpcUrl", "Where clients reach gRPC.", wide=True),
    _column("Image", "string", ".status.image.name", "The server's image.", wide=True),
    _column(
        "Canary",
        "integer",
        ".status.canary.weight",
        "How many of 100 requests the canary gets.",
        wide=True,
    ),
)
"""The columns of `kubectl get infsvc`, the last four with `-o wide`."""


def definition() -> Manifest:
    """The CustomResourceDefinition."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": names.CRD_NAME, "labels": {"app.kubernetes.io/name": "naiad"}},
        "spec": {
            "group": names.GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": names.KIND,
                "listKind": names.LIST_KIND,
                "plural": names.PLURAL,
                "singular": names.SINGULAR,
                "shortNames": [names.SHORT_NAME],
                "categories": ["naiad"],
            },
            "versions": [
                {
                    "name": names.VERSION,
                    "served": True,
                    "storage": True,
                    "additionalPrinterColumns": list(COLUMNS),
                    "subresources": {
                        "status": {},
                        "scale": {
                            "specReplicasPath": ".spec.predictor.replicas",
                            "statusReplicasPath": ".status.replicas",
                            "labelSelectorPath": ".status.selector",
                        },
                    },
                    "schema": {"openAPIV3Schema": _root()},
                }
            ],
        },
    }


def _root() -> Manifest:
    status = schema.of(Status)
    status["properties"]["conditions"].update(
        {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
    )
    return {
        "type": "object",
        "description": "A model server: its models, accelerators, number of pods, and how it is reached.",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {
                "type": "object",
                # Every object has a name; it is declared because a rule can only refer to declared fields.
                "properties": {"name": {"type": "string", "maxLength": 253}},
            },
            "spec": {"description": schema.descriptions(Spec)[""], **schema.of(Spec)},
            "status": {"description": schema.descriptions(Status)[""], **status},
        },
        "x-kubernetes-validations": [schema.validation(rule) for rule in rules.ROOT],
    }

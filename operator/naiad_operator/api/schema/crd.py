"""Generates the CustomResourceDefinitions from the typed model. `make generate` writes them to crds/ and to the chart."""

import typing

from naiad_operator.api import names
from naiad_operator.api.schema import openapi
from naiad_operator.api.schema.resources import PROFILE, SERVICE, CustomResource
from naiad_operator.api.types.status import NOT_OBSERVED
from naiad_operator.api.types.structs import Part

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
_COLUMNS = {
    SERVICE.kind: COLUMNS,
    PROFILE.kind: (
        _column(
            "Default", "boolean", ".spec.default", "Whether services without a profile use it."
        ),
        _column("Image", "string", ".spec.image", "The server's image."),
        _column("Age", "date", ".metadata.creationTimestamp", "When it was created."),
    ),
}
_SCALE = {
    "specReplicasPath": ".spec.predictor.replicas",
    "statusReplicasPath": ".status.replicas",
    "labelSelectorPath": ".status.selector",
}


def definition(resource: CustomResource = SERVICE) -> Manifest:
    """The CustomResourceDefinition of a custom resource."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": resource.crd_name, "labels": {"app.kubernetes.io/name": "naiad"}},
        "spec": {
            "group": names.GROUP,
            "scope": "Namespaced" if resource.is_namespaced else "Cluster",
            "names": {
                "kind": resource.kind,
                "listKind": f"{resource.kind}List",
                "plural": resource.plural,
                "singular": resource.kind.lower(),
                "shortNames": [resource.short_name],
                "categories": ["naiad"],
            },
            "versions": [
                {
                    "name": names.VERSION,
                    "served": True,
                    "storage": True,
                    "additionalPrinterColumns": list(_COLUMNS[resource.kind]),
                    **(
                        {"subresources": {"status": {}, "scale": _SCALE}} if resource.status else {}
                    ),
                    "schema": {"openAPIV3Schema": _root(resource)},
                }
            ],
        },
    }


def _root(resource: CustomResource) -> Manifest:
    properties: Manifest = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {
            "type": "object",
            # Every object has a name; it is declared because a rule can only refer to declared fields.
            "properties": {"name": {"type": "string", "maxLength": 253}},
        },
        "spec": _described(resource.spec),
    }
    fields = properties["spec"]["properties"]
    if "canary" in fields:
        _leave_out_repeated(fields["canary"], fields["predictor"])
    if resource.status is not None:
        # Until the operator has written one: readers that know no other sign (kstatus, Flux) take a resource without conditions for ready.
        properties["status"] = {"default": NOT_OBSERVED, **_described(resource.status)}
        properties["status"]["properties"]["conditions"].update(
            {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
        )
    root: Manifest = {
        "type": "object",
        "description": resource.description,
        "required": ["spec"],
        "properties": properties,
    }
    if resource.rules:
        root["x-kubernetes-validations"] = [openapi.validation(rule) for rule in resource.rules]
    return root


def _leave_out_repeated(part: Manifest, told: Manifest) -> None:
    """Takes the descriptions out of a part that another one has at the same place: whole, the definition would not fit into an annotation."""
    for name, below in part.get("properties", {}).items():
        before = told.get("properties", {}).get(name, {})
        if below.get("description") == before.get("description"):
            below.pop("description", None)
        _leave_out_repeated(below, before)
    for keyword in ("items", "additionalProperties"):
        if isinstance(part.get(keyword), dict) and isinstance(told.get(keyword), dict):
            _leave_out_repeated(part[keyword], told[keyword])


def _described(part: type[Part]) -> Manifest:
    return {"description": openapi.descriptions(part)[""], **openapi.schema_of(part)}

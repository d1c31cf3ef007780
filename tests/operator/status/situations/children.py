"""What a cluster can show of a service, and what its Ready condition then says: children that belong to others, are refused or go."""

from naiad_operator.api import names
from naiad_operator.api.parsing import service
from naiad_operator.status import ApiError, Conflict
from tests.operator.status.parts import Manifest, spec
from tests.support.observations import (
    deployment,
)

PROFILE = service.parse_profile(
    {
        "apiVersion": names.API_VERSION,
        "kind": names.PROFILE_KIND,
        "metadata": {"name": "gold"},
        "spec": {"podTemplate": {"spec": {"hostname": "a"}}},
    }
)

NOT: dict[str, tuple[Manifest, tuple[str, str]]] = {
    "the Deployment has another owner": (
        {"children": {("Deployment", "demo"): None}, "conflicts": [Conflict("Deployment", "demo", "Helm release web")]},
        (
            "ResourceConflict",
            "Deployment demo exists already and belongs to Helm release web: delete it, or give this service another name",
        ),
    ),
    "the Service has no owner": (
        {"conflicts": [Conflict("Service", "demo", "")]},
        ("ResourceConflict", "Service demo exists already and has no owner: delete it, or give this service another name"),
    ),
    "an Ingress that is wanted again is held by a finalizer": (
        {"resource": spec(ingress={"enabled": True, "host": "a.example"}), "terminating": [("Ingress", "demo")]},
        ("BeingDeleted", "Ingress demo is still being deleted; it is made again once it is gone"),
    ),
    "the Deployment of the service that had this name goes": (
        {"children": {("Deployment", "demo"): None}, "terminating": [("Deployment", "demo")]},
        ("BeingDeleted", "Deployment demo is still being deleted; it is made again once it is gone"),
    ),
    "pods that are too many end": (
        {"children": {("Deployment", "demo"): deployment(1, total=4)}},
        ("RollingOut", "4 pods are there and 1 wanted: the others are being ended"),
    ),
    "the Deployment is refused": (
        {"errors": [ApiError("Deployment", "demo", 'strict decoding error: unknown field "spec.template.spec.x"')]},
        ("ApplyFailed", 'Deployment demo was refused: strict decoding error: unknown field "spec.template.spec.x"'),
    ),
    "the Deployment is refused, and a profile has a part in it": (
        {"errors": [ApiError("Deployment", "demo", ".spec.a: field not declared in schema")], "profile": PROFILE},
        ("ApplyFailed", "Deployment demo was refused: .spec.a: field not declared in schema (with the fields of the NaiadProfile gold)"),
    ),
    "the Ingress is refused": (
        {"resource": spec(ingress={"enabled": True, "host": "a.example"}), "errors": [ApiError("Ingress", "demo", "host taken")]},
        ("ApplyFailed", "Ingress demo was refused: host taken"),
    ),
}  # fmt: skip

"""The device request of a pod: an extended resource or a resource claim, and the node labels it requires."""

import dataclasses
import hashlib
import json
import typing

from naiad_operator.api.parsing.service import InferenceService
from naiad_operator.api.types.accelerator import Accelerator
from naiad_operator.api.types.spec import Predictor
from naiad_operator.builders import kinds, names
from naiad_operator.builders.facts import ClusterFacts
from naiad_operator.errors import InvalidSpec, Problem

Object = dict[str, typing.Any]

GPU = "nvidia.com/gpu"
PRODUCT_LABEL = "nvidia.com/gpu.product"
SLICES_LABEL = "nvidia.com/gpu.slices.gi"
"""On a node only where nvidia.com/gpu is a MIG slice, the strategy `single`: `nvidia.com/mig.strategy` is also on nodes whose GPUs are not partitioned."""
CLAIM = "accelerator"

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@dataclasses.dataclass(frozen=True, slots=True)
class DeviceRequest:
    """What an accelerator adds to a pod.

    Attributes:
        resource: the extended resource's name; "" for none and for claims.
        count: how many of the resource, or of the claim's devices.
        claim_template: the ResourceClaimTemplate's name; "" unless the strategy is dra.
        node_labels: labels that the node must have.
        node_requirements: what else the node must fulfil, each an entry of `matchExpressions`.
    """

    resource: str
    count: int
    claim_template: str
    node_labels: dict[str, str]
    node_requirements: tuple[Object, ...] = ()

    @property
    def is_device(self) -> bool:
        """Whether the pods need devices."""
        return bool(self.resource or self.claim_template)


def resource_name(accelerator: Accelerator) -> str:
    """The extended resource that a pod requests; "" for none and for claims."""
    if accelerator.type == "none" or accelerator.strategy == "dra":
        return ""
    if accelerator.resource_name is not None:
        return accelerator.resource_name
    if accelerator.type == "mig" and accelerator.strategy == "mixed":
        return mig_resource(accelerator.profile or "")
    return GPU


def mig_resource(profile: str) -> str:
    """The resource name of a MIG profile under the device plugin's mixed strategy."""
    return f"nvidia.com/mig-{profile.replace('+', '.')}"


def device_request(service: InferenceService) -> DeviceRequest:
    """The device request of a service's pods."""
    accelerator = service.spec.predictor.accelerator
    name = resource_name(accelerator)
    if accelerator.type != "none" and accelerator.strategy == "dra":
        return DeviceRequest("", accelerator.count, _template_name(service), {})
    return DeviceRequest(
        name,
        accelerator.count if name else 0,
        "",
        _node_labels(accelerator),
        _node_requirements(service.spec.predictor),
    )


def _node_labels(accelerator: Accelerator) -> dict[str, str]:
    products = _label_products(accelerator)
    return {PRODUCT_LABEL: products[0]} if len(products) == 1 else {}


def _label_products(accelerator: Accelerator) -> list[str]:
    """The products as a node's label names them: with the strategy single, those of slices."""
    products = accelerator.products or ((accelerator.product,) if accelerator.product else ())
    if accelerator.strategy != "single":
        return list(products)
    suffix = f"-MIG-{(accelerator.profile or '').replace('+', '.')}"
    return [product if "-MIG-" in product else product + suffix for product in products]


def _node_requirements(predictor: Predictor) -> tuple[Object, ...]:
    """One of several products; for whole GPUs of any product, a node on which nvidia.com/gpu is not a slice.

    A selector of the user's own that names the product decides alone.
    """
    accelerator = predictor.accelerator
    products = _label_products(accelerator)
    if len(products) > 1:
        return ({"key": PRODUCT_LABEL, "operator": "In", "values": products},)
    if (
        accelerator.type != "gpu"
        or resource_name(accelerator) != GPU
        or products
        or PRODUCT_LABEL in (predictor.node_selector or {})
        or PRODUCT_LABEL in json.dumps(predictor.affinity)
    ):
        return ()
    return ({"key": SLICES_LABEL, "operator": "DoesNotExist"},)


def placed(affinity: Object, request: DeviceRequest) -> Object:
    """An affinity with the node requirements of a device request. The user's terms are alternatives, so each of them gets the requirements.

    Raises:
        InvalidSpec: the user's value has another type.
    """
    if not request.node_requirements:
        return affinity
    where = "spec.predictor.affinity.nodeAffinity"
    node = _mapping(affinity.get("nodeAffinity"), where)
    where = f"{where}.{_REQUIRED}"
    required = _mapping(node.get(_REQUIRED), where)
    where = f"{where}.nodeSelectorTerms"
    terms = []
    for index, value in enumerate(_list(required.get("nodeSelectorTerms"), where) or [{}]):
        term = _mapping(value, f"{where}[{index}]")
        given = _list(term.get("matchExpressions"), f"{where}[{index}].matchExpressions")
        terms.append({**term, "matchExpressions": [*given, *request.node_requirements]})
    return {
        **affinity,
        "nodeAffinity": {**node, _REQUIRED: {**required, "nodeSelectorTerms": terms}},
    }


def _mapping(value: typing.Any, where: str) -> Object:
    """A mapping, empty if there is none.

    Raises:
        InvalidSpec: it has another type.
    """
    if not isinstance(value or {}, dict):
        raise InvalidSpec([Problem(where, f"is {value!r}: write a mapping")])
    return value or {}


def _list(value: typing.Any, where: str) -> list[typing.Any]:
    """The same for a list."""
    if not isinstance(value or [], list):
        raise InvalidSpec([Problem(where, f"is {value!r}: write a list")])
    return value or []


def device_class(accelerator: Accelerator) -> str:
    """The DeviceClass of a claim."""
    if accelerator.device_class_name is not None:
        return accelerator.device_class_name
    return "mig.nvidia.com" if accelerator.type == "mig" else "gpu.nvidia.com"


def _claim_spec(accelerator: Accelerator) -> dict[str, typing.Any]:
    selectors = []
    if accelerator.profile is not None:
        selectors.append(f"device.attributes['gpu.nvidia.com'].profile == '{accelerator.profile}'")
    product = "device.attributes['gpu.nvidia.com'].productName"
    if accelerator.product is not None:
        selectors.append(f"{product} == '{accelerator.product}'")
    if accelerator.products:
        selectors.append(f"{product} in {list(accelerator.products)}")
    selectors += accelerator.cel_selectors or ()
    exactly: dict[str, typing.Any] = {
        "deviceClassName": device_class(accelerator),
        "allocationMode": "ExactCount",
        "count": accelerator.count,
    }
    if selectors:
        exactly["selectors"] = [{"cel": {"expression": selector}} for selector in selectors]
    return {"devices": {"requests": [{"name": "device", "exactly": exactly}]}}


def _template_name(service: InferenceService) -> str:
    """The name of the ResourceClaimTemplate. A template is immutable, so the name contains a hash of its spec."""
    text = json.dumps(_claim_spec(service.spec.predictor.accelerator), sort_keys=True)
    return f"{service.name}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def claim_template(service: InferenceService, facts: ClusterFacts) -> names.Manifest | None:
    """The ResourceClaimTemplate, from which each pod gets its own claim; None unless the strategy is dra.

    Raises:
        InvalidSpec: the API server does not serve the kind. It would drop the claims from the pods, which would then run without a
            device.
    """
    name = device_request(service).claim_template
    if not name:
        return None
    kind = kinds.RESOURCE_CLAIM_TEMPLATE
    if kind.key not in facts.apis:
        raise InvalidSpec(
            [
                Problem(
                    "spec.predictor.accelerator.strategy",
                    f"this cluster has no {kind.kind} in {kind.api_version} (Kubernetes 1.34 and newer have it): write strategy: mixed",
                )
            ]
        )
    template = names.child(service, kind.api_version, kind.kind, name=name)
    template["spec"] = {"spec": _claim_spec(service.spec.predictor.accelerator)}
    return template

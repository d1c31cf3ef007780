"""The device request of a pod: an extended resource or a resource claim, and the node labels it requires."""

import dataclasses
import hashlib
import json
import typing

from naiad_operator.api.accelerator import Accelerator
from naiad_operator.api.service import InferenceService
from naiad_operator.builders import kinds, names
from naiad_operator.builders.facts import ClusterFacts
from naiad_operator.errors import InvalidSpec, Problem

GPU = "nvidia.com/gpu"
PRODUCT_LABEL = "nvidia.com/gpu.product"
CLAIM = "accelerator"


@dataclasses.dataclass(frozen=True, slots=True)
class DeviceRequest:
    """What an accelerator adds to a pod.

    Attributes:
        resource: the extended resource's name; "" for none and for claims.
        count: how many of the resource, or of the claim's devices.
        claim_template: the ResourceClaimTemplate's name; "" unless the strategy is dra.
        node_labels: labels that the node must have.
    """

    resource: str
    count: int
    claim_template: str
    node_labels: dict[str, str]

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
    return DeviceRequest(name, accelerator.count if name else 0, "", _node_labels(accelerator))


def _node_labels(accelerator: Accelerator) -> dict[str, str]:
    product = accelerator.product
    if product is None:
        return {}
    if accelerator.strategy == "single" and "-MIG-" not in product:
        product += f"-MIG-{(accelerator.profile or '').replace('+', '.')}"
    return {PRODUCT_LABEL: product}


def device_class(accelerator: Accelerator) -> str:
    """The DeviceClass of a claim."""
    if accelerator.device_class_name is not None:
        return accelerator.device_class_name
    return "mig.nvidia.com" if accelerator.type == "mig" else "gpu.nvidia.com"


def _claim_spec(accelerator: Accelerator) -> dict[str, typing.Any]:
    selectors = []
    if accelerator.profile is not None:
        selectors.append(f"device.attributes['gpu.nvidia.com'].profile == '{accelerator.profile}'")
    if accelerator.product is not None:
        selectors.append(
            f"device.attributes['gpu.nvidia.com'].productName == '{accelerator.product}'"
        )
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

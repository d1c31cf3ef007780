"""Instances that need resources of the rate limiter."""

from naiad.backends.instance import InstanceResource, InstanceSpec
from naiad.config.model_config import InstanceKind


def limited_spec(
    name: str = "m_0_0", *, priority: int = 0, device: int = 0, shared: bool = False, **needs: int
) -> InstanceSpec:
    """An instance that needs so much of each resource; `shared`: these are global ones."""
    kind = InstanceKind.GPU if device else InstanceKind.CPU
    resources = tuple(InstanceResource(each, amount, shared) for each, amount in needs.items())
    return InstanceSpec(name, kind, device, resources=resources, priority=priority)

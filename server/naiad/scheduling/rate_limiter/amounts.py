"""How much there is of each resource of the rate limiter: what the command line says, else the most that any instance needs (rows 14.18, 14.19). Pure.

A resource belongs to a device, and each device has its own, or it is global: all devices share one. An instance on the CPU counts as on device 0, as in
Triton.
"""

import collections
import collections.abc

from naiad.backends.instance import InstanceSpec
from naiad.errors import InferenceError, invalid
from naiad.scheduling.rate_limiter.keys import ExplicitAmounts, ResourceKey


def needs_of(spec: InstanceSpec) -> dict[ResourceKey, int]:
    """What an instance needs for each batch; nothing, if it is passive."""
    if spec.passive:
        return {}
    return {
        ResourceKey(each.name, None if each.is_global else spec.device_id): each.amount
        for each in spec.resources
    }


def explicit_amount(key: ResourceKey, explicit: ExplicitAmounts) -> int:
    """What the command line grants of a resource: the largest amount that applies to it, 0 if none does."""
    return max(
        (
            amount
            for (name, device), amount in explicit.items()
            if name == key.name and (key.device is None or device is None or device == key.device)
        ),
        default=0,
    )


class ResourceTable:
    """What registered instances need, and what there is.

    Args:
        explicit: `--rate-limit-resource`; if any is given, there is nothing of a resource that is not.
    """

    def __init__(self, explicit: ExplicitAmounts) -> None:
        self._explicit = explicit
        self._needs: dict[ResourceKey, collections.Counter[int]] = {}

    def register(self, specs: collections.abc.Iterable[InstanceSpec]) -> None:
        """Add instances: all of them or, if one is refused, none.

        Raises:
            InferenceError: one could never run.
        """
        added = [need for spec in specs for need in needs_of(spec).items()]
        keys = {*self._needs, *(key for key, _ in added)}
        for key, amount in added:
            other = ResourceKey(key.name, None)
            if key.device is not None and other in keys:
                raise _two_kinds(key.name)
            if key.device is None and any(
                name == key.name and device is not None for name, device in keys
            ):
                raise _two_kinds(key.name)
            if self._explicit and explicit_amount(key, self._explicit) < amount:
                raise _too_few(key, explicit_amount(key, self._explicit), amount)
        for key, amount in added:
            self._needs.setdefault(key, collections.Counter())[amount] += 1

    def unregister(self, specs: collections.abc.Iterable[InstanceSpec]) -> None:
        """Remove instances that were registered."""
        for spec in specs:
            for key, amount in needs_of(spec).items():
                amounts = self._needs[key]
                amounts[amount] -= 1
                if not amounts[amount]:
                    del amounts[amount]
                if not amounts:
                    del self._needs[key]

    def amount(self, key: ResourceKey) -> int:
        """How much there is of a resource, used or not."""
        if self._explicit:
            return explicit_amount(key, self._explicit)
        return max(self._needs.get(key, ()), default=0)

    def amounts(self) -> dict[ResourceKey, int]:
        """How much there is of every resource that a registered instance needs."""
        return {key: self.amount(key) for key in self._needs}


def _two_kinds(name: str) -> InferenceError:
    return invalid(
        f'Resource "{name}" is present as both global and device-specific resource in the model configuration. Write the same `global` in the '
        "rate_limiter of every instance group of all models that names it, or give one of the two another name."
    )


def _too_few(key: ResourceKey, amount: int, needed: int) -> InferenceError:
    device = "" if key.device in (None, 0) else f":{key.device}"
    return invalid(
        f'Resource count for "{key.name}" is limited to {amount} which will prevent scheduling of one or more model instances, the minimum '
        f"required count is {needed}. Start the server with --rate-limit-resource={key.name}:{needed}{device}, or lower the count in the rate_limiter "
        "of the instance group."
    )

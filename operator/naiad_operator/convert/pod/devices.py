"""The accelerator and the resources of a container."""

import typing

from naiad_operator.api.manifests.unvalidated import Fields, part
from naiad_operator.builders.workload import accelerator

_SLICE = "nvidia.com/mig-"
_VENDOR = "nvidia.com/"


def taken(resources: typing.Any) -> Fields:
    """The fields accelerator and resources; what is not understood stays in the mapping. Without a GPU a service computes on the CPU."""
    wanted = ""
    made: Fields = {"type": "none"}
    kept: Fields = {}
    for field in ("requests", "limits"):
        amounts = part(resources, field)
        for name, amount in list(amounts.items()):
            if not name.startswith(_VENDOR):
                del amounts[name]
                # Kubernetes takes a number with a fraction, a service only one in quotes.
                kept.setdefault(field, {})[name] = (
                    str(amount) if isinstance(amount, float) else amount
                )
            elif str(amount).isdecimal() and wanted in ("", name):
                del amounts[name]
                if int(amount):
                    wanted, made = name, _of(name, int(amount))
    return {"accelerator": made} | ({"resources": kept} if kept else {})


def _of(name: str, count: int) -> Fields:
    if name == accelerator.GPU:
        return {"type": "gpu", "count": count}
    if name.startswith(_SLICE):
        profile = name.removeprefix(_SLICE)
        # A resource's name has no '+': 1g.10gb+me is 1g.10gb.me.
        size, dot, feature = profile.partition("gb.")
        profile = f"{size}gb+{feature}" if dot else profile
        return {"type": "mig", "profile": profile, "count": count}
    return {"type": "gpu", "count": count, "resourceName": name}

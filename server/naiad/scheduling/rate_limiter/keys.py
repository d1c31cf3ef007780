"""How a resource of the rate limiter is named: what the command line and the limiter have in common, which imports nothing else."""

import collections.abc
import typing


class ResourceKey(typing.NamedTuple):
    """A resource of one device; device None: of all of them together. In `ExplicitAmounts` None stands for each device."""

    name: str
    device: int | None


Amounts = collections.abc.Mapping[ResourceKey, int]

ExplicitAmounts = collections.abc.Mapping[ResourceKey, int]
"""`--rate-limit-resource`."""

"""Changes the instances of a model version while it serves, without a reload (row 7.24).

Which instances stay is a pure decision. New ones are made first, beside those that serve; then they take the place of others in one step.
"""

import asyncio
import collections.abc

import msgspec

from naiad.backends.backend import instance_specs
from naiad.backends.instance import InstanceSpec
from naiad.config.model_config import ModelConfig
from naiad.hosts.host import HostedInstance
from naiad.scheduling.instances.resources import Resources

Commit = collections.abc.Callable[[], str]


class Change(msgspec.Struct, frozen=True):
    """What turns the running instances into those of a config."""

    kept: list[InstanceSpec]
    added: list[InstanceSpec]
    removed: list[InstanceSpec]

    def in_words(self) -> str:
        """For the log; "" if nothing changes."""
        counts = {"added": len(self.added), "removed": len(self.removed)}
        words = [f"{count} {verb}" for verb, count in counts.items() if count]
        return f"instances: {', '.join(words)}, {len(self.kept)} kept" if words else ""


def change(running: collections.abc.Iterable[InstanceSpec], config: ModelConfig) -> Change:
    """Decide which instances stay: those that are wanted as they are, then any that differ only in the name. They keep their names."""
    kept: list[InstanceSpec] = []
    wanted, left = instance_specs(config), list(running)
    for same_name in (True, False):
        for want in tuple(wanted):
            for spec in left:
                if spec == want or (not same_name and spec._replace(name=want.name) == want):
                    left.remove(spec)
                    wanted.remove(want)
                    kept.append(spec)
                    break
    return Change(kept, wanted, left)


def scheduled(instances: collections.abc.Iterable[HostedInstance]) -> list[HostedInstance]:
    """Those that run batches: all but the passive ones (row 11.34)."""
    return [instance for instance in instances if not instance.spec.passive]


def passive(instances: collections.abc.Iterable[HostedInstance]) -> list[HostedInstance]:
    """Those that are loaded and run no batches."""
    return [instance for instance in instances if instance.spec.passive]


class InstanceUpdate:
    """New instances that are ready to run batches, and serve with `commit`.

    Args:
        added: the new ones.
        commit: makes them serve; returns what changed, in words.
        resources: knows them.
    """

    def __init__(
        self,
        added: collections.abc.Sequence[HostedInstance],
        commit: Commit,
        *,
        resources: Resources,
    ) -> None:
        self._added = added
        self._resources = resources
        self.commit = commit

    async def discard(self) -> None:
        """Close the new instances instead; nothing changes."""
        try:
            await asyncio.gather(*(host.close() for _, host in self._added))
        finally:
            self._resources.unregister([spec for spec, _ in self._added])

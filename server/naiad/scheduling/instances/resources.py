"""Resources that the instances of all models share: an instance takes what it needs for each batch.

One `Resources` per process is given to the loader, which registers the instances of each model, and to every pool of instances (`instance_pool.py`). An
instance that is refused waits, and is called back when its resources may be available, so that a batch of one model that ends wakes the scheduler of another
one.
"""

import collections.abc
import typing

from naiad.backends.instance import InstanceSpec


class ResourceUser(typing.Protocol):
    """An instance that takes resources. Each is another object; names are not unique."""

    @property
    def spec(self) -> InstanceSpec:
        """What the instance is, with the resources and the priority that its group asks for."""
        ...

    @property
    def batch(self) -> typing.Any:
        """The batch that it executes; None if there is none."""
        ...

    def retry(self) -> None:
        """The resources may be available now. If the instance still needs them, it calls `acquire` again before this returns."""
        ...


class Resources(typing.Protocol):
    """Grants resources. All methods are called on the event loop."""

    def register(self, specs: collections.abc.Sequence[InstanceSpec]) -> None:
        """Instances will be made: before their model is loaded.

        Raises:
            InferenceError: one of them could never have its resources; none is registered.
        """
        ...

    def unregister(self, specs: collections.abc.Sequence[InstanceSpec]) -> None:
        """Registered instances are gone, or were not made."""
        ...

    def limits(self, spec: InstanceSpec) -> bool:
        """Whether an instance needs resources.

        For one that does not, none of the following methods is called. To one that does no batch is prefetched: it would begin without its resources being
        granted again.
        """
        ...

    def acquire(self, user: ResourceUser) -> bool:
        """Take the resources of an instance for one batch.

        Returns:
            False if they are not available, or if others are first: the instance waits, and its `retry` is called once, later. An instance that then does
            not acquire them needs them no longer: the next one in turn must be called.
        """
        ...

    def release(self, user: ResourceUser) -> None:
        """Return what `acquire` granted; calls no instance: the one whose batch has ended may acquire again first, and so takes part in what `offer` decides."""
        ...

    def offer(self) -> None:
        """Call `retry` of the instances that wait and may run now, in turn. After `release`."""
        ...

    def withdraw(self, user: ResourceUser) -> None:
        """Remove an instance that waits, or is closed; its `retry` is not called any more, that of others may be. No effect for one that is unknown."""
        ...

    def holders(self, user: ResourceUser) -> collections.abc.Sequence[ResourceUser]:
        """The instances that have what an instance waits for: it can run when some of them end. Empty if it does not wait."""
        ...


class UnlimitedResources:
    """Grants everything."""

    def register(self, specs: collections.abc.Sequence[InstanceSpec]) -> None:
        """See `Resources`."""

    def unregister(self, specs: collections.abc.Sequence[InstanceSpec]) -> None:
        """See `Resources`."""

    def limits(self, spec: InstanceSpec) -> bool:
        """See `Resources`."""
        return False

    def acquire(self, user: ResourceUser) -> bool:
        """See `Resources`."""
        return True

    def release(self, user: ResourceUser) -> None:
        """See `Resources`."""

    def offer(self) -> None:
        """See `Resources`."""

    def withdraw(self, user: ResourceUser) -> None:
        """See `Resources`."""

    def holders(self, user: ResourceUser) -> collections.abc.Sequence[ResourceUser]:
        """See `Resources`."""
        return ()

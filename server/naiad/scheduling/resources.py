"""Resources that the instances of all models share: an instance takes what it needs for each batch.

One `Resources` per process is given to every pool of instances (`instance_pool.py`). An instance that is refused waits, and is called back
when its resources may be available, so that a batch of one model that ends wakes the scheduler of another one.
"""

import typing

from naiad.backends.instance import InstanceSpec


class ResourceUser(typing.Protocol):
    """An instance that takes resources. Each is another object; names are not unique."""

    @property
    def spec(self) -> InstanceSpec:
        """What the instance is, with the resources and the priority that its group asks for."""
        ...

    def retry(self) -> None:
        """The resources may be available now. If the instance still needs them, it calls `acquire` again before this returns."""
        ...


class Resources(typing.Protocol):
    """Grants resources. All methods are called on the event loop.

    Attributes:
        unlimited: everything is granted, so no method is called. Otherwise no batch is prefetched: it would begin without its resources being
            granted again.
    """

    @property
    def unlimited(self) -> bool:
        """See above."""
        ...

    def acquire(self, user: ResourceUser) -> bool:
        """Take the resources of an instance for one batch.

        Returns:
            False if they are not available: the instance waits, and its `retry` is called once, later. An instance that then does not
            acquire them needs them no longer: the next one in turn must be called.
        """
        ...

    def release(self, user: ResourceUser) -> None:
        """Return what `acquire` granted; may call `retry` of instances that wait, before this returns."""
        ...

    def withdraw(self, user: ResourceUser) -> None:
        """Remove an instance that waits; its `retry` is not called any more. No effect for one that does not wait."""
        ...


class UnlimitedResources:
    """Grants everything."""

    unlimited = True

    def acquire(self, user: ResourceUser) -> bool:
        """See `Resources`."""
        return True

    def release(self, user: ResourceUser) -> None:
        """See `Resources`."""

    def withdraw(self, user: ResourceUser) -> None:
        """See `Resources`."""

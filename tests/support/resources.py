"""A count of things that the instances of all models share."""

import collections.abc

from naiad.backends.instance import InstanceSpec
from naiad.scheduling.instances.resources import ResourceUser


class CountedResources:
    """Implements `Resources`: every instance takes one of so many things; the one that waits longest is called first.

    Attributes:
        available: how many are left.
        users: the instances that have one.
        waiting: the instances that wait, in order.
    """

    def __init__(self, available: int) -> None:
        self.available = available
        self.users: list[ResourceUser] = []
        self.waiting: list[ResourceUser] = []
        self._offered: ResourceUser | None = None

    def register(self, specs: collections.abc.Sequence[InstanceSpec]) -> None:
        pass

    def unregister(self, specs: collections.abc.Sequence[InstanceSpec]) -> None:
        pass

    def limits(self, spec: InstanceSpec) -> bool:
        return True

    def acquire(self, user: ResourceUser) -> bool:
        assert user not in self.users, "one batch per instance"
        assert user not in self.waiting, "it waits already"
        if not self.available or (self.waiting and user is not self._offered):
            self.waiting.append(user)
            return False
        self.available -= 1
        self.users.append(user)
        return True

    def release(self, user: ResourceUser) -> None:
        if user in self.users:
            self.users.remove(user)
            self.available += 1

    def offer(self) -> None:
        while self.waiting and self.available:
            self._offered = self.waiting.pop(0)
            self._offered.retry()
            self._offered = None

    def holders(self, user: ResourceUser) -> list[ResourceUser]:
        return self.users if user in self.waiting else []

    def withdraw(self, user: ResourceUser) -> None:
        self.release(user)
        if user in self.waiting:
            self.waiting.remove(user)

    def names(self) -> list[str]:
        """The instances that have one."""
        return [user.spec.name for user in self.users]

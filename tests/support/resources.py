"""A count of things that the instances of all models share."""

from naiad.scheduling.resources import ResourceUser


class CountedResources:
    """Implements `Resources`: every instance takes one of so many things; the one that waits longest is called first.

    Attributes:
        available: how many are left.
        users: the instances that have one.
        waiting: the instances that wait, in order.
    """

    unlimited = False

    def __init__(self, available: int) -> None:
        self.available = available
        self.users: list[ResourceUser] = []
        self.waiting: list[ResourceUser] = []

    def acquire(self, user: ResourceUser) -> bool:
        assert user not in self.users, "one batch per instance"
        assert user not in self.waiting, "it waits already"
        if not self.available:
            self.waiting.append(user)
            return False
        self.available -= 1
        self.users.append(user)
        return True

    def release(self, user: ResourceUser) -> None:
        self.users.remove(user)
        self.available += 1
        while self.waiting and self.available:
            self.waiting.pop(0).retry()

    def withdraw(self, user: ResourceUser) -> None:
        if user in self.waiting:
            self.waiting.remove(user)

    def names(self) -> list[str]:
        """The instances that have one."""
        return [user.spec.name for user in self.users]

"""Stores without files, which count the local copies that are checked out of them."""

import collections
import pathlib

from naiad.repository.polling.fingerprint import Fingerprint
from naiad.repository.store import Checkout, OnBytes, no_bytes


class FakeStore:
    """A store of models by name.

    Args:
        location: for messages, and the place of the copies.
        names: its models.

    Attributes:
        times: of the last change of a version, by model; a change makes another fingerprint.
        made: how many copies were made of each model.
        held: how many of these are not released.
    """

    def __init__(self, location: str = "/r", *names: str) -> None:
        self.location = location
        self.times: dict[str, dict[int, int]] = {name: {1: 0} for name in names}
        self.made = collections.Counter[str]()
        self.held = collections.Counter[str]()

    def names(self) -> list[str]:
        return sorted(self.times)

    def fingerprint(self, name: str) -> Fingerprint:
        return {
            str(version): frozenset({(f"{version}/model", time, 1)})
            for version, time in self.times[name].items()
        }

    def checkout(self, name: str, on_bytes: OnBytes = no_bytes) -> Checkout:
        """Make a copy in a folder of its own."""
        self.made[name] += 1
        self.held[name] += 1
        folder = pathlib.Path(self.location, str(self.made[name]), name)
        return Checkout(folder, lambda: self.held.subtract([name]))

"""Lists the objects of a store within bounds: of their number, and of time."""

import collections.abc

from naiad.core.clock import Clock
from naiad.errors import unavailable
from naiad.repository.stores.objects import Folder, ObjectClient, StoredObject

LISTING_SECONDS = 25
"""Limit of a listing; below the time that the server waits for one."""


class TooManyError(Exception):
    """A listing is longer than its bound."""


class Lister:
    """Thread-safe.

    Args:
        location: the address, for people.
        client: reads it.
        clock: limits the time of listings.
    """

    def __init__(self, location: str, client: ObjectClient, clock: Clock) -> None:
        self._location = location
        self._client = client
        self._clock = clock

    def entries(
        self, below: str, *, recursive: bool, most: int
    ) -> collections.abc.Iterator[StoredObject | Folder]:
        """The objects of a folder, as `ObjectClient.listing`.

        Raises:
            TooManyError: there are more than `most`.
            InferenceError: the store cannot be read, or the listing takes too long.
        """
        end = 0
        for count, entry in enumerate(self._client.listing(below, recursive=recursive)):
            if not end:  # an archive was downloaded before its first entry
                end = self._clock.monotonic_ns() + LISTING_SECONDS * 10**9
            if count >= most:
                raise TooManyError
            if self._clock.monotonic_ns() > end:
                raise unavailable(
                    f"{self._location}: the listing takes longer than {LISTING_SECONDS} s ({count:,} objects until now); check the connection to the "
                    "store, or give a folder with fewer objects"
                )
            yield entry

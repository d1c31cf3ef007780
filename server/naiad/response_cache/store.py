"""What a response cache keeps its entries in: the interface of the local store and of Redis."""

import collections.abc
import enum
import typing

from naiad.response_cache.entry import CachedResponse

OnFound = collections.abc.Callable[[CachedResponse | None], None]
"""Called with the entry; None if there is none, or the store does not respond."""


class Inserted(enum.Enum):
    """What became of an insertion."""

    NEW = "new"
    KNOWN = "known"
    TOO_LARGE = "too large"


class ResponseStore(typing.Protocol):
    """Entries by key. All methods are called on the event loop.

    Attributes:
        shared: whether other processes use the same entries, so that a key must say which files a model was loaded from.
    """

    shared: bool

    def look_up(self, owner: str, key: bytes, on_found: OnFound) -> None:
        """Look for an entry; `on_found` is called once, perhaps before this returns. `owner` is the model version."""
        ...

    def insert(self, owner: str, key: bytes, entry: CachedResponse) -> Inserted:
        """Keep an entry, unless there is one with this key, or it is too large."""
        ...

    def accepts(self, size: int) -> bool:
        """Whether an entry of so many bytes can be kept: those that cannot are not even copied."""
        ...

    def forget(self, owner: str) -> None:
        """Drop the entries of a model version that is unloaded."""
        ...

    async def start(self) -> None:
        """Connect, if there is something to connect to; a failure is logged."""
        ...

    async def close(self) -> None:
        """Release everything."""
        ...

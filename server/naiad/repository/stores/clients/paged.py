"""What clients of stores have in common that list in pages and read in pieces: each is one request of an SDK, sent again with new credentials if refused."""

import abc
import collections.abc
import functools
import typing

from naiad.repository.stores.address import Address
from naiad.repository.stores.credentials import Client, Renewable
from naiad.repository.stores.objects import Folder, StoredObject

PIECE = 8 << 20
"""Bytes per request of a read: what is in memory at once."""

Page = tuple[list[StoredObject | Folder], str | None]
"""Entries, and the token of the next page; None after the last one."""


class PagedClient(abc.ABC, typing.Generic[Client]):
    """The objects below a prefix. Implements `ObjectClient` but for the requests themselves.

    Args:
        address: where they are.
    """

    def __init__(self, address: Address) -> None:
        self._address = address
        self._prefix = address.key("")
        self._sdk = Renewable(self._build)

    def listing(
        self, below: str = "", *, recursive: bool
    ) -> collections.abc.Iterator[StoredObject | Folder]:
        """See `ObjectClient`."""
        prefix = f"{self._prefix}{below}/" if below else self._prefix
        token: str | None = None
        while True:
            page = functools.partial(self._page, prefix=prefix, token=token, recursive=recursive)
            entries, token = self._sdk.call(page)
            yield from entries
            if not token:
                return

    def read(self, stored: StoredObject, start: int, end: int) -> collections.abc.Iterator[bytes]:
        """See `ObjectClient`."""
        for first in range(start, end, PIECE):
            piece = functools.partial(
                self._piece, stored=stored, start=first, end=min(first + PIECE, end)
            )
            yield self._sdk.call(piece)

    def checksum(self, stored: StoredObject) -> str:
        """The one of the listing, which not every object has."""
        return stored.checksum

    def close(self) -> None:
        """See `ObjectClient`."""
        self._sdk.close()

    @abc.abstractmethod
    def _build(self) -> Client:
        """The SDK's client, with credentials that are read now."""

    @abc.abstractmethod
    def _page(self, sdk: Client, *, prefix: str, token: str | None, recursive: bool) -> Page:
        """One page of a listing."""

    @abc.abstractmethod
    def _piece(self, sdk: Client, *, stored: StoredObject, start: int, end: int) -> bytes:
        """The bytes [start, end) of the version that was listed."""

"""The use of a store by one `naiad fetch`: its client, and a cache folder that is this fetch's own or shared with servers. Blocking."""

import pathlib
import shutil

import msgspec

from naiad.core.clock import SystemClock
from naiad.repository.stores.address import Address
from naiad.repository.stores.cache import LISTINGS, Cache, Lease
from naiad.repository.stores.clients import connect
from naiad.repository.stores.clients.snapshots import Folders
from naiad.repository.stores.download import Downloader
from naiad.repository.stores.objects import ObjectClient


class SharedCache(msgspec.Struct, frozen=True):
    """A cache folder that servers and other fetches use as well.

    Attributes:
        folder: as `--repository-cache-directory` takes it.
        limit: its largest size in bytes; 0: no limit.
    """

    folder: pathlib.Path
    limit: int = 0


class StoreSession:
    """What a fetch needs of a store. `close` ends it.

    Args:
        objects: the cache folder of this fetch.
        shared: the cache folder in its place.

    Attributes:
        clock: for listings.
        downloader: of this fetch.
        is_shared: whether others use the cache folder as well.
    """

    def __init__(self, objects: pathlib.Path, shared: SharedCache | None) -> None:
        self.clock = SystemClock()
        self.downloader = Downloader()
        self.is_shared = shared is not None
        self._limit = shared.limit if shared is not None else 0
        self._root = shared.folder if shared is not None else objects
        self._lease: Lease | None = None
        self._clients: list[ObjectClient] = []

    def lease(self) -> pathlib.Path:
        """The folder of this fetch in the cache folder.

        Raises:
            InferenceError: the cache folder cannot be used.
        """
        if self._lease is None:
            self._lease = Lease(self._root)
        return self._lease.folder

    def cache(self) -> Cache:
        """The cache, without what killed processes have left.

        Raises:
            InferenceError: the cache folder cannot be used.
        """
        self.lease()
        cache = Cache(self._root, limit=self._limit, is_temporary=False, clock=self.clock)
        cache.clean()
        return cache

    def client(self, place: Address) -> ObjectClient:
        """A client for an address.

        Raises:
            InferenceError: its package is not installed, or the cache folder cannot be used.
        """
        made = connect(place, Folders(self.lease(), self._root / LISTINGS))
        self._clients.append(made)
        return made

    def forget_objects(self) -> None:
        """Remove the downloaded objects of a fetch that is complete, unless others use them."""
        if not self.is_shared:
            shutil.rmtree(self._root / "objects")

    def close(self) -> None:
        """Remove what the next fetch cannot use. Idempotent."""
        self.downloader.close()
        for client in self._clients:
            client.close()
        if self._lease is None:
            return
        self._lease.close()
        objects = self._root / "objects"
        if not self.is_shared and (not objects.is_dir() or not any(objects.iterdir())):
            shutil.rmtree(self._root, ignore_errors=True)

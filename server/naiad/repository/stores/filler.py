"""Fills a folder with objects of a store: links to what the cache has, after a download of what it lacks, many at a time."""

import concurrent.futures
import contextlib
import errno
import itertools
import pathlib

import msgspec

from naiad.core.processes.inherited import be_free
from naiad.errors import InferenceError, unavailable
from naiad.repository.store import OnBytes, no_bytes
from naiad.repository.stores.address import Address
from naiad.repository.stores.cache import OPTION, Cache
from naiad.repository.stores.download import Advance, Downloader, Progress
from naiad.repository.stores.layout import Layout
from naiad.repository.stores.objects import ObjectClient, StoredObject

_OBJECT_THREADS = 16

_ATTEMPTS = 3


class Filler:
    """Thread-safe.

    Args:
        address: of the objects.
        client: reads them.
        cache: holds them.
        lease: the folder in the cache of who uses them.
        downloader: of all stores.
    """

    def __init__(
        self,
        address: Address,
        client: ObjectClient,
        cache: Cache,
        lease: pathlib.Path,
        *,
        downloader: Downloader,
    ) -> None:
        self._location = str(address)
        self._place = str(msgspec.structs.replace(address, prefix=""))
        self._address = address
        self._client = client
        self._cache = cache
        self._lease = lease
        self._downloader = downloader
        self._numbers = itertools.count(1)
        self._threads = concurrent.futures.ThreadPoolExecutor(
            _OBJECT_THREADS, "object", initializer=be_free
        )

    def new_folder(self) -> pathlib.Path:
        """A folder in the lease, which other stores and processes before this one use too."""
        try:
            self._lease.mkdir(parents=True, exist_ok=True)
            while True:
                folder = self._lease / str(next(self._numbers))
                with contextlib.suppress(FileExistsError):
                    folder.mkdir()
                    return folder
        except OSError as error:
            raise self.unwritable(error) from None

    def fill(self, folder: pathlib.Path, objects: Layout, on_bytes: OnBytes = no_bytes) -> None:
        """Make a folder with links to the objects of the cache; what is not there is downloaded first.

        Raises:
            ChangedError: an object was replaced since it was listed.
            InferenceError: the store cannot be read, or the cache has no room.
            OSError: the folder cannot be written.
        """
        folder.mkdir()
        for path in objects.folders:
            (folder / path).mkdir(parents=True, exist_ok=True)
        missing = {
            folder / path: stored
            for path, stored in objects.files.items()
            if not self._cache.link(self._identity(stored), stored, folder / path)
        }
        if not missing:
            return
        self._cache.trim()
        size = sum(stored.size for stored in missing.values())
        with self._cache.reserved(size, self._lease) as reservation:
            progress = Progress(size, on_bytes)

            def advance(count: int) -> None:
                reservation.spend(count)
                progress.advance(count)

            work = [
                self._threads.submit(self._obtain, stored, path, advance)
                for path, stored in missing.items()
            ]
            try:
                for future in concurrent.futures.as_completed(work):
                    future.result()
            finally:
                for future in work:
                    future.cancel()
                concurrent.futures.wait(work)

    def _obtain(self, stored: StoredObject, target: pathlib.Path, advance: Advance) -> None:
        """Link one object, after a download unless another process has done that meanwhile."""
        identity = self._identity(stored)
        for _ in range(_ATTEMPTS):
            with self._cache.part(identity, stored) as file:
                if file is not None:
                    self._downloader.download(self._client, stored, file, advance)
            if self._cache.link(identity, stored, target):
                return
        raise unavailable(
            f"{self._location}/{stored.key}: other processes keep removing it from the cache folder; check what writes there"
        )

    def _identity(self, stored: StoredObject) -> str:
        return f"{self._place}/{self._address.key(stored.key)}"

    def unwritable(self, error: OSError) -> InferenceError:
        """What an error of the file system says of the cache folder."""
        root = self._lease.parent.parent
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return unavailable(
                f"the disk of the cache folder {root} is full: free space on it, or give another folder with {OPTION}"
            )
        return unavailable(
            f"the cache folder {root} cannot be written ({error}): check its permissions, and what else changes it"
        )

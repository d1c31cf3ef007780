"""Repositories that are downloaded whole before they can be listed: archives and images.

The first version is downloaded with the first listing, unless a server with the same cache folder has listed it before: then with the first read of what
the cache does not have. A later one is downloaded in a thread, while the one before it goes on being listed and read: no
poll waits for it for long. A load that needs it meanwhile fails, and says so.
"""

import abc
import collections.abc
import hashlib
import logging
import pathlib
import shutil
import tempfile
import threading
import typing

import msgspec

from naiad.repository.stores.clients.listing import entries_below
from naiad.repository.stores.objects import ChangedError, Folder, StoredObject, StoreError

_log = logging.getLogger("naiad.repository")

_WAIT_S = 5.0
"""How long a listing of the models waits for a version that is being downloaded."""

Version = tuple[str | None, ...]


class Snapshot(msgspec.Struct, frozen=True):
    """One version of a repository.

    Attributes:
        version: what differs from that of another one.
        objects: its files, in the order of their keys.
        read: as `ObjectClient.read`; None: it is not downloaded.
    """

    version: Version
    objects: list[StoredObject]
    read: collections.abc.Callable[[StoredObject, int, int], collections.abc.Iterator[bytes]] | None


class Listing(msgspec.Struct, frozen=True):
    """What a file keeps of a version: its files, in the order of their keys."""

    version: Version
    objects: list[StoredObject]


class Newer(msgspec.Struct, frozen=True):
    """A version that is not downloaded yet.

    Attributes:
        download: writes what it needs into an empty folder.
        drop: ends its use: called after `download`, or instead.
    """

    version: Version
    download: collections.abc.Callable[[pathlib.Path], Snapshot]
    drop: collections.abc.Callable[[], None] = lambda: None


class Folders(typing.NamedTuple):
    """Folders of a cache.

    Attributes:
        scratch: for what is unpacked; removed with the server.
        listings: for listings, which stay; it is created if needed.
    """

    scratch: pathlib.Path
    listings: pathlib.Path


class SnapshotClient(abc.ABC):
    """Implements `ObjectClient`.

    Args:
        where: what messages call the repository.
        folders: for what is downloaded, and for listings.
    """

    def __init__(self, where: str, folders: Folders) -> None:
        self._where = where
        self._folders = folders
        self._kept = folders.listings / hashlib.sha256(where.encode()).hexdigest()
        self._lock = threading.Lock()
        self._current: tuple[Snapshot, pathlib.Path | None] | None = None
        self._thread: threading.Thread | None = None
        self._failure: tuple[Version, StoreError] | None = None

    @abc.abstractmethod
    def _check(self, known: Version | None) -> Newer | None:
        """What there is to download; None if that is the known version.

        Raises:
            StoreError: the server cannot be asked.
        """

    def listing(
        self, below: str = "", *, recursive: bool
    ) -> collections.abc.Iterator[StoredObject | Folder]:
        """See `ObjectClient`. A listing of the top looks for a newer version; the others are those of the same version."""
        with self._lock:
            if self._current is None or not (below or recursive):
                self._refresh()
            elif self._thread is not None and self._thread.is_alive():
                raise StoreError(
                    f"{self._where}: a newer version is being downloaded; load the model again when it is complete",
                    retry=True,
                )
            elif self._failure is not None:
                raise self._failure[1]
            assert self._current is not None, "or an error was raised"
            snapshot, _ = self._current
        yield from entries_below(snapshot.objects, below, recursive=recursive)

    def read(self, stored: StoredObject, start: int, end: int) -> collections.abc.Iterator[bytes]:
        """See `ObjectClient`."""
        read = self._downloaded().read
        assert read is not None, "it is downloaded"
        yield from read(stored, start, end)

    def checksum(self, stored: StoredObject) -> str:
        """See `ObjectClient`. What was unpacked has none: its tarball was verified."""
        return stored.checksum

    def close(self) -> None:
        """See `ObjectClient`. Removes what was downloaded."""
        with self._lock:
            self._replace(None)

    def _downloaded(self) -> Snapshot:
        """The version that was listed; it is downloaded now if only its listing was kept."""
        current = self._current
        if current is None:
            raise ChangedError(f"{self._where}: it was not listed")
        if current[0].read is not None:
            return current[0]
        with self._lock:
            if self._current is current:
                newer = self._check(None)
                assert newer is not None, "no version is known"
                if newer.version != current[0].version:
                    newer.drop()
                    raise ChangedError(f"{self._where}: it was replaced since it was listed")
                self._replace(self._fetched(newer))
        return self._downloaded()

    def _refresh(self) -> None:
        """Look for a newer version, and wait for it: for the first one as long as it takes."""
        if self._current is None:
            kept = self._read_listing()
            newer = self._check(kept.version if kept else None)
            if newer is not None:
                self._replace(self._fetched(newer))
            else:
                assert kept is not None, "no version is known"
                self._replace((Snapshot(kept.version, kept.objects, None), None))
            return
        if self._thread is None or not self._thread.is_alive():
            newer = self._check(self._current[0].version)
            if newer is None:
                self._failure = None
                return
            if self._failure is not None and self._failure[0] == newer.version:
                newer.drop()  # it fails again
                return
            self._thread = threading.Thread(target=self._fetch, args=(newer,), daemon=True)
            self._thread.start()
        self._thread.join(_WAIT_S)

    def _fetch(self, newer: Newer) -> None:
        try:
            self._replace(self._fetched(newer))
            self._failure = None
        except StoreError as error:
            _log.warning("%s; the version before it goes on being used", error.message)
            self._failure = () if error.retry else newer.version, error

    def _fetched(self, newer: Newer) -> tuple[Snapshot, pathlib.Path]:
        folder = None
        try:
            folder = pathlib.Path(tempfile.mkdtemp(prefix="snapshot-", dir=self._folders.scratch))
            snapshot = newer.download(folder)
            self._keep_listing(Listing(snapshot.version, snapshot.objects))
        except BaseException as error:
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)
            if isinstance(error, OSError):
                raise StoreError(
                    f"{self._where}: cannot be unpacked in {self._folders.scratch}: {error.strerror or error}; check its disk and permissions",
                    retry=True,
                ) from error
            raise
        else:
            return snapshot, folder
        finally:
            newer.drop()

    def _read_listing(self) -> Listing | None:
        try:
            return msgspec.json.decode(self._kept.read_bytes(), type=Listing)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return None  # there is none, or it is from another release

    def _keep_listing(self, listing: Listing) -> None:
        if not any(listing.version):
            return  # a web server that says nothing of it
        self._kept.parent.mkdir(exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=self._kept.parent, delete=False) as file:
            file.write(msgspec.json.encode(listing))
        pathlib.Path(file.name).rename(self._kept)

    def _replace(self, current: tuple[Snapshot, pathlib.Path | None] | None) -> None:
        before, self._current = self._current, current
        if before is not None and before[1] is not None:
            shutil.rmtree(before[1], ignore_errors=True)

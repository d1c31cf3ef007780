"""Repositories that are downloaded whole before they can be listed: archives and images.

The first version is downloaded with the first listing. A later one is downloaded in a thread, while the one before it goes on being listed and read: no
poll waits for it for long. A load that needs it meanwhile fails, and says so.
"""

import abc
import collections.abc
import logging
import pathlib
import shutil
import tempfile
import threading

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
        read: as `ObjectClient.read`.
    """

    version: Version
    objects: list[StoredObject]
    read: collections.abc.Callable[[StoredObject, int, int], collections.abc.Iterator[bytes]]


class Newer(msgspec.Struct, frozen=True):
    """A version that is not downloaded yet.

    Attributes:
        download: writes what it needs into an empty folder.
        drop: ends its use: called after `download`, or instead.
    """

    version: Version
    download: collections.abc.Callable[[pathlib.Path], Snapshot]
    drop: collections.abc.Callable[[], None] = lambda: None


class SnapshotClient(abc.ABC):
    """Implements `ObjectClient`.

    Args:
        where: what messages call the repository.
        scratch: an existing folder for what is downloaded; None: that of temporary files.
    """

    def __init__(self, where: str, scratch: pathlib.Path | None) -> None:
        self._where = where
        self._scratch = scratch
        self._lock = threading.Lock()
        self._current: tuple[Snapshot, pathlib.Path] | None = None
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
        current = self._current
        if current is None:
            raise ChangedError(f"{self._where}: {stored.key} was not listed")
        yield from current[0].read(stored, start, end)

    def checksum(self, stored: StoredObject) -> str:
        """See `ObjectClient`. What was unpacked has none: its tarball was verified."""
        return stored.checksum

    def close(self) -> None:
        """See `ObjectClient`. Removes what was downloaded."""
        with self._lock:
            self._replace(None)

    def _refresh(self) -> None:
        """Look for a newer version, and wait for it: for the first one as long as it takes."""
        if self._current is None:
            newer = self._check(None)
            assert newer is not None, "no version is known"
            self._replace(self._fetched(newer))
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
            folder = pathlib.Path(tempfile.mkdtemp(prefix="naiad-snapshot-", dir=self._scratch))
            return newer.download(folder), folder
        except BaseException as error:
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)
            if isinstance(error, OSError):
                raise StoreError(
                    f"{self._where}: cannot be unpacked in {folder or self._scratch}: {error.strerror or error}; check its disk and permissions",
                    retry=True,
                ) from error
            raise
        finally:
            newer.drop()

    def _replace(self, current: tuple[Snapshot, pathlib.Path] | None) -> None:
        before, self._current = self._current, current
        if before is not None:
            shutil.rmtree(before[1], ignore_errors=True)

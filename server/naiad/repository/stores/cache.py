"""The cache folder: objects by address, key and version, shared by the servers of a machine, bounded in size.

    objects/HASH         one complete object, read-only
    objects/HASH.part    one that is being downloaded, locked by the process that writes it
    listings/HASH        the files of an archive or image that was listed
    servers/ID.lock      locked by a running server
    servers/ID/          its checkouts: folders of hard links to objects

An object gets its name by a rename once it is complete and verified, and its modification time at the same moment: a file that was killed
half-way has no such name, and one that was written to afterwards has another time; neither is trusted. What the kernel unlocks because its process
is gone is removed by the next one that opens the cache. An object with more than one link is in use; the others are removed when room is
needed, the least recently used first.
"""

import collections.abc
import contextlib
import errno
import fcntl
import hashlib
import os
import pathlib
import secrets
import shutil
import threading
import time

from naiad.core.clock import Clock
from naiad.errors import invalid, unavailable
from naiad.repository.stores.objects import StoredObject

OPTION = "--repository-cache-directory"

LISTINGS = "listings"
"""The folder of the files that keep listings."""

_PART = ".part"
_LOCK = ".lock"
_RESERVED = ".reserved"
_READ_ONLY = 0o444
_POLL_S = 0.05
_STALLED_S = 60
"""An object that another process downloads without progress for so long is an error here."""

_FIRST_LINK_NS = 60 * 10**9
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV)


class Lease:
    """A server's part of a cache folder, locked while the server runs.

    It belongs to the server's process and not to the one that downloads, whose end must not end the use of the models.

    Args:
        root: the cache folder; it is created if needed.

    Raises:
        InferenceError: INVALID_ARG: the folder cannot be used.
    """

    def __init__(self, root: pathlib.Path) -> None:
        servers = root / "servers"
        try:
            servers.mkdir(parents=True, exist_ok=True)
            (root / "objects").mkdir(exist_ok=True)
            self.folder = servers / secrets.token_hex(8)
            self._lock_file = _locked(self.folder.with_suffix(_LOCK), wait=False)
            self.folder.mkdir()
        except OSError as error:
            raise invalid(
                f"{OPTION}={root}: the folder cannot be used: {error.strerror}; give a folder that this user may write"
            ) from None

    def close(self) -> None:
        """Remove every checkout and unlock."""
        shutil.rmtree(self.folder, ignore_errors=True)
        with contextlib.suppress(OSError):
            self.folder.with_suffix(_LOCK).unlink()
        if self._lock_file is not None:
            os.close(self._lock_file)
            self._lock_file = None


class Cache:
    """The objects of a cache folder; thread-safe, and safe beside other processes.

    Args:
        root: the folder, which a `Lease` has created.
        limit: bytes of all objects; 0: no limit.
        is_temporary: whether the folder is removed with the server. If it is not, an object must be on the disk before it is trusted: the machine
            may crash. If it is and there is no limit, only objects in use stay.
        clock: for the time of the last use.
    """

    def __init__(self, root: pathlib.Path, *, limit: int, is_temporary: bool, clock: Clock) -> None:
        self._root = root
        self._objects = root / "objects"
        self._limit = limit
        self._is_temporary = is_temporary
        self._clock = clock

    def clean(self) -> None:
        """Remove what killed processes have left: partial objects and checkouts."""
        for path in (*self._objects.glob("*" + _PART), *(self._root / "servers").glob("*" + _LOCK)):
            with contextlib.suppress(OSError):
                file = _locked(path, wait=False)
                if file is not None:
                    if path.suffix == _LOCK:
                        shutil.rmtree(path.with_suffix(""), ignore_errors=True)
                    path.unlink()
                    os.close(file)

    def link(self, identity: str, stored: StoredObject, target: pathlib.Path) -> bool:
        """Create a hard link to an object, and mark the object as used now.

        Args:
            identity: the address and the full key.
            stored: the object.
            target: the link.

        Returns:
            Whether the object was there; one that was changed is removed.
        """
        path = self._path(identity, stored)
        try:
            _link(path, target)
        except FileNotFoundError:
            return False
        status = target.stat()
        if (status.st_size, status.st_mtime_ns) != (stored.size, _time(stored)):
            target.unlink()
            path.unlink(missing_ok=True)
            return False
        with contextlib.suppress(OSError):  # it belongs to another user
            os.utime(path, ns=(self._clock.wall_ns(), _time(stored)))
        return True

    @contextlib.contextmanager
    def part(self, identity: str, stored: StoredObject) -> collections.abc.Iterator[int | None]:
        """A file to write an object into, complete when the context ends without an exception.

        Gives its descriptor; None if another process or thread completed the object meanwhile, for which this waits.

        Raises:
            InferenceError: UNAVAILABLE: the other one makes no progress.
            OSError: the file cannot be written.
        """
        path = self._path(identity, stored)
        partial = path.with_name(path.name + _PART)
        file = _locked(partial, wait=True)
        assert file is not None, "waited for it"
        try:
            if path.exists():
                partial.unlink()
                yield None
                return
            if os.fstat(file).st_size:
                # Not an empty file: ext4 writes one that was truncated to the disk when it is closed.
                os.ftruncate(file, 0)
            yield file
            if not self._is_temporary:
                os.fsync(file)
            os.fchmod(file, _READ_ONLY)
            os.utime(file, ns=(self._clock.wall_ns(), _time(stored)))
            partial.rename(path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        finally:
            os.close(file)

    @contextlib.contextmanager
    def reserved(self, needed: int, lease: pathlib.Path) -> collections.abc.Iterator["Reservation"]:
        """Room for so many bytes of new objects, for which unused objects are removed.

        Args:
            needed: bytes.
            lease: the server's folder.

        Raises:
            InferenceError: UNAVAILABLE: the limit, or the disk, leaves no room beside the objects in use.
        """
        path = lease / (secrets.token_hex(8) + _RESERVED)
        with path.open("xb") as file:
            try:
                with self._alone():
                    self._make_room(needed)
                    reservation = Reservation(file.fileno(), needed)
                yield reservation
            finally:
                path.unlink(missing_ok=True)

    def trim(self) -> None:
        """Remove what is no longer in use, from a temporary folder without a limit."""
        if self._is_temporary and not self._limit:
            for used_ns, _, path in self._scan()[1]:
                # A newer one may be about to get its first link.
                if used_ns < self._clock.wall_ns() - _FIRST_LINK_NS:
                    _discard(path)

    @contextlib.contextmanager
    def _alone(self) -> collections.abc.Iterator[None]:
        """Holds the lock of the cache, for a moment."""
        file = os.open(self._root / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
        finally:
            os.close(file)

    def _make_room(self, needed: int) -> None:
        """Remove unused objects until there is room for so many bytes beside those that are reserved."""
        reserved = needed
        for reservation in (self._root / "servers").glob(f"*/*{_RESERVED}"):
            with contextlib.suppress(FileNotFoundError):  # its download has ended
                reserved += reservation.stat().st_size
        free = shutil.disk_usage(self._root).free
        missing = reserved - free
        if missing <= 0 and not self._limit:
            return  # every model of a start makes room: no scan of what the others have downloaded
        used, unused = self._scan()
        if self._limit:
            missing = max(missing, used + reserved - self._limit)
        for _, size, path in sorted(unused):
            if missing <= 0:
                return
            missing -= size if _discard(path) else 0
        if missing <= 0:
            return
        removed = sum(size for _, size, _ in unused)
        if reserved > free + removed:
            raise unavailable(
                f"{needed:,} bytes are to be downloaded, and the disk of {self._root} has room for {max(free + removed - reserved + needed, 0):,}: "
                f"free space on it, or give another folder with {OPTION}"
            )
        raise unavailable(
            f"{needed:,} bytes are to be downloaded, which the objects in use do not leave of --repository-cache-bytes={self._limit}: unload "
            "models, or give a higher limit"
        )

    def _scan(self) -> tuple[int, list[tuple[int, int, str]]]:
        """The bytes of all objects and parts; and the time of the last use, size and path of each object that is not in use."""
        used, unused = 0, []
        for entry in os.scandir(self._objects):
            with contextlib.suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                if entry.name.endswith(_PART):
                    used += status.st_blocks * 512  # a sparse file
                    continue
                used += status.st_size
                if status.st_nlink == 1:
                    unused.append((status.st_atime_ns, status.st_size, entry.path))
        return used, unused

    def _path(self, identity: str, stored: StoredObject) -> pathlib.Path:
        content = (identity, stored.version, str(stored.size), str(stored.modified_ns))
        return self._objects / hashlib.sha256("\0".join(content).encode()).hexdigest()


class Reservation:
    """What is still to be downloaded, as the size of a sparse file: other processes see it, and it is removed with the lease."""

    def __init__(self, file: int, size: int) -> None:
        self._file = file
        self._left = size
        self._counting = threading.Lock()
        os.ftruncate(file, size)

    def spend(self, size: int) -> None:
        """So many bytes were written; thread-safe."""
        with self._counting:
            self._left -= size
            os.ftruncate(self._file, max(self._left, 0))


def _time(stored: StoredObject) -> int:
    """The modification time of an object's file: in whole seconds, which every file system keeps, and not the present."""
    return max(stored.modified_ns // 10**9, 1) * 10**9


def _discard(path: str) -> bool:
    with contextlib.suppress(OSError):
        pathlib.Path(path).unlink()
        return True
    return False


def _link(path: pathlib.Path, target: pathlib.Path) -> None:
    try:
        os.link(path, target, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        shutil.copy2(path, target)  # a file system without hard links


def _locked(path: pathlib.Path, *, wait: bool) -> int | None:
    """Create a file if needed and lock it; None if it is locked and `wait` is false.

    Raises:
        InferenceError: UNAVAILABLE: the process that has locked it has not written to it for a while.
        OSError: it cannot be opened.
    """
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        locked = False
        try:
            if not _lock(file, wait=wait):
                return None
            with contextlib.suppress(FileNotFoundError):  # it was renamed or removed meanwhile
                locked = os.path.samestat(os.fstat(file), path.stat())
            if locked:
                return file
        finally:
            if not locked:
                os.close(file)


def _lock(file: int, *, wait: bool) -> bool:
    written, since = os.fstat(file).st_mtime_ns, time.monotonic()
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not wait:
                return False
        else:
            return True
        now = os.fstat(file).st_mtime_ns
        if now != written:
            written, since = now, time.monotonic()
        elif time.monotonic() - since > _STALLED_S:
            raise unavailable(
                f"another process has been downloading the same object for {_STALLED_S} s without progress: load the model again later, or end it"
            )
        time.sleep(_POLL_S)

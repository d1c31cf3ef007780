"""Temporary folders of a server. Those of a process that was killed are removed by the next server that starts.

A folder holds a file that its process keeps locked; the kernel unlocks it when the process is gone, in whatever way.
"""

import contextlib
import fcntl
import os
import pathlib
import shutil
import stat
import tempfile

_PREFIX = "naiad-"
_LOCK = ".naiad-lock"


class TemporaryFolder:
    """A folder in the system's folder for temporary files (`TMPDIR`), which only this user may read.

    Args:
        purpose: a part of its name.

    Attributes:
        path: the folder; empty but for a hidden file.

    Raises:
        OSError: it cannot be created.
    """

    def __init__(self, purpose: str) -> None:
        self.path = pathlib.Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{purpose}-"))
        self._lock = -1
        # A file system without locks: a killed process leaves the folder.
        with contextlib.suppress(OSError):
            self._lock = os.open(
                self.path / f"{_LOCK}.new", os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600
            )
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # It has its name only once it is locked: another server may look for folders at this moment.
            (self.path / f"{_LOCK}.new").rename(self.path / _LOCK)

    def remove(self) -> None:
        """Remove it with its contents; what cannot be removed stays. Idempotent."""
        shutil.rmtree(self.path, ignore_errors=True)
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)


def remove_leftovers() -> None:
    """Remove this user's temporary folders whose processes are gone. Blocking; errors are ignored."""
    with contextlib.suppress(OSError):
        for path in pathlib.Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
            with contextlib.suppress(OSError):
                _remove_leftover(path)


def _remove_leftover(path: pathlib.Path) -> None:
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        return
    lock = os.open(path / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The lock last: a removal that is interrupted is continued by the next server.
        for entry in path.iterdir():
            if entry.name != _LOCK and entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)
            elif entry.name != _LOCK:
                entry.unlink()
        shutil.rmtree(path)
    finally:
        os.close(lock)

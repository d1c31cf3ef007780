"""The folder where environments are kept: made once, shared by models and servers, never half made.

    <cache>/<name>/            an environment
    <cache>/<name>/.complete   says that it is whole, and what was in it; its time is that of the last use
    <cache>/<name>.lock        held by whoever makes it (alone) or uses it (together)

Environments know the path at which they were made (scripts, `conda-unpack`), so one cannot be made beside and renamed: what has no
mark is rubbish that the next maker removes, and what misses something that it had is built again when no other server uses it. Locks are the system's (flock): they end with the process that holds them, however
it ends. An installer that outlives its server holds the lock too, so that nobody builds into the same folder.
"""

import collections.abc
import contextlib
import fcntl
import logging
import os
import pathlib
import shutil
import threading

from naiad.environments import inventory
from naiad.environments.programs import ClosedError

_log = logging.getLogger("naiad.environments")

MARK = ".complete"
_LOCK = ".lock"

POLL_S = 0.2
"""How often somebody who waits for another maker looks again."""

_DAMAGED_POLLS = 25
"""How often it looks again whether those who use a damaged environment are gone."""

_SECONDS_A_DAY = 86_400.0


Make = collections.abc.Callable[[pathlib.Path, int], None]
"""Fills the empty folder that it is given; the descriptor is the lock, for programs that it starts."""


class Cache:
    """A folder of environments.

    Args:
        folder: need not be there.
        closing: set when the server stops.
    """

    def __init__(self, folder: pathlib.Path, closing: threading.Event) -> None:
        self._folder = folder
        self._closing = closing
        self._held: dict[str, int] = {}
        self._mutex = threading.Lock()

    def get(self, name: str, make: Make) -> pathlib.Path:
        """The environment of that name, which nobody removes until `close`.

        Made here when it is not there; when somebody else is at it, waited for. Blocking, from any thread.

        Raises:
            ClosedError: the server stops.
            OSError: the cache cannot be written, or the environment is damaged and another server uses it.
            Exception: whatever `make` raises; nothing is left of it then.
        """
        folder = self._folder / name
        with self._mutex:
            held = name in self._held
        if held:
            if _is_whole(folder):
                return folder
            self._let_go(name)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            lock = os.open(
                self._folder / (name + _LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666
            )
        except OSError:
            if (folder / MARK).is_file() and not _missing(folder):
                return folder  # in an image, say, whose files cannot be written: nobody removes it either
            raise
        try:
            self._make_whole(folder, lock, make)
        except BaseException:
            os.close(lock)
            raise
        with self._mutex:
            if name in self._held:  # another thread was as fast
                os.close(lock)
            else:
                self._held[name] = lock
        return folder

    def remove_unused(self, *, days: float, now_s: float) -> list[str]:
        """Remove what nobody uses and nobody has used for so long, and what was never finished; gives back their names.

        Args:
            days: 0 removes nothing.
            now_s: the time, as files have it.
        """
        removed: list[str] = []
        if days <= 0 or not self._folder.is_dir():
            return removed
        for lock in sorted(self._folder.glob("*" + _LOCK)):
            folder = lock.with_suffix("")
            if folder.is_dir() and _is_old(folder, now_s - days * _SECONDS_A_DAY):
                with contextlib.suppress(OSError):
                    if _remove_if_free(folder, lock):
                        removed.append(folder.name)
        return removed

    def close(self) -> None:
        """Use none of them any more."""
        with self._mutex:
            for lock in self._held.values():
                os.close(lock)
            self._held.clear()

    def _let_go(self, name: str) -> None:
        with self._mutex:
            lock = self._held.pop(name, None)
        if lock is not None:
            os.close(lock)

    def _make_whole(self, folder: pathlib.Path, lock: int, make: Make) -> None:
        """Come back with the environment whole and the lock held together with others."""
        mark = folder / MARK
        told = False
        damaged = 0
        while not self._closing.is_set():
            if _try(lock, fcntl.LOCK_SH):
                if _is_whole(folder):
                    with contextlib.suppress(OSError):
                        os.utime(mark)
                    return
                fcntl.flock(lock, fcntl.LOCK_UN)
                if _try(lock, fcntl.LOCK_EX):
                    if not _is_whole(folder):
                        _fill(folder, lock, make)
                    fcntl.flock(lock, fcntl.LOCK_UN)
                    continue
                if folder.exists():  # it is complete, and in use by others
                    damaged += 1
                    if damaged > _DAMAGED_POLLS:
                        raise OSError(
                            f"{folder} is damaged ({_missing(folder) or MARK} is not there any more), and another server uses it: stop that one, and it "
                            "is built again"
                        )
            if not told:
                told = True
                _log.info("waiting for somebody else who makes %s", folder)
            self._closing.wait(POLL_S)
        raise ClosedError


def _fill(folder: pathlib.Path, lock: int, make: Make) -> None:
    if folder.exists():
        lost = _missing(folder)
        if lost:
            _log.warning("%s is damaged: %s is not there any more. It is built again", folder, lost)
        else:
            _log.info("%s was left unfinished: it is built again", folder)
        shutil.rmtree(folder)
    folder.mkdir()
    try:
        make(folder, lock)
        inventory.write(folder, folder / MARK)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _is_whole(folder: pathlib.Path) -> bool:
    return (folder / MARK).is_file() and not _missing(folder)


def _missing(folder: pathlib.Path) -> str:
    """Something that was in an environment when it was made, and is not any more; "" for nothing, or for one without a mark."""
    mark = folder / MARK
    try:
        lost = inventory.missing(folder, mark)
    except FileNotFoundError:
        return ""
    return lost[0] if lost else ""


def _is_old(folder: pathlib.Path, limit_s: float) -> bool:
    try:
        return (folder / MARK).stat().st_mtime < limit_s
    except FileNotFoundError:
        return True  # nobody will use what is not whole


def _remove_if_free(folder: pathlib.Path, path: pathlib.Path) -> bool:
    lock = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        if not _try(lock, fcntl.LOCK_EX):
            return False
        (folder / MARK).unlink(missing_ok=True)  # first, so that what is left of it is rubbish
        shutil.rmtree(folder)
    finally:
        os.close(lock)
    return True


def _try(lock: int, how: int) -> bool:
    try:
        fcntl.flock(lock, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def default_folder(variables: collections.abc.Mapping[str, str], home: str) -> pathlib.Path | None:
    """Where environments are kept unless somebody chose: `naiad/environments` in the user's cache folder; None for a user without home.

    Args:
        variables: the server's environment variables.
        home: what `~` means; "~" when nobody knows.
    """
    cache = variables.get("XDG_CACHE_HOME", "")
    if cache.startswith("/"):
        return pathlib.Path(cache) / "naiad" / "environments"
    return pathlib.Path(home) / ".cache" / "naiad" / "environments" if home != "~" else None

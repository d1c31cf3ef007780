"""The folder where environments are kept: each is built once, shared by models and servers, and never used half built.

    <cache>/<name>/            an environment
    <cache>/<name>/.complete   marks it as complete and lists what was in it; its time is that of the last use
    <cache>/<name>.lock        locked exclusively by the server that builds it, shared by servers that use it

Environments contain the path at which they were built (scripts, `conda-unpack`), so one cannot be built elsewhere and renamed. A folder without a mark is
incomplete: the next builder removes it. An environment that has lost files is built again once no other server uses it. Locks are the system's (flock): they
end with the process that holds them, however it ends. An installer that outlives its server holds the lock too, so that no other server builds into the
same folder.
"""

import collections.abc
import contextlib
import fcntl
import logging
import os
import pathlib
import shutil
import threading

from naiad.environments.programs import ClosedError

_log = logging.getLogger("naiad.environments")

MARK = ".complete"
_LOCK = ".lock"

POLL_S = 0.2
"""Between two attempts to get the lock while another server or thread builds."""

_DAMAGED_POLLS = 25
"""Attempts to lock a damaged environment that other servers use, before it is an error."""

_SECONDS_PER_DAY = 86_400.0

_LISTED_LEVELS = 4
"""Levels of folders that a mark lists: `lib/python3.11/site-packages` is the third, and its entries show which packages there are."""

Build = collections.abc.Callable[[pathlib.Path, int], None]
"""Fills the empty folder that it is given; the descriptor is the lock, for programs that it starts."""


class Cache:
    """A folder of environments, created when the first one is built; `closing` is set when the server stops."""

    def __init__(self, folder: pathlib.Path, closing: threading.Event) -> None:
        self._folder = folder
        self._closing = closing
        self._held: dict[str, int] = {}
        self._mutex = threading.Lock()

    def get(self, name: str, build: Build) -> pathlib.Path:
        """The environment of that name, which no server removes until `close`.

        It is built if it does not exist; if another server or thread builds it, this call waits. Blocking, from any thread.

        Raises:
            ClosedError: the server stops.
            OSError: the cache cannot be written, or the environment is damaged and another server uses it.
            Exception: whatever `build` raises; nothing is left of the environment then.
        """
        folder = self._folder / name
        with self._mutex:
            held = name in self._held
        if held:
            if _is_complete(folder):
                return folder
            self._unlock(name)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            lock = os.open(
                self._folder / (name + _LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666
            )
        except OSError:
            if _is_complete(folder):
                return folder  # in a read-only image, for example, from which no server can remove it either
            raise
        try:
            self._complete(folder, lock, build)
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
        """Remove environments that no server has used for so many days (0: none), and incomplete ones; return their names."""
        removed: list[str] = []
        if days <= 0 or not self._folder.is_dir():
            return removed
        for lock in sorted(self._folder.glob("*" + _LOCK)):
            folder = lock.with_suffix("")
            if folder.is_dir() and _is_old(folder, now_s - days * _SECONDS_PER_DAY):
                with contextlib.suppress(OSError):
                    if _remove_if_free(folder, lock):
                        removed.append(folder.name)
        return removed

    def close(self) -> None:
        """Release the locks of all environments."""
        with self._mutex:
            for lock in self._held.values():
                os.close(lock)
            self._held.clear()

    def _unlock(self, name: str) -> None:
        with self._mutex:
            lock = self._held.pop(name, None)
        if lock is not None:
            os.close(lock)

    def _complete(self, folder: pathlib.Path, lock: int, build: Build) -> None:
        """Wait until the environment is complete and the lock is held shared; build it if necessary."""
        mark = folder / MARK
        logged = False
        damaged = 0
        while not self._closing.is_set():
            if _try_lock(lock, fcntl.LOCK_SH):
                if _is_complete(folder):
                    with contextlib.suppress(OSError):
                        os.utime(mark)
                    return
                fcntl.flock(lock, fcntl.LOCK_UN)
                if _try_lock(lock, fcntl.LOCK_EX):
                    if not _is_complete(folder):
                        _rebuild(folder, lock, build)
                    fcntl.flock(lock, fcntl.LOCK_UN)
                    continue
                if folder.exists():  # it is complete, and in use by others
                    damaged += 1
                    if damaged > _DAMAGED_POLLS:
                        raise OSError(
                            f"{folder} is damaged ({_missing(folder) or MARK} is missing), and another server uses it: stop that server, and the environment "
                            "is built again"
                        )
            if not logged:
                logged = True
                _log.info("waiting for another server or thread that builds %s", folder)
            self._closing.wait(POLL_S)
        raise ClosedError


def _rebuild(folder: pathlib.Path, lock: int, build: Build) -> None:
    if folder.exists():
        lost = _missing(folder)
        if lost:
            _log.warning("%s is damaged: %s is missing. It is built again", folder, lost)
        else:
            _log.info("%s was left unfinished: it is built again", folder)
        shutil.rmtree(folder)
    folder.mkdir()
    try:
        build(folder, lock)
        listed = "\0".join(sorted(_contents(str(folder), "", _LISTED_LEVELS)))
        (folder / MARK).write_text(listed, encoding="utf-8", errors="surrogateescape")
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _is_complete(folder: pathlib.Path) -> bool:
    return (folder / MARK).is_file() and not _missing(folder)


def _missing(folder: pathlib.Path) -> str:
    """The first file that was in an environment when it was built and is missing now, after a job that deletes old files, for example.

    "" for none, for an environment without a mark, and for a mark that lists nothing.
    """
    try:
        text = (folder / MARK).read_text(encoding="utf-8", errors="surrogateescape")
    except FileNotFoundError:
        return ""
    listed = set(text.split("\0")) - {""}
    if not listed:
        return ""
    return min(listed.difference(_contents(str(folder), "", _LISTED_LEVELS)), default="")


def _contents(folder: str, above: str, levels: int) -> collections.abc.Iterator[str]:
    """The files, folders and links in so many levels of an environment, relative to it; no broken links, no compiled modules."""
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        if entry.name == "__pycache__" or (entry.is_symlink() and not os.path.exists(entry)):  # noqa: PTH110 - as scandir gives it
            continue
        path = above + entry.name
        yield path
        if levels > 1 and entry.is_dir(follow_symlinks=False):
            yield from _contents(entry.path, path + "/", levels - 1)


def _is_old(folder: pathlib.Path, limit_s: float) -> bool:
    try:
        return (folder / MARK).stat().st_mtime < limit_s
    except FileNotFoundError:
        return True  # an incomplete one is never used


def _remove_if_free(folder: pathlib.Path, path: pathlib.Path) -> bool:
    lock = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        if not _try_lock(lock, fcntl.LOCK_EX):
            return False
        (folder / MARK).unlink(missing_ok=True)  # first, so that what is left of it is incomplete
        shutil.rmtree(folder)
    finally:
        os.close(lock)
    return True


def _try_lock(lock: int, how: int) -> bool:
    try:
        fcntl.flock(lock, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def default_folder(variables: collections.abc.Mapping[str, str], home: str) -> pathlib.Path | None:
    """Where environments are kept by default: `naiad/environments` in the user's cache folder; None for a user without a home folder, whose `home` is "~"."""
    cache = variables.get("XDG_CACHE_HOME", "")
    if cache.startswith("/"):
        return pathlib.Path(cache) / "naiad" / "environments"
    return pathlib.Path(home) / ".cache" / "naiad" / "environments" if home != "~" else None

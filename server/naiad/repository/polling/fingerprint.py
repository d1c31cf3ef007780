"""What a model's folder holds: the names, times and sizes of its files, by which a change shows (row 7.25).

Contents are not read: a model may have gigabytes. A scan of 500 models takes about 20 ms, and no call of it holds the interpreter lock for long.
"""

import collections.abc
import os
import pathlib
import stat

File = tuple[str, int | str, int]
"""Path below the model's folder, modification time in nanoseconds or the version in an object store, size in bytes."""

Fingerprint = collections.abc.Mapping[str, frozenset[File]]
"""By entry of the model's folder (a version, a file, any other folder): the files there. An empty version folder has an empty set."""

_IGNORED = "__pycache__"

_SHOWN = 3
"""Changed files that a message names."""


def fingerprint(folder: pathlib.Path) -> Fingerprint:
    """Scan a model's folder. Blocking. Links are followed; what cannot be read is treated as absent.

    A file that was replaced has another modification time or size, also if the new one is older, as after `cp -p`. Python's
    `__pycache__` folders are ignored: loading a model writes them.
    """
    files: dict[str, frozenset[File]] = {}
    for entry in _entries(folder):
        below = set[File]()
        _scan(entry, entry.name, below, set())
        files[entry.name] = frozenset(below)
    return files


def _scan(
    entry: "os.DirEntry[str]", path: str, files: set[File], visited: set[tuple[int, int]]
) -> None:
    """Add the files of an entry. `visited` holds the folders that were scanned: a link to one above it would never end."""
    try:
        status = entry.stat()
    except OSError:
        return  # it has been removed since its name was read, or it is a link to nothing
    if not stat.S_ISDIR(status.st_mode):
        files.add((path, status.st_mtime_ns, status.st_size))
    elif (status.st_dev, status.st_ino) not in visited:
        visited.add((status.st_dev, status.st_ino))
        for child in _entries(entry.path):
            _scan(child, f"{path}/{child.name}", files, visited)


def _entries(folder: "str | pathlib.Path") -> "list[os.DirEntry[str]]":
    try:
        with os.scandir(folder) as entries:
            return [entry for entry in entries if entry.name != _IGNORED]
    except OSError:
        return []


def changed_paths(before: Fingerprint, now: Fingerprint) -> frozenset[str]:
    """The paths at which two fingerprints differ; that of an empty folder ends with a slash."""
    old, new = _by_path(before), _by_path(now)
    return frozenset(path for path in (*old, *new) if old.get(path) != new.get(path))


def in_words(paths: collections.abc.Collection[str]) -> str:
    """Paths for a message: the first three, and how many more there are."""
    more = len(paths) - _SHOWN
    return ", ".join(sorted(paths)[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _by_path(files: Fingerprint) -> dict[str, File]:
    paths: dict[str, File] = {
        f"{name}/": (name, 0, 0) for name, below in files.items() if not below
    }
    paths.update({file[0]: file for below in files.values() for file in below})
    return paths

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

MAX_FILES = 100_000
"""Files and folders of an entry whose names are kept, as for a model of an object store. An entry with more, such as a link to `/`, counts as unchanged: nothing
waits for a scan of all of it, and the model goes on."""

_SHOWN = 3
"""Changed files that a message names."""


def fingerprint(folder: pathlib.Path) -> Fingerprint:
    """Scan a model's folder. Blocking. Links are followed; what cannot be read is treated as absent.

    A file that was replaced has another modification time or size, also if the new one is older, as after `cp -p`. Python's
    `__pycache__` folders are ignored: loading a model writes them.
    """
    files: dict[str, frozenset[File]] = {}
    for entry in _entries(folder):
        files[entry.name] = _files(entry)
    return files


def _files(entry: "os.DirEntry[str]") -> frozenset[File]:
    """The files of an entry."""
    files, visited = set[File](), set[tuple[int, int]]()
    pending = [(entry, entry.name)]
    while pending:
        current, path = pending.pop()
        try:
            status = current.stat()
        except OSError:
            continue  # it has been removed since its name was read, or it is a link to nothing
        if not stat.S_ISDIR(status.st_mode):
            files.add((path, status.st_mtime_ns, status.st_size))
        elif (status.st_dev, status.st_ino) not in visited:
            # A link to a folder above it would never end.
            visited.add((status.st_dev, status.st_ino))
            pending += [(child, f"{path}/{child.name}") for child in _entries(current.path)]
        if len(files) + len(pending) > MAX_FILES:
            return frozenset({(f"{entry.name}: too many files", 0, MAX_FILES)})
    return frozenset(files)


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

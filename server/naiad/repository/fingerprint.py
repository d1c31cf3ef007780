"""What a model's folder holds, by names, sizes and times of its files, to find whether a reload has anything to do (rows 7.21, 7.25).

Contents are not read: a model may be gigabytes. A file that was replaced shows by its modification time or its size, also when the new one is
older, as after `cp -p`. Python's own `__pycache__` folders do not count: loading a model writes them.
"""

import collections.abc
import os
import pathlib

File = tuple[str, int, int]
"""Path below the model's folder, modification time in nanoseconds, size in bytes."""

Fingerprint = collections.abc.Mapping[str, frozenset[File]]
"""By entry of the model's folder (a version, a file, any other folder): the files there. An empty version folder has an empty set."""

_IGNORED = "__pycache__"


def fingerprint(folder: pathlib.Path) -> Fingerprint:
    """Scan a model's folder. Blocking. Links are followed; what cannot be read counts as absent."""
    found: dict[str, frozenset[File]] = {}
    try:
        entries = sorted(folder.iterdir())
    except OSError:
        return found
    for entry in entries:
        if entry.name == _IGNORED:
            continue
        paths = _files_below(entry) if entry.is_dir() else [entry]
        found[entry.name] = frozenset(
            file for path in paths if (file := _file(folder, path)) is not None
        )
    return found


def _files_below(folder: pathlib.Path) -> collections.abc.Iterator[pathlib.Path]:
    visited = set[tuple[int, int]]()  # a link to a folder above it would never end
    for place, folders, files in os.walk(folder, followlinks=True):
        status = pathlib.Path(place).stat()
        if (status.st_dev, status.st_ino) in visited:
            folders.clear()
            continue
        visited.add((status.st_dev, status.st_ino))
        folders[:] = [name for name in folders if name != _IGNORED]
        yield from (pathlib.Path(place, name) for name in files)


def _file(folder: pathlib.Path, path: pathlib.Path) -> File | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return str(path.relative_to(folder)), status.st_mtime_ns, status.st_size

"""The fingerprint of a model: names, sizes and times of its files, which show whether a reload has anything to do (rows 7.21, 7.25).

Contents are not read: a model may have gigabytes. A file that was replaced has another modification time or size, also if the new one is
older, as after `cp -p`. Python's `__pycache__` folders are ignored: loading a model writes them.
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
    """Scan a model's folder. Blocking. Links are followed; what cannot be read is treated as absent."""
    files: dict[str, frozenset[File]] = {}
    try:
        entries = sorted(folder.iterdir())
    except OSError:
        return files
    for entry in entries:
        if entry.name == _IGNORED:
            continue
        paths = _files_below(entry) if entry.is_dir() else [entry]
        files[entry.name] = frozenset(
            file for path in paths if (file := _file(folder, path)) is not None
        )
    return files


def _files_below(folder: pathlib.Path) -> collections.abc.Iterator[pathlib.Path]:
    visited = set[tuple[int, int]]()  # a link to a folder above it would never end
    for path, folders, names in os.walk(folder, followlinks=True):
        try:
            status = pathlib.Path(path).stat()
        except OSError:
            continue  # it has been removed since its name was read
        if (status.st_dev, status.st_ino) in visited:
            folders.clear()
            continue
        visited.add((status.st_dev, status.st_ino))
        folders[:] = [name for name in folders if name != _IGNORED]
        yield from (pathlib.Path(path, name) for name in names)


def _file(folder: pathlib.Path, path: pathlib.Path) -> File | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return str(path.relative_to(folder)), status.st_mtime_ns, status.st_size

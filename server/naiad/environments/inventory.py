"""Lists what was in an environment when it was built, to detect damage: a job that deletes old files, for example."""

import collections.abc
import os
import pathlib

_DEPTH = 4
"""Levels of folders that are listed: `lib/python3.11/site-packages` is the third, and its entries show which packages there are."""

_IGNORED = "__pycache__"


def inventory(folder: pathlib.Path) -> set[str]:
    """The files, folders and links near the top of an environment, relative to it; no broken links."""
    return set(_listed(str(folder), "", _DEPTH))


def missing(folder: pathlib.Path, mark: pathlib.Path) -> list[str]:
    """The listed files that are missing now, sorted; empty for a mark that lists nothing.

    Args:
        folder: the environment's.
        mark: the file with its inventory.

    Raises:
        OSError: the mark cannot be read.
    """
    listed = set(mark.read_text(encoding="utf-8", errors="surrogateescape").split("\0")) - {""}
    return sorted(listed - inventory(folder)) if listed else []


def write(folder: pathlib.Path, mark: pathlib.Path) -> None:
    """Write the inventory of an environment that has just been built."""
    text = "\0".join(sorted(inventory(folder)))
    mark.write_text(text, encoding="utf-8", errors="surrogateescape")


def _listed(folder: str, above: str, depth: int) -> collections.abc.Iterator[str]:
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        if entry.name == _IGNORED or (entry.is_symlink() and not pathlib.Path(entry).exists()):
            continue
        path = above + entry.name
        yield path
        if depth > 1 and entry.is_dir(follow_symlinks=False):
            yield from _listed(entry.path, path + "/", depth - 1)

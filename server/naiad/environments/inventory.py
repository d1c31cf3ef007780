"""What was in an environment when it was made, so that one that was damaged since is found: by a cleaner of old files, say."""

import collections.abc
import os
import pathlib

_DEPTH = 4
"""Folders down to here are listed: `lib/python3.11/site-packages` is the third, and what is in it tells whether packages are there."""

_COMES_AND_GOES = "__pycache__"


def inventory(folder: pathlib.Path) -> set[str]:
    """The files, folders and links near the top of an environment, relative to it; no link that leads nowhere."""
    return set(_listed(str(folder), "", _DEPTH))


def missing(folder: pathlib.Path, mark: pathlib.Path) -> list[str]:
    """What is not there any more, in order; nothing for a mark that lists nothing.

    Args:
        folder: the environment's.
        mark: the file with its inventory.

    Raises:
        OSError: the mark cannot be read.
    """
    listed = set(mark.read_text(encoding="utf-8", errors="surrogateescape").split("\0")) - {""}
    return sorted(listed - inventory(folder)) if listed else []


def write(folder: pathlib.Path, mark: pathlib.Path) -> None:
    """Write the inventory of an environment that has just been made."""
    text = "\0".join(sorted(inventory(folder)))
    mark.write_text(text, encoding="utf-8", errors="surrogateescape")


def _listed(folder: str, above: str, depth: int) -> collections.abc.Iterator[str]:
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        if entry.name == _COMES_AND_GOES or (
            entry.is_symlink() and not pathlib.Path(entry).exists()
        ):
            continue
        path = above + entry.name
        yield path
        if depth > 1 and entry.is_dir(follow_symlinks=False):
            yield from _listed(entry.path, path + "/", depth - 1)

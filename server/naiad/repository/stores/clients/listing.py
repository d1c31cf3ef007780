"""Listings of stores that name all of their files at once. Pure."""

import collections.abc
import typing

from naiad.repository.stores.objects import Folder, StoredObject

_CONFIG = "config.pbtxt"

T = typing.TypeVar("T")


def name_of(entry: StoredObject | Folder) -> str:
    """What entries of a listing are sorted by."""
    return entry.name if isinstance(entry, Folder) else entry.key


def entries_below(
    objects: collections.abc.Iterable[StoredObject], below: str, *, recursive: bool
) -> collections.abc.Iterator[StoredObject | Folder]:
    """The entries of a folder, as `ObjectClient.listing` gives them.

    Args:
        objects: of the whole repository, in the order of their keys.
        below: the folder.
        recursive: whether objects in folders are listed, instead of a `Folder` for each folder.
    """
    beginning = f"{below}/" if below else ""
    last = ""
    for stored in objects:
        if not stored.key.startswith(beginning):
            continue
        name, slash, _ = stored.key[len(beginning) :].partition("/")
        if recursive or not slash:
            yield stored
        elif name != last:
            last = name
            yield Folder(name)


def at_root(entries: collections.abc.Mapping[str, T]) -> dict[str, T]:
    """Entries of an archive, by their keys in the repository that it holds."""
    root = repository_root(entries)
    return {key: entry for name, entry in entries.items() if (key := name.removeprefix(root))}


def repository_root(keys: collections.abc.Iterable[str]) -> str:
    """The folder of an archive that holds the models, with a slash at its end; "" is the top.

    It is the only folder at the top, where it is not a model itself: `tar -czf models.tar.gz models` puts one there.
    """
    top, inside = set[str](), set[str]()
    for key in keys:
        first, slash, rest = key.partition("/")
        top.add(first + slash)
        inside.add(rest.partition("/")[0])
    if len(top) != 1:
        return ""
    (only,) = top
    is_model = _CONFIG in inside or any(name.isdecimal() for name in inside)
    return "" if is_model or not only.endswith("/") else only

"""What the objects of a folder are as files and folders, and the versions of them as a fingerprint. Pure."""

import collections.abc
import hashlib

import msgspec

from naiad.errors import invalid
from naiad.repository.polling.fingerprint import File, Fingerprint
from naiad.repository.stores.objects import StoredObject

_FILES_PER_ENTRY = 100
"""Objects of an entry whose versions go to the server one by one, so that it can say what has changed."""

_MAX_SEGMENT = 255


class Layout(msgspec.Struct, frozen=True):
    """What a model consists of as a folder.

    Attributes:
        folders: every folder in it.
        files: the object of each file, by its path.
    """

    folders: frozenset[str]
    files: dict[str, StoredObject]


def layout(name: str, objects: collections.abc.Iterable[StoredObject]) -> Layout:
    """The files and folders of a model.

    Raises:
        InferenceError: INVALID_ARG: a key is not the path of a file in the model's folder.
    """
    folders, files = set[str](), dict[str, StoredObject]()
    for stored in objects:
        path = stored.key.removeprefix(f"{name}/")
        is_folder = path.endswith("/") and not stored.size
        segments = path.removesuffix("/").split("/") if is_folder else path.split("/")
        if path:
            for segment in segments:
                _check_segment(segment, stored.key)
            above = segments if is_folder else segments[:-1]
            folders.update("/".join(above[:count]) for count in range(1, len(above) + 1))
            if not is_folder:
                files[path] = stored
    for path in files:
        if path in folders:
            raise invalid(
                f"the object {name + '/' + path!r} is a file, and other objects are in a folder with this name; rename or delete it"
            )
    return Layout(frozenset(folders), files)


def _check_segment(segment: str, key: str) -> None:
    if not segment:
        problem = "it holds two slashes in a row or one at an end"
    elif segment in (".", ".."):
        problem = f"it holds {segment!r}"
    elif not segment.isprintable():
        problem = "it holds control characters"
    elif len(segment.encode()) > _MAX_SEGMENT:
        problem = f"a name in it has more than {_MAX_SEGMENT} bytes"
    else:
        return
    raise invalid(f"the object {key!r} cannot be a file: {problem}; rename or delete it")


def fingerprint(name: str, objects: collections.abc.Iterable[StoredObject]) -> Fingerprint:
    """The versions of the model's objects; one hash of them for an entry of its folder with very many."""
    entries: dict[str, list[StoredObject]] = {}
    for stored in objects:
        entry, _, rest = stored.key.removeprefix(f"{name}/").partition("/")
        if entry or rest:
            entries.setdefault(entry, [])
            if rest or not stored.key.endswith("/"):
                entries[entry].append(stored)
    return {entry: frozenset(_files(entry, parts, f"{name}/")) for entry, parts in entries.items()}


def _files(
    entry: str, objects: list[StoredObject], beginning: str
) -> collections.abc.Iterator[File]:
    if len(objects) <= _FILES_PER_ENTRY:
        for stored in objects:
            yield stored.key.removeprefix(beginning), stored.version, stored.size
    else:
        lines = sorted(f"{stored.key}\0{stored.version}\0{stored.size}" for stored in objects)
        text = "\n".join(lines).encode()
        yield f"{entry}/", hashlib.sha256(text).hexdigest(), sum(stored.size for stored in objects)

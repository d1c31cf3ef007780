"""A model repository in a store of objects: implements `Store` with a client, the cache and the downloads.

One listing of the top folder gives the names of the models. A model's objects are listed by themselves; when a second model is requested after
the same listing of names, the whole repository is listed once, which serves all other models: a poll of 500 models takes a few requests.
"""

import collections
import collections.abc
import concurrent.futures
import contextlib
import errno
import functools
import hashlib
import itertools
import pathlib
import shutil
import threading

import msgspec

from naiad.core.clock import Clock
from naiad.core.processes.inherited import be_free
from naiad.errors import InferenceError, invalid, unavailable
from naiad.repository.polling.fingerprint import File, Fingerprint
from naiad.repository.store import Checkout, OnBytes, check_name, no_bytes
from naiad.repository.stores import level
from naiad.repository.stores.address import DOWNLOADED_WHOLE, Address
from naiad.repository.stores.cache import OPTION, Cache
from naiad.repository.stores.download import Advance, Downloader, Progress
from naiad.repository.stores.objects import ChangedError, Folder, ObjectClient, StoredObject

MAX_MODEL_OBJECTS = 100_000
MAX_REPOSITORY_OBJECTS = 500_000
"""Bounds of a listing, of one model and of all: 100 requests, and 500."""

LISTING_SECONDS = 25
"""Limit of a listing; below the time that the server waits for one."""

_OBJECT_THREADS = 16
_FILES_PER_ENTRY = 100
"""Objects of an entry whose versions go to the server one by one, so that it can say what has changed."""

_ATTEMPTS = 3
_CHANGES = 3
"""Listings of a model until no object changes while it is downloaded."""

_MAX_SEGMENT = 255

_LOOKED_AT = 3
"""Folders with a number for a name that are listed to see whether they are versions."""

Objects = tuple[StoredObject, ...]
Names = collections.abc.Collection[str]


class _TooManyError(Exception):
    """A listing is longer than its bound."""


class _Listings:
    """The models that were listed since the last listing of names.

    Attributes:
        models: their objects; None: more than the bound.
        is_complete: whether a model that is not there has no objects.
        is_single: whether every model is listed by itself, because the whole repository is too large or too slow.
        lock: of all of these.
    """

    def __init__(self) -> None:
        self.models: dict[str, Objects | None] = {}
        self.is_complete = False
        self.is_single = False
        self.lock = threading.Lock()


class ObjectStore:
    """Implements `Store`; thread-safe.

    Args:
        address: of the repository.
        client: reads it.
        cache: holds the objects.
        lease: the server's folder in the cache.
        downloader: of all stores.
        clock: limits the time of listings.
    """

    def __init__(
        self,
        address: Address,
        client: ObjectClient,
        cache: Cache,
        lease: pathlib.Path,
        *,
        downloader: Downloader,
        clock: Clock,
    ) -> None:
        self.location = str(address)
        self._place = str(msgspec.structs.replace(address, prefix=""))
        self._address = address
        self._client = client
        self._cache = cache
        self._lease = lease
        self._downloader = downloader
        self._clock = clock
        self._listings = _Listings()
        self._numbers = itertools.count(1)
        self._threads = concurrent.futures.ThreadPoolExecutor(
            _OBJECT_THREADS, "object", initializer=be_free
        )

    def names(self) -> list[str]:
        """The folders directly in the repository, except hidden ones; objects beside them are ignored."""
        try:
            files, names = self._listed("")
        except _TooManyError:
            raise invalid(
                f"{self.location}: there are more than {MAX_REPOSITORY_OBJECTS:,} folders and objects: is this a model repository?"
            ) from None
        self._listings = _Listings()
        self._check_not_a_model(files, names)
        return sorted(name for name in names if name and not name.startswith("."))

    def fingerprint(self, name: str) -> Fingerprint:
        """The versions of the model's objects; never an error because of what the objects are like."""
        check_name(name)
        objects = self._objects(name)
        if objects is None:
            return {"": frozenset({("too many objects", 0, MAX_MODEL_OBJECTS)})}
        return fingerprint(name, objects)

    def checkout(self, name: str, on_bytes: OnBytes = no_bytes) -> Checkout:
        """A new folder of links to the cached objects; what is not in the cache is downloaded first."""
        check_name(name)
        for attempt in range(_CHANGES):
            paths = self.layout(name)
            folder = self._new_folder() / name
            try:
                self._fill(folder, paths, on_bytes)
            except ChangedError:
                _remove(folder.parent)
                if attempt == _CHANGES - 1:
                    raise
                listings = self._listings
                with listings.lock:
                    listings.models[name] = self._list_model(name)
            except BaseException as error:
                _remove(folder.parent)
                if isinstance(error, OSError):
                    raise self._unwritable(error) from None
                raise
            else:
                return Checkout(folder, functools.partial(_remove, folder.parent))
        raise AssertionError("the last attempt returns or raises")

    def layout(self, name: str) -> "Layout":
        """The files and folders of a model; nothing is downloaded.

        Raises:
            InferenceError: this is not a model, or it cannot be a folder.
        """
        objects = self._objects(name)
        if objects is None:
            raise invalid(
                f"{self.location}/{name}: there are more than {MAX_MODEL_OBJECTS:,} objects: is this a model?"
            )
        self._check_is_a_model(name, objects)
        return layout(name, objects)

    def _listed(self, below: str) -> tuple[list[str], set[str]]:
        """The names of the objects and of the folders directly in a folder."""
        files, folders = list[str](), set[str]()
        for entry in self._list(below, recursive=False, most=MAX_REPOSITORY_OBJECTS):
            if isinstance(entry, Folder):
                folders.add(entry.name)
            else:
                files.append(entry.key.rpartition("/")[2])
        return files, folders

    def _check_not_a_model(self, files: Names, folders: Names) -> None:
        """Check that the repository is not the folder of one model, which would show as a model with the name "1"."""
        versions = sorted(name for name in folders if name.isdecimal())[:_LOOKED_AT]
        if versions and (
            level.CONFIG in files
            or any(level.is_version(name, self._listed(name)[0]) for name in versions)
        ):
            raise invalid(f"{self.location}: {level.too_low(self._around())}")

    def _check_is_a_model(self, name: str, objects: Objects) -> None:
        """Check that a folder does not hold the repository itself, before all of that is downloaded."""
        inner = level.repository_in(stored.key.removeprefix(f"{name}/") for stored in objects)
        if inner is not None:
            place = f"{self.location}/{name}"
            repository = "" if self._is_downloaded_whole() else f"{place}/{inner}".rstrip("/")
            raise invalid(f"{place}: {level.too_high(repository)}")

    def _around(self) -> str:
        """The folder around the repository; "" if there is none."""
        if self._is_downloaded_whole() or not self._address.prefix:
            return ""
        parent, _, _ = self._address.prefix.rpartition("/")
        return str(msgspec.structs.replace(self._address, prefix=parent))

    def _is_downloaded_whole(self) -> bool:
        return self._address.scheme in DOWNLOADED_WHOLE

    def _new_folder(self) -> pathlib.Path:
        """A folder in the lease, which other stores and processes before this one use too."""
        try:
            self._lease.mkdir(parents=True, exist_ok=True)
            while True:
                folder = self._lease / str(next(self._numbers))
                with contextlib.suppress(FileExistsError):
                    folder.mkdir()
                    return folder
        except OSError as error:
            raise self._unwritable(error) from None

    def _objects(self, name: str) -> Objects | None:
        """The model's objects as listed since the last listing of names; None if there are too many."""
        listings = self._listings
        with listings.lock:
            is_known = name in listings.models or listings.is_complete
            if not is_known and listings.models and not listings.is_single:
                self._list_all(listings)
            if name not in listings.models:
                listings.models[name] = () if listings.is_complete else self._list_model(name)
            return listings.models[name]

    def _list_model(self, name: str) -> Objects | None:
        try:
            entries = self._list(name, recursive=True, most=MAX_MODEL_OBJECTS)
            return tuple(entry for entry in entries if isinstance(entry, StoredObject))
        except _TooManyError:
            return None

    def _list_all(self, listings: _Listings) -> None:
        by_model = collections.defaultdict[str, list[StoredObject]](list)
        try:
            for entry in self._list("", recursive=True, most=MAX_REPOSITORY_OBJECTS):
                if isinstance(entry, StoredObject) and "/" in entry.key:
                    by_model[entry.key.partition("/")[0]].append(entry)
        except (_TooManyError, InferenceError):
            listings.is_single = True
            return
        for name, objects in by_model.items():
            listings.models[name] = tuple(objects) if len(objects) <= MAX_MODEL_OBJECTS else None
        listings.is_complete = True

    def _list(
        self, below: str, *, recursive: bool, most: int
    ) -> collections.abc.Iterator[StoredObject | Folder]:
        end = 0
        for count, entry in enumerate(self._client.listing(below, recursive=recursive)):
            if not end:  # an archive was downloaded before its first entry
                end = self._clock.monotonic_ns() + LISTING_SECONDS * 10**9
            if count >= most:
                raise _TooManyError
            if self._clock.monotonic_ns() > end:
                raise unavailable(
                    f"{self.location}: the listing takes longer than {LISTING_SECONDS} s ({count:,} objects until now); check the connection to the "
                    "store, or give a folder with fewer objects"
                )
            yield entry

    def _fill(self, folder: pathlib.Path, objects: "Layout", on_bytes: OnBytes) -> None:
        folder.mkdir()
        for path in objects.folders:
            (folder / path).mkdir(parents=True, exist_ok=True)
        missing = {
            folder / path: stored
            for path, stored in objects.files.items()
            if not self._cache.link(self._identity(stored), stored, folder / path)
        }
        if not missing:
            return
        self._cache.trim()
        size = sum(stored.size for stored in missing.values())
        with self._cache.reserved(size, self._lease) as reservation:
            progress = Progress(size, on_bytes)

            def advance(count: int) -> None:
                reservation.spend(count)
                progress.advance(count)

            work = [
                self._threads.submit(self._obtain, stored, path, advance)
                for path, stored in missing.items()
            ]
            try:
                for future in concurrent.futures.as_completed(work):
                    future.result()
            finally:
                for future in work:
                    future.cancel()
                concurrent.futures.wait(work)

    def _obtain(self, stored: StoredObject, target: pathlib.Path, advance: Advance) -> None:
        """Link one object, after a download unless another process has done that meanwhile."""
        identity = self._identity(stored)
        for _ in range(_ATTEMPTS):
            with self._cache.part(identity, stored) as file:
                if file is not None:
                    self._downloader.download(self._client, stored, file, advance)
            if self._cache.link(identity, stored, target):
                return
        raise unavailable(
            f"{self.location}/{stored.key}: other processes keep removing it from the cache folder; check what writes there"
        )

    def _identity(self, stored: StoredObject) -> str:
        return f"{self._place}/{self._address.key(stored.key)}"

    def _unwritable(self, error: OSError) -> InferenceError:
        root = self._lease.parent.parent
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return unavailable(
                f"the disk of the cache folder {root} is full: free space on it, or give another folder with {OPTION}"
            )
        return unavailable(
            f"the cache folder {root} cannot be written ({error}): check its permissions, and what else changes it"
        )


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


def _remove(folder: pathlib.Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)

"""A model repository in a store of objects: implements `Store` with a client, the cache and the downloads.

One listing of the top folder gives the names of the models. A model's objects are listed by themselves; when a second model is requested after
the same listing of names, the whole repository is listed once, which serves all other models: a poll of 500 models takes a few requests.
"""

import collections
import collections.abc
import functools
import pathlib
import shutil
import threading

import msgspec

from naiad.core.clock import Clock
from naiad.errors import InferenceError, invalid
from naiad.repository.polling.fingerprint import Fingerprint
from naiad.repository.store import Checkout, OnBytes, check_name, no_bytes
from naiad.repository.stores import level
from naiad.repository.stores.address import DOWNLOADED_WHOLE, Address
from naiad.repository.stores.cache import Cache
from naiad.repository.stores.download import Downloader
from naiad.repository.stores.filler import Filler
from naiad.repository.stores.layout import Layout, fingerprint, layout
from naiad.repository.stores.lister import Lister, TooManyError
from naiad.repository.stores.objects import ChangedError, Folder, ObjectClient, StoredObject

MAX_MODEL_OBJECTS = 100_000
MAX_REPOSITORY_OBJECTS = 500_000
"""Bounds of a listing, of one model and of all: 100 requests, and 500."""

_CHANGES = 3
"""Listings of a model until no object changes while it is downloaded."""

_LOOKED_AT = 3
"""Folders with a number for a name that are listed to see whether they are versions."""

Objects = tuple[StoredObject, ...]
Names = collections.abc.Collection[str]


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
        self._address = address
        self._lister = Lister(self.location, client, clock)
        self._filler = Filler(address, client, cache, lease, downloader=downloader)
        self._listings = _Listings()

    def names(self) -> list[str]:
        """The folders directly in the repository, except hidden ones; objects beside them are ignored."""
        try:
            files, names = self._listed("")
        except TooManyError:
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
            folder = self._filler.new_folder() / name
            try:
                self._filler.fill(folder, paths, on_bytes)
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
                    raise self._filler.unwritable(error) from None
                raise
            else:
                return Checkout(folder, functools.partial(_remove, folder.parent))
        raise AssertionError("the last attempt returns or raises")

    def layout(self, name: str) -> Layout:
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
        for entry in self._lister.entries(below, recursive=False, most=MAX_REPOSITORY_OBJECTS):
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
            entries = self._lister.entries(name, recursive=True, most=MAX_MODEL_OBJECTS)
            return tuple(entry for entry in entries if isinstance(entry, StoredObject))
        except TooManyError:
            return None

    def _list_all(self, listings: _Listings) -> None:
        by_model = collections.defaultdict[str, list[StoredObject]](list)
        try:
            for entry in self._lister.entries("", recursive=True, most=MAX_REPOSITORY_OBJECTS):
                if isinstance(entry, StoredObject) and "/" in entry.key:
                    by_model[entry.key.partition("/")[0]].append(entry)
        except (TooManyError, InferenceError):
            listings.is_single = True
            return
        for name, objects in by_model.items():
            listings.models[name] = tuple(objects) if len(objects) <= MAX_MODEL_OBJECTS else None
        listings.is_complete = True


def _remove(folder: pathlib.Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)

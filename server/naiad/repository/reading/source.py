"""A whole repository as `naiad fetch` copies it: what it holds now, and a copy of all its models in a folder. Blocking."""

import collections.abc
import concurrent.futures
import hashlib
import pathlib
import shutil
import threading
import types
import typing

import msgspec

from naiad.errors import InferenceError, invalid
from naiad.repository.reading import contents
from naiad.repository.reading.contents import Advance
from naiad.repository.reading.store_session import SharedCache, StoreSession
from naiad.repository.store import Checkout, LocalStore, local_root
from naiad.repository.stores import address
from naiad.repository.stores.object_store import ObjectStore

_MODELS_AT_A_TIME = 4


class Holdings(msgspec.Struct, frozen=True):
    """What a repository holds.

    Attributes:
        models: how many can be copied.
        digest: changes with every file.
        size: bytes of all files that can be copied.
        failed: why the other models cannot, by name.
    """

    models: int
    digest: str
    size: int
    failed: collections.abc.Mapping[str, str] = types.MappingProxyType({})


class Source(typing.Protocol):
    """A repository. `close` ends its use.

    Attributes:
        location: its address, for people.
    """

    location: str

    def check_target(self, folder: pathlib.Path) -> None:
        """Check what can be known before anything is written.

        Args:
            folder: where the copy is to be.

        Raises:
            InferenceError: this is not a repository, or the folder is part of it.
        """
        ...

    def holdings(self) -> Holdings:
        """What it holds; `copy` copies just that, without the models that cannot be copied.

        Raises:
            InferenceError: it cannot be read.
        """
        ...

    def copy(self, target: pathlib.Path, advance: Advance) -> None:
        """Copy every model that can be copied into an empty folder, and report the bytes since the last report.

        Raises:
            InferenceError: it cannot be read, or changes meanwhile.
            OSError: the folder cannot be written.
        """
        ...

    def close(self) -> None:
        """Remove what the next fetch cannot use. Idempotent."""
        ...


def open_source(
    location: str, *, objects: pathlib.Path, shared: SharedCache | None = None
) -> Source:
    """The repository at a location; nothing is read or written yet.

    Args:
        location: as `--model-repository` takes it.
        objects: a folder of this fetch, on the disk of the copy: keeps the objects that were downloaded when a fetch is interrupted.
        shared: used in its place for what is downloaded, if there is one.

    Raises:
        InferenceError: the location is wrong.
    """
    root = local_root(location)
    if root is not None:
        return LocalSource(root)
    return RemoteSource(address.parse(location), objects, shared)


def _check_apart(folder: pathlib.Path, location: str) -> None:
    """Check that the folder of a copy and what is copied are not in each other.

    Raises:
        InferenceError: they are.
    """
    inside, around = folder.resolve(), pathlib.Path(location).resolve()
    if inside.is_relative_to(around) or around.is_relative_to(inside):
        raise invalid(
            f"--to={folder}: this folder and the repository {location} overlap; give another one"
        )


class LocalSource:
    """A folder of this machine; implements `Source`."""

    def __init__(self, root: str) -> None:
        self.location = root
        self._entries: list[contents.Entry] = []

    def check_target(self, folder: pathlib.Path) -> None:
        """See `Source`."""
        self._models()
        _check_apart(folder, self.location)

    def holdings(self) -> Holdings:
        """See `Source`."""
        models = self._models()
        self._entries = contents.contents(pathlib.Path(self.location))
        size = sum(entry.size for entry in self._entries)
        return Holdings(models, contents.digest(self._entries), size)

    def _models(self) -> int:
        """How many models there are; raises InferenceError if the folder is of another kind."""
        return len(LocalStore(self.location, option="").names())

    def copy(self, target: pathlib.Path, advance: Advance) -> None:
        """See `Source`."""
        contents.copy(self._entries, target, advance=advance)

    def close(self) -> None:
        """See `Source`."""


class RemoteSource:
    """An address; implements `Source` with the server's own store, in this process.

    Args:
        place: the address.
        objects: the cache folder of this fetch.
        shared: the cache folder in its place.
    """

    def __init__(
        self, place: address.Address, objects: pathlib.Path, shared: SharedCache | None = None
    ) -> None:
        self.location = str(place)
        self._place = place
        self._session = StoreSession(objects, shared)
        self._store: ObjectStore | None = None
        self._names: list[str] = []

    def check_target(self, folder: pathlib.Path) -> None:
        """See `Source`."""

    def holdings(self) -> Holdings:
        """See `Source`."""
        store = self._opened()
        self._names = store.names()
        if not self._names:
            raise invalid(f"{self.location}: there is no model; check the bucket and the prefix")
        text, size = hashlib.sha256(), 0
        failed: dict[str, str] = {}
        for name in self._names:
            fingerprint = store.fingerprint(name)
            for entry, files in sorted(fingerprint.items()):
                text.update(f"{name}\0{entry}\0{sorted(files)}\n".encode())
            try:
                store.layout(name)
            except InferenceError as error:
                failed[name] = error.message
            else:
                size += sum(file[2] for files in fingerprint.values() for file in files)
        self._names = [name for name in self._names if name not in failed]
        return Holdings(len(self._names), text.hexdigest(), size, failed)

    def copy(self, target: pathlib.Path, advance: Advance) -> None:
        """See `Source`."""

        def take(name: str, checkout: Checkout) -> None:
            if not self._session.is_shared:
                checkout.folder.rename(target / name)
                return
            # Files of its own: those of the cache count as in use as long as there is a link to them.
            shutil.copytree(checkout.folder, target / name, symlinks=True)
            assert checkout.release is not None, "a cache's"
            checkout.release()

        self._check_out(take, advance)
        self._session.forget_objects()

    def fill(self, advance: Advance) -> None:
        """Download every model into the shared cache.

        Raises:
            InferenceError: it cannot be read, or changes meanwhile.
        """

        def take(_: str, checkout: Checkout) -> None:
            assert checkout.release is not None, "a cache's"
            checkout.release()

        self._check_out(take, advance)

    def _check_out(
        self, take: collections.abc.Callable[[str, Checkout], None], advance: Advance
    ) -> None:
        """Check out every model that can be copied, some at a time."""
        store, adding = self._opened(), threading.Lock()

        def check_out(name: str) -> None:
            before = 0

            def on_bytes(done: int, _: int) -> None:
                nonlocal before
                with adding:
                    advance(done - before)
                before = done

            take(name, store.checkout(name, on_bytes))

        with concurrent.futures.ThreadPoolExecutor(_MODELS_AT_A_TIME) as threads:
            list(threads.map(check_out, self._names))

    def close(self) -> None:
        """See `Source`."""
        self._session.close()

    def _opened(self) -> ObjectStore:
        if self._store is None:
            session = self._session
            self._store = ObjectStore(
                self._place,
                session.client(self._place),
                session.cache(),
                session.lease(),
                downloader=session.downloader,
                clock=session.clock,
            )
        return self._store

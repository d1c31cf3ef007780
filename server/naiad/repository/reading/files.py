"""Any files as `naiad fetch --files` copies them, as they are: a folder or one file of a store, or a folder of this machine. Blocking.

What is copied is for programs beside the servers, e.g. the vocabulary of a transformer, and need not be a model repository.
"""

import hashlib
import pathlib
import shutil

import msgspec
from typing_extensions import override

from naiad.errors import invalid
from naiad.repository.reading.contents import Advance
from naiad.repository.reading.source import Holdings, LocalSource, Source
from naiad.repository.reading.store_session import SharedCache, StoreSession
from naiad.repository.store import local_root
from naiad.repository.stores import address
from naiad.repository.stores.filler import Filler
from naiad.repository.stores.layout import Layout, layout
from naiad.repository.stores.lister import Lister, TooManyError
from naiad.repository.stores.objects import StoredObject

MAX_FILES = 100_000


def open_files(
    location: str, *, objects: pathlib.Path, shared: SharedCache | None = None
) -> Source:
    """The files at a location; the arguments are those of `open_source`.

    Raises:
        InferenceError: the location is wrong.
    """
    root = local_root(location)
    if root is not None:
        return LocalFiles(root)
    return RemoteFiles(address.parse(location), objects, shared)


class LocalFiles(LocalSource):
    """A folder of this machine, whatever is in it; implements `Source`."""

    @override
    def _models(self) -> int:
        if not pathlib.Path(self.location).is_dir():
            raise invalid(f"{self.location}: this is not a folder")
        return 0


class RemoteFiles:
    """The objects below an address, or the one object that it names; implements `Source`.

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
        self._layout = Layout(frozenset(), {})

    def check_target(self, folder: pathlib.Path) -> None:
        """See `Source`."""

    def holdings(self) -> Holdings:
        """See `Source`."""
        try:
            found = self._listed(recursive=True) or self._one_object()
        except TooManyError:
            raise invalid(
                f"{self.location}: there are more than {MAX_FILES:,} objects: give a folder with fewer"
            ) from None
        self._layout = layout("", found)
        files = self._layout.files
        if not files:
            raise invalid(f"{self.location}: there is no file; check the bucket and the path")
        text = hashlib.sha256()
        for path, stored in sorted(files.items()):
            text.update(f"{path}\0{stored.version}\0{stored.size}\n".encode())
        return Holdings(0, text.hexdigest(), sum(stored.size for stored in files.values()))

    def copy(self, target: pathlib.Path, advance: Advance) -> None:
        """See `Source`."""
        before = 0

        def on_bytes(done: int, _: int) -> None:
            nonlocal before
            advance(done - before)
            before = done

        session = self._session
        client = session.client(self._place)
        filler = Filler(self._place, client, session.cache(), session.lease(), downloader=session.downloader)  # fmt: skip
        folder = filler.new_folder() / "files"
        filler.fill(folder, self._layout, on_bytes)
        if session.is_shared:
            # Files of its own: those of the cache count as in use as long as there is a link to them.
            shutil.copytree(folder, target, symlinks=True, dirs_exist_ok=True)
            shutil.rmtree(folder.parent)
        else:
            for child in folder.iterdir():
                child.rename(target / child.name)
        session.forget_objects()

    def close(self) -> None:
        """See `Source`."""
        self._session.close()

    def _listed(self, *, recursive: bool) -> list[StoredObject]:
        lister = Lister(self.location, self._session.client(self._place), self._session.clock)
        entries = lister.entries("", recursive=recursive, most=MAX_FILES)
        return [entry for entry in entries if isinstance(entry, StoredObject)]

    def _one_object(self) -> list[StoredObject]:
        """The object that the address itself names: it is in the folder around it."""
        if not self._place.prefix or self._place.scheme in address.DOWNLOADED_WHOLE:
            return []
        parent, _, name = self._place.prefix.rpartition("/")
        self._place = msgspec.structs.replace(self._place, prefix=parent)
        return [one for one in self._listed(recursive=False) if one.key == name]

"""A store in memory, whose failures are arranged by a test."""

import collections
import collections.abc
import pathlib
import threading

from naiad.core.clock import Clock, ManualClock
from naiad.repository.stores.address import parse
from naiad.repository.stores.cache import Cache, Lease
from naiad.repository.stores.download import Downloader
from naiad.repository.stores.object_store import ObjectStore
from naiad.repository.stores.objects import ChangedError, Folder, StoredObject

Read = collections.abc.Callable[[bytes, int, int], collections.abc.Iterator[bytes]]


def plainly(content: bytes, start: int, end: int) -> collections.abc.Iterator[bytes]:
    """The bytes [start, end) in two pieces."""
    middle = (start + end) // 2
    yield content[start:middle]
    yield content[middle:end]


class FakeClient:
    """Implements `ObjectClient`.

    Attributes:
        contents: the objects.
        versions: counts the changes of each.
        checksums: of an object, if it has one.
        how: reads an object that was not changed since it was listed.
        listings: how many there were, by folder and whether recursive.
        reads: how many there were, by key.
    """

    def __init__(self, **contents: bytes) -> None:
        self.contents: dict[str, bytes] = dict(contents)
        self.versions = collections.Counter[str]()
        self.checksums: dict[str, str] = {}
        self.how: Read = plainly
        self.listings = collections.Counter[tuple[str, bool]]()
        self.reads = collections.Counter[str]()
        self._counting = threading.Lock()

    def put(self, key: str, content: bytes) -> None:
        self.contents[key] = content
        self.versions[key] += 1

    def listing(
        self, below: str = "", *, recursive: bool
    ) -> collections.abc.Iterator[StoredObject | Folder]:
        self.listings[below, recursive] += 1
        folders = set()
        top = f"{below}/" if below else ""
        for key, content in sorted(self.contents.items()):
            name, slash, _ = key.removeprefix(top).partition("/")
            if not key.startswith(top):
                continue
            if slash and not recursive:
                if name not in folders:
                    yield Folder(name)
                folders.add(name)
            else:
                yield StoredObject(key, len(content), f"v{self.versions[key]}", 10**18)

    def read(self, stored: StoredObject, start: int, end: int) -> collections.abc.Iterator[bytes]:
        with self._counting:
            self.reads[stored.key] += 1
        if stored.key not in self.contents or stored.version != f"v{self.versions[stored.key]}":
            raise ChangedError(f"{stored.key}: changed")
        yield from self.how(self.contents[stored.key], start, end)

    def checksum(self, stored: StoredObject) -> str:
        return self.checksums.get(stored.key, "")

    def close(self) -> None:
        """Nothing to close."""


def no_wait(attempt: int) -> float:
    """A backoff for tests."""
    return 0


def make_store(
    client: FakeClient,
    root: pathlib.Path,
    *,
    limit: int = 0,
    is_temporary: bool = False,
    clock: Clock | None = None,
    range_bytes: int = 4,
    lease: Lease | None = None,
) -> ObjectStore:
    """A store with a cache folder; with a lease of its own, as a server has one, if none is given."""
    lease = lease if lease is not None else Lease(root)
    clock = clock if clock is not None else ManualClock()
    cache = Cache(root, limit=limit, is_temporary=is_temporary, clock=clock)
    return ObjectStore(
        parse("s3://bucket/models"),
        client,
        cache,
        lease.folder,
        downloader=Downloader(backoff=no_wait, range_bytes=range_bytes),
        clock=clock,
    )

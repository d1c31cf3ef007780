"""Tarballs of a web server, and what is listed of them."""

import pathlib

from naiad.repository.stores.address import parse
from naiad.repository.stores.clients.archive import ArchiveClient
from naiad.repository.stores.clients.snapshots import Folders
from naiad.repository.stores.objects import Folder, StoredObject
from tests.stores.clients.web_server import Reply, Request

CONTENT = bytes(range(256)) * 10_000


class Site:
    """Serves one file, which tests replace; remembers the requests."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.cut_at: int | None = None
        self.requests: list[Request] = []

    def __call__(self, request: Request) -> Reply:
        self.requests.append(request)
        return Reply.file(request, self.content, cut_at=self.cut_at)


def opened(location: str, scratch: pathlib.Path) -> ArchiveClient:
    return ArchiveClient(parse(location), Folders(scratch, scratch.parent / "listings"))


def names(client: ArchiveClient) -> list[str]:
    return [entry.name for entry in client.listing(recursive=False) if isinstance(entry, Folder)]


def objects(client: ArchiveClient, below: str = "") -> dict[str, StoredObject]:
    """What is listed for a load: the names first, which looks for a newer version."""
    assert all(isinstance(entry, Folder) for entry in client.listing(recursive=False))
    listed = client.listing(below, recursive=True)
    return {entry.key: entry for entry in listed if isinstance(entry, StoredObject)}

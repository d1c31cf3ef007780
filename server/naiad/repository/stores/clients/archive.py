"""Tarballs of a web server (`https://host/models.tar.gz`), read only.

A tarball is unpacked while it arrives, into a temporary folder, and again when the server has another one. Credentials are those of ~/.netrc.
"""

import collections.abc
import http.client
import logging
import pathlib
import shutil
import tempfile
import threading
import urllib.parse

import msgspec

from naiad.repository.stores.address import Address
from naiad.repository.stores.clients import http_requests
from naiad.repository.stores.clients.http_requests import HttpError, ResumingReader
from naiad.repository.stores.clients.listing import at_root, entries_below, name_of
from naiad.repository.stores.clients.unpacked import UnpackedObjects
from naiad.repository.stores.clients.unpacking import Unpacker
from naiad.repository.stores.objects import ChangedError, Folder, StoredObject

_log = logging.getLogger("naiad.repository")

_NOT_MODIFIED = 304


class _Tarball(msgspec.Struct, frozen=True):
    """One version of the tarball.

    Attributes:
        version: what its server says of it.
        objects: its files, in the order of their keys.
        folder: of the contents.
    """

    version: tuple[str | None, str | None]
    objects: list[StoredObject]
    contents: UnpackedObjects
    folder: pathlib.Path


class ArchiveClient:
    """The files of a tarball.

    Args:
        address: endpoint, path and query of the tarball.
        scratch: an existing folder for the contents; None: that of temporary files.
    """

    def __init__(self, address: Address, scratch: pathlib.Path | None = None) -> None:
        self._where = str(address)
        query = f"?{address.query}" if address.query else ""
        self._host = urllib.parse.urlsplit(address.endpoint).hostname or ""
        self._url = f"{address.endpoint}/{urllib.parse.quote(address.prefix, safe='/%+')}{query}"
        self._scratch = scratch
        self._lock = threading.Lock()
        self._tarball: _Tarball | None = None

    def listing(
        self, below: str = "", *, recursive: bool
    ) -> collections.abc.Iterator[StoredObject | Folder]:
        """The files of the tarball that the server has now; one request if it is the same."""
        with self._lock:
            known = self._tarball
            newest = self._tarball = self._newest(known)
        if known is not None and known is not newest:
            shutil.rmtree(known.folder, ignore_errors=True)
        yield from entries_below(newest.objects, below, recursive=recursive)

    def read(self, stored: StoredObject, start: int, end: int) -> collections.abc.Iterator[bytes]:
        """The bytes of a file that was listed."""
        tarball = self._tarball
        if tarball is None:
            raise ChangedError(f"{self._where}: {stored.key} was not listed")
        yield from tarball.contents.read(stored, start, end)

    def checksum(self, stored: StoredObject) -> str:
        """None: a tarball that is compressed has its own."""
        return ""

    def close(self) -> None:
        """Remove the unpacked files."""
        with self._lock:
            tarball, self._tarball = self._tarball, None
        if tarball is not None:
            shutil.rmtree(tarball.folder, ignore_errors=True)

    def _newest(self, known: _Tarball | None) -> _Tarball:
        etag = known.version[0] if known else None
        condition = {"If-None-Match": etag} if etag else {}
        try:
            reader = ResumingReader(lambda start: self._open(start, condition), where=self._where)
        except HttpError as error:
            if known is not None and error.status == _NOT_MODIFIED:
                return known
            raise
        try:
            if known is not None and reader.version == known.version:
                return known  # a server that takes no conditions
            return self._unpacked(reader)
        finally:
            reader.close()

    def _unpacked(self, reader: ResumingReader) -> _Tarball:
        size = "" if reader.size is None else f", {reader.size:,} bytes"
        _log.info("%s: unpacking while it is downloaded%s", self._where, size)
        folder = pathlib.Path(tempfile.mkdtemp(prefix="naiad-archive-", dir=self._scratch))
        try:
            unpacker = Unpacker(folder, where=self._where)
            unpacker.add(reader)
            contents = UnpackedObjects(at_root(unpacker.entries()), where=self._where)
            objects = sorted(contents.objects, key=name_of)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return _Tarball(reader.version, objects, contents, folder)

    def _open(self, start: int, condition: http_requests.Headers) -> http.client.HTTPResponse:
        account = http_requests.from_netrc(self._host)
        authorization = http_requests.basic(*account) if account else ""
        headers = (
            http_requests.ranged(start) if start else {"Accept-Encoding": "identity", **condition}
        )
        return http_requests.send(
            self._url, where=self._where, headers=headers, authorization=authorization
        )

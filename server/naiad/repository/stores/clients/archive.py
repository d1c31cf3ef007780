"""Tarballs of a web server (`https://host/models.tar.gz`), read only.

A tarball is unpacked while it arrives, into a temporary folder. Credentials are those of ~/.netrc.
"""

import functools
import http.client
import logging
import pathlib
import urllib.parse

from typing_extensions import override

from naiad.repository.stores.address import Address
from naiad.repository.stores.clients import http_requests
from naiad.repository.stores.clients.http_requests import HttpError, ResumingReader
from naiad.repository.stores.clients.listing import at_root, name_of
from naiad.repository.stores.clients.snapshots import (
    Folders,
    Newer,
    Snapshot,
    SnapshotClient,
    Version,
)
from naiad.repository.stores.clients.unpacked import UnpackedObjects
from naiad.repository.stores.clients.unpacking import Unpacker

_log = logging.getLogger("naiad.repository")

_NOT_MODIFIED = 304


class ArchiveClient(SnapshotClient):
    """The files of a tarball.

    Args:
        address: endpoint, path and query of the tarball.
        folders: of the cache.
    """

    def __init__(self, address: Address, folders: Folders) -> None:
        super().__init__(str(address), folders)
        query = f"?{address.query}" if address.query else ""
        self._host = urllib.parse.urlsplit(address.endpoint).hostname or ""
        self._url = f"{address.endpoint}/{urllib.parse.quote(address.prefix, safe='/%+')}{query}"

    @override
    def _check(self, known: Version | None) -> Newer | None:
        """One request; the tarball is its response."""
        names = ("If-None-Match", "If-Modified-Since")
        condition = {name: value for name, value in zip(names, known or (), strict=False) if value}
        try:
            reader = ResumingReader(lambda start: self._open(start, condition), where=self._where)
        except HttpError as error:
            if error.status == _NOT_MODIFIED:
                return None
            raise
        if reader.version == known:
            reader.close()  # a server that takes no conditions
            return None
        return Newer(reader.version, functools.partial(self._unpacked, reader), reader.close)

    def _unpacked(self, reader: ResumingReader, folder: pathlib.Path) -> Snapshot:
        size = "" if reader.size is None else f", {reader.size:,} bytes"
        _log.info("%s: unpacking while it is downloaded%s", self._where, size)
        unpacker = Unpacker(folder, where=self._where)
        unpacker.add(reader)
        contents = UnpackedObjects(at_root(unpacker.entries()), where=self._where)
        return Snapshot(reader.version, sorted(contents.objects, key=name_of), contents.read)

    def _open(self, start: int, condition: http_requests.Headers) -> http.client.HTTPResponse:
        account = http_requests.from_netrc(self._host)
        authorization = http_requests.basic(*account) if account else ""
        headers = (
            http_requests.ranged(start) if start else {"Accept-Encoding": "identity", **condition}
        )
        return http_requests.send(
            self._url, where=self._where, headers=headers, authorization=authorization
        )

"""Images and artifacts of an OCI registry (`oci://registry/name[:tag|@digest]`), read only.

An image holds the models in its folder /models. Of an artifact, a layer with a title (ORAS) or a path (Docker's model artifacts, CNCF ModelPack) is a
file, or a folder if it is packed; any other tarball is unpacked at the top. Tarballs are unpacked while they arrive, into a temporary folder; files are read in ranges.
"""

import collections.abc
import functools
import hashlib
import http.client
import logging
import pathlib
import platform

from typing_extensions import override

from naiad.repository.stores.address import Address
from naiad.repository.stores.clients import http_requests
from naiad.repository.stores.clients.http_requests import ResumingReader
from naiad.repository.stores.clients.listing import at_root, name_of
from naiad.repository.stores.clients.registry import Descriptor, Manifest, Registry
from naiad.repository.stores.clients.snapshots import (
    Folders,
    Newer,
    Snapshot,
    SnapshotClient,
    Version,
)
from naiad.repository.stores.clients.unpacked import UnpackedObjects
from naiad.repository.stores.clients.unpacking import UnpackedFile, Unpacker
from naiad.repository.stores.objects import StoredObject, StoreError

_log = logging.getLogger("naiad.repository")

_TITLE = "org.opencontainers.image.title"
_PATH = "org.cncf.model.filepath"
_UNPACK = "io.deis.oras.content.unpack"

_IMAGE_CONFIGS = (
    "application/vnd.oci.image.config.v1+json",
    "application/vnd.docker.container.image.v1+json",
)
_IMAGE_FOLDER = "models/"

_NO_LAYER = Descriptor("", 0)

_PIECE = 1 << 20
_PARTIAL = 206

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


class OciClient(SnapshotClient):
    """The files of an image or artifact.

    Args:
        address: endpoint is the registry, bucket the repository in it, revision a tag or digest.
        folders: of the cache.
    """

    def __init__(self, address: Address, folders: Folders) -> None:
        super().__init__(str(address), folders)
        self._reference = address.revision or "latest"
        self._registry = Registry(address.endpoint, address.bucket, where=self._where)

    @override
    def _check(self, known: Version | None) -> Newer | None:
        """One request for a tag; none for a digest that is known."""
        if known is not None:
            pinned = ":" in self._reference
            newest = self._reference if pinned else self._registry.digest(self._reference)
            if known == (newest,):
                return None
        manifest = self._registry.manifest(self._reference)
        version = (manifest.digest,)
        if manifest.manifests:
            manifest = self._registry.manifest(self._for_this_machine(manifest.manifests).digest)
        return Newer(version, functools.partial(self._unpacked, version, manifest))

    def _unpacked(self, version: Version, manifest: Manifest, folder: pathlib.Path) -> Snapshot:
        """Unpack the layers that are tarballs."""
        is_image = manifest.config is not None and manifest.config.media_type in _IMAGE_CONFIGS
        unpacker = Unpacker(folder, where=self._where, below=_IMAGE_FOLDER if is_image else "")
        files = dict[str, UnpackedFile | Descriptor | None]()
        for layer in manifest.layers:
            title = "" if is_image else _file_of(layer)
            if title:
                files[title] = layer
            elif "tar" in layer.media_type:
                self._unpack(unpacker, layer)
        files |= unpacker.entries()
        if not files:
            holds = "image holds no folder /models" if is_image else "artifact holds no files"
            raise StoreError(
                f"{self._where}: this {holds}: put the models there, one folder per model"
            )
        entries = at_root(files)
        layers = {key: entry for key, entry in entries.items() if isinstance(entry, Descriptor)}
        contents = UnpackedObjects(
            {key: entry for key, entry in entries.items() if not isinstance(entry, Descriptor)},
            where=self._where,
        )
        objects = [
            StoredObject(key, layer.size, layer.digest, checksum=layer.digest)
            for key, layer in layers.items()
        ]

        def read(stored: StoredObject, start: int, end: int) -> collections.abc.Iterator[bytes]:
            if layers.get(stored.key, _NO_LAYER).digest == stored.version:
                return self._read_blob(stored.version, start, end)
            return contents.read(stored, start, end)

        return Snapshot(version, sorted([*objects, *contents.objects], key=name_of), read)

    def _read_blob(self, digest: str, start: int, end: int) -> collections.abc.Iterator[bytes]:
        try:
            with self._registry.blob(digest, http_requests.ranged(start, end)) as response:
                if response.status != _PARTIAL:
                    http_requests.skip(response, start)
                while start < end and (piece := response.read(min(_PIECE, end - start))):
                    start += len(piece)
                    yield piece
        except (OSError, http.client.HTTPException) as error:
            raise http_requests.unreachable(self._where, error) from error

    def _unpack(self, unpacker: Unpacker, layer: Descriptor) -> None:
        _log.info(
            "%s: unpacking a layer while it is downloaded, %s bytes", self._where, f"{layer.size:,}"
        )
        reader = _Hashing(
            ResumingReader(
                lambda start: self._registry.blob(
                    layer.digest, http_requests.ranged(start) if start else {}
                ),
                where=self._where,
            )
        )
        try:
            unpacker.add(reader)
            digest = reader.digest()
        finally:
            reader.close()
        if digest != layer.digest:
            raise StoreError(
                f"{self._where}: a layer does not have its digest {layer.digest}; a proxy or the registry corrupts it"
            )

    def _for_this_machine(self, manifests: list[Descriptor]) -> Descriptor:
        """The manifest of an index that fits this machine, or its only one."""
        machine = platform.machine()
        architecture = _ARCHITECTURES.get(machine, machine)
        platforms = {
            (manifest.platform.get("os"), manifest.platform.get("architecture")): manifest
            for manifest in reversed(manifests)
        }
        chosen = platforms.get(("linux", architecture))
        if chosen is not None:
            return chosen
        if len(manifests) == 1:
            return manifests[0]
        listed = ", ".join(sorted(f"{system}/{name}" for system, name in platforms))
        raise StoreError(
            f"{self._where}: there is no image for linux/{architecture}, only for {listed}: push one"
        )


def _file_of(layer: Descriptor) -> str:
    """The path of a layer that is a file of an artifact; "" for one that is packed."""
    if layer.annotations.get(_UNPACK) == "true":
        return ""
    title = layer.annotations.get(_TITLE, "")
    # ModelPack packs by the media type, and its path is one inside of the tarball then.
    return title or ("" if _is_tar(layer) else layer.annotations.get(_PATH, ""))


def _is_tar(layer: Descriptor) -> bool:
    return "tar" in layer.media_type.rpartition("/")[2].replace("+", ".").split(".")


class _Hashing:
    """A stream that is hashed while it is read."""

    def __init__(self, reader: ResumingReader) -> None:
        self._reader = reader
        self._hash = hashlib.sha256()

    def read(self, size: int) -> bytes:
        """The next bytes."""
        content = self._reader.read(size)
        self._hash.update(content)
        return content

    def digest(self) -> str:
        """The digest of all bytes, after reading what is left."""
        while self.read(_PIECE):
            pass
        return f"sha256:{self._hash.hexdigest()}"

    def close(self) -> None:
        """Close the connection."""
        self._reader.close()

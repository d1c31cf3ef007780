"""Unpacks tarballs from strangers: of archives and of the layers of images.

Contents are written into files with numbers for names; the names of the tarball are kept in memory. So no name, link or device of a tarball ever
reaches the file system. Links are followed at the end, inside of the tarball; one that leads out of it is refused.
"""

import bisect
import collections.abc
import hashlib
import itertools
import pathlib
import posixpath
import shutil
import tarfile
import typing

import msgspec

from naiad.repository.stores.clients.decompression import (
    MAX_HEADER_BYTES,
    Stream,
    decompressed,
    long_headers,
)
from naiad.repository.stores.objects import StoreError

_MAX_ENTRIES = 1_000_000
"""No repository has so many files and folders."""

_MAX_NAME = 4_096
"""Characters of one name, or of what a link leads to; Linux allows no longer path."""

MAX_NAMES = 100_000_000
"""Characters of all of them, those included that entries have through links to folders: they are kept in memory."""

_MAX_LINKS = 40
"""Links that one name may lead through, as in Linux."""

_CHUNK = 1 << 20

_LATEST_S = 1 << 33
"""The latest time of a change that is kept, in seconds since 1970; tarballs hold any number."""

_WHITEOUT, _OPAQUE = ".wh.", ".wh..wh..opq"
"""In a layer of an image: this name is removed, everything in this folder is removed."""


class UnpackedFile(msgspec.Struct, frozen=True):
    """A file of a tarball.

    Attributes:
        path: where its content is.
        size: bytes.
        sha256: of the content, in hexadecimal digits.
    """

    path: pathlib.Path
    size: int
    modified_ns: int
    sha256: str


class _Layer(msgspec.Struct):
    """What one tarball holds.

    Attributes:
        links: targets relative to the top, with `..` where they lead out.
        hidden: names of earlier layers that are removed.
        emptied: folders whose entries of earlier layers are removed.
    """

    files: dict[str, UnpackedFile] = {}
    folders: set[str] = set()
    links: dict[str, str] = {}
    hidden: set[str] = set()
    emptied: set[str] = set()

    def names(self) -> set[str]:
        """The names of all entries."""
        return {*self.files, *self.folders, *self.links}

    def forget(self, name: str) -> None:
        """Remove an entry that a later one of the same name replaces."""
        self.folders.discard(name)
        self.links.pop(name, None)
        if replaced := self.files.pop(name, None):
            replaced.path.unlink()


class Unpacker:
    """Unpacks one tarball, or the layers of one image, each over those before it.

    Args:
        folder: an empty one, for the contents.
        where: what messages call the source.
        below: the folder of the tarball that is unpacked, with a slash at its end; names outside of it are skipped. "" is everything.
        max_entries: files, folders and links, including skipped ones.
        max_names: characters of the names of all of them.
    """

    def __init__(
        self,
        folder: pathlib.Path,
        *,
        where: str,
        below: str = "",
        max_entries: int = _MAX_ENTRIES,
        max_names: int = MAX_NAMES,
    ) -> None:
        self._folder = folder
        self._where = where
        self._below = below
        self._max_entries = max_entries
        self._max_names = max_names
        self._entries = 0
        self._names = 0
        self._contents = 0
        self._tree = _Layer()

    def add(self, stream: Stream) -> None:
        """Unpack a tarball, compressed by gzip, bzip2, xz, zstd or not at all, over what is there.

        Raises:
            StoreError: it is damaged, holds what is refused, or does not fit on the disk.
        """
        layer = _Layer()
        try:
            content = decompressed(stream)
            file: typing.Any = content
            content.limit(MAX_HEADER_BYTES)
            with tarfile.open(fileobj=file, mode="r|") as archive:
                inside: typing.Any = archive
                while (member := archive.next()) is not None:
                    inside.members.clear()  # it would keep the headers of all
                    if sum(map(len, archive.pax_headers.values())) > MAX_HEADER_BYTES:
                        raise long_headers()
                    content.limit(None)
                    self._add(layer, archive, member)
                    content.limit(archive.offset - inside.fileobj.tell() + MAX_HEADER_BYTES)
            content.limit(None)
            content.check_end()
        except (tarfile.TarError, ValueError, OverflowError, RecursionError) as error:
            raise StoreError(f"{self._where}: is not a readable tarball: {error}") from error
        self._merge(layer)

    def entries(self) -> dict[str, UnpackedFile | None]:
        """The files by their names below the folder that is unpacked, with links resolved; None for a folder without entries, with a slash behind it.

        Raises:
            StoreError: a link leads out of the tarball, to nothing, or back to itself.
        """
        tree = self._tree
        full = {
            parent for name in tree.names() for parent in _parents(name) if parent in tree.folders
        }
        targets = {link: self._resolved(link) for link in tree.links}
        files = tree.files | {
            link: tree.files[target] for link, target in targets.items() if target in tree.files
        }
        folders = {link: target for link, target in targets.items() if target not in tree.files}
        entries: dict[str, UnpackedFile | None] = {f"{name}/": None for name in tree.folders - full}
        entries |= files
        names, links, length = sorted(files), sorted(folders), self._names
        for link, target in folders.items():
            below = f"{target}/" if target else ""
            if link.startswith(below) or _beginning_with(below, links):
                raise self._refused(link, "this link leads to a folder that holds links to folders")
            inside = _beginning_with(below, names)
            if not inside and target not in tree.folders:
                raise self._refused(link, f"this link leads to {target}, which does not exist")
            for name in inside:
                linked = f"{link}/{name[len(below) :]}"
                length += len(linked)
                if length > self._max_names:
                    raise self._long_names()
                entries[linked] = files[name]
                if len(entries) > self._max_entries:
                    raise self._too_many()
        return {name.removeprefix(self._below): entry for name, entry in entries.items()}

    def _add(self, layer: _Layer, archive: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        self._count(member)
        name = self._name(member.name)
        if not name.startswith(self._below) or not name:
            return
        parent, base = posixpath.split(name)
        if base == _OPAQUE:
            layer.emptied.add(parent)
            return
        if base.startswith(_WHITEOUT):
            layer.hidden.add(posixpath.join(parent, base.removeprefix(_WHITEOUT)))
            return
        if any(above in layer.links or above in layer.files for above in _parents(name)):
            raise self._refused(name, "it is in a folder that is a link or a file")
        layer.forget(name)
        if member.isdir():
            layer.folders.add(name)
        elif member.issym():
            layer.links[name] = posixpath.join(
                "/" if member.linkname.startswith("/") else parent, member.linkname
            )
        elif member.islnk():
            layer.links[name] = self._name(member.linkname)
        elif member.isreg() and not member.issparse():
            layer.files[name] = self._written(archive, member)
        else:
            raise self._refused(name, "it is neither a file, a folder nor a link")

    def _count(self, member: tarfile.TarInfo) -> None:
        """Bound what is kept in memory of the members."""
        self._entries += 1
        if self._entries > self._max_entries:
            raise self._too_many()
        self._names += len(member.name) + len(member.linkname)
        if max(len(member.name), len(member.linkname)) > _MAX_NAME:
            raise StoreError(
                f"{self._where}: it has a member with a name of more than {_MAX_NAME:,} characters"
            )
        if self._names > self._max_names:
            raise self._long_names()

    def _name(self, name: str) -> str:
        """A member's name without `./` in front; "" is the top."""
        segments = [segment for segment in name.rstrip("/").split("/") if segment != "."]
        if "" in segments[:-1] or ".." in segments:
            raise self._refused(name, "this name leads out of the tarball")
        return "/".join(segments)

    def _written(self, archive: tarfile.TarFile, member: tarfile.TarInfo) -> UnpackedFile:
        free = shutil.disk_usage(self._folder).free
        if member.size > free:
            raise StoreError(
                f"{self._where}: {member.name} has {member.size:,} bytes, and {self._folder} has room for {free:,}; free some"
            )
        content = archive.extractfile(member)
        assert content is not None, "a regular file"
        self._contents += 1
        path = self._folder / str(self._contents)
        digest = hashlib.sha256()
        with path.open("xb") as written:
            while chunk := content.read(_CHUNK):
                digest.update(chunk)
                written.write(chunk)
        modified_s = min(max(member.mtime, 0), _LATEST_S)
        return UnpackedFile(path, member.size, int(modified_s * 1e9), digest.hexdigest())

    def _merge(self, layer: _Layer) -> None:
        """Put a layer over those before it."""
        tree = self._tree
        emptied = {*layer.hidden, *layer.emptied, *layer.files, *layer.links}
        replaced = {*layer.hidden, *layer.names()}
        replaced |= {
            parent
            for name in layer.names()
            for parent in _parents(name)
            if parent in tree.files or parent in tree.links
        }
        for name in tree.names():
            if name in replaced or any(parent in emptied for parent in _parents(name)):
                tree.forget(name)
        tree.files |= layer.files
        tree.folders |= layer.folders
        tree.links |= layer.links

    def _resolved(self, link: str) -> str:
        """Where a link leads in the end, through the links in its way."""
        resolved, pending, followed = list[str](), link.split("/")[::-1], 0
        while pending:
            segment = pending.pop()
            if segment == ".." and not resolved:
                raise self._refused(link, "this link leads out of the tarball")
            if segment == "..":
                resolved.pop()
            elif segment not in ("", "."):
                resolved.append(segment)
            target = self._tree.links.get("/".join(resolved))
            if target is None:
                continue
            followed += 1
            if followed > _MAX_LINKS:
                raise self._refused(link, "this link leads back to itself")
            if target.startswith("/") and not self._below:
                raise self._refused(link, "this link leads out of the tarball")
            resolved = []
            pending += target.split("/")[::-1]
        return "/".join(resolved)

    def _refused(self, name: str, why: str) -> StoreError:
        return StoreError(f"{self._where}: its member {name!r} is refused: {why}")

    def _long_names(self) -> StoreError:
        return StoreError(
            f"{self._where}: the names of its entries have more than {self._max_names:,} characters: is this a model repository?"
        )

    def _too_many(self) -> StoreError:
        return StoreError(
            f"{self._where}: it has more than {self._max_entries:,} entries: is this a model repository?"
        )


def _beginning_with(beginning: str, names: list[str]) -> list[str]:
    """Those of sorted names."""
    first = bisect.bisect_left(names, beginning)
    return list(itertools.takewhile(lambda name: name.startswith(beginning), names[first:]))


def _parents(name: str) -> collections.abc.Iterator[str]:
    """The folders that a name is in, without the top."""
    while slash := name.rfind("/") + 1:
        name = name[: slash - 1]
        yield name

"""The content of a tarball from a stranger, decompressed while it is read, with a bound on what `tarfile` keeps in memory; `unpacking` says what becomes of it."""

import bz2
import collections.abc
import gzip
import importlib
import lzma
import sys
import tarfile
import typing

from naiad import extras
from naiad.repository.stores.objects import StoreError

_CHUNK = 1 << 20

MAX_HEADER_BYTES = 1 << 20
"""Bytes of the headers of one entry, and of those for all entries: paths and times. `tarfile` keeps them in memory."""

_MAGIC_BYTES = 6
"""The longest beginning in `_READERS`."""


class Stream(typing.Protocol):
    """Bytes that come one after the other."""

    def read(self, size: int) -> bytes:
        """The next bytes, at most so many; none at the end."""


class _Rejoined:
    """A stream whose first bytes have been read already."""

    def __init__(self, head: bytes, stream: Stream) -> None:
        self._head = head
        self._stream = stream

    def read(self, size: int = -1) -> bytes:
        """The next bytes."""
        head, self._head = self._head[:size], self._head[size:]
        return head or self._stream.read(size)


class TarballContent:
    """The content of a tarball, as `tarfile` reads it; bounds what it reads for headers, and keeps the last block."""

    def __init__(self, content: Stream) -> None:
        self._content = content
        self._last = b""
        self._left: int | None = None

    def limit(self, size: int | None) -> None:
        """Set how many bytes may be read from now on, beside those that `tarfile` reads ahead; None: all."""
        self._left = None if size is None else size + tarfile.RECORDSIZE

    def read(self, size: int) -> bytes:
        """The next bytes."""
        if self._left is not None and self._left <= 0:
            raise long_headers()
        try:
            content = self._content.read(size)
        except StoreError:
            raise
        except Exception as error:  # each decompressor has errors of its own
            raise tarfile.ReadError(str(error)) from error
        if self._left is not None:
            self._left -= len(content)
        self._last = (self._last + content[-tarfile.BLOCKSIZE :])[-tarfile.BLOCKSIZE :]
        return content

    def check_end(self) -> None:
        """Read what follows the last member, and check that it is the mark of the end.

        Raises:
            tarfile.ReadError: the tarball was cut off.
        """
        while self.read(_CHUNK):
            pass
        if self._last != tarfile.NUL * tarfile.BLOCKSIZE:
            raise tarfile.ReadError("it ends early; was it uploaded whole?")


def long_headers() -> tarfile.ReadError:
    """The error of headers that take too much memory."""
    return tarfile.ReadError(
        f"the headers of an entry have more than {MAX_HEADER_BYTES:,} bytes: pack it again, without extended attributes"
    )


def decompressed(stream: Stream) -> TarballContent:
    """The content of a stream, by what its first bytes say of its compression; as it is if they say nothing."""
    head = b""
    while len(head) < _MAGIC_BYTES and (more := stream.read(_MAGIC_BYTES - len(head))):
        head += more
    whole = _Rejoined(head, stream)
    for magic, reader in _READERS.items():
        if head.startswith(magic):
            return TarballContent(reader(whole))
    return TarballContent(whole)


def _zstd(stream: Stream) -> Stream:
    name = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
    try:
        zstd = importlib.import_module(name)
    except ImportError as error:
        raise StoreError(
            f"it is compressed by zstd, which needs the package {name}: {extras.install('oci')}"
        ) from error
    content: Stream = zstd.ZstdFile(stream)
    return content


_READERS: collections.abc.Mapping[bytes, collections.abc.Callable[[typing.Any], Stream]] = {
    b"\x1f\x8b": lambda stream: gzip.GzipFile(fileobj=stream),
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\0": lzma.LZMAFile,
    b"\x28\xb5\x2f\xfd": _zstd,
}
"""What reads a compressed stream, by its first bytes."""

"""Checksums of objects, as `algorithm:hexadecimal digits`; which of them can be verified here."""

import collections.abc
import hashlib
import importlib.util
import typing
import zlib

from typing_extensions import override

ALGORITHMS = ("crc32", "crc32c", "sha256", "sha1", "md5")
"""Cheapest first."""


class Hasher(typing.Protocol):
    """Computes a checksum piece by piece."""

    def update(self, data: bytes, /) -> None:
        """Add the next bytes."""
        ...

    def hexdigest(self) -> str:
        """The checksum of all bytes so far, in lower case."""
        ...


class _Crc32:
    def __init__(self) -> None:
        self._value = 0

    def update(self, data: bytes, /) -> None:
        self._value = self._extended(data)

    def hexdigest(self) -> str:
        return f"{self._value:08x}"

    def _extended(self, data: bytes) -> int:
        return zlib.crc32(data, self._value)


class _Crc32c(_Crc32):
    @override
    def _extended(self, data: bytes) -> int:
        import google_crc32c  # noqa: PLC0415 - a package of some stores only

        value: int = google_crc32c.extend(self._value, data)
        return value


def choose(checksums: collections.abc.Iterable[str]) -> str:
    """The cheapest of several checksums that can be verified here; "" if none can."""
    by_algorithm = {checksum.partition(":")[0]: checksum for checksum in checksums}
    return next(
        (by_algorithm[name] for name in ALGORITHMS if name in by_algorithm and _available(name)), ""
    )


def hasher(algorithm: str) -> Hasher:
    """A hasher for one of `ALGORITHMS` that `choose` has chosen."""
    match algorithm:
        case "crc32":
            return _Crc32()
        case "crc32c":
            return _Crc32c()
        case _:
            return hashlib.new(algorithm, usedforsecurity=False)


def _available(algorithm: str) -> bool:
    return algorithm != "crc32c" or importlib.util.find_spec("google_crc32c") is not None

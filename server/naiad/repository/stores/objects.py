"""The interface between the clients of the stores and everything above them: objects, how they are listed and read, and what fails."""

import collections.abc
import typing

import msgspec

from naiad.errors import ErrorCode, InferenceError

CONNECTIONS = 64
"""That a client keeps: more than the requests that run at the same time."""


class StoredObject(msgspec.Struct, frozen=True):
    """One object of a repository.

    Attributes:
        key: below the repository's prefix, without a slash in front. One that ends with a slash stands for an empty folder.
        size: bytes.
        version: changes whenever the content does: an ETag, a generation.
        modified_ns: time of the last change in nanoseconds since 1970, as the store has it; 0 if unknown.
        checksum: of the whole content, as listings show it: `md5:`, `sha256:`, `crc32:` or `crc32c:` and hexadecimal digits; "" without one. The ETag
            of a multipart upload is not a checksum.
    """

    key: str
    size: int
    version: str
    modified_ns: int = 0
    checksum: str = ""


class Folder(msgspec.Struct, frozen=True):
    """A common beginning of keys up to a slash; only in listings that are not recursive.

    Attributes:
        name: the last segment, without slashes.
    """

    name: str


class StoreError(InferenceError):
    """A store refused a request, or did not respond.

    Args:
        message: one sentence: what was wrong, where, and what to check. No credentials.
        retry: whether the same request may work a moment later: a broken connection, a status 5xx, too many requests.
    """

    def __init__(self, message: str, *, retry: bool = False) -> None:
        super().__init__(ErrorCode.UNAVAILABLE if retry else ErrorCode.INVALID_ARG, message)
        self.retry = retry


class ChangedError(StoreError):
    """An object was replaced or deleted after it was listed."""


class ObjectClient(typing.Protocol):
    """One repository of a store. All methods block and are called in several threads at the same time; each request has a timeout."""

    def listing(
        self, below: str = "", *, recursive: bool
    ) -> collections.abc.Iterator[StoredObject | Folder]:
        """The objects of a folder, read page by page as they are consumed.

        Args:
            below: the folder, a key without a slash at its end; "" is the whole repository. The keys of the result are relative to the
                repository, not to this folder.
            recursive: whether objects in folders are listed, instead of a `Folder` for each folder.

        Raises:
            StoreError: the store cannot be read. A folder that does not exist is empty.
        """
        ...

    def read(self, stored: StoredObject, start: int, end: int) -> collections.abc.Iterator[bytes]:
        """The bytes [start, end) of an object, in pieces of at most a few megabytes.

        Raises:
            ChangedError: the store no longer has the version that was listed.
            StoreError: it cannot be read, or the connection broke, also between two pieces.
        """
        ...

    def checksum(self, stored: StoredObject) -> str:
        """The checksum of the whole content, in the form of `StoredObject.checksum`; "" if the store has none. May send a request.

        Raises:
            StoreError: as `read`.
        """
        ...

    def close(self) -> None:
        """Close its connections. Idempotent."""
        ...

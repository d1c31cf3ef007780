"""Credentials of the object stores: Triton's credential file, and clients that read their credentials again (rows 18.28, 18.29).

TRITON_CLOUD_CREDENTIAL_PATH names a JSON file that holds credentials by the beginning of a location; the longest beginning that fits is
used. Without the file, each SDK finds credentials by its own rules. No secret of these is ever in a message.
"""

import collections.abc
import os
import pathlib
import threading
import typing

import msgspec
from typing_extensions import override

from naiad.repository.stores.objects import StoreError

VARIABLE = "TRITON_CLOUD_CREDENTIAL_PATH"

Environ = collections.abc.Mapping[str, str]

T = typing.TypeVar("T")
Client = typing.TypeVar("Client", bound="Closable")


class RefusedError(StoreError):
    """A store refused the credentials of a request; a client that reads them again may have better ones."""


class _Secret(msgspec.Struct, frozen=True):
    """A record of the file; its text shows no values, because tracebacks and logs print it."""

    @override
    def __repr__(self) -> str:
        return f"{type(self).__name__}(…)"


class S3Credential(_Secret, frozen=True):
    """An entry below "s3"; empty members are left to the SDK."""

    key_id: str = ""
    secret_key: str = ""
    region: str = ""
    session_token: str = ""
    profile: str = ""


class AzureCredential(_Secret, frozen=True):
    """An entry below "as", or what the environment says; empty members are left to the SDK.

    Attributes:
        account_str: the name of the storage account; "" for the one of the location.
        auth_type: "key", "managed_identity", "default", or "".
        client_id: of a managed identity that was assigned by a user.
    """

    account_str: str = ""
    account_key: str = ""
    auth_type: str = ""
    client_id: str = ""


class _File(msgspec.Struct, frozen=True):
    """The file: by scheme, the credentials by the beginning of a location."""

    s3: dict[str, S3Credential] = {}
    gs: dict[str, str] = {}
    as_: dict[str, AzureCredential] = msgspec.field(name="as", default_factory=dict)


def s3(location: str, environ: Environ = os.environ) -> S3Credential | None:
    """The credential of the file for a location (row 18.29); None without a file: the SDK's own rules.

    Raises:
        StoreError: the file cannot be read, or has no entry for the location.
    """
    file = _read(environ)
    return None if file is None else longest_match(file.s3, location)


def gs(location: str, environ: Environ = os.environ) -> str | None:
    """The path of a key file for a location, "" for the SDK's own rules (row 18.29); None without a credential file.

    Raises:
        StoreError: the file cannot be read, or has no entry for the location.
    """
    file = _read(environ)
    return None if file is None else longest_match(file.gs, location)


def azure(location: str, environ: Environ = os.environ) -> AzureCredential:
    """The credential of the file for a location, or that of Triton's variables without a file (rows 18.28, 18.29).

    Raises:
        StoreError: the file cannot be read, or has no entry for the location.
    """
    file = _read(environ)
    if file is not None:
        return longest_match(file.as_, location)
    return AzureCredential(
        account_str=environ.get("AZURE_STORAGE_ACCOUNT", ""),
        account_key=environ.get("AZURE_STORAGE_KEY", ""),
        auth_type=environ.get("AZURE_STORAGE_AUTH_TYPE", ""),
        client_id=environ.get("AZURE_STORAGE_CLIENT_ID", ""),
    )


def longest_match(entries: collections.abc.Mapping[str, T], location: str) -> T:
    """The entry with the longest name that the location begins with (row 18.29). Pure.

    Raises:
        StoreError: no name fits.
    """
    names = [name for name in entries if f"{location}/".startswith(name)]
    if not names:
        listed = ", ".join(sorted(entries)) or "none"
        raise StoreError(
            f"Cannot match credential for path {location}: the file that {VARIABLE} names has entries for {listed}; "
            'add one whose name is the beginning of this path, or "" for every path'
        )
    return entries[max(names, key=len)]


def _read(environ: Environ) -> _File | None:
    path = environ.get(VARIABLE)
    if path is None:
        return None
    try:
        return msgspec.json.decode(pathlib.Path(path).read_bytes(), type=_File)
    except OSError as error:
        raise StoreError(
            f"{VARIABLE}={path}: cannot be read: {error.strerror or error}; check the path and its permissions"
        ) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        # The message names the position and the expected type, never a value.
        raise StoreError(
            f"{VARIABLE}={path}: is not a valid credential file: {error}; it has the form "
            '{"s3": {"s3://bucket": {"key_id": …}}, "gs": {"gs://bucket": "/path/key.json"}, "as": {"as://account": {"account_key": …}}}'
        ) from None


class Closable(typing.Protocol):
    """An SDK's client."""

    def close(self) -> None:
        """Close its connections."""


class Renewable(typing.Generic[Client]):
    """An SDK's client that is built again, with credentials that are read again, when a store refuses it. Thread-safe.

    Args:
        build: makes the client and reads its credentials.
    """

    def __init__(self, build: collections.abc.Callable[[], Client]) -> None:
        self._build = build
        self._lock = threading.Lock()
        self._client: Client | None = None

    def call(self, operation: collections.abc.Callable[[Client], T]) -> T:
        """Run an operation with the client; once more with a new one if the store refuses its credentials (row 18.29).

        Raises:
            RefusedError: the store refuses the new credentials, too.
        """
        client = self._other_than(None)
        try:
            return operation(client)
        except RefusedError:
            return operation(self._other_than(client))

    def _other_than(self, refused: Client | None) -> Client:
        """The client, built if there is none yet or if it is the refused one; of several threads that were refused, one builds it."""
        with self._lock:
            if self._client is None or self._client is refused:
                self._client = self._build()
            return self._client

    def close(self) -> None:
        """Close the client."""
        with self._lock:
            if self._client is not None:
                self._client.close()

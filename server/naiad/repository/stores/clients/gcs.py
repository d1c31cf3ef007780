"""Google Cloud Storage (`gs://bucket/prefix`), with google-cloud-storage (rows 18.27, 18.28).

Credentials: those of Triton's credential file if there is one; else the SDK's own rules (GOOGLE_APPLICATION_CREDENTIALS, an attached
service account …); else anonymous requests. STORAGE_EMULATOR_HOST names another server.
"""

import base64
import collections.abc
import contextlib
import datetime as dt
import json
import os
import pathlib
import typing

import google.auth.credentials
import google.auth.exceptions
import requests.adapters
import requests.exceptions
import urllib3.exceptions
from google.api_core import exceptions as api
from google.cloud import storage
from google.oauth2 import credentials as user_account, service_account
from typing_extensions import override

from naiad.repository.stores import credentials
from naiad.repository.stores.clients.listing import name_of
from naiad.repository.stores.clients.paged import Page, PagedClient
from naiad.repository.stores.credentials import RefusedError
from naiad.repository.stores.objects import (
    CONNECTIONS,
    ChangedError,
    Folder,
    StoredObject,
    StoreError,
)

_SCOPE = "https://www.googleapis.com/auth/devstorage.read_only"

_PAGE = 1000
"""Objects per listing request."""

_TIMEOUT_S = (5.0, 30.0)
"""To connect, and between two bytes."""

_FIELDS = "items(name,size,generation,updated,crc32c),prefixes,nextPageToken"

_EPOCH = dt.datetime.fromtimestamp(0, dt.UTC)


class GcsClient(PagedClient[storage.Client]):
    """The objects below a prefix of a bucket.

    Args:
        address: bucket and prefix.
    """

    @override
    def _page(
        self, sdk: storage.Client, *, prefix: str, token: str | None, recursive: bool
    ) -> Page:
        with self._errors(str(self._address), reading=False):
            listed = sdk.list_blobs(
                self._address.bucket,
                prefix=prefix,
                delimiter=None if recursive else "/",
                page_token=token,
                page_size=_PAGE,
                fields=_FIELDS,
                timeout=_TIMEOUT_S,
                retry=None,
            )
            page = next(listed.pages, ())
            entries: list[StoredObject | Folder] = [
                self._stored(blob) for blob in page if blob.name != prefix
            ]
            entries += [Folder(name.rstrip("/").rpartition("/")[2]) for name in listed.prefixes]
            return sorted(entries, key=name_of), listed.next_page_token

    def _stored(self, blob: storage.Blob) -> StoredObject:
        return StoredObject(
            key=blob.name.removeprefix(self._prefix),
            size=blob.size,
            version=str(blob.generation),
            modified_ns=(blob.updated - _EPOCH) // dt.timedelta(microseconds=1) * 1000,
            checksum=f"crc32c:{base64.b64decode(blob.crc32c).hex()}" if blob.crc32c else "",
        )

    @override
    def _piece(self, sdk: storage.Client, *, stored: StoredObject, start: int, end: int) -> bytes:
        where = f"{self._address}/{stored.key}"
        with self._errors(where, reading=True):
            name = self._address.key(stored.key)
            blob = sdk.bucket(self._address.bucket).blob(name, generation=int(stored.version))
            content: bytes = blob.download_as_bytes(
                start=start,
                end=end - 1,
                raw_download=True,
                checksum=None,
                timeout=_TIMEOUT_S,
                retry=None,
            )
        return content

    @override
    def _build(self) -> storage.Client:
        sdk = self._with_credentials()
        connections = requests.adapters.HTTPAdapter(pool_maxsize=CONNECTIONS)
        for scheme in ("https://", "http://"):
            sdk._http.mount(scheme, connections)  # noqa: SLF001 - Google's documentation says so
        return sdk

    def _with_credentials(self) -> storage.Client:
        path = credentials.gs(str(self._address))
        if path:
            return storage.Client(project=None, credentials=_from_file(path))
        try:
            return storage.Client(project=None)
        except google.auth.exceptions.DefaultCredentialsError as error:
            if "GOOGLE_APPLICATION_CREDENTIALS" in os.environ:
                raise StoreError(
                    f"{self._address}: the file that GOOGLE_APPLICATION_CREDENTIALS names cannot be used: {_first_line(error)}"
                ) from None
            return storage.Client.create_anonymous_client()

    @contextlib.contextmanager
    def _errors(self, where: str, *, reading: bool) -> collections.abc.Iterator[None]:
        """Turns the SDK's errors into ours."""
        try:
            yield
        except (api.Unauthorized, google.auth.exceptions.InvalidOperation) as error:
            raise RefusedError(
                f"{where}: the credentials are missing or refused (HTTP 401): set GOOGLE_APPLICATION_CREDENTIALS to a key file, or check "
                "that the key has not expired or been deleted"
            ) from error
        except api.Forbidden as error:
            raise RefusedError(
                f"{where}: no permission (HTTP 403): give the account that the server runs as the role 'Storage Object Viewer' on this bucket"
            ) from error
        except api.NotFound as error:
            if reading:
                raise _changed(where) from error
            raise StoreError(
                f"{where}: there is no bucket '{self._address.bucket}' (HTTP 404): check its name"
            ) from error
        except api.RequestRangeNotSatisfiable as error:
            raise _changed(where) from error
        except (api.TooManyRequests, api.ServerError) as error:
            raise StoreError(
                f"{where}: the store cannot answer now (HTTP {error.code})", retry=True
            ) from error
        except api.GoogleAPICallError as error:
            raise StoreError(
                f"{where}: the store answered HTTP {error.code}: {error.message}"
            ) from error
        except google.auth.exceptions.RefreshError as error:
            raise RefusedError(
                f"{where}: the credentials are refused: {_first_line(error)}: check that the key still exists and that this machine's clock is right"
            ) from error
        except (
            google.auth.exceptions.TransportError,
            requests.exceptions.RequestException,
            urllib3.exceptions.HTTPError,
        ) as error:
            raise StoreError(
                f"{where}: the store cannot be reached ({type(error).__name__}): check the network, proxies"
                + (" and STORAGE_EMULATOR_HOST" if "STORAGE_EMULATOR_HOST" in os.environ else ""),
                retry=True,
            ) from error


def _changed(where: str) -> ChangedError:
    return ChangedError(
        f"{where}: it was replaced or deleted while it was read; load the model again"
    )


def _from_file(path: str) -> google.auth.credentials.Credentials:
    """The credentials of a key file that Triton's credential file names: of a service account or a user, as Triton reads them."""
    kinds: dict[str, collections.abc.Callable[..., typing.Any]] = {
        "service_account": service_account.Credentials.from_service_account_info,
        "authorized_user": user_account.Credentials.from_authorized_user_info,
    }
    try:
        key = json.loads(pathlib.Path(path).read_bytes())
        kind = key.get("type")
        if kind in kinds:
            made: google.auth.credentials.Credentials = kinds[kind](key, scopes=[_SCOPE])
            return made
    except OSError as error:
        reason = error.strerror or str(error)
    except (ValueError, AttributeError):
        reason = "it is not a valid key file"
    else:
        reason = f'its "type" is {kind!r}, expected "service_account" or "authorized_user"; other kinds work by GOOGLE_APPLICATION_CREDENTIALS'
    raise StoreError(f"{credentials.VARIABLE}: the key file {path} cannot be used: {reason}")


def _first_line(error: Exception) -> str:
    """What an error of google-auth says; its further arguments are responses of servers."""
    said = str(error.args[0] if error.args else type(error).__name__)
    return said.splitlines()[0].rstrip(".")

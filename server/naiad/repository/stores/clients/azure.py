"""Azure blob storage (`as://account/container/prefix`), with azure-storage-blob and azure-identity (rows 18.27, 18.28).

Credentials: the account key or managed identity of Triton's credential file or variables; else what DefaultAzureCredential finds; else
anonymous requests.
"""

import collections.abc
import contextlib
import datetime as dt
import logging
import typing

import requests
import requests.adapters
from azure.core import MatchConditions, exceptions as core
from azure.core.pipeline.transport import RequestsTransport
from azure.identity import DefaultAzureCredential, ManagedIdentityCredential
from azure.storage.blob import BlobPrefix, BlobProperties, ContainerClient
from typing_extensions import override

from naiad.repository.stores import credentials
from naiad.repository.stores.address import Address
from naiad.repository.stores.clients.paged import PIECE, Page, PagedClient
from naiad.repository.stores.credentials import AzureCredential, RefusedError
from naiad.repository.stores.objects import (
    CONNECTIONS,
    ChangedError,
    Folder,
    StoredObject,
    StoreError,
)

_log = logging.getLogger("naiad.repository")
_identity_log = logging.getLogger("azure.identity")

_DOMAIN = ".blob.core.windows.net"

_TOKEN_SCOPE = "https://storage.azure.com/.default"  # noqa: S105 - a scope, not a token

_PAGE = 5000
"""Blobs per listing request."""

_CONNECT_S, _READ_S = 5, 30

_EPOCH = dt.datetime.fromtimestamp(0, dt.UTC)

_AUTH_TYPES = ("", "key", "managed_identity", "default")

_UNAUTHORIZED, _FORBIDDEN, _ABSENT, _CONFLICT, _REPLACED, _RANGE = 401, 403, 404, 409, 412, 416
_THROTTLED, _SERVER_ERROR = 429, 500


class AzureClient(PagedClient[ContainerClient]):
    """The blobs below a prefix of a container.

    Args:
        address: account, container and prefix; an endpoint is that of an emulator.
    """

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self._anonymous = False

    @override
    def _page(
        self, sdk: ContainerClient, *, prefix: str, token: str | None, recursive: bool
    ) -> Page:
        list_blobs = sdk.list_blobs if recursive else sdk.walk_blobs
        with self._errors(str(self._address), reading=False):
            pages: typing.Any = list_blobs(
                name_starts_with=prefix, include=["metadata"], results_per_page=_PAGE
            ).by_page(token)
            entries = [self._entry(blob) for blob in next(pages, ()) if blob.name != prefix]
            return entries, pages.continuation_token

    def _entry(self, blob: BlobProperties | BlobPrefix) -> StoredObject | Folder:
        if isinstance(blob, BlobPrefix):
            return Folder(blob.name.rstrip("/").rpartition("/")[2])
        key = blob.name.removeprefix(self._prefix)
        if (blob.metadata or {}).get("hdi_isfolder") == "true":
            key += "/"  # an account with a hierarchical namespace lists its folders like blobs
        md5 = blob.content_settings.content_md5
        return StoredObject(
            key=key,
            size=blob.size,
            version=blob.etag,
            modified_ns=(blob.last_modified - _EPOCH) // dt.timedelta(microseconds=1) * 1000,
            checksum=f"md5:{md5.hex()}" if md5 else "",
        )

    @override
    def _piece(self, sdk: ContainerClient, *, stored: StoredObject, start: int, end: int) -> bytes:
        where = f"{self._address}/{stored.key}"
        with self._errors(where, reading=True):
            content: bytes = sdk.download_blob(
                self._address.key(stored.key),
                offset=start,
                length=end - start,
                # Listings give the ETag without the quotes that it has in a header.
                etag=f'"{stored.version.strip(chr(34))}"',
                match_condition=MatchConditions.IfNotModified,
            ).readall()
        return content

    @override
    def _build(self) -> ContainerClient:
        credential = credentials.azure(str(self._address))
        account = credential.account_str or self._address.account.removesuffix(_DOMAIN)
        endpoint = self._address.endpoint
        url = f"{endpoint}/{account}" if endpoint else f"https://{account}{_DOMAIN}"
        identity = self._identity(credential, account, tls=url.startswith("https:"))
        self._anonymous = identity is None
        session = requests.Session()
        connections = requests.adapters.HTTPAdapter(pool_maxsize=CONNECTIONS)
        for scheme in ("https://", "http://"):
            session.mount(scheme, connections)
        return ContainerClient(
            url,
            self._address.bucket,
            identity,
            retry_total=0,
            transport=RequestsTransport(
                session=session, connection_timeout=_CONNECT_S, read_timeout=_READ_S
            ),
            max_single_get_size=PIECE,
            max_chunk_get_size=PIECE,
        )

    def _identity(
        self, credential: AzureCredential, account: str, *, tls: bool
    ) -> dict[str, str] | ManagedIdentityCredential | DefaultAzureCredential | None:
        """What requests are signed with; None: anonymous requests. Tokens are not sent without TLS."""
        if credential.auth_type not in _AUTH_TYPES:
            raise StoreError(
                f"{self._address}: the authentication type {credential.auth_type!r} (AZURE_STORAGE_AUTH_TYPE or auth_type) is not known: "
                "it is key, managed_identity or default"
            )
        if credential.auth_type == "managed_identity":
            return ManagedIdentityCredential(client_id=credential.client_id or None)
        if credential.auth_type == "default":
            return DefaultAzureCredential()
        if credential.account_key:
            return {"account_name": account, "account_key": credential.account_key}
        if credential.auth_type == "key" or not tls:
            return None
        chain = DefaultAzureCredential()
        _identity_log.setLevel(logging.ERROR)  # else it warns of every credential that it has tried
        try:
            chain.get_token(_TOKEN_SCOPE)
        except core.ClientAuthenticationError:
            _log.info("%s: no Azure credentials were found: requests are anonymous", self._address)
            return None
        finally:
            _identity_log.setLevel(logging.NOTSET)
        return chain

    @contextlib.contextmanager
    def _errors(self, where: str, *, reading: bool) -> collections.abc.Iterator[None]:
        """Turns the SDK's errors into ours."""
        try:
            yield
        except core.ClientAuthenticationError as error:
            raise self._refused(where, error) from error
        except core.HttpResponseError as error:
            raise self._http_error(where, error, reading=reading) from error
        except core.AzureError as error:
            raise StoreError(
                f"{where}: the store cannot be reached ({type(error).__name__}): check the name of the account, the network and proxies",
                retry=True,
            ) from error

    def _http_error(
        self, where: str, error: core.HttpResponseError, *, reading: bool
    ) -> StoreError:
        status = error.status_code
        if status in (_UNAUTHORIZED, _FORBIDDEN, _CONFLICT):
            return self._refused(where, error)
        if status in (_REPLACED, _RANGE) or (reading and status == _ABSENT):
            return ChangedError(
                f"{where}: it was replaced or deleted while it was read; load the model again"
            )
        if status == _ABSENT and not self._anonymous:
            return StoreError(
                f"{where}: there is no container '{self._address.bucket}' in the account '{self._address.account}': check its name"
            )
        if status == _ABSENT:
            return self._refused(where, error)
        if status is None or status == _THROTTLED or status >= _SERVER_ERROR:
            return StoreError(f"{where}: the store cannot answer now (HTTP {status})", retry=True)
        return StoreError(f"{where}: the store answered HTTP {status} ({_code(error)})")

    def _refused(self, where: str, error: core.HttpResponseError) -> RefusedError:
        code = _code(error)
        if self._anonymous:
            return RefusedError(
                f"{where}: there is no such container, or it is not public and there are no credentials ({code}): check its name, or set "
                "AZURE_STORAGE_KEY, or AZURE_STORAGE_AUTH_TYPE=managed_identity or default"
            )
        if code == "AuthorizationPermissionMismatch":
            return RefusedError(
                f"{where}: no permission ({code}): give the account that the server runs as the role 'Storage Blob Data Reader'"
            )
        return RefusedError(
            f"{where}: the credentials are refused ({code}): check the account key or identity, the firewall of the storage account, and that this "
            "machine's clock is right"
        )


def _code(error: core.HttpResponseError) -> str:
    """The store's name of an error; the whole message may hold headers of the request."""
    code = getattr(error, "error_code", None)
    if code is None and error.status_code is None:
        return type(error).__name__
    return str(getattr(code, "value", code) or f"HTTP {error.status_code}")

"""Requests to an OCI registry: manifests and blobs, with the tokens that registries want.

Digests are verified: what arrives is what the manifest names, whichever host sent it.
"""

import hashlib
import http.client
import re
import threading
import urllib.parse

import msgspec

from naiad.repository.stores.clients import docker_credentials, http_requests
from naiad.repository.stores.clients.http_requests import HttpError
from naiad.repository.stores.objects import StoreError

_INDEX_TYPES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
_MANIFEST_TYPES = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
_ACCEPT = ", ".join((*_MANIFEST_TYPES, *_INDEX_TYPES))

_MAX_MANIFEST = 4 << 20
"""Bytes; registries accept no larger ones."""

_CHALLENGE = re.compile(r'(\w+)="([^"]*)"')

_UNAUTHORIZED = 401

_DOCKER_HUB = {"docker.io": "registry-1.docker.io", "index.docker.io": "registry-1.docker.io"}

_LOCAL = ("localhost", "127.0.0.1", "[::1]")
"""Hosts whose registries speak plain HTTP, as for docker."""


class Descriptor(msgspec.Struct, frozen=True, rename="camel"):
    """A blob or a manifest, as another manifest names it."""

    digest: str
    size: int
    media_type: str = ""
    annotations: dict[str, str] = {}
    platform: dict[str, str | list[str]] = {}


class Manifest(msgspec.Struct, frozen=True, rename="camel"):
    """A manifest, or an index of manifests for several platforms.

    Attributes:
        digest: of the text itself, `sha256:…`.
    """

    digest: str = ""
    config: Descriptor | None = None
    layers: list[Descriptor] = []
    manifests: list[Descriptor] = []


class _Token(msgspec.Struct, frozen=True):
    token: str = ""
    access_token: str = ""


class Registry:
    """One repository of a registry. Thread-safe.

    Args:
        host: of the registry, with its port, and with `http://` before it if it speaks plain HTTP.
        name: of the repository in it.
        where: what messages call it.
    """

    def __init__(self, host: str, name: str, *, where: str) -> None:
        plain = host.startswith("http://")
        host = host.removeprefix("http://")
        host = _DOCKER_HUB.get(host, host)
        if host in _DOCKER_HUB.values() and "/" not in name:
            name = f"library/{name}"
        scheme = "http" if plain or host.rsplit(":", 1)[0] in _LOCAL else "https"
        self._host = host
        self._where = where
        self._base = f"{scheme}://{host}/v2/{name}"
        self._lock = threading.Lock()
        self._authorization = ""

    def digest(self, reference: str) -> str:
        """The digest that a tag has now; "" if the registry does not say it. This counts as no pull."""
        with self._send(f"manifests/{reference}", {"Accept": _ACCEPT}, method="HEAD") as response:
            return response.headers["Docker-Content-Digest"] or ""

    def manifest(self, reference: str) -> Manifest:
        """The manifest of a tag or digest.

        Raises:
            StoreError: it does not exist, is not valid, or is not the one of the digest.
        """
        with self._send(f"manifests/{reference}", {"Accept": _ACCEPT}) as response:
            text = response.read(_MAX_MANIFEST + 1)
        digest = "sha256:" + hashlib.sha256(text).hexdigest()
        if ":" in reference and digest != reference:
            raise StoreError(
                f"{self._where}: the registry sends a manifest that does not have the digest {reference}"
            )
        try:
            manifest = msgspec.json.decode(text, type=Manifest)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise StoreError(f"{self._where}: its manifest is not valid: {error}") from error
        return msgspec.structs.replace(manifest, digest=digest)

    def blob(self, digest: str, headers: http_requests.Headers) -> http.client.HTTPResponse:
        """A blob, or a range of it; the caller closes the response."""
        return self._send(f"blobs/{digest}", headers)

    def _send(
        self, path: str, headers: http_requests.Headers, method: str = "GET"
    ) -> http.client.HTTPResponse:
        """Send a request; once more with a new token where the registry wants one."""
        authorization = self._authorization
        try:
            return self._request(path, headers, authorization, method)
        except HttpError as error:
            if error.status != _UNAUTHORIZED:
                raise
            challenge = error.headers["WWW-Authenticate"] or ""
        with self._lock:
            if self._authorization == authorization:  # else another thread has a new one
                self._authorization = self._authorize(challenge)
            authorization = self._authorization
        return self._request(path, headers, authorization, method)

    def _request(
        self, path: str, headers: http_requests.Headers, authorization: str, method: str
    ) -> http.client.HTTPResponse:
        return http_requests.send(
            f"{self._base}/{path}",
            where=self._where,
            headers=headers,
            authorization=authorization,
            method=method,
        )

    def _authorize(self, challenge: str) -> str:
        """The Authorization header that a response with status 401 wants."""
        login = docker_credentials.login(self._host)
        basic = http_requests.basic(*login) if login else ""
        wanted = dict(_CHALLENGE.findall(challenge))
        if not challenge.lower().startswith("bearer") or "realm" not in wanted:
            return basic
        realm = wanted.pop("realm")
        if not realm.startswith(("https://", f"{self._base.partition(':')[0]}://")):
            raise StoreError(
                f"{self._where}: the registry sends for its tokens to {realm}, which is not HTTPS"
            )
        asked = {key: wanted[key] for key in ("service", "scope") if key in wanted}
        url = f"{realm}{'&' if '?' in realm else '?'}{urllib.parse.urlencode(asked)}"
        with http_requests.send(
            url, where=f"{self._where}: the token of the registry", headers={}, authorization=basic
        ) as response:
            try:
                token = msgspec.json.decode(response.read(_MAX_MANIFEST), type=_Token)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise StoreError(f"{self._where}: the registry sends no valid token") from error
        return f"Bearer {token.token or token.access_token}"

"""Addresses of remote model repositories (row 18.27). Pure.

An address is shown in messages, logs and statuses, so it never shows credentials: those in a host are refused, and a query, which may hold a
signature, is not part of the text.
"""

import re
import urllib.parse

import msgspec
from typing_extensions import override

from naiad.errors import InferenceError, invalid

_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*)://")
_SIGNATURE = re.compile(r"[?&][\w-]*(sig|signature|token|key|secret|password)=", re.IGNORECASE)
_NO_CREDENTIALS = "credentials do not belong in an address, which logs and process lists show"
_HOST_AND_PORT = re.compile(r"^(\[[0-9A-Fa-f:.]+\]|[^\[\]:/]+):[0-9]+$")

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_ARTIFACT = re.compile(r"[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*")
"""Digests and names of repositories, as the OCI distribution specification has them."""

FORMS = {
    "s3": "s3://bucket/prefix, s3://host:port/bucket/prefix (plain HTTP) or s3://https://host:port/bucket/prefix",
    "gs": "gs://bucket/prefix",
    "as": "as://account/container/prefix or as://host:port/account/container/prefix (plain HTTP)",
    "https": "https://host/models.tar.gz",
    "http": "http://host/models.tar.gz",
    "oci": "oci://registry/name:tag, oci://registry/name@sha256:digest or oci://http://registry/name:tag (plain HTTP)",
    "hf": "hf://owner/name, hf://owner/name@revision or hf://owner/name@revision/path",
}
"""How the addresses of each scheme are written."""

DOWNLOADED_WHOLE = frozenset(("http", "https", "oci"))
"""Schemes whose repositories are downloaded before they can be listed."""


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """Where a repository is stored. `str()` gives it as a user writes it, without its query.

    Attributes:
        scheme: in lower case, a key of `FORMS`.
        endpoint: URL of the service with its scheme and without a path, `http://127.0.0.1:9000`; "" for the service's own. Of `oci`: the
            registry as written, without a scheme unless that is `http`.
        account: of Azure, else "".
        bucket: the bucket or container; of `oci` and `hf` the name of the repository, `owner/name`; "" for `http` and `https`.
        prefix: the folder in the bucket that holds the models, without slashes at its ends; "" is the bucket itself. Of `http` and `https`:
            the path of the archive.
        revision: of `hf` a branch, tag or commit; of `oci` a tag, or a digest with its `sha256:`; "" if not given.
        query: of `http` and `https`, behind the question mark. It may be a secret.
    """

    scheme: str
    endpoint: str = ""
    account: str = ""
    bucket: str = ""
    prefix: str = ""
    revision: str = ""
    query: str = ""

    @override
    def __str__(self) -> str:
        if self.scheme in ("http", "https"):
            return f"{self.endpoint}/{self.prefix}"
        revision = self.revision and ("@" if self.is_pinned else ":") + self.revision
        host = self.endpoint.removeprefix("http://")
        shown = host if _HOST_AND_PORT.match(host) and self.scheme != "oci" else self.endpoint
        place = (shown, self.account, self.bucket + revision)
        return f"{self.scheme}://{'/'.join(part for part in (*place, self.prefix) if part)}"

    @override
    def __repr__(self) -> str:
        return f"Address({self})"

    @property
    def is_pinned(self) -> bool:
        """Whether an `@` precedes the revision."""
        return self.scheme == "hf" or ":" in self.revision

    def key(self, below: str) -> str:
        """The full key of an object in the bucket, for a key below the prefix."""
        return f"{self.prefix}/{below}" if self.prefix else below


def scheme(location: str) -> str:
    """The scheme of a `--model-repository` value in lower case; "" for a path."""
    match = _SCHEME.match(location)
    return match[1].lower() if match else ""


def parse(location: str) -> Address:
    """The parts of an address.

    Raises:
        InferenceError: INVALID_ARG: the scheme is not known, or a part is missing or may not be there.
    """
    name = scheme(location)
    if name not in FORMS:
        raise invalid(
            f"{name}:// is not supported: expected a folder, or an address with one of the schemes file, {', '.join(FORMS)}"
        )
    rest = location[len(name) + 3 :]
    if name not in ("http", "https") and _SIGNATURE.search(rest):
        raise _unusable(name, f"a signed query is a secret; {_NO_CREDENTIALS}")
    match name:
        case "http" | "https":
            return _archive(name, rest)
        case "oci":
            return _artifact(rest)
        case "hf":
            return _hub(rest)
        case _:
            return _objects(name, rest)


def _objects(name: str, rest: str) -> Address:
    """An object store: [endpoint/][account/]bucket[/prefix]."""
    protocol = next((p for p in ("http://", "https://") if rest.lower().startswith(p)), "")
    segments = [segment for segment in rest[len(protocol) :].split("/") if segment]
    endpoint = ""
    if protocol or (segments and _HOST_AND_PORT.match(segments[0])):
        endpoint = (protocol or "http://") + _host(name, segments.pop(0) if segments else "")
    account = segments.pop(0) if name == "as" and segments else ""
    bucket = segments.pop(0) if segments else ""
    for part in (account, bucket):
        if part and ":" in _host(name, part):
            raise _unusable(name, "there is a ':' where the bucket is expected")
    if not bucket:
        raise _unusable(name, "the container is missing" if account else "the bucket is missing")
    if name == "gs" and endpoint:
        raise _unusable(name, "it may not name a host (STORAGE_EMULATOR_HOST does)")
    if set(segments) & {".", ".."}:
        raise _unusable(name, "the prefix holds '.' or '..'")
    return Address(
        scheme=name, endpoint=endpoint, account=account, bucket=bucket, prefix="/".join(segments)
    )


def _archive(name: str, rest: str) -> Address:
    parts = urllib.parse.urlsplit(f"{name}://{rest}")
    path = parts.path.strip("/")
    if not parts.netloc or not path:
        raise _unusable(name, "the host or the path of the archive is missing")
    endpoint = f"{name}://{_host(name, parts.netloc)}"
    return Address(scheme=name, endpoint=endpoint, prefix=path, query=parts.query)


def _artifact(rest: str) -> Address:
    protocol = "http://" if rest.startswith("http://") else ""
    registry, _, path = rest[len(protocol) :].strip("/").partition("/")
    path, at, digest = path.partition("@")
    path, _, tag = path.partition(":")
    if not registry or not path:
        raise _unusable("oci", "the registry or the name is missing")
    if not _ARTIFACT.fullmatch(path):
        raise _unusable("oci", "the name has other characters than a-z, 0-9, '.', '_', '-' and '/'")
    if at and not _DIGEST.fullmatch(digest):
        raise _unusable("oci", "a digest begins with sha256: and has 64 hexadecimal digits")
    endpoint = protocol + _host("oci", registry)
    return Address(scheme="oci", endpoint=endpoint, bucket=path, revision=digest or tag)


def _hub(rest: str) -> Address:
    segments = [segment for segment in rest.split("/") if segment]
    if len(segments) < 2:  # noqa: PLR2004 - the owner and the name
        raise _unusable("hf", "the owner or the name is missing")
    _host("hf", segments[0])
    model, at, revision = segments[1].partition("@")
    if not model or (at and not revision):
        raise _unusable("hf", "the name or the revision is missing")
    if {".", ".."} & set(segments):
        raise _unusable("hf", "there is '.' or '..' in the path")
    prefix = "/".join(segments[2:])
    return Address(scheme="hf", bucket=f"{segments[0]}/{model}", revision=revision, prefix=prefix)


def _host(name: str, host: str) -> str:
    if "@" in host:
        raise _unusable(name, _NO_CREDENTIALS)
    if not host:
        raise _unusable(name, "the host is missing")
    return host


def _unusable(name: str, what: str) -> InferenceError:
    """Without the address itself, which may hold a password."""
    return invalid(f"{name}://…: {what}; expected {FORMS[name]}")

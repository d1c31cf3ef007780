"""The address of a model repository: what a server of this release can read, and what an address of another form is here. Pure.

The server refuses what `problem` reports of the others than pvc://; tests/seams compares the verdicts of both. pvc:// is the operator's own.
"""

import difflib
import re
import typing

SCHEMES = ("s3", "gs", "as", "hf", "oci", "pvc")
_ALIASES = {
    "s3a": "s3", "s3n": "s3", "gcs": "gs", "azure": "as", "az": "as", "abfs": "as", "abfss": "as", "wasb": "as", "wasbs": "as",
}  # fmt: skip
_FORMS = {
    "s3": "s3://bucket/path",
    "gs": "gs://bucket/path",
    "as": "as://account/container/path",
    "hf": "hf://owner/name",
    "oci": "oci://registry/name:tag",
    "pvc": "pvc://claim/path",
}
_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*)://")
_HOST_AND_PORT = re.compile(r"^(\[[0-9A-Fa-f:.]+\]|[^\[\]:/]+):[0-9]+$")
_SIGNATURE = re.compile(r"[?&][\w-]*(sig|signature|token|key|secret|password)=", re.IGNORECASE)
_OWNER_AND_NAME = 2
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_ARTIFACT = re.compile(r"[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*")
_AZURE_HOST = re.compile(r"([^./]+)\.(?:blob|dfs)\.core\.windows\.net")
_S3_VIRTUAL = re.compile(r"([^/]+)\.s3[.-](?:([a-z0-9-]+)\.)?amazonaws\.com")
_S3_PATH = re.compile(r"s3[.-](?:([a-z0-9-]+)\.)?amazonaws\.com")
_ONE_MODEL = re.compile(
    r"(^|/)([0-9]+|config\.pbtxt|[^/]+\.(onnx|pt|pth|plan|engine|savedmodel|pbtxt|tar|tgz|gz|zip))/?$"
)


class Store(typing.NamedTuple):
    """An address as a service has it.

    Attributes:
        uri: the storageUri.
        endpoint: the storage.endpoint; "" for none.
        region: the storage.region; "" for none.
    """

    uri: str
    endpoint: str = ""
    region: str = ""

    @property
    def fields(self) -> dict[str, typing.Any]:
        """The fields of a repository."""
        storage = {
            name: value
            for name, value in (("endpoint", self.endpoint), ("region", self.region))
            if value
        }
        return {"storageUri": self.uri, **({"storage": storage} if storage else {})}


def converted(address: str) -> Store | None:
    """The address of a store in the form that a service has, from those of Triton, of KServe and of web browsers; None for any other."""
    scheme, rest = _divided(address)
    scheme = _ALIASES.get(scheme, scheme)
    if scheme in {"http", "https"}:
        return _of_web(rest)
    if scheme == "s3":
        return _of_s3(rest)
    if scheme == "as":
        return _of_azure(rest)
    return Store(f"{scheme}://{rest}") if scheme in SCHEMES else None


def _divided(address: str) -> tuple[str, str]:
    match = _SCHEME.match(address)
    return (match[1].lower(), address[match.end() :]) if match else ("", address)


def _of_s3(rest: str) -> Store:
    """Triton writes the endpoint into the address: s3://https://host:port/bucket, and s3://host:port/bucket for plain HTTP."""
    protocol = next((one for one in ("https://", "http://") if rest.startswith(one)), "")
    host, slash, path = rest[len(protocol) :].partition("/")
    if slash and (protocol or _HOST_AND_PORT.match(host)):
        return Store(f"s3://{path}", endpoint=f"{protocol or 'http://'}{host}")
    return Store(f"s3://{rest}")


def _of_azure(rest: str) -> Store:
    """abfss://container@account.dfs.core.windows.net/path, and as://account.blob.core.windows.net/container/path."""
    host, _, path = rest.partition("/")
    container, at, host = host.rpartition("@")
    match = _AZURE_HOST.fullmatch(host)
    account = match[1] if match else host
    return Store("as://" + "/".join(filter(None, (account, container if at else "", path))))


def _of_web(rest: str) -> Store | None:
    """The addresses that the consoles of the clouds show."""
    host, _, path = rest.partition("/")
    path = path.partition("?")[0]
    if match := _AZURE_HOST.fullmatch(host):
        return Store(f"as://{match[1]}/{path}") if path else None
    if host == "storage.googleapis.com" and path:
        return Store(f"gs://{path}")
    if match := _S3_VIRTUAL.fullmatch(host):
        return Store(f"s3://{match[1]}/{path}", region=match[2] or "")
    if (match := _S3_PATH.fullmatch(host)) and path:
        return Store(f"s3://{path}", region=match[1] or "")
    return None


def dropped(address: str) -> str:
    """What `converted` leaves out of an address that a service can read; "" for nothing."""
    scheme, rest = _divided(address)
    if scheme not in {"http", "https"} or "?" not in rest:
        return ""
    return "left out: what follows '?': a service reads the store with the Secret in model.storage.secretName, not with a signed address"


def problem(address: str) -> str:
    """Why a service cannot read an address, and what to write instead; "" when it can."""
    scheme, rest = _divided(address)
    if scheme in SCHEMES:
        if not address.startswith(f"{scheme}://"):
            return f"is {address}: write the scheme in lower case, {scheme}://{rest}"
        return _of_parts(scheme, rest)
    other = converted(address)
    if other is not None and not problem(other.uri):
        beside = "".join(
            f", and storage.{name}: {value}"
            for name, value in other.fields.get("storage", {}).items()
        )
        return f"is {address.partition('?')[0]}: write {other.uri}{beside}"
    if scheme in {"http", "https"}:
        return (
            f"is {scheme}://…, which a server reads, but not a service: copy it into a claim or a bucket, e.g. with `naiad fetch {scheme}://… "
            "--to=FOLDER`, and write pvc://claim/path or s3://bucket/path"
        )
    forms = ", ".join(_FORMS.values())
    if scheme in {"", "file"}:
        return f"is {address}, a folder: pods have only what is in a store or a claim: copy the models into a claim and write pvc://claim/path, or into a bucket, e.g. s3://bucket/path"
    near = difflib.get_close_matches(scheme, _FORMS, n=1)
    return f"is {scheme}://…, which no server reads: write " + (
        f"{_FORMS[near[0]]}" if near else f"one of {forms}"
    )


def _of_parts(scheme: str, rest: str) -> str:  # noqa: PLR0911 - one return per part
    form = _FORMS[scheme]
    if scheme == "pvc":
        return "has '..' in its path: write the path without" if ".." in rest.split("/") else ""
    if _SIGNATURE.search(rest):
        return f"is signed, and conditions and process lists show an address: write {form}, and a Secret in storage.secretName"
    if scheme in {"hf", "oci"} and not _SIGNATURE.search(rest):
        return _of_hub(rest) if scheme == "hf" else _of_registry(rest)
    protocol = next((one for one in ("http://", "https://") if rest.lower().startswith(one)), "")
    segments = [one for one in rest[len(protocol) :].split("/") if one]
    named = bool(protocol or (segments and _HOST_AND_PORT.match(segments[0])))
    if named and scheme == "gs":
        return (
            f"names a host: write {form} (STORAGE_EMULATOR_HOST in predictor.env names another one)"
        )
    host = segments[:1] if named else []
    if named:
        segments = segments[1:]
    needed = 2 if scheme == "as" else 1
    if any("@" in one for one in (*host, *segments[:needed])) or (named and not host):
        return f"has a host, a user or a password in it that does not belong there: write {form}, and a Secret in storage.secretName"
    if len(segments) < needed:
        return f"lacks the {'container' if segments else 'bucket'}: write {form}"
    if any(":" in one for one in segments[:needed]):
        return f"has a ':' where the bucket is expected: write {form}"
    if {".", ".."} & set(segments[needed:]):
        return "has '.' or '..' in its path: write the path without"
    return ""


def _of_hub(rest: str) -> str:
    form = "hf://owner/name, hf://owner/name@revision or hf://owner/name@revision/path"
    segments = [one for one in rest.split("/") if one]
    name, at, revision = segments[1].partition("@") if len(segments) > 1 else ("", "", "")
    if len(segments) < _OWNER_AND_NAME or not name:
        return f"lacks the {'name' if segments else 'owner'} of the repository: write {form}"
    if "@" in segments[0]:
        return f"has a user or a password in it: write {form}, and a Secret with HF_TOKEN in storage.secretName"
    if at and not revision:
        return f"lacks the revision behind '@': write {form}"
    if {".", ".."} & set(segments):
        return "has '.' or '..' in its path: write the path without"
    return ""


def _of_registry(rest: str) -> str:
    form = "oci://registry/name:tag or oci://registry/name@sha256:digest"
    registry, _, path = rest.removeprefix("http://").strip("/").partition("/")
    name, at, digest = path.partition("@")
    if not registry or not name.partition(":")[0]:
        return f"lacks the {'name' if registry else 'registry'}: write {form}"
    if "@" in registry:
        return (
            f"has a user or a password in it: write {form}, and a pull secret in storage.secretName"
        )
    if at and not _DIGEST.fullmatch(digest):
        return f"names a digest that is not sha256: and 64 hexadecimal digits: write {form}"
    if not _ARTIFACT.fullmatch(name.partition(":")[0]):
        return f"has a name that no registry takes (lower-case letters, digits, '.', '_', '-' and '/'): write {form}"
    return ""


def doubt(address: str) -> str:
    """What looks wrong in an address that can be read; "" for nothing."""
    if address != address.strip():
        return "ends with a blank, which counts as a part of the path: leave it out"
    if address.startswith("oci://"):
        return ""
    match = _ONE_MODEL.search(address.partition("://")[2].partition("/")[2])
    if not match:
        return ""
    return f"ends with {match[2]}, which looks like a part of one model: write the repository, the folder that contains one folder per model (NAME/1/FILE)"

"""The head of an object that cannot be read: who it is, its labels, owners and status, and of a profile which services it is for, cut out by searches alone.

They take microseconds for any size, and rely on how API servers write JSON: without spaces, the fields of custom resources sorted, those of other
objects and of `PartialObjectMetadata` in the order of their declaration. What a tenant writes cannot imitate a border: quotes in a string are escaped,
the metadata before `managedFields` has strings only, the keys of `managedFields` begin with `f:`, `k:`, `v:` or `i:`, and a border that comes last is
searched from the end.
"""

import contextlib
import typing

import msgspec

from naiad_operator.api import names
from naiad_operator.api.manifests.unreadable import MAX_CONTAINERS, MAX_LEVELS
from naiad_operator.cluster import decoding, scanning

Object = dict[str, typing.Any]

_REFUSED = (ValueError, RecursionError)
"""What the decoder raises: its own errors and those of Unicode are ValueErrors."""


class _Metadata(msgspec.Struct, omit_defaults=True):
    """What is read of the metadata of an object that cannot be read; `managedFields` are as deep as it is."""

    name: str
    uid: str
    resourceVersion: str  # noqa: N815 - the field's name in JSON
    namespace: str = ""
    generation: int = 0
    creationTimestamp: str | None = None  # noqa: N815
    deletionTimestamp: str | None = None  # noqa: N815
    labels: dict[str, str] | None = None
    ownerReferences: list[dict[str, str | bool]] | None = None  # noqa: N815


class _Kind(msgspec.Struct):
    apiVersion: str = ""  # noqa: N815
    kind: str = ""


class _Policy(msgspec.Struct, omit_defaults=True):
    namespaces: dict[str, typing.Any] = msgspec.field(default_factory=dict)


class _ProfileSpec(msgspec.Struct, omit_defaults=True):
    default: bool = False
    policy: _Policy | None = None


class _Profile(msgspec.Struct):
    """What is read of the spec of a NaiadProfile that cannot be read: which services it is for."""

    spec: _ProfileSpec = msgspec.field(default_factory=_ProfileSpec)


_decode_metadata = msgspec.json.Decoder(_Metadata).decode
_decode_kind = msgspec.json.Decoder(_Kind).decode
_decode_profile = msgspec.json.Decoder(_Profile).decode

METADATA = b'"metadata":'
_STATUS = b'},"status":{'


def head(text: bytes) -> Object:
    """The head of an object.

    Raises:
        ValueError: it has none.
    """
    start = text.find(METADATA) + len(METADATA)
    kind = _decode_kind(text[:start] + b"null}")
    made: Object = {
        "apiVersion": kind.apiVersion,
        "kind": kind.kind,
        "metadata": msgspec.to_builtins(_decode_metadata(_metadata(text, start))),
    }
    at = text.rfind(_STATUS)
    status = text[at + len(_STATUS) - 1 : -1] if at > start else b""
    if (
        status.count(b"{") + status.count(b"[") < MAX_CONTAINERS
        and scanning.levels(status) < MAX_LEVELS
    ):
        with contextlib.suppress(*_REFUSED):  # a field of this name that is not the object's own
            made["status"] = decoding.decode(status)
    if kind.kind == names.PROFILE_KIND:
        with contextlib.suppress(*_REFUSED):
            made["spec"] = msgspec.to_builtins(_decode_profile(text).spec)
    return made


def _metadata(text: bytes, start: int) -> bytes:
    """The metadata that begins here, without its managed fields."""
    managed = text.find(scanning.MANAGED, start)
    before = text[start:managed].rstrip(b",")
    if managed < 0:
        end = text.find(b'},"spec":', start)
        return text[start : end + 1] if end > 0 else text[start:-1]
    if text.startswith(b'{"name":', start):
        return before + b"}"
    after = text.find(b'],"name":', managed) + 1
    end = text.find(b'},"spec":', after)
    return before + (text[after:end] if before != b"{" else text[after + 1 : end]) + b"}"

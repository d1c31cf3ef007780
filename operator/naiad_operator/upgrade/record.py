"""The record on each Deployment: what its pods were made from. It survives a restart of the operator, and a restore without status.

| annotation, after `serving.naiad.dev/` | value |
|---|---|
| `operator-version` | the operator that has written the Deployment |
| `template-version` | the operator that rendered the pod template |
| `template` | the pod template as it was applied, compressed: a Deployment that waits for the new one is put back to it |
| `image`, `server-version` | the resolved image, and the server's version that the template was rendered for |
| `pods` | the hash of the spec that the pods were made from: a different hash is an edit by a user |
| `default-requests` | the default requests that the pods have |
| `kept-replicas` | the number of pods when neither the spec nor an autoscaler decides it |
| `upgrade` | while the pods are replaced because of a new operator: since when, and how many were available before |

An annotation counts only while the operator owns it: `kubectl rollout undo` copies those of an old ReplicaSet back. Deployments of operator
0.1.0 have no record; `of_deployment` takes theirs from the status and from the fields that the operator owns.
"""

import base64
import dataclasses
import typing
import zlib

import msgspec

from naiad_operator import versions
from naiad_operator.api import names
from naiad_operator.api.parsing.service import InferenceService
from naiad_operator.builders import server
from naiad_operator.builders.workload import image
from naiad_operator.cluster.child_store import APPLIED_ANNOTATION, Child
from naiad_operator.upgrade import template as templates
from naiad_operator.versions import Version

Object = dict[str, typing.Any]

_PREFIX = f"{names.GROUP}/"
_MOST_DIGITS = 10
"""Of a number of replicas."""
_FIRST_VERSION = Version(0, 1, 0)
"""The operator that wrote no record."""


class Mark(msgspec.Struct, frozen=True):
    """The pods are being replaced because a new operator renders another template.

    Attributes:
        since: when the Deployment got the template, as Kubernetes writes times.
        available: how many pods were available before: as many must be again.
    """

    since: str
    available: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The record on a Deployment.

    Attributes:
        operator: the operator that has written the Deployment.
        template_version: the operator that rendered the template.
        template: the pod template as it was applied.
        made_from: the image, the hash of the spec, the server's version and the default requests that the template was rendered for.
        kept_replicas: the number of pods when neither the spec nor an autoscaler decides it; None when one does.
        mark: None unless the pods are being replaced because of a new operator.
    """

    operator: Version
    template_version: Version
    template: Object
    made_from: image.Recorded
    kept_replicas: int | None = None
    mark: Mark | None = None


def annotations(record: Record) -> dict[str, str]:
    """The annotations that hold a record."""
    made_from = record.made_from
    values = {
        "operator-version": str(record.operator),
        "template-version": str(record.template_version),
        "template": _packed(record.template),
        "image": made_from.image,
        "pods": made_from.pods,
        "server-version": str(made_from.version or ""),
        "default-requests": made_from.requests,
        "kept-replicas": "" if record.kept_replicas is None else str(record.kept_replicas),
        "upgrade": "" if record.mark is None else msgspec.json.encode(record.mark).decode(),
    }
    return {f"{_PREFIX}{name}": value for name, value in values.items() if value}


def of_deployment(child: Child, service: InferenceService) -> Record | None:
    """The record of a Deployment; None when another client has overwritten it, so that nothing is known of the present pods."""
    live = child.manifest()
    owned = child.owned()
    fields = ((owned.get("f:metadata") or {}).get("f:annotations")) or {}
    written = {
        name.removeprefix(_PREFIX): value
        for name, value in (live["metadata"].get("annotations") or {}).items()
        if name.startswith(_PREFIX) and f"f:{name}" in fields
    }
    if "operator-version" in written:
        return _read(written)
    overwritten = f"{_PREFIX}operator-version" in (live["metadata"].get("annotations") or {})
    template_fields = (owned.get("f:spec") or {}).get("f:template")
    if (
        overwritten
        or not template_fields
        or APPLIED_ANNOTATION.removeprefix(_PREFIX) not in written
    ):
        return None
    template = templates.applied_part(live["spec"]["template"], template_fields)
    return _of_first_version(template, service)


def _read(written: dict[str, str]) -> Record | None:
    operator = versions.parse(written["operator-version"])
    template_version = versions.parse(written.get("template-version", ""))
    template = _unpacked(written.get("template", ""))
    if operator is None or template_version is None or template is None:
        return None
    kept, mark = written.get("kept-replicas", ""), written.get("upgrade", "")
    return Record(
        operator=operator,
        template_version=template_version,
        template=template,
        made_from=image.Recorded(
            written.get("image", ""),
            written.get("pods", ""),
            versions.parse(written.get("server-version", "")),
            written.get("default-requests", ""),
        ),
        kept_replicas=int(kept) if kept.isdecimal() and len(kept) <= _MOST_DIGITS else None,
        mark=_mark(mark),
    )


def _of_first_version(template: Object, service: InferenceService) -> Record:
    """The record of a Deployment of operator 0.1.0. Without a status, as after a restore, its pods count as made from the present spec."""
    made_from = image.recorded_in_status(service)
    if made_from is None:
        made_from = image.Recorded(_server_image(template), image.pods_hash(service))
    return Record(
        operator=_FIRST_VERSION,
        template_version=_FIRST_VERSION,
        template=template,
        made_from=made_from,
        kept_replicas=service.status.get("keptReplicas"),
    )


def _server_image(template: Object) -> str:
    for container in (template.get("spec") or {}).get("containers") or ():
        if container.get("name") == server.CONTAINER:
            return str(container.get("image") or "")
    return ""


def _packed(template: Object) -> str:
    text = msgspec.json.encode(template, order="sorted")
    return base64.b64encode(zlib.compress(text, 9)).decode()


_LARGEST_TEMPLATE = 1 << 21
"""Bytes. The API server takes objects of up to a mebibyte and a half; anything larger was not written by an operator."""


def _unpacked(text: str) -> Object | None:
    """The template in an annotation; None when it is not one.

    Who may change Deployments may also write the annotation in the operator's name.
    """
    try:
        decompressor = zlib.decompressobj()
        template = decompressor.decompress(base64.b64decode(text), _LARGEST_TEMPLATE)
        if not decompressor.eof:
            return None
        return msgspec.json.decode(template, type=dict[str, typing.Any])
    except (ValueError, zlib.error, msgspec.MsgspecError, RecursionError):
        return None


def _mark(text: str) -> Mark | None:
    try:
        return msgspec.json.decode(text, type=Mark) if text else None
    except (msgspec.MsgspecError, RecursionError):
        return None

"""Checks names, labels and annotations: what the API server refuses of them is not in the schema."""

import collections.abc
import re
import typing

from naiad_operator.api import names
from naiad_operator.api.manifests.unvalidated import part
from naiad_operator.check.finding import Findings, error

_KEY = re.compile(
    r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)
_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_OBJECT = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


_MAPS = {
    "predictor": ("nodeSelector",),
    "service": ("annotations",),
    "ingress": ("annotations", "grpcAnnotations"),
    "monitoring": ("labels",),
}
"""By the field of the spec, its fields with keys of labels or annotations."""


def of_service(manifest: typing.Any) -> Findings:
    """What the API server refuses of the metadata of a service, and of the labels, annotations and node labels in its spec."""
    metadata, spec = part(manifest, "metadata"), part(manifest, "spec")
    namespace = metadata.get("namespace")
    if isinstance(namespace, str) and namespace and _NAMESPACE.fullmatch(namespace) is None:
        message = f"is {namespace!r}: write the name of a namespace: at most 63 lower-case letters, digits and '-'"
        yield error("metadata.namespace", message)
    yield from _of_metadata(metadata)
    yield from _of_upgrades(part(metadata, "annotations"))
    yield from _keys(spec, "spec", ("labels", "annotations"))
    for field, maps in _MAPS.items():
        yield from _keys(part(spec, field), f"spec.{field}", maps)


def _of_upgrades(annotations: dict[str, typing.Any]) -> Findings:
    """Annotations that hold or order upgrades, and say something that the operator does not know."""
    held, order = annotations.get(names.UPGRADE), annotations.get(names.UPGRADE_ORDER)
    if isinstance(held, str) and held not in names.UPGRADE_VALUES:
        message = f"is {held!r}: write {' or '.join(names.UPGRADE_VALUES)}"
        yield error(f"metadata.annotations[{names.UPGRADE}]", message)
    if isinstance(order, str) and not re.fullmatch("-?[0-9]{1,6}", order):
        message = f'is {order!r}: write an integer, e.g. "10"; lower ones come first'
        yield error(f"metadata.annotations[{names.UPGRADE_ORDER}]", message)


def of_profile(manifest: typing.Any) -> Findings:
    """The same of a profile."""
    metadata = part(manifest, "metadata")
    name = metadata.get("name")
    if isinstance(name, str) and name and _OBJECT.fullmatch(name) is None:
        message = (
            f"is {name!r}: write the name of an object: lower-case letters, digits, '-' and '.'"
        )
        yield error("metadata.name", message)
    yield from _of_metadata(metadata)
    yield from _keys(part(manifest, "spec"), "spec", ("labels", "annotations", "nodeSelector"))


def _of_metadata(metadata: dict[str, typing.Any]) -> Findings:
    yield from _keys(metadata, "metadata", ("labels", "annotations"))
    for key, value in part(metadata, "labels").items():
        if isinstance(value, str) and _VALUE.fullmatch(value) is None:
            message = f"is {value!r}: write the value of a label: at most 63 letters, digits, '-', '_' and '.'"
            yield error(f"metadata.labels[{key}]", message)


def _keys(
    parent: dict[str, typing.Any], path: str, fields: collections.abc.Iterable[str]
) -> Findings:
    for field in fields:
        for key in part(parent, field):
            is_known = not key and path.startswith("spec")  # an error of the schema
            if not is_known and _KEY.fullmatch(str(key)) is None:
                message = "the key has the form NAME or example.com/NAME: letters, digits, '-', '_' and '.', at most 63 in NAME"
                yield error(f"{path}.{field}[{key}]", message)

"""Chooses the image of a service: its own, or the operator's default, which is kept until the predictor changes."""

import collections.abc
import hashlib
import typing

import msgspec

from naiad_operator.api.service import InferenceService
from naiad_operator.api.structs import Part
from naiad_operator.builders.facts import Defaults

_NON_POD_FIELDS = frozenset(
    ("replicas", "autoscaling", "deployment_strategy", "pod_disruption_budget")
)
"""Fields of the predictor that do not affect a pod: a change of them must not cause a new image."""


def resolve(service: InferenceService, defaults: Defaults) -> str:
    """The image from the spec, else the one that the status recorded for these pods, else the default."""
    if service.spec.predictor.image:
        return service.spec.predictor.image
    recorded: collections.abc.Mapping[str, typing.Any] = service.status.get("image") or {}
    if recorded.get("name") and recorded.get("forPods") == pods_hash(service):
        return str(recorded["name"])
    return defaults.image


def pods_hash(service: InferenceService) -> str:
    """A hash of the fields from which the pods are made.

    Only fields that differ from their defaults count, so that a release with a new field does not change the image of services that
    do not set it.
    """
    text = msgspec.json.encode(
        _non_defaults(service.spec.predictor, _NON_POD_FIELDS), order="sorted"
    )
    return hashlib.sha256(text).hexdigest()[:16]


def _non_defaults(part: Part, without: frozenset[str] = frozenset()) -> dict[str, typing.Any]:
    """The fields that differ from their defaults."""
    return {
        field.name: _plain(getattr(part, field.name))
        for field in msgspec.structs.fields(part)
        if field.name not in without and getattr(part, field.name) != field.default
    }


def _plain(value: typing.Any) -> typing.Any:
    if isinstance(value, Part):
        return _non_defaults(value)
    return [_plain(item) for item in value] if isinstance(value, tuple) else value

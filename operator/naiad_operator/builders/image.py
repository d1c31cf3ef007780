"""Which image a service runs: its own, or the operator's default, taken once and kept until the predictor changes."""

import collections.abc
import hashlib
import json
import typing

from naiad_operator.api.service import InferenceService
from naiad_operator.builders.facts import Defaults

_NOT_THE_PODS = ("replicas", "autoscaling", "deploymentStrategy", "podDisruptionBudget", "image")
"""Fields of the predictor that change nothing about a pod: a change of them must not bring a new image."""


def resolve(service: InferenceService, defaults: Defaults) -> str:
    """The image, from the spec, else from what the status recorded for these pods, else the default."""
    if service.spec.predictor.image:
        return service.spec.predictor.image
    recorded: collections.abc.Mapping[str, typing.Any] = service.status.get("image") or {}
    if recorded.get("name") and recorded.get("forPods") == pods_hash(service):
        return str(recorded["name"])
    return defaults.image


def pods_hash(service: InferenceService) -> str:
    """Tells whether what the pods are made from has changed."""
    predictor = service.raw["spec"]["predictor"]
    pods = {field: value for field, value in predictor.items() if field not in _NOT_THE_PODS}
    return hashlib.sha256(json.dumps(pods, sort_keys=True).encode()).hexdigest()[:16]

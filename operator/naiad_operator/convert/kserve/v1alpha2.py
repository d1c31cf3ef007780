"""InferenceServices of KFServing v1alpha2, the API before v1beta1, as those of v1beta1. Pure."""

import collections.abc
import dataclasses
import typing

from naiad_operator.api.manifests.unvalidated import Fields, own_copy, part
from naiad_operator.errors import Problem

_COMPONENTS = ("predictor", "transformer", "explainer")
_RENAMED = {"parallelism": "containerConcurrency", "tensorrt": "triton"}
"""Fields of a predictor; TensorRT Inference Server was Triton's name."""


def is_old(manifest: Fields) -> bool:
    """Whether an InferenceService is written in this API."""
    return isinstance(part(manifest, "spec").get("default"), dict)


def lifted(manifest: collections.abc.Mapping[str, typing.Any]) -> Fields:
    """The same in v1beta1: what is in spec.default stands in spec."""
    made = own_copy(manifest)
    spec = part(made, "spec")
    default = spec.pop("default")
    predictor = part(default, "predictor")
    for old, new in _RENAMED.items():
        if old in predictor:
            predictor[new] = predictor.pop(old)
    container = part(predictor, "custom", "container")
    if container:
        del predictor["custom"]
        predictor["containers"] = [container]
    spec |= default
    return made


def original(note: Problem) -> Problem:
    """A note with the path that its field has in the manifest."""
    for component in _COMPONENTS:
        if note.path.startswith(f"spec.{component}"):
            path = note.path.replace("spec.", "spec.default.", 1)
            path = path.replace(".predictor.containers[0]", ".predictor.custom.container")
            path = path.replace(".predictor.containerConcurrency", ".predictor.parallelism")
            return dataclasses.replace(note, path=path)
    return note

"""Checks that the models of `model.image` and `model.volume`, which no server fetches, can be in the pod."""

import collections.abc
import typing

from naiad_operator.api.manifests.unvalidated import entries, part
from naiad_operator.api.parsing.service import InferenceService
from naiad_operator.builders import server
from naiad_operator.errors import InvalidSpec, Problem

Object = dict[str, typing.Any]

_MODEL = "spec.predictor.model"


def check(service: InferenceService, template: Object) -> None:
    """Refuses a service whose models cannot be in its pods.

    Args:
        service: the service.
        template: its pod template, patched.

    Raises:
        InvalidSpec: no image has the models, or no container fills the volume.
    """
    problems = [*_of_image(service), *_of_volume(service, template)]
    if problems:
        raise InvalidSpec(problems)


def _of_image(service: InferenceService) -> collections.abc.Iterator[Problem]:
    image = service.spec.predictor.model.image
    if image is not None and image.reference is None and not service.spec.predictor.image:
        message = (
            "names no image, and the operator's default image has no models: write one that has them in reference, or an image of the server with them in "
            "predictor.image"
        )
        yield Problem(f"{_MODEL}.image", message)


def _of_volume(service: InferenceService, template: Object) -> collections.abc.Iterator[Problem]:
    """An emptyDir that no container writes into; a claim or a folder of a node may be filled by something else."""
    volume = service.spec.predictor.model.volume
    if volume is None or volume.claim_name is not None or volume.host_path is not None:
        return
    pod = part(template, "spec")
    ours = next((one for one in entries(pod, "volumes") if one.get("name") == volume.name), {})
    if "emptyDir" not in ours:
        return  # podTemplate replaced it
    containers = [*entries(pod, "initContainers"), *entries(pod, "containers")]
    if not any(
        mount.get("name") == volume.name and mount.get("readOnly") is not True
        for one in containers
        if one.get("name") != server.CONTAINER
        for mount in entries(one, "volumeMounts")
    ):
        message = (
            f"stays empty: no container writes into the volume {volume.name}: write one with a mount of it in predictor.podTemplate.spec.initContainers, or "
            "claimName of a claim that has the models"
        )
        yield Problem(f"{_MODEL}.volume", message)

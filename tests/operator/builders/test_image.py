"""An empty image is resolved once and kept until the pods change anyway."""

import typing

import pytest

from naiad_operator.api import service, validation
from naiad_operator.builders import image
from naiad_operator.builders.facts import Defaults
from tests.support import manifests

NEW = Defaults(image="server:2")
Manifest = dict[str, typing.Any]


def after(first: Manifest, then: Manifest) -> str:
    """What a resource that was resolved with server:1 runs after an edit, when the operator's default has become server:2."""
    recorded = {"name": "server:1", "forPods": image.pods_hash(service.parse(first))}
    return image.resolve(service.parse({**then, "status": {"image": recorded}}), NEW)


def test_a_service_takes_the_default_of_the_day() -> None:
    assert image.resolve(service.parse(manifests.resource()), NEW) == "server:2"


def test_a_new_default_does_not_reach_a_service_that_did_not_change() -> None:
    assert after(manifests.resource(), manifests.resource()) == "server:1"


@pytest.mark.parametrize(
    "edit",
    [
        {"replicas": 5},
        {"autoscaling": {"class": "hpa", "queueTimeMs": 5}},
        {"deploymentStrategy": {"type": "Recreate"}},
        {"podDisruptionBudget": {"maxUnavailable": 2}},
    ],
    ids=str,
)
def test_scaling_brings_no_new_image(edit: Manifest) -> None:
    assert after(manifests.resource(), manifests.resource(**edit)) == "server:1"


@pytest.mark.parametrize(
    "edit", [{"args": ["--log-verbose=1"]}, {"model": {"storageUri": "s3://other/models"}}], ids=str
)
def test_an_edit_that_replaces_the_pods_brings_the_new_default(edit: Manifest) -> None:
    assert after(manifests.resource(), manifests.resource(**edit)) == "server:2"


def test_an_image_of_ones_own_wins() -> None:
    assert after(manifests.resource(), manifests.resource(image="mine:3")) == "mine:3"


def test_an_image_of_ones_own_that_is_taken_out_makes_room_for_the_default() -> None:
    own = manifests.resource(image="mine:3")
    recorded = {"name": "mine:3", "forPods": image.pods_hash(service.parse(own))}
    again = {**manifests.resource(), "status": {"image": recorded}}
    assert image.resolve(service.parse(again), NEW) == "server:2"


def test_defaults_that_the_api_server_filled_in_are_not_an_edit() -> None:
    """The stored resource has them, and a new release may bring new ones: its pods are the same."""
    first, second = manifests.resource(), manifests.resource()
    second["spec"], _ = validation.with_defaults(second["spec"])
    assert second != first
    assert image.pods_hash(service.parse(first)) == image.pods_hash(service.parse(second))

"""An empty image is resolved once and kept until the pods change anyway; the server's version is what is known of the image."""

import pathlib
import typing

import pytest

from naiad_operator import versions
from naiad_operator.api.parsing import service, validation
from naiad_operator.builders import build, canary
from naiad_operator.builders.facts import Defaults
from naiad_operator.builders.workload import image
from naiad_operator.errors import InvalidSpec
from tests.support import manifests

NEW = Defaults(image="server:2")
Manifest = dict[str, typing.Any]


def after(first: Manifest, then: Manifest) -> str:
    """What a resource that was resolved with server:1 runs after an edit, when the operator's default has become server:2."""
    recorded = {"name": "server:1", "forPods": image.pods_hash(service.parse(first))}
    parsed = service.parse({**then, "status": {"image": recorded}})
    return image.resolve(parsed, NEW, image.recorded_in_status(parsed)).image


def test_a_service_takes_the_default_of_the_day() -> None:
    assert image.resolve(service.parse(manifests.resource()), NEW).image == "server:2"


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
    again = service.parse({**manifests.resource(), "status": {"image": recorded}})
    assert image.resolve(again, NEW, image.recorded_in_status(again)).image == "server:2"


def test_defaults_that_the_api_server_filled_in_are_not_an_edit() -> None:
    """The stored resource has them, and a new release may bring new ones: its pods are the same."""
    first, second = manifests.resource(), manifests.resource()
    second["spec"], _ = validation.with_defaults(second["spec"])
    assert second != first
    assert image.pods_hash(service.parse(first)) == image.pods_hash(service.parse(second))


OLD, LATER = versions.Version(0, 1, 0), versions.Version(0, 1, 7)


def version(
    predictor: Manifest,
    *,
    recorded: image.Recorded | None = None,
    running: versions.Version | None = None,
    default: str = "registry:5000/naiad-server:0.1.5",
) -> str:
    parsed = service.parse(manifests.resource(**predictor))
    return str(image.resolve(parsed, Defaults(image=default), recorded, running).version)


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("naiad-server:0.1.3", "0.1.3"),
        ("registry:5000/ml/naiad-gpu:v0.1.3-cuda12@sha256:00", "0.1.3"),
        ("registry:5000/naiad-server@sha256:00", "0.1.0"),
        ("naiad-server:latest", "0.1.0"),
        ("naiad-server:1.2", "0.1.0"),
        ("naiad-server", "0.1.0"),
        ("registry:5000/ml/fraud:7.4.1", "0.1.0"),  # a version of the team's own
    ],
)
def test_an_image_says_its_version_by_its_tag_if_it_is_named_as_the_server(
    name: str, known: str
) -> None:
    assert version({"image": name}) == known


def test_a_mirrored_default_image_also_says_it() -> None:
    assert version({}, default="mirror/x:0.1.4") == "0.1.4"
    assert version({"image": "mirror/x:0.1.3"}, default="mirror/x:0.1.4") == "0.1.3"


def test_the_spec_says_it_before_the_tag() -> None:
    assert version({"image": "naiad-server:0.1.3", "serverVersion": "0.1.9"}) == "0.1.9"


def test_a_default_image_that_says_nothing_was_released_with_the_operator_when_it_is_chosen() -> (
    None
):
    assert version({}, default="naiad-server:latest") == str(versions.OWN)
    pods = image.pods_hash(service.parse(manifests.resource()))
    pinned = image.Recorded("naiad-server:latest", pods)
    assert version({}, default="naiad-server:latest", recorded=pinned) == "0.1.0"
    assert version({}, default="naiad-server:latest", recorded=pinned, running=LATER) == "0.1.7"


def test_pods_that_run_keep_the_version_that_they_were_rendered_for() -> None:
    """Learning more about an image must not restart its pods; an edit does, and then uses what is known."""
    own = {"image": "team/server:prod"}
    pods = image.pods_hash(service.parse(manifests.resource(**own)))
    recorded = image.Recorded("team/server:prod", pods, OLD)
    assert version(own, recorded=recorded, running=LATER) == "0.1.0"
    edited = {**own, "args": ["--log-verbose=1"]}
    assert version(edited, recorded=recorded, running=LATER) == "0.1.7"
    assert version(edited, recorded=recorded._replace(version=LATER)) == "0.1.7"
    other = {"image": "team/server:prod-2"}
    assert version(other, recorded=recorded, running=LATER) == "0.1.0"


def test_the_fields_of_a_profile_do_not_count_as_the_users() -> None:
    """They are a platform team's: what they change waits until the service is upgraded."""
    manifest = manifests.resource()
    manifest["spec"] |= {
        "gateway": {"parentRefs": [{"name": "public"}], "hostnames": ["a.example.com"]},
        "canary": {"weight": 10, "args": ["--log-verbose=1"]},
    }
    profile = service.default_profile({"priorityClassName": "high", "args": ["--log-verbose=2"]})
    with_profile, without = service.parse(manifest, profile), service.parse(manifest)
    assert with_profile.spec.predictor.priority_class_name == "high"
    assert image.pods_hash(with_profile) == image.pods_hash(without)
    canaries = [canary.service_of(one) for one in (with_profile, without)]
    hashes = {image.pods_hash(one) for one in canaries if one is not None}
    assert (len(canaries), len(hashes)) == (2, 1)


def without_one_field(manifest: Manifest) -> typing.Iterator[Manifest]:
    """The resource without each field of its spec and of its predictor."""
    spec = manifest["spec"]
    for name in spec.keys() - {"predictor"}:
        yield {**manifest, "spec": {key: value for key, value in spec.items() if key != name}}
    for name in spec["predictor"].keys() - {"model"}:
        rest = {key: value for key, value in spec["predictor"].items() if key != name}
        yield {**manifest, "spec": {**spec, "predictor": rest}}


def template(manifest: Manifest) -> Manifest:
    children = build(service.parse(manifest), manifests.facts())
    found: Manifest = next(
        child["spec"]["template"]
        for child in children
        if child["kind"] == "Deployment"
        and child["metadata"]["name"] == manifest["metadata"]["name"]
    )
    return found


@pytest.mark.parametrize("path", manifests.INPUTS, ids=lambda path: path.stem)
def test_a_field_that_changes_the_pods_changes_their_hash(path: pathlib.Path) -> None:
    """Otherwise an edit of it would count as the operator's own change, and wait for a turn."""
    manifest, _ = manifests.example(path)
    for edited in without_one_field(manifest):
        try:
            same = template(edited) == template(manifest)
        except InvalidSpec:
            continue
        hashes = {image.pods_hash(service.parse(one)) for one in (manifest, edited)}
        assert same or len(hashes) == 2


def test_pods_of_a_deployment_that_was_deleted_are_made_again_as_they_were() -> None:
    """Its record is gone with it; the status says which server the default image holds, though the image's tag does not."""
    manifest = manifests.resource()
    recorded = {
        "name": "server:1",
        "forPods": image.pods_hash(service.parse(manifest)),
        "serverVersion": "0.2.0",
    }
    parsed = service.parse({**manifest, "status": {"image": recorded}})
    found = image.recorded_in_status(parsed)
    assert found is not None
    assert found.version == versions.Version(0, 2, 0)
    assert image.resolve(parsed, Defaults(image="server:1"), found) == (
        "server:1",
        versions.Version(0, 2, 0),
    )

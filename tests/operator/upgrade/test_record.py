"""The record on a Deployment: written and read back, overwritten by others, and absent on those of operator 0.1.0."""

import base64
import dataclasses
import tracemalloc
import typing
import zlib

import pytest

from naiad_operator.api.parsing import service
from naiad_operator.builders.workload import image
from naiad_operator.cluster import packed
from naiad_operator.cluster.child_store import APPLIED_ANNOTATION, Child
from naiad_operator.upgrade import record
from naiad_operator.upgrade.record import Mark, Record
from naiad_operator.versions import Version
from tests.support import manifests

Object = dict[str, typing.Any]
TEMPLATE: Object = {
    "spec": {"containers": [{"name": "server", "image": "server:1", "args": ["--a"]}]}
}
TEMPLATE_FIELDS: Object = {
    "f:spec": {"f:containers": {'k:{"name":"server"}': {"f:name": {}, "f:image": {}, "f:args": {}}}}
}
FULL = Record(
    operator=Version(0, 3, 0),
    template_version=Version(0, 2, 0),
    template=TEMPLATE,
    made_from=image.Recorded("server:1", "a" * 16, Version(0, 1, 0), "cpu=100m"),
    kept_replicas=4,
    mark=Mark("2026-01-31T12:00:00Z", 2),
)
BARE = dataclasses.replace(
    FULL, made_from=image.Recorded("server:1", "a" * 16), kept_replicas=None, mark=None
)


def deployment(annotations: dict[str, str], *, not_ours: str = "") -> Child:
    """A Deployment as the store has it, with the operator as the owner of all annotations but one."""
    live = {
        "metadata": {"name": "demo", "annotations": {**annotations, "note": "a user's"}},
        "spec": {
            "replicas": 3,
            "template": {**TEMPLATE, "metadata": {"annotations": {"at": "now"}}},
        },
    }
    ours: Object = {f"f:{name}": {} for name in annotations if name != not_ours}
    fields = {"f:metadata": {"f:annotations": ours}, "f:spec": {"f:template": TEMPLATE_FIELDS}}
    return Child(
        kind="Deployment",
        namespace="models",
        name="demo",
        uid="uid-of-the-deployment",
        version="1",
        instance="demo",
        controller_uid="uid-1",
        controller_name="InferenceService.serving.naiad.dev demo",
        deleting=False,
        applied="",
        fields=packed.pack(fields),
        body=packed.pack(live),
    )


def resource(status: Object | None = None) -> service.InferenceService:
    return service.parse({**manifests.resource(), "status": status or {}})


@pytest.mark.parametrize("written", [FULL, BARE])
def test_what_is_written_is_read_back(written: Record) -> None:
    child = deployment(record.annotations(written))
    assert record.of_deployment(child, resource({"keptReplicas": 9})) == written


def test_every_annotation_is_small_and_of_the_groups() -> None:
    for name, value in record.annotations(FULL).items():
        assert name.startswith("serving.naiad.dev/")
        assert 0 < len(value) < 300


@pytest.mark.parametrize("name", ["operator-version", "template-version", "template"])
def test_a_record_that_another_client_has_overwritten_does_not_count(name: str) -> None:
    """`kubectl rollout undo` copies the annotations of an old ReplicaSet back: nothing is known of those pods."""
    annotations = {APPLIED_ANNOTATION: "digest", **record.annotations(FULL)}
    child = deployment(annotations, not_ours=f"serving.naiad.dev/{name}")
    assert record.of_deployment(child, resource()) is None


@pytest.mark.parametrize("name", ["operator-version", "template-version", "template"])
def test_a_record_that_cannot_be_read_does_not_count(name: str) -> None:
    annotations = {**record.annotations(FULL), f"serving.naiad.dev/{name}": "bm90IHppcHBlZA=="}
    assert record.of_deployment(deployment(annotations), resource()) is None


def test_a_deployment_of_the_first_release_is_known_by_its_fields_and_the_status() -> None:
    service_ = resource({"image": {"name": "server:1", "forPods": "x"}, "keptReplicas": 3})
    found = record.of_deployment(deployment({APPLIED_ANNOTATION: "digest"}), service_)
    assert found == Record(
        operator=Version(0, 1, 0),
        template_version=Version(0, 1, 0),
        template=TEMPLATE,
        made_from=image.Recorded("server:1", "x"),
        kept_replicas=3,
    )


def test_without_a_status_such_pods_count_as_made_from_the_present_spec() -> None:
    """After a restore without status: nothing is replaced because of it."""
    found = record.of_deployment(deployment({APPLIED_ANNOTATION: "digest"}), resource())
    assert found is not None
    assert found.made_from == image.Recorded("server:1", image.pods_hash(resource()))
    assert found.kept_replicas is None


def test_a_deployment_that_was_rolled_back_to_the_first_release_by_hand_is_not_known() -> None:
    child = deployment({APPLIED_ANNOTATION: "digest"}, not_ours=APPLIED_ANNOTATION)
    assert record.of_deployment(child, resource()) is None


def test_the_first_releases_hash_of_a_spec_still_counts() -> None:
    """It covered the predictor only, and a token is now a part of it."""
    manifest = manifests.resource()
    plain = image.pods_hash(service.parse(manifest))
    manifest["spec"]["auth"] = {"tokenSecret": "tokens"}
    manifest["status"] = {"image": {"name": "server:1", "forPods": plain}}
    with_token = service.parse(manifest)
    assert image.pods_hash(with_token) != plain
    found = image.recorded_in_status(with_token)
    assert found == image.Recorded("server:1", image.pods_hash(with_token))


def _hostile(name: str, value: str) -> dict[str, str]:
    return {**record.annotations(FULL), f"serving.naiad.dev/{name}": value}


@pytest.mark.parametrize("size", [(1 << 21) + 1, 100 << 20])
def test_a_template_that_unpacks_to_more_than_an_object_may_have_is_dropped(size: int) -> None:
    packer = zlib.compressobj(9)
    parts = [packer.compress(b'{"a": "'), *(packer.compress(b"x" * 65536) for _ in range(size >> 16)), packer.compress(b'x"}'), packer.flush()]  # fmt: skip
    bomb = base64.b64encode(b"".join(parts)).decode()
    assert len(bomb) < 256 << 10
    tracemalloc.start()
    try:
        assert record.of_deployment(deployment(_hostile("template", bomb)), resource()) is None
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("name", "value", "read"),
    [
        ("template", base64.b64encode(zlib.compress(b"[" * 5000)).decode(), False),
        ("template", base64.b64encode(zlib.compress(b'{"a":' * 5000 + b"1" + b"}" * 5000)).decode(), False),
        ("template", base64.b64encode(zlib.compress(b"{}")[:-3]).decode(), False),
        ("upgrade", "[" * 5000, True),
        ("upgrade", '{"since": 3, "available": "x"}', True),
        ("kept-replicas", "9" * 5000, True),
    ],
)  # fmt: skip
def test_what_no_operator_wrote_is_dropped(name: str, value: str, *, read: bool) -> None:
    found = record.of_deployment(deployment(_hostile(name, value)), resource())
    assert (found is not None) == read
    if found is not None:
        assert found.template == TEMPLATE
        assert (found.mark is None) == (name == "upgrade")
        assert (found.kept_replicas is None) == (name == "kept-replicas")

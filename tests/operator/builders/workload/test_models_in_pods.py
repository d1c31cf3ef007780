"""Models that no server fetches: in the server's image, in another image, and in a volume that an init container fills."""

import dataclasses
import typing

import pytest

from naiad_operator.api.parsing import service
from naiad_operator.builders import build
from naiad_operator.builders.facts import STRICT
from naiad_operator.errors import InvalidSpec, Problem
from tests.support import manifests

Object = dict[str, typing.Any]

CONTAINER: Object = {
    "name": "bring",
    "image": "registry/tools:1",
    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    "volumeMounts": [{"name": "models", "mountPath": "/work"}],
}


def pod(*, strict: bool = False, **predictor: typing.Any) -> Object:
    """The pod's spec; strict: as new installations have it."""
    facts = manifests.facts()
    if strict:
        facts = dataclasses.replace(
            facts, defaults=dataclasses.replace(facts.defaults, policy=STRICT)
        )
    manifest = manifests.resource(**{"accelerator": {"type": "none"}, **predictor})
    [made] = [one for one in build(service.parse(manifest), facts) if one["kind"] == "Deployment"]
    found: Object = made["spec"]["template"]["spec"]
    return found


def problems(**fields: typing.Any) -> list[Problem]:
    with pytest.raises(InvalidSpec) as refused:
        pod(**fields)
    return list(refused.value.problems)


def repository(spec: Object) -> str:
    [found] = [one for one in spec["containers"][0]["args"] if one.startswith("--model-repository")]
    return str(found).partition("=")[2]


def mount(spec: Object, name: str) -> Object:
    mounts: list[Object] = spec["containers"][0]["volumeMounts"]
    [found] = [one for one in mounts if one["name"] == name]
    return found


def volume(spec: Object, name: str) -> Object:
    volumes: list[Object] = spec["volumes"]
    [found] = [one for one in volumes if one["name"] == name]
    return found


def test_models_in_the_servers_own_image_are_read_where_they_are() -> None:
    own = pod(image="registry/naiad-models:0.2.0", model={"image": {"path": "/opt/models/"}})
    other = pod(image="registry/naiad-models:0.2.0", model={"storageUri": "s3://a"})
    assert repository(own) == "/opt/models"
    for field in ("volumes", "securityContext"):
        assert own[field] == other[field]
    for field in ("volumeMounts", "startupProbe", "readinessProbe", "livenessProbe", "env"):
        assert own["containers"][0][field] == other["containers"][0][field]
    assert "initContainers" not in own
    assert own["containers"][0]["securityContext"]["readOnlyRootFilesystem"]


def test_the_default_image_has_no_models() -> None:
    [problem] = problems(model={"image": {"path": "/opt/models"}})
    assert problem.path == "spec.predictor.model.image"
    assert "write one that has them in reference" in problem.message


def test_another_image_is_mounted_read_only() -> None:
    image = {"path": "/opt/models", "reference": "registry/detector:1.4", "pullPolicy": "Always"}
    made = pod(strict=True, model={"image": image})
    assert volume(made, "model-image")["image"] == {
        "reference": "registry/detector:1.4",
        "pullPolicy": "Always",
    }
    assert mount(made, "model-image") == {
        "name": "model-image",
        "mountPath": "/mnt/image",
        "readOnly": True,
    }
    assert repository(made) == "/mnt/image/opt/models"


def test_an_init_container_fills_a_volume_that_the_server_reads() -> None:
    made = pod(
        strict=True,
        model={"volume": {"path": "ranker", "size": "20Gi"}},
        podTemplate={"spec": {"initContainers": [CONTAINER]}},
    )
    assert repository(made) == "/mnt/models/ranker"
    assert volume(made, "models")["emptyDir"] == {"sizeLimit": "20Gi"}
    assert mount(made, "models")["readOnly"]
    assert made["initContainers"] == [CONTAINER]


@pytest.mark.parametrize(
    "template",
    [
        None,
        {"spec": {"initContainers": [{**CONTAINER, "volumeMounts": []}]}},
        {
            "spec": {
                "initContainers": [
                    {**CONTAINER, "volumeMounts": [{**CONTAINER["volumeMounts"][0], "readOnly": True}]}
                ]
            }
        },
    ],
)  # fmt: skip
def test_a_volume_that_no_container_fills_is_refused(template: Object | None) -> None:
    fields = {} if template is None else {"podTemplate": template}
    [problem] = problems(model={"volume": {}}, **fields)
    assert problem.path == "spec.predictor.model.volume"
    assert "no container writes into the volume models" in problem.message


def test_a_claim_may_be_filled_by_something_else() -> None:
    made = pod(model={"volume": {"name": "store", "claimName": "ranker", "mountPath": "/srv"}})
    assert volume(made, "store")["persistentVolumeClaim"] == {"claimName": "ranker"}
    assert repository(made) == "/srv"


def test_a_claim_that_one_node_mounts_has_its_old_pod_end_first() -> None:
    manifest = manifests.resource(
        accelerator={"type": "none"}, model={"volume": {"claimName": "ranker"}}
    )
    [made] = [
        one
        for one in build(service.parse(manifest), manifests.facts())
        if one["kind"] == "Deployment"
    ]
    assert made["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}


def test_a_folder_of_the_node_needs_a_platform_that_allows_every_pod() -> None:
    model = {"volume": {"hostPath": "/data/models"}}
    assert volume(pod(model=model), "models")["hostPath"] == {
        "path": "/data/models",
        "type": "Directory",
    }
    [problem] = problems(strict=True, model=model)
    assert problem.path == "spec.predictor.model.volume.hostPath"
    assert "is refused, because podTemplate is Restricted here" in problem.message


def test_a_canary_has_its_own_image() -> None:
    manifest = manifests.resource(
        model={"image": {"path": "/opt/models"}}, image="registry/naiad:1"
    )
    manifest["spec"] |= {
        "gateway": {"parentRefs": [{"name": "g"}]},
        "canary": {"weight": 10, "model": {"image": {"path": "/new", "reference": "registry/b:2"}}},
    }
    made = build(service.parse(manifest), manifests.facts())
    found = {
        one["metadata"]["name"]: repository(one["spec"]["template"]["spec"])
        for one in made
        if one["kind"] == "Deployment"
    }
    assert sorted(found.values()) == ["/mnt/image/new", "/opt/models"]

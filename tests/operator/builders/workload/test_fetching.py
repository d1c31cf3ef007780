"""`delivery: init`: the pod fetches first, with credentials that the server never sees."""

import json
import typing

import kubernetes_validate

from naiad_operator.api.parsing import service
from naiad_operator.builders import build
from naiad_operator.builders.workload import deployment
from tests.support import manifests

Manifest = dict[str, typing.Any]
SECRET = {"secretName": "minio"}


def pod(model: Manifest, **predictor: typing.Any) -> Manifest:
    manifest = manifests.resource(**predictor)
    manifest["spec"]["predictor"]["model"] = {"delivery": "init", **model}
    made: Manifest = build(service.parse(manifest), manifests.facts())[0]
    kubernetes_validate.validate(made, "1.36", strict=True)
    spec: Manifest = made["spec"]["template"]["spec"]
    return spec


def test_credentials_are_the_init_containers_alone() -> None:
    for storage, text in (
        ({"storageUri": "s3://a/b", "storage": SECRET}, "minio"),
        ({"storageUri": "gs://a/b", "storage": {"secretName": "minio"}}, "credentials"),
        (
            {"storageUri": "s3://a/b", "storage": {**SECRET, "credentialFileKey": "c"}},
            "credentials",
        ),
    ):
        spec = pod(storage)
        (fetch,) = spec["initContainers"]
        (server,) = spec["containers"]
        assert text in json.dumps(fetch)
        assert text not in json.dumps(server)
        assert "AWS" not in json.dumps(server)
        mounted = {mount["name"] for one in (fetch, server) for mount in one["volumeMounts"]}
        assert mounted == {volume["name"] for volume in spec["volumes"]}


def test_each_repository_has_its_container_with_the_credentials_of_its_own_store() -> None:
    spec = pod(
        {
            "repositories": [
                {"storageUri": "s3://a/b", "storage": {**SECRET, "endpoint": "http://m:9000"}},
                {"storageUri": "gs://a/b", "storage": {"secretName": "google"}},
                {"storageUri": "as://a/b/c"},
            ]
        }
    )
    first, second, third = spec["initContainers"]
    assert [one["name"] for one in spec["initContainers"]] == ["fetch-0", "fetch-1", "fetch-2"]
    assert first["args"] == ["s3://http://m:9000/a/b", "--to=/mnt/fetched/0"]
    assert "AWS_SECRET_ACCESS_KEY" in json.dumps(first)
    assert "GOOGLE" not in json.dumps(first)
    assert "AWS" not in json.dumps(second)
    assert "GOOGLE_APPLICATION_CREDENTIALS" in json.dumps(second)
    assert "GOOGLE" not in json.dumps(third)
    assert spec["containers"][0]["args"][:3] == [
        f"--model-repository=/mnt/fetched/{number}" for number in range(3)
    ]
    (mount,) = [m for m in spec["containers"][0]["volumeMounts"] if m["name"] == "fetched"]
    assert mount["readOnly"] is True


def test_an_init_container_is_as_restricted_as_the_server_and_takes_no_more_than_it() -> None:
    spec = pod(
        {"storageUri": "s3://a/b", "storage": SECRET},
        resources={
            "requests": {"cpu": 2, "memory": "1024Mi"},
            "limits": {"memory": "1Gi", "rdma/hca": 1},
        },
    )
    (fetch,) = spec["initContainers"]
    (server,) = spec["containers"]
    assert fetch["securityContext"] == server["securityContext"]
    assert fetch["image"] == server["image"]
    writable = {mount["mountPath"] for mount in fetch["volumeMounts"]}
    for variable in fetch["env"]:
        if variable["name"] in ("HOME", "XDG_CACHE_HOME"):
            assert variable["value"] in writable, "its root is read-only"
    assert fetch["resources"] == {
        "requests": {"cpu": "2", "memory": "1Gi"},
        "limits": {"memory": "1Gi"},
    }, "devices are the server's"
    assert server["resources"]["limits"] == {
        "memory": "1Gi",
        "rdma/hca": "1",
        "nvidia.com/gpu": "1",
    }


def test_environment_of_the_users_own_reaches_both() -> None:
    """A proxy or a private authority is as good for fetching as for serving."""
    spec = pod(
        {"storageUri": "s3://a/b"},
        env=[{"name": "HTTPS_PROXY", "value": "http://p"}],
        envFrom=[{"configMapRef": {"name": "c"}}],
    )
    for one in (*spec["initContainers"], *spec["containers"]):
        assert {"name": "HTTPS_PROXY", "value": "http://p"} in one["env"]
        assert one["envFrom"] == [{"configMapRef": {"name": "c"}}]


def test_a_cache_names_what_is_in_it() -> None:
    """Pods of an old and a new spec may share it; neither may take the other's models away."""
    cache = {"type": "pvc", "claimName": "models"}
    folders = set()
    for uri in ("s3://a/b", "s3://a/c"):
        spec = pod({"storageUri": uri, "cache": cache})
        (fetch,) = spec["initContainers"]
        folder = fetch["args"][1].removeprefix("--to=")
        assert folder.startswith("/var/cache/naiad/repositories/")
        assert spec["containers"][0]["args"][0] == f"--model-repository={folder}"
        assert {"name": "cache", "mountPath": "/var/cache/naiad"} in fetch["volumeMounts"]
        assert "fetched" not in {volume["name"] for volume in spec["volumes"]}
        folders.add(folder)
    assert len(folders) == 2


def test_fetching_has_an_hour_before_a_rollout_counts_as_stuck() -> None:
    plain, fetched = (
        deployment.deployment(service.parse(manifest), manifests.facts())["spec"]
        for manifest in (manifests.resource(), _delivered(manifests.resource()))
    )
    assert fetched["progressDeadlineSeconds"] == plain["progressDeadlineSeconds"] + 3600


def _delivered(manifest: Manifest) -> Manifest:
    manifest["spec"]["predictor"]["model"]["delivery"] = "init"
    return manifest

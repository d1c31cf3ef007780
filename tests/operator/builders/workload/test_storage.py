"""The credentials of hubs and registries, as a pod gets them."""

import typing

from naiad_operator.api.types.model import Model, Repository, Storage
from naiad_operator.builders.workload import storage

Object = dict[str, typing.Any]


def of(uri: str, **fields: typing.Any) -> storage.Mounted:
    return storage.mounted(Model(storage_uri=uri, storage=Storage(**fields)))


def test_a_hub_gets_its_token_and_its_mirror_as_variables() -> None:
    made = of("hf://acme/a@v1", secret_name="hub", endpoint="https://mirror.example")
    assert made.repositories == ("hf://acme/a@v1",)
    assert made.env == (
        {"name": "HF_ENDPOINT", "value": "https://mirror.example"},
        {
            "name": "HF_TOKEN",
            "valueFrom": {"secretKeyRef": {"name": "hub", "key": "HF_TOKEN", "optional": False}},
        },
    )


def test_a_registry_gets_the_file_of_a_pull_secret() -> None:
    made = of("oci://registry:5000/a:1", secret_name="pull")
    assert made.repositories == ("oci://registry:5000/a:1",)
    folder = "/etc/naiad/credentials/credentials-oci"
    assert made.env == ({"name": "REGISTRY_AUTH_FILE", "value": f"{folder}/config.json"},)
    [volume] = made.volumes
    assert volume["secret"] == {
        "secretName": "pull",
        "items": [{"key": ".dockerconfigjson", "path": "config.json"}],
    }
    assert made.mounts == ({"name": "credentials-oci", "mountPath": folder, "readOnly": True},)


def test_several_kinds_of_stores_at_once() -> None:
    made = storage.mounted(
        Model(
            repositories=(
                Repository("s3://a", Storage(secret_name="s", endpoint="http://minio:9000")),
                Repository("hf://a/b", Storage(secret_name="h")),
                Repository("oci://r/a", Storage(secret_name="o")),
                Repository("oci://r/b", Storage(secret_name="o")),
                Repository("gs://a", Storage(secret_name="g")),
            )
        )
    )
    assert made.repositories[0] == "s3://http://minio:9000/a"
    assert [one["name"] for one in made.env] == [
        "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "HF_TOKEN", "REGISTRY_AUTH_FILE", "GOOGLE_APPLICATION_CREDENTIALS",
    ]  # fmt: skip
    assert [one["name"] for one in made.volumes] == ["credentials-oci", "credentials-gs"]

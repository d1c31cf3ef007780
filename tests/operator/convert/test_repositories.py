"""Where a Triton container reads its models, and with which credentials."""

import typing

import pytest

from tests.operator.convert.triton import RUN, Object, deployment, listed


def mounted(volume: Object, **mount: typing.Any) -> Object:
    return deployment(
        {
            "args": ["tritonserver", "--model-repository=/mnt/models/a"],
            "volumeMounts": [{"name": "models", "mountPath": "/mnt/models", **mount}],
        },
        {"volumes": [{"name": "models", **volume}]},
    )


CLAIM = {"persistentVolumeClaim": {"claimName": "store"}}


def test_a_claim_is_a_store(convert: RUN) -> None:
    assert convert(mounted(CLAIM)).predictor["model"] == {"storageUri": "pvc://store/a"}
    converted = convert(mounted(CLAIM, subPath="x/y"))
    assert converted.predictor["model"] == {"storageUri": "pvc://store/x/y/a"}


def test_a_claim_that_is_the_repository_is_mounted_by_the_operator(convert: RUN) -> None:
    converted = convert(mounted(CLAIM, mountPath="/mnt/models/a"))
    assert converted.predictor["model"] == {"storageUri": "pvc://store"}
    assert "podTemplate" not in converted.predictor
    assert listed(converted, "volumeMounts: the repository /mnt/models/a becomes a read-only mount")


def test_what_a_claim_has_beside_the_repository_stays_mounted(convert: RUN) -> None:
    template = convert(mounted(CLAIM)).predictor["podTemplate"]["spec"]
    assert template["volumes"] == [{"name": "models", **CLAIM}]
    [server] = template["containers"]
    assert server["volumeMounts"] == [{"name": "models", "mountPath": "/mnt/models"}]


def test_two_repositories_of_one_claim(convert: RUN) -> None:
    source = mounted(CLAIM)
    container = source["spec"]["template"]["spec"]["containers"][0]
    container["args"].append("--model-repository=/mnt/models/b")
    converted = convert(source)
    assert converted.status == 0
    uris = [one["storageUri"] for one in converted.predictor["model"]["repositories"]]
    assert uris == ["pvc://store/a", "pvc://store/b"]


def test_the_innermost_mount_is_the_repository(convert: RUN) -> None:
    source = mounted(CLAIM)
    pod = source["spec"]["template"]["spec"]
    pod["containers"][0]["volumeMounts"].append({"name": "inner", "mountPath": "/mnt/models/a"})
    pod["volumes"].append({"name": "inner", "persistentVolumeClaim": {"claimName": "inner"}})
    converted = convert(source)
    assert converted.predictor["model"] == {"storageUri": "pvc://inner"}
    [volume] = converted.predictor["podTemplate"]["spec"]["volumes"]
    assert volume["name"] == "models"


@pytest.mark.parametrize(
    ("volume", "words"),
    [
        ({"nfs": {"server": "a", "path": "/srv"}}, "make a PersistentVolume with this nfs and a claim for it"),
        ({"csi": {"driver": "gcsfuse.csi.storage.gke.io"}}, "make a PersistentVolume with this csi"),
        ({"emptyDir": {}}, "is an emptyDir that something in the pod fills"),
        ({"configMap": {"name": "a"}}, "is a ConfigMap: copy the models into a claim"),
        ({"image": {}}, "names no image: write it in model.image.reference"),
        ({"secret": {"secretName": "a"}}, "is of the type secret: copy the models"),
        ({"azureFile": {"shareName": "a"}}, "make a PersistentVolume with this azureFile and a claim"),
    ],
)  # fmt: skip
def test_a_repository_in_another_volume_is_said(convert: RUN, volume: Object, words: str) -> None:
    converted = convert(mounted(volume))
    assert converted.status == 1
    assert listed(converted, words), converted.lines
    assert listed(converted, "write storageUri for one model repository")


@pytest.mark.parametrize(
    ("container", "words"),
    [
        ({"args": ["tritonserver", "--model-repository=/models"]}, "no volume is mounted there, and nvcr.io"),
        ({"args": ["tritonserver", "--model-repository=$(A)"]}, "the variable is not set here"),
        ({"args": ["tritonserver", "--model-repository=https://a/b.tar"]}, "naiad fetch"),
        ({"args": ["tritonserver"]}, "has no --model-repository: write model.storageUri"),
        ({"command": ["python3", "serve.py"], "args": []}, "command: left out: python3 serve.py: the operator starts"),
    ],
)  # fmt: skip
def test_a_repository_without_a_store_is_said(convert: RUN, container: Object, words: str) -> None:
    converted = convert(deployment(container))
    assert converted.status == 1
    assert listed(converted, words), converted.lines


@pytest.mark.parametrize("kind", ["emptyDir", "ephemeral"])
def test_an_init_container_that_copies_from_one_store_names_it(convert: RUN, kind: str) -> None:
    source = mounted({kind: {}})
    init = {
        "name": "copy",
        "args": ["gsutil", "-m", "cp", "-r", "gs://acme/models/*", "/mnt"],
        "volumeMounts": [{"name": "models", "mountPath": "/mnt"}],
    }
    source["spec"]["template"]["spec"]["initContainers"] = [init]
    converted = convert(source)
    assert converted.predictor["model"] == {"storageUri": "gs://acme/models"}
    assert listed(converted, "initContainers[0]: copied gs://acme/models into the repository")
    init["args"] = ["sync", "s3://a/b", "s3://c/d"]
    converted = convert(source)
    if kind == "ephemeral":
        assert converted.status == 1
        assert listed(converted, "initContainers[0]: not converted: copy: write it in")
    else:
        assert converted.predictor["model"] == {"volume": {"path": "a"}}
        assert listed(converted, "initContainers[0]: copy fills the repository /mnt/models/a")


def secret(name: str, key: str) -> Object:
    return {"valueFrom": {"secretKeyRef": {"name": name, "key": key}}}


def test_credentials_in_a_secret_become_storage(convert: RUN) -> None:
    keys = [{"name": name, **secret("aws", name)} for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")]  # fmt: skip
    region = {"name": "AWS_REGION", "value": "eu-west-1"}
    converted = convert(deployment({"env": [*keys, region]}))
    storage = {"secretName": "aws", "region": "eu-west-1"}
    assert converted.predictor["model"] == {"storageUri": "s3://acme/models", "storage": storage}
    assert "env" not in converted.predictor
    keys[0] = {"name": "AWS_ACCESS_KEY_ID", **secret("aws", "id")}
    converted = convert(deployment({"env": keys}))
    assert converted.predictor["model"] == {"storageUri": "s3://acme/models"}
    assert converted.predictor["env"] == keys, "keys of other names stay variables"


@pytest.mark.parametrize(
    ("variable", "uri", "path", "storage"),
    [
        ("GOOGLE_APPLICATION_CREDENTIALS", "gs://acme/m", "/keys/key.json", {"secretName": "keys"}),
        ("GOOGLE_APPLICATION_CREDENTIALS", "gs://acme/m", "/keys/a.json", {"secretName": "keys", "serviceAccountKeyField": "a.json"}),
        ("TRITON_CLOUD_CREDENTIAL_PATH", "s3://acme/m", "/keys/all.json", {"secretName": "keys", "credentialFileKey": "all.json"}),
    ],
)  # fmt: skip
def test_a_file_of_a_secret_becomes_storage(
    convert: RUN, variable: str, uri: str, path: str, storage: Object
) -> None:
    container = {
        "args": ["tritonserver", f"--model-repository={uri}"],
        "env": [{"name": variable, "value": path}],
        "volumeMounts": [{"name": "keys", "mountPath": "/keys"}],
    }
    volumes = [{"name": "keys", "secret": {"secretName": "keys"}}]
    converted = convert(deployment(container, {"volumes": volumes}))
    assert converted.predictor["model"] == {"storageUri": uri, "storage": storage}
    assert not converted.predictor.keys() & {"env", "podTemplate"}


def test_a_second_variable_for_the_region_is_said(convert: RUN) -> None:
    default = {"name": "AWS_DEFAULT_REGION", "value": "eu-west-1"}
    other = {"name": "AWS_REGION", "valueFrom": {"configMapKeyRef": {"name": "a", "key": "b"}}}
    converted = convert(deployment({"env": [default, other]}))
    assert converted.predictor["model"]["storage"] == {"region": "eu-west-1"}
    assert listed(converted, "env: left out: AWS_REGION: model.storage.region has the value of")


@pytest.mark.parametrize(
    ("attributes", "mount", "uri"),
    [
        ({"bucketName": "acme"}, {}, "gs://acme/a"),
        ({"bucketName": "acme"}, {"subPath": "x"}, "gs://acme/x/a"),
        ({"bucketName": "acme", "mountOptions": "implicit-dirs,only-dir=m/n"}, {}, "gs://acme/m/n/a"),
        ({"bucketName": "acme"}, {"mountPath": "/mnt/models/a"}, "gs://acme"),
        ({"bucketName": "_"}, {}, ""),
    ],
)  # fmt: skip
def test_a_bucket_that_is_mounted(
    convert: RUN, attributes: Object, mount: Object, uri: str
) -> None:
    volume = {"csi": {"driver": "gcsfuse.csi.storage.gke.io", "volumeAttributes": attributes}}
    converted = convert(mounted(volume, **mount))
    assert converted.predictor["model"] == ({"storageUri": uri} if uri else {})
    words = "is a bucket: that became model.storageUri" if uri else "PersistentVolume with this csi"
    assert listed(converted, words)


def test_a_signature_in_an_address_is_left_out_and_said(convert: RUN) -> None:
    address = "https://acme.blob.core.windows.net/models/a?sv=2024&sig=x"
    converted = convert(deployment({"args": ["tritonserver", f"--model-repository={address}"]}))
    assert converted.predictor["model"]["storageUri"] == "as://acme/models/a"
    assert listed(converted, "--model-repository: left out: what follows '?'")

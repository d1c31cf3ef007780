"""Where KServe's predictors have their models: formats, protocols, stores and their credentials."""

import base64
import json

import pytest

from tests.operator.convert.test_kserve_pods import kserve
from tests.operator.convert.triton import RUN, Object, listed


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"modelFormat": {"name": "triton", "version": "2"}}, ""),
        ({"modelFormat": {"name": "onnx"}}, "'onnx': the server finds the format by the files. storageUri must be a model repository"),
        ({"modelFormat": {"name": "pytorch"}, "protocolVersion": "v2"}, "'pytorch': the server's image lacks the framework: build one with the extra 'torch'"),
        ({"modelFormat": {"name": "sklearn"}}, "storageUri must be a model repository, a folder with one folder per model, e.g. NAME/1/FILE"),
        ({"protocolVersion": "v1"}, ""),
        ({"protocolVersion": "v3"}, "model.protocolVersion: left out: v3: the server speaks v1 and v2 on its HTTP port"),
        ({"protocolVersion": "grpc-v2"}, ""),
    ],
)  # fmt: skip
def test_formats_and_protocols(convert: RUN, fields: Object, words: str) -> None:
    source = kserve()
    model = {"storageUri": "s3://acme/models", **fields}
    source["spec"]["predictor"] = {"model": model}
    converted = convert(source)
    has_backend = "lacks the framework" not in words and "NAME/1/FILE" not in words
    assert converted.status == (0 if has_backend else 1)
    said = [line for line in converted.lines if line.startswith("spec.predictor.model")]
    assert len(said) == bool(words)
    assert words in "".join(said)


@pytest.mark.parametrize("holder", ["predictor", "model"])
def test_several_addresses_are_several_repositories(convert: RUN, holder: str) -> None:
    source = kserve()
    addresses = [
        {"uri": "s3://b/a", "mountPath": "/mnt/models/a"},
        {"uri": "s3://b/c", "mountPath": "/mnt/models/c"},
    ]
    predictor: Object = {"model": {"modelFormat": {"name": "triton"}}}
    (predictor if holder == "predictor" else predictor["model"])["storageUris"] = addresses
    source["spec"]["predictor"] = predictor
    converted = convert(source)
    assert converted.status == 0
    assert converted.predictor["model"] == {
        "repositories": [{"storageUri": "s3://b/a"}, {"storageUri": "s3://b/c"}]
    }
    assert not listed(converted, "podTemplate")


def test_the_entry_of_a_secret_beside_an_address_is_one_hint(convert: RUN) -> None:
    source = kserve()
    storage = {"key": "localMinIO", "path": "models/a", "parameters": {"bucket": "bucket-a"}}
    model = {"modelFormat": {"name": "triton"}, "storageUri": "s3://bucket-a/models/a", "storage": storage}  # fmt: skip
    source["spec"]["predictor"] = {"model": model}
    converted = convert(source)
    assert converted.status == 0
    (said,) = [line for line in converted.lines if line.startswith("spec.predictor.model.storage")]
    assert "The entry localMinIO of Secret storage-config holds keys as JSON" in said
    assert "model.storage.secretName, and its endpoint_url in model.storage.endpoint" in said


def test_a_service_that_could_serve_nothing_useful_needs_an_edit(convert: RUN) -> None:
    source = kserve()
    source["spec"]["predictor"] = {"model": {"modelFormat": {"name": "triton"}, "storageUri": "s3://b/m"}}  # fmt: skip
    source["spec"]["explainer"] = {"alibi": {"type": "AnchorText"}}
    converted = convert(source)
    assert converted.status == 1
    assert listed(
        converted,
        "spec.explainer: not converted: it has alibi, and no container with an image of its own",
    )


@pytest.mark.parametrize(("name", "is_read"), [("huggingface", False), ("tensorflow", True)])
def test_arguments_of_other_servers_are_listed_as_a_whole(
    convert: RUN, name: str, *, is_read: bool
) -> None:
    source = kserve()
    args = ["--model_name=llama", "--log-verbose=1"]
    model = {"modelFormat": {"name": name}, "storageUri": "s3://acme/models", "args": args}
    source["spec"]["predictor"] = {"model": model}
    converted = convert(source)
    assert converted.predictor.get("args", []) == (["--log-verbose=1"] if is_read else [])
    said = f"args: left out: --model_name=llama --log-verbose=1: they are those of KServe's server for '{name}'"
    assert listed(converted, said) != is_read


def secret(name: str, keys: tuple[str, ...], **annotations: str) -> Object:
    data = dict.fromkeys(keys, "eA==")
    named = {f"serving.kserve.io/s3-{key}": value for key, value in annotations.items()}
    metadata = {"name": name, "annotations": named}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}


def account(*secrets: str, name: str = "reader") -> Object:
    names = [{"name": one} for one in secrets]
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}, "secrets": names}  # fmt: skip


S3 = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")


@pytest.mark.parametrize(
    ("annotations", "storage"),
    [
        ({}, {}),
        ({"endpoint": "s3.amazonaws.com", "region": "eu-west-1"}, {"region": "eu-west-1"}),
        ({"endpoint": "minio:9000", "usehttps": "0"}, {"endpoint": "http://minio:9000"}),
        ({"endpoint": "minio:9000"}, {"endpoint": "https://minio:9000"}),
    ],
)
def test_the_secret_of_a_service_account(
    convert: RUN, annotations: dict[str, str], storage: Object
) -> None:
    source = kserve({}, {"serviceAccountName": "reader"})
    converted = convert(source, account("other", "keys"), secret("keys", S3, **annotations))
    assert converted.predictor["model"]["storage"] == {"secretName": "keys", **storage}
    assert not listed(converted, "KServe also reads the store with the Secrets")


def test_an_annotation_of_the_older_name_of_kserve(convert: RUN) -> None:
    keys = secret("keys", S3)
    keys["metadata"]["annotations"] = {"serving.kubeflow.org/s3-endpoint": "minio:9000"}
    converted = convert(kserve({}, {"serviceAccountName": "reader"}), account("keys"), keys)
    assert converted.predictor["model"]["storage"]["endpoint"] == "https://minio:9000"


def test_the_account_that_is_called_default_and_a_key_of_google(convert: RUN) -> None:
    keys = secret("keys", ("gcloud-application-credentials.json",))
    source = kserve({"storageUri": "gs://acme/models"})
    converted = convert(source, account("keys", name="default"), keys)
    assert converted.predictor["model"]["storage"] == {
        "secretName": "keys",
        "serviceAccountKeyField": "gcloud-application-credentials.json",
    }


def test_a_secret_with_other_keys_or_in_another_namespace_is_not_used(convert: RUN) -> None:
    source = kserve({}, {"serviceAccountName": "reader"}, namespace="models")
    elsewhere = secret("keys", S3)
    elsewhere["metadata"]["namespace"] = "other"
    for keys in (secret("keys", ("awsAccessKeyID",)), elsewhere):
        converted = convert(source, account("keys"), keys)
        assert "storage" not in converted.predictor["model"]
        assert listed(converted, "KServe also reads the store with the Secrets of")


ENTRY = {"type": "s3", "bucket": "acme", "endpoint_url": "http://minio:9000/", "region": "a"}


@pytest.mark.parametrize(
    "data",
    [
        {"stringData": {"minio": json.dumps(ENTRY)}},
        {"data": {"minio": base64.b64encode(json.dumps(ENTRY).encode()).decode()}},
    ],
)
def test_an_entry_of_the_secret_of_stores(convert: RUN, data: Object) -> None:
    source = kserve({"storageUri": None, "storage": {"key": "minio", "path": "onnx", "schemaPath": "a.json"}})  # fmt: skip
    converted = convert(source, {"kind": "Secret", "metadata": {"name": "storage-config"}, **data})
    assert converted.status == 0
    assert converted.predictor["model"] == {
        "storageUri": "s3://acme/onnx",
        "storage": {"endpoint": "http://minio:9000", "region": "a"},
    }
    assert listed(converted, "storage: the entry minio of Secret storage-config holds keys as JSON")
    assert listed(converted, "left out: schemaPath: a.json")


def test_parameters_of_a_store_count_first(convert: RUN) -> None:
    storage = {"path": "m", "parameters": {"type": "gs", "bucket": "b"}}
    converted = convert(kserve({"storageUri": None, "storage": storage}))
    assert converted.predictor["model"] == {"storageUri": "gs://b/m"}


@pytest.mark.parametrize("entry", ["{", "7", None, [1]])
def test_an_entry_that_is_not_json_is_not_read(convert: RUN, entry: object) -> None:
    stores = {"kind": "Secret", "metadata": {"name": "storage-config"}, "stringData": {"a": entry}}
    source = kserve({"storageUri": None, "storage": {"key": "a", "path": "m"}})
    converted = convert(source, stores)
    assert converted.status == 1
    assert listed(converted, "storage: not converted: write model.storageUri, e.g. s3://BUCKET/m")


def test_several_addresses(convert: RUN) -> None:
    source = kserve()
    uris = [{"uri": "s3://a/b"}, {"uri": "http://c/d", "mountPath": "/mnt/models/d"}, {"uri": "s3://e/f"}]  # fmt: skip
    source["spec"]["predictor"] = {"model": {"modelFormat": {"name": "triton"}}, "storageUris": uris}  # fmt: skip
    converted = convert(source)
    assert converted.predictor["model"] == {
        "repositories": [{"storageUri": "s3://a/b"}, {"storageUri": "s3://e/f"}]
    }
    assert listed(converted, "spec.predictor.storageUris[1]: is http://")
    assert listed(converted, "spec.predictor.storageUris[1]: left out: mountPath: /mnt/models/d")


def test_a_file_and_a_signature_in_an_address_are_said(convert: RUN) -> None:
    address = "https://acme.blob.core.windows.net/models/a/model.onnx?sig=x"
    converted = convert(kserve({"storageUri": address}))
    assert converted.predictor["model"]["storageUri"] == "as://acme/models/a/model.onnx"
    assert listed(converted, "triton.storageUri: left out: what follows '?'")
    assert listed(converted, "triton.storageUri: ends with model.onnx, which looks like a part")

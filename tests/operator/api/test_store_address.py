"""Addresses of other systems, and what they are in a service."""

import pytest

from naiad_operator.api import store_address
from naiad_operator.api.store_address import Store


@pytest.mark.parametrize(
    ("address", "store"),
    [
        ("s3://bucket/a", Store("s3://bucket/a")),
        ("s3://https://minio.storage:9000/bucket/a", Store("s3://bucket/a", endpoint="https://minio.storage:9000")),
        ("s3://10.0.0.1:9000/bucket/a", Store("s3://bucket/a", endpoint="http://10.0.0.1:9000")),
        ("s3a://bucket/a", Store("s3://bucket/a")),
        ("gcs://bucket/a", Store("gs://bucket/a")),
        ("https://acme.blob.core.windows.net/models/a", Store("as://acme/models/a")),
        ("abfss://models@acme.dfs.core.windows.net/a", Store("as://acme/models/a")),
        ("as://acme.blob.core.windows.net/models/a", Store("as://acme/models/a")),
        ("https://storage.googleapis.com/bucket/a", Store("gs://bucket/a")),
        ("https://bucket.s3.eu-west-1.amazonaws.com/a", Store("s3://bucket/a", region="eu-west-1")),
        ("https://s3.eu-west-1.amazonaws.com/bucket/a", Store("s3://bucket/a", region="eu-west-1")),
        ("https://bucket.s3.amazonaws.com/a", Store("s3://bucket/a")),
        ("https://example.com/models.tar.gz", None),
        ("hf://acme/a", Store("hf://acme/a")),
        ("oci://registry/a:1", Store("oci://registry/a:1")),
        ("/models", None),
    ],
)  # fmt: skip
def test_an_address_of_another_system(address: str, store: Store | None) -> None:
    assert store_address.converted(address) == store


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("pvc://claim/../a", "has '..' in its path"),
        ("hf://acme", "lacks the name of the repository: write hf://owner/name"),
        ("hf://acme/a@", "lacks the revision behind '@'"),
        ("oci://registry", "lacks the name: write oci://registry/name:tag"),
        ("oci://registry/a@sha256:1", "names a digest that is not sha256: and 64 hexadecimal digits"),
        ("S3://bucket/a", "write the scheme in lower case, s3://bucket/a"),
        ("/models", "copy the models into a claim and write pvc://claim/path"),
        ("file:///models", "copy the models into a claim"),
        ("https://bucket.s3.eu-west-1.amazonaws.com/a?X-Amz-Signature=1", "amazonaws.com/a: write s3://bucket/a, and storage.region: eu-west-1"),
        ("s33://bucket/a", "write s3://bucket/path"),
        ("ftp://host/a", "write one of s3://bucket/path, gs://"),
    ],
)  # fmt: skip
def test_what_to_write_instead(address: str, words: str) -> None:
    assert words in store_address.problem(address)


@pytest.mark.parametrize(
    ("address", "is_doubtful"),
    [
        ("s3://bucket/models", False),
        ("pvc://claim", False),
        ("s3://2024/models", False),
        ("s3://bucket/models/resnet/1", True),
        ("s3://bucket/models/resnet/1/", True),
        ("gs://bucket/model.onnx", True),
        ("pvc://claim/resnet/config.pbtxt", True),
    ],
)
def test_a_part_of_a_model_is_not_a_repository(address: str, *, is_doubtful: bool) -> None:
    assert bool(store_address.doubt(address)) == is_doubtful

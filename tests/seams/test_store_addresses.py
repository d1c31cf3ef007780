"""The operator's reading of storageUri, held against the server's own parser of addresses."""

import pytest

from naiad.errors import InferenceError
from naiad.repository.stores import address
from naiad_operator.api import store_address

READABLE = (
    "s3://bucket", "s3://bucket/a/b", "s3://host:9000/bucket/a", "s3://https://host:9000/bucket/a", "s3://http://host/bucket",
    "gs://bucket/a", "as://account/container", "as://account/container/a", "as://host:10000/account/container/a", "s3://bucket/a?b=c",
    "hf://owner/name", "hf://owner/name@main", "hf://owner/name@refs/pr", "hf://owner/name@v1/folder/a", "oci://registry/name", "oci://registry/a/b:v1",
    "oci://host:5000/name:v1", "oci://http://host:5000/name:v1", f"oci://registry/name@sha256:{64 * 'a'}", f"oci://registry/name:v1@sha256:{64 * 'a'}",
)  # fmt: skip
UNREADABLE = (
    "s3://", "s3:///", "s3://host:9000", "s3://https://host:9000", "s3://user@bucket/a", "s3://bucket/../a", "s3://bucket/./a",
    "gs://host:4443/bucket", "gs://https://host/bucket", "gs://", "as://account", "as://", "as://host:1/account", "s3://a:b/c",
    "s3://bucket/a?X-Amz-Signature=1", "as://account/container?sig=1", "s3a://bucket/a", "abfss://a@b/c", "ftp://host/a",
    "as://account/container:1/a", "as://a:b/container",
    "hf://", "hf://owner", "hf://user@owner/name", "hf://owner/name@", "hf://owner/name/../a", "hf://owner/@main", "oci://", "oci://registry",
    "oci://registry/", "oci://user:password@registry/name", "oci://registry/:v1", "oci://registry/name@main", "oci://registry/name@sha256:abc",
    "oci://registry/Name:v1", "oci://registry/a/../b:v1", "oci://http://registry", "oci://https://registry/name:v1", "hf://owner/name?token=x",
)  # fmt: skip


@pytest.mark.parametrize("uri", READABLE)
def test_both_read(uri: str) -> None:
    address.parse(uri)
    assert store_address.problem(uri) == ""


@pytest.mark.parametrize("uri", UNREADABLE)
def test_neither_reads(uri: str) -> None:
    with pytest.raises(InferenceError):
        address.parse(uri)
    assert store_address.problem(uri)


@pytest.mark.parametrize("scheme", sorted(set(address.FORMS) - set(store_address.SCHEMES)))
def test_schemes_of_the_server_that_a_service_lacks_are_answered_with_a_copy(scheme: str) -> None:
    assert "naiad fetch" in store_address.problem(f"{scheme}://host/owner/name")


def test_the_service_has_no_store_that_the_server_lacks() -> None:
    assert set(store_address.SCHEMES) - {"pvc"} <= set(address.FORMS)

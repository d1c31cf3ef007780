"""Addresses of remote repositories (row 18.27): their parts, and errors that never repeat a password."""

import pytest

from naiad.errors import ErrorCode, InferenceError
from naiad.repository.stores.address import Address, parse, scheme

A = Address


@pytest.mark.parametrize(
    ("location", "address"),
    [
        ("s3://b", A(scheme="s3", bucket="b")),
        ("s3://b/", A(scheme="s3", bucket="b")),
        ("S3://b/x//y/", A(scheme="s3", bucket="b", prefix="x/y")),
        ("s3://h:9000/b/x", A(scheme="s3", endpoint="http://h:9000", bucket="b", prefix="x")),
        ("s3://[::1]:9000/b", A(scheme="s3", endpoint="http://[::1]:9000", bucket="b")),
        ("s3://https://h:9000/b/x", A(scheme="s3", endpoint="https://h:9000", bucket="b", prefix="x")),
        ("s3://https://h/b", A(scheme="s3", endpoint="https://h", bucket="b")),
        ("s3://http://h/b", A(scheme="s3", endpoint="http://h", bucket="b")),
        ("gs://b/x", A(scheme="gs", bucket="b", prefix="x")),
        ("as://a/c/x", A(scheme="as", account="a", bucket="c", prefix="x")),
        ("as://h:1/a/c/x", A(scheme="as", endpoint="http://h:1", account="a", bucket="c", prefix="x")),
        ("https://h/x/m.tar.gz?sig=1", A(scheme="https", endpoint="https://h", prefix="x/m.tar.gz", query="sig=1")),
        ("oci://r:5000/o/n:v1", A(scheme="oci", endpoint="r:5000", bucket="o/n", revision="v1")),
        (f"oci://r/n@sha256:{64 * '0'}", A(scheme="oci", endpoint="r", bucket="n", revision=f"sha256:{64 * '0'}")),
        ("oci://http://r:5000/a/n:v1", A(scheme="oci", endpoint="http://r:5000", bucket="a/n", revision="v1")),
        ("hf://o/n", A(scheme="hf", bucket="o/n")),
        ("hf://o/n@main/x/y", A(scheme="hf", bucket="o/n", revision="main", prefix="x/y")),
    ],
)  # fmt: skip
def test_the_parts_of_an_address(location: str, address: Address) -> None:
    assert parse(location) == address
    assert parse(str(address)) == parse(location.partition("?")[0])


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("s3://", "the bucket is missing"),
        ("s3://h:9000", "the bucket is missing"),
        ("s3://https:///b", "expected s3://bucket/prefix"),
        ("s3://b/../x", "'.' or '..'"),
        ("s3://b:x/y", "a ':' where the bucket"),
        ("gs://h:1/b", "STORAGE_EMULATOR_HOST"),
        ("as://a", "the container is missing"),
        ("https://h", "the path of the archive is missing"),
        ("oci://r", "the name is missing"),
        ("oci://r/n@md5:0", "begins with sha256:"),
        ("hf://o", "the name is missing"),
        ("hf://o/n@", "the revision is missing"),
        ("ftp://h/x", "expected a folder, or an address with one of the schemes file, s3, gs"),
    ],
)
def test_what_is_not_an_address_is_refused_with_what_to_write(location: str, expected: str) -> None:
    with pytest.raises(InferenceError) as caught:
        parse(location)
    assert caught.value.code is ErrorCode.INVALID_ARG
    assert expected in caught.value.message


@pytest.mark.parametrize(
    "location",
    [
        "s3://key:SECRET@b/x", "s3://key:SECRET@h:9000/b", "s3://https://key:SECRET@h/b", "as://a:SECRET@h:1/a/c",
        "https://u:SECRET@h/m.tar", "oci://u:SECRET@r/n", "ftp://u:SECRET@h/x",
        "hf://SECRET@o/n", "hf://u:SECRET@o/n", "s3://b/x?X-Amz-Signature=SECRET", "as://a/c/x?sv=1&sig=SECRET", "gs://b/x?access_token=SECRET",
    ],
)  # fmt: skip
def test_credentials_in_an_address_are_refused_and_not_repeated(location: str) -> None:
    with pytest.raises(InferenceError) as caught:
        parse(location)
    assert "SECRET" not in caught.value.message
    assert "ftp" in location or "credentials do not belong in an address" in caught.value.message


def test_an_address_shows_no_query() -> None:
    address = parse("https://h/m.tar?signature=SECRET")
    assert "SECRET" not in f"{address} {address!r}"


def test_the_scheme_of_a_path_is_empty() -> None:
    assert (scheme("/models"), scheme("models"), scheme("GS://b")) == ("", "", "gs")

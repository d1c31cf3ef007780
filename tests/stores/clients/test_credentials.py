"""Triton's credential file: which entry counts, what is wrong with a file, and clients that read it again (rows 18.28, 18.29)."""

import json
import pathlib
import threading
import typing

import pytest

from naiad.repository.stores import credentials
from naiad.repository.stores.credentials import (
    AzureCredential,
    RefusedError,
    Renewable,
    S3Credential,
)
from naiad.repository.stores.objects import StoreError

SECRET = "do-not-show-this"

DOCUMENT = {
    "s3": {
        "": {"key_id": "any", "secret_key": SECRET},
        "s3://bucket": {"key_id": "bucket", "secret_key": SECRET, "region": "eu-west-1"},
        "s3://bucket/private/": {"profile": "private"},
        "s3://https://minio:9000/bucket": {"key_id": "minio", "session_token": SECRET},
    },
    "gs": {"gs://bucket": "/keys/a.json", "gs://other": ""},
    "as": {"as://account/container": {"account_str": "account", "account_key": SECRET}},
}


@pytest.fixture
def environ(tmp_path: pathlib.Path) -> dict[str, str]:
    path = tmp_path / "credentials.json"
    path.write_text(json.dumps(DOCUMENT))
    return {credentials.VARIABLE: str(path)}


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        (
            "s3://bucket/models",
            S3Credential(key_id="bucket", secret_key=SECRET, region="eu-west-1"),
        ),
        ("s3://bucket/private/models", S3Credential(profile="private")),
        ("s3://bucket/private", S3Credential(profile="private")),
        (
            "s3://https://minio:9000/bucket/models",
            S3Credential(key_id="minio", session_token=SECRET),
        ),
        ("s3://elsewhere/models", S3Credential(key_id="any", secret_key=SECRET)),
    ],
)
def test_the_longest_beginning_of_a_location_counts(
    environ: dict[str, str], location: str, expected: S3Credential
) -> None:
    assert credentials.s3(location, environ) == expected


def test_each_scheme_has_entries_of_its_own(environ: dict[str, str]) -> None:
    assert credentials.gs("gs://bucket/models", environ) == "/keys/a.json"
    assert credentials.gs("gs://other", environ) == ""
    azure = credentials.azure("as://account/container/models", environ)
    assert azure == AzureCredential(account_str="account", account_key=SECRET)


def test_a_location_without_an_entry_is_refused_and_the_message_says_what_there_is(
    environ: dict[str, str],
) -> None:
    with pytest.raises(StoreError) as refused:
        credentials.gs("gs://third/models", environ)
    assert refused.value.message == (
        "Cannot match credential for path gs://third/models: the file that TRITON_CLOUD_CREDENTIAL_PATH names has entries for gs://bucket, "
        'gs://other; add one whose name is the beginning of this path, or "" for every path'
    )


def test_without_the_file_triton_s_variables_and_the_sdks_count() -> None:
    assert credentials.s3("s3://bucket", {}) is None
    assert credentials.gs("gs://bucket", {}) is None
    variables = {
        "AZURE_STORAGE_ACCOUNT": "a", "AZURE_STORAGE_KEY": SECRET, "AZURE_STORAGE_AUTH_TYPE": "managed_identity", "AZURE_STORAGE_CLIENT_ID": "c",
    }  # fmt: skip
    assert credentials.azure("as://x/y", variables) == AzureCredential(
        "a", SECRET, "managed_identity", "c"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot be read: No such file or directory"),
        ("{", "is not a valid credential file: Input data was truncated"),
        (f'{{"s3": {{"s3://b": "{SECRET}"}}}}', r"Expected `object`, got `str`.*\$\.s3"),
        (f'{{"s3": {{"s3://b": {{"secret_key": ["{SECRET}"]}}}}}}', "Expected `str`, got `array`"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_without_what_is_in_it(
    tmp_path: pathlib.Path, text: str | None, message: str
) -> None:
    path = tmp_path / "c.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(StoreError, match=message) as refused:
        credentials.s3("s3://b", {credentials.VARIABLE: str(path)})
    assert str(path) in refused.value.message
    assert SECRET not in refused.value.message


def test_secrets_are_in_no_text(environ: dict[str, str]) -> None:
    entry = credentials.s3("s3://bucket", environ)
    assert SECRET not in f"{entry} {entry!r} {[entry]}"


class Client(typing.NamedTuple):
    key: str
    closed: list[str]

    def close(self) -> None:
        self.closed.append(self.key)


def test_a_refused_client_is_built_again_and_the_operation_repeated_once() -> None:
    keys = ["old", "new"]
    closed: list[str] = []
    client = Renewable(lambda: Client(keys.pop(0), closed))

    def operation(used: Client) -> str:
        if used.key == "old":
            raise RefusedError("no")
        return used.key

    assert client.call(operation) == "new"
    assert client.call(operation) == "new"
    client.close()
    assert (keys, closed) == ([], ["new"])


def test_what_stays_refused_is_an_error_and_other_errors_build_nothing() -> None:
    built: list[Client] = []

    def build() -> Client:
        built.append(Client("", []))
        return built[-1]

    client = Renewable(build)

    def refuse(_: Client) -> None:
        raise RefusedError("still no")

    def fail(_: Client) -> None:
        raise StoreError("else")

    with pytest.raises(StoreError, match="else"):
        client.call(fail)
    assert len(built) == 1
    with pytest.raises(RefusedError, match="still no"):
        client.call(refuse)
    assert len(built) == 2


def test_threads_that_are_refused_together_build_one_client() -> None:
    count = 8
    together = threading.Barrier(count)
    built: list[Client] = []

    def build() -> Client:
        built.append(Client("old" if not built else "new", []))
        return built[-1]

    client = Renewable(build)

    def operation(used: Client) -> None:
        if used.key == "old":
            together.wait()
            raise RefusedError("no")

    threads = [threading.Thread(target=client.call, args=(operation,)) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [made.key for made in built] == ["old", "new"]

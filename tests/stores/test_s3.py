"""The client of S3 against versitygw: listings, ranges, checksums, rotated keys, and one sentence for what goes wrong."""

import datetime as dt
import hashlib
import pathlib
import shutil
import zlib

import boto3.s3.transfer
import botocore.auth
import pytest

from naiad.errors import InferenceError
from naiad.repository.stores.address import parse
from naiad.repository.stores.clients.s3 import S3Client
from naiad.repository.stores.objects import ChangedError, Folder, StoredObject, StoreError
from tests.stores.conftest import Bucket
from tests.stores.fakes import make_store
from tests.stores.ports import free_port
from tests.stores.versitygw import SECRET_KEY


def listed(client: S3Client, below: str = "", *, recursive: bool = True) -> dict[str, StoredObject]:
    return {
        entry.key: entry
        for entry in client.listing(below, recursive=recursive)
        if isinstance(entry, StoredObject)
    }


def test_folders_and_objects_are_listed_below_the_prefix(bucket: Bucket) -> None:
    for key in ("a/1/x", "a/1/y z+%ü", "b/config.pbtxt", "README"):
        bucket.put(key, key.encode())
    bucket.boto.put_object(Bucket=bucket.name, Key="elsewhere/1/x", Body=b"")
    client = bucket.client()
    entries = list(client.listing(recursive=False))
    assert {entry.name for entry in entries if isinstance(entry, Folder)} == {"a", "b"}
    assert [entry.key for entry in entries if isinstance(entry, StoredObject)] == ["README"]
    assert set(listed(client)) == {"a/1/x", "a/1/y z+%ü", "b/config.pbtxt", "README"}
    below = listed(client, "a")
    assert set(below) == {"a/1/x", "a/1/y z+%ü"}
    stored = below["a/1/x"]
    assert (stored.size, stored.version) == (5, hashlib.md5(b"a/1/x").hexdigest())
    assert abs(stored.modified_ns / 1e9 - dt.datetime.now(dt.UTC).timestamp()) < 60
    assert b"".join(client.read(stored, 1, 4)) == b"/1/"
    assert listed(client, "none") == {}
    assert set(listed(bucket.client(bucket.name))) >= {"elsewhere/1/x", "models/README"}


def test_a_listing_has_as_many_pages_as_it_takes(bucket: Bucket) -> None:
    bucket.put("m/1/0", b"")
    folder = bucket.server.root / bucket.name / "models" / "m" / "1"
    for number in range(1, 2100):
        (folder / str(number)).touch()
    assert len(listed(bucket.client())) == 2100


def test_the_parts_of_a_multipart_upload_have_no_checksum_that_counts(bucket: Bucket) -> None:
    parts = boto3.s3.transfer.TransferConfig(multipart_threshold=1, multipart_chunksize=5 << 20)
    content = bytes(6 << 20)
    path = bucket.server.root.parent / "large"
    path.write_bytes(content)
    bucket.boto.upload_file(str(path), bucket.name, "models/m/1/x", Config=parts)
    (stored,) = listed(bucket.client()).values()
    assert stored.version.endswith("-2")
    assert bucket.client().checksum(stored) in ("", f"crc32:{zlib.crc32(content):08x}")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, f"crc32:{zlib.crc32(b'content'):08x}"),
        ({"ChecksumAlgorithm": "SHA256"}, f"sha256:{hashlib.sha256(b'content').hexdigest()}"),
        ({"ChecksumAlgorithm": "SHA1"}, f"sha1:{hashlib.sha1(b'content').hexdigest()}"),
    ],
)
def test_the_checksums_that_the_store_keeps_are_those_of_the_content(
    bucket: Bucket, arguments: dict[str, str], expected: str
) -> None:
    bucket.boto.put_object(Bucket=bucket.name, Key="models/m/1/x", Body=b"content", **arguments)
    (stored,) = listed(bucket.client()).values()
    assert bucket.client().checksum(stored) == expected


def test_the_etag_of_a_plain_upload_is_an_md5(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket.put("m/1/x", b"content")
    client = bucket.client()
    (stored,) = listed(client).values()
    response = client._send(
        "head_object", "", client._version(stored)
    )  # without the other checksums
    assert "ChecksumCRC32" not in response
    monkeypatch.setattr(client, "_send", lambda *_: response)
    assert client.checksum(stored) == f"md5:{hashlib.md5(b'content').hexdigest()}"
    for header, value in (("ServerSideEncryption", "aws:kms"), ("SSECustomerAlgorithm", "AES256")):
        monkeypatch.setattr(client, "_send", lambda *_, more={header: value}: response | more)
        assert client.checksum(stored) == ""


def test_an_object_that_was_replaced_or_deleted_has_changed(bucket: Bucket) -> None:
    client = bucket.client()
    for change in (
        lambda: bucket.put("m/1/x", b"newer"),
        lambda: bucket.boto.delete_object(Bucket=bucket.name, Key="models/m/1/x"),
    ):
        bucket.put("m/1/x", b"older")
        (stored,) = listed(client).values()
        change()
        with pytest.raises(ChangedError, match="replaced or deleted"):
            b"".join(client.read(stored, 0, 5))
        with pytest.raises(ChangedError):
            client.checksum(stored)


def refused(client: S3Client) -> StoreError:
    with pytest.raises(StoreError) as caught:
        list(client.listing(recursive=True))
    assert SECRET_KEY not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    return caught.value


def test_a_wrong_bucket(bucket: Bucket) -> None:
    error = refused(bucket.client("missing-bucket/models"))
    assert (
        f"s3://127.0.0.1:{bucket.server.port}/missing-bucket/models: there is no such bucket; check its name"
        in error.message
    )
    assert not error.retry


@pytest.mark.parametrize(
    ("variable", "expected"),
    [
        ("AWS_ACCESS_KEY_ID", "the access key id is not known to it; check AWS_ACCESS_KEY_ID"),
        (
            "AWS_SECRET_ACCESS_KEY",
            "the secret key does not fit the access key id; check AWS_SECRET_ACCESS_KEY",
        ),
    ],
)
def test_wrong_keys(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch, variable: str, expected: str
) -> None:
    monkeypatch.setenv(variable, "wrong")
    assert expected in refused(bucket.client()).message


def test_no_permission_and_no_credentials(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    message = refused(bucket.client()).message
    assert "no credentials were found: set AWS_ACCESS_KEY_ID" in message
    bucket.server.add_user("reader", "readersecret")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "reader")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "readersecret")
    message = refused(bucket.client()).message
    assert "access denied; the credentials need s3:ListBucket" in message
    assert "no credentials" not in message
    assert "readersecret" not in message


def test_a_wrong_clock(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    def late(*, remove_tzinfo: bool = True) -> dt.datetime:
        return dt.datetime.now(dt.UTC).replace(tzinfo=None) - dt.timedelta(hours=2)

    monkeypatch.setattr(botocore.auth, "get_current_datetime", late)
    assert (
        "the clock of this machine differs too much from that of the store"
        in refused(bucket.client()).message
    )


def test_no_route(bucket: Bucket) -> None:
    error = refused(S3Client(parse(f"s3://127.0.0.1:{free_port()}/bucket")))
    assert "no connection to http://127.0.0.1:" in error.message
    assert "check the host, the port" in error.message
    assert error.retry


def test_tls_where_there_is_none(bucket: Bucket) -> None:
    error = refused(S3Client(parse(f"s3://https://127.0.0.1:{bucket.server.port}/bucket")))
    assert "TLS with the store fails" in error.message


def test_a_profile_that_does_not_exist(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "absent")
    assert (
        "The config profile (absent) could not be found; check the AWS credentials"
        in refused(bucket.client()).message
    )


def test_rotated_keys_are_read_again(
    bucket: Bucket, credentials: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    text = "[default]\naws_access_key_id = naiadtests\naws_secret_access_key = {}\n"
    credentials.write_text(text.format("expired"))
    bucket.put("m/1/x", b"content")
    client = bucket.client()
    assert "secret key does not fit" in refused(client).message
    credentials.write_text(text.format(SECRET_KEY))
    assert set(listed(client)) == {"m/1/x"}
    credentials.write_text(text.format("expired again"))
    assert set(listed(client)) == {"m/1/x"}, "the session goes on as long as its keys are accepted"


def test_a_model_comes_whole_from_the_store(bucket: Bucket, tmp_path: pathlib.Path) -> None:
    bucket.put("m/1/model.onnx", bytes(range(256)) * 100)
    bucket.put("m/config.pbtxt", b"config")
    store = make_store(bucket.client(), tmp_path, range_bytes=1000)  # type: ignore[arg-type]
    assert store.names() == ["m"]
    folder = store.checkout("m").folder
    assert (folder / "1" / "model.onnx").read_bytes() == bytes(range(256)) * 100
    shutil.rmtree(bucket.server.root / bucket.name)
    with pytest.raises(InferenceError, match="there is no such bucket"):
        store.names()
    assert (folder / "config.pbtxt").read_bytes() == b"config"

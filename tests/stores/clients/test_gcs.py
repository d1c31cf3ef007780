"""Google Cloud Storage against fake-gcs-server: listings, ranges, replaced objects; and against a server that refuses: what the messages say."""

import base64
import collections.abc
import json
import pathlib
import urllib.parse

import google_crc32c
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage

from naiad.repository.stores.address import parse
from naiad.repository.stores.clients.gcs import GcsClient
from naiad.repository.stores.objects import ChangedError, Folder, StoredObject, StoreError
from tests.stores import fake_gcs
from tests.stores.clients.web_server import Reply, Request, web_server

LARGE = bytes(range(256)) * 40_000
"""More than the client receives per request."""

CONTENTS = {
    "models/a/config.pbtxt": b"",
    "models/a/1/model.onnx": LARGE,
    "models/b/1/model.onnx": b"b",
    "other/x": b"x",
    "modelsandmore": b"-",
}


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory,
) -> collections.abc.Iterator[fake_gcs.Emulator]:
    folder = tmp_path_factory.mktemp("gcs")
    for name, content in CONTENTS.items():
        path = folder / "bucket" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    with fake_gcs.emulator(folder) as running:
        yield running


@pytest.fixture
def bucket(server: fake_gcs.Emulator, monkeypatch: pytest.MonkeyPatch) -> storage.Bucket:
    """The bucket as another client sees it, which changes it."""
    monkeypatch.setenv(fake_gcs.VARIABLE, server.url)
    return storage.Client(project=None).bucket("bucket")


def client(location: str = "gs://bucket/models") -> GcsClient:
    return GcsClient(parse(location))


@pytest.mark.usefixtures("bucket")
def test_listings_of_folders_and_of_everything_below() -> None:
    store = client()
    assert list(store.listing(recursive=False)) == [Folder("a"), Folder("b")]
    entries = list(store.listing("a", recursive=False))
    assert [getattr(e, "key", e) for e in entries] == [Folder("1"), "a/config.pbtxt"]
    objects = [e for e in store.listing(recursive=True) if isinstance(e, StoredObject)]
    assert [(o.key, o.size) for o in objects] == [
        ("a/1/model.onnx", len(LARGE)),
        ("a/config.pbtxt", 0),
        ("b/1/model.onnx", 1),
    ]
    large = objects[0]
    assert store.checksum(large) == f"crc32c:{google_crc32c.value(LARGE):08x}"
    assert large.modified_ns > 1_700_000_000_000_000_000
    assert list(store.listing("none", recursive=True)) == []
    assert {getattr(e, "name", "") for e in client("gs://bucket").listing(recursive=False)} >= {
        "models",
        "other",
    }


@pytest.mark.usefixtures("bucket")
def test_a_listing_continues_over_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("naiad.repository.stores.clients.gcs._PAGE", 1)
    assert len(list(client().listing(recursive=True))) == 3


@pytest.mark.usefixtures("bucket")
@pytest.mark.parametrize(
    ("start", "end"), [(0, len(LARGE)), (5, 6), (9_000_000, len(LARGE)), (7, 7)]
)
def test_ranges(start: int, end: int) -> None:
    store = client()
    (stored,) = store.listing("a/1", recursive=True)
    assert isinstance(stored, StoredObject)
    assert b"".join(store.read(stored, start, end)) == LARGE[start:end]
    store.close()


def test_an_object_that_was_replaced_or_deleted_is_not_read(bucket: storage.Bucket) -> None:
    blob = bucket.blob("changing/m/1/model.onnx")
    blob.upload_from_string(b"one")
    store = client("gs://bucket/changing")
    (old,) = store.listing(recursive=True)
    assert isinstance(old, StoredObject)
    blob.upload_from_string(b"two")
    with pytest.raises(ChangedError, match=r"changing/m/1/model\.onnx: it was replaced or deleted"):
        list(store.read(old, 0, 3))
    (new,) = store.listing(recursive=True)
    assert isinstance(new, StoredObject)
    assert new.version != old.version
    assert b"".join(store.read(new, 0, 3)) == b"two"
    blob.delete()
    with pytest.raises(ChangedError):
        list(store.read(new, 0, 3))


@pytest.mark.usefixtures("bucket")
def test_a_wrong_bucket_is_named() -> None:
    with pytest.raises(StoreError, match=r"there is no bucket 'buckett'.*check its name") as error:
        list(client("gs://buckett/models").listing(recursive=False))
    assert not error.value.retry


def test_no_route_can_be_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(fake_gcs.VARIABLE, "http://127.0.0.1:9")
    with pytest.raises(StoreError, match=r"cannot be reached.*STORAGE_EMULATOR_HOST") as error:
        list(client().listing(recursive=False))
    assert error.value.retry


@pytest.mark.parametrize(
    ("status", "message", "retry"),
    [
        (401, "credentials are missing or refused.*GOOGLE_APPLICATION_CREDENTIALS", False),
        (403, "no permission.*'Storage Object Viewer'", False),
        (429, "cannot answer now", True),
        (503, "cannot answer now", True),
        (400, "HTTP 400", False),
    ],
)
def test_what_a_refusal_says(
    monkeypatch: pytest.MonkeyPatch, status: int, message: str, *, retry: bool
) -> None:
    with web_server(lambda _: Reply(status, b"{}")) as url:
        monkeypatch.setenv(fake_gcs.VARIABLE, url)
        with pytest.raises(StoreError, match=message) as error:
            list(client().listing(recursive=False))
    assert error.value.retry == retry


def test_a_connection_that_breaks_can_be_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with web_server(lambda _: Reply(200, b"x" * 10, cut_at=5)) as url:
        monkeypatch.setenv(fake_gcs.VARIABLE, url)
        with pytest.raises(StoreError) as error:
            list(client().read(StoredObject("a", 10, "1"), 0, 10))
    assert error.value.retry


def test_a_rotated_key_file_is_read_after_a_refusal(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    """The stand-in for Google's token service gives each account a token of its own (row 18.29)."""
    key = tmp_path / "key.json"
    triton = tmp_path / "credentials.json"
    triton.write_text(json.dumps({"gs": {"gs://bucket": str(key)}}))
    monkeypatch.setenv("TRITON_CLOUD_CREDENTIAL_PATH", str(triton))
    private = rsa.generate_private_key(65537, 2048).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )

    refusal = b'{"error": "invalid_grant", "error_description": "Invalid JWT Signature."}'

    def respond(request: Request) -> Reply:
        if request.path == "/token":
            (assertion,) = urllib.parse.parse_qs(request.body.decode())["assertion"]
            claims = json.loads(base64.urlsafe_b64decode(assertion.split(".")[1] + "=="))
            if claims["iss"] == "deleted":
                return Reply(400, refusal)
            return Reply.json({"access_token": f"token-of-{claims['iss']}", "expires_in": 3600})
        if request.headers["Authorization"] == "Bearer token-of-new":
            return Reply.json({"prefixes": ["models/m/"]})
        return Reply(401, b"{}")

    def write(account: str) -> None:
        members = {
            "type": "service_account",
            "private_key": private.decode(),
            "token_uri": f"{url}/token",
        }
        key.write_text(json.dumps({**members, "client_email": account}))

    with web_server(respond) as url:
        monkeypatch.setenv(fake_gcs.VARIABLE, url)
        write("deleted")
        with pytest.raises(StoreError, match=r"are refused: .*Invalid JWT Signature: check that"):
            list(client().listing(recursive=False))
        write("old")
        store = client()
        with pytest.raises(StoreError, match="credentials are missing or refused"):
            list(store.listing(recursive=False))
        write("new")
        assert list(store.listing(recursive=False)) == [Folder("m")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "No such file"),
        ("[]", "not a valid key file"),
        ('{"type": "service_account"}', "not a valid key file"),
        ('{"type": "external_account"}', "GOOGLE_APPLICATION_CREDENTIALS"),
    ],
)
def test_a_key_file_that_cannot_be_used_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, text: str | None, message: str
) -> None:
    key = tmp_path / "key.json"
    if text is not None:
        key.write_text(text)
    triton = tmp_path / "credentials.json"
    triton.write_text(json.dumps({"gs": {"": str(key)}}))
    monkeypatch.setenv("TRITON_CLOUD_CREDENTIAL_PATH", str(triton))
    with pytest.raises(StoreError, match=f"key.json cannot be used.*{message}"):
        list(client().listing(recursive=False))


def test_google_application_credentials_that_do_not_exist_are_not_ignored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(fake_gcs.VARIABLE, raising=False)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/none/key.json")
    with pytest.raises(StoreError, match=r"GOOGLE_APPLICATION_CREDENTIALS.*/none/key\.json"):
        list(client().listing(recursive=False))


def test_without_any_credentials_requests_are_anonymous(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    """As in Triton (row 18.28)."""
    for variable in (fake_gcs.VARIABLE, "GOOGLE_APPLICATION_CREDENTIALS"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    assert isinstance(client()._build()._credentials, AnonymousCredentials)

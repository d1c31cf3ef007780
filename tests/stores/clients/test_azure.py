"""Azure blob storage against azurite: listings, ranges, replaced blobs, wrong keys; and against a server that refuses: what the messages say."""

import collections.abc
import hashlib
import json
import logging
import pathlib

import pytest
from azure.core.exceptions import ClientAuthenticationError
from azure.storage.blob import ContainerClient, ContentSettings

from naiad.repository.stores.address import parse
from naiad.repository.stores.clients import azure as azure_client
from naiad.repository.stores.clients.azure import AzureClient
from naiad.repository.stores.objects import ChangedError, Folder, StoredObject, StoreError
from tests.stores import azurite
from tests.stores.clients.web_server import Reply, web_server

pytestmark = pytest.mark.stores

CONTENT = bytes(range(256)) * 40_000
"""More than the client receives per request."""

FILES = {
    "models/a/config.pbtxt": b"",
    "models/a/1/model.onnx": CONTENT,
    "models/b/1/model.onnx": b"b",
    "other/x": b"x",
    "modelsandmore": b"-",
}


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory,
) -> collections.abc.Iterator[azurite.Emulator]:
    with azurite.emulator(tmp_path_factory.mktemp("azurite")) as running:
        container = sdk(running, "bucket")
        container.create_container()
        for name, content in FILES.items():
            md5 = bytearray(hashlib.md5(content).digest())
            container.upload_blob(name, content, content_settings=ContentSettings(content_md5=md5))
        sdk(running, "public").create_container(public_access="container")
        sdk(running, "public").upload_blob("m/1/model.onnx", b"public")
        yield running


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_KEY", azurite.KEY)
    for variable in ("ACCOUNT", "AUTH_TYPE", "CLIENT_ID"):
        monkeypatch.delenv(f"AZURE_STORAGE_{variable}", raising=False)


def sdk(server: azurite.Emulator, container: str) -> ContainerClient:
    """The container as another client sees it, which changes it."""
    return ContainerClient(
        f"http://127.0.0.1:{server.port}/{azurite.ACCOUNT}",
        container,
        {"account_name": azurite.ACCOUNT, "account_key": azurite.KEY},
    )


def client(server: azurite.Emulator, path: str = "bucket/models") -> AzureClient:
    return AzureClient(parse(server.address(path)))


def test_listings_of_folders_and_of_everything_below(server: azurite.Emulator) -> None:
    store = client(server)
    assert list(store.listing(recursive=False)) == [Folder("a"), Folder("b")]
    entries = list(store.listing("a", recursive=False))
    assert [getattr(e, "key", e) for e in entries] == [Folder("1"), "a/config.pbtxt"]
    objects = [e for e in store.listing(recursive=True) if isinstance(e, StoredObject)]
    assert [(o.key, o.size) for o in objects] == [
        ("a/1/model.onnx", len(CONTENT)),
        ("a/config.pbtxt", 0),
        ("b/1/model.onnx", 1),
    ]
    assert store.checksum(objects[0]) == f"md5:{hashlib.md5(CONTENT).hexdigest()}"
    assert objects[0].modified_ns > 1_700_000_000_000_000_000
    assert list(store.listing("none", recursive=True)) == []
    assert len(list(client(server, "bucket").listing(recursive=False))) == 3
    store.close()


def test_a_listing_continues_over_pages(
    server: azurite.Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("naiad.repository.stores.clients.azure._PAGE", 1)
    assert len(list(client(server).listing(recursive=True))) == 3


@pytest.mark.parametrize(
    ("start", "end"), [(0, len(CONTENT)), (5, 6), (9_000_000, len(CONTENT)), (7, 7)]
)
def test_ranges(server: azurite.Emulator, start: int, end: int) -> None:
    store = client(server)
    (stored,) = store.listing("a/1", recursive=True)
    assert isinstance(stored, StoredObject)
    assert b"".join(store.read(stored, start, end)) == CONTENT[start:end]
    store.close()


def test_a_blob_that_was_replaced_or_deleted_is_not_read(server: azurite.Emulator) -> None:
    blob = sdk(server, "bucket").get_blob_client("changing/m/1/model.onnx")
    blob.upload_blob(b"one")
    store = client(server, "bucket/changing")
    (old,) = store.listing(recursive=True)
    assert isinstance(old, StoredObject)
    blob.upload_blob(b"two", overwrite=True)
    with pytest.raises(ChangedError, match=r"changing/m/1/model\.onnx: it was replaced or deleted"):
        list(store.read(old, 0, 3))
    (new,) = store.listing(recursive=True)
    assert isinstance(new, StoredObject)
    assert b"".join(store.read(new, 0, 3)) == b"two"
    blob.delete_blob()
    with pytest.raises(ChangedError):
        list(store.read(new, 0, 3))


def test_folders_of_a_hierarchical_namespace_are_empty_folders(server: azurite.Emulator) -> None:
    container = sdk(server, "bucket")
    for name in ("tree", "tree/m", "tree/m/1"):
        container.upload_blob(name, b"", metadata={"hdi_isfolder": "true"})
    listed = list(client(server, "bucket/tree").listing(recursive=True))
    assert [getattr(entry, "key", "") for entry in listed] == ["m/", "m/1/"]


def test_a_wrong_container_is_named(server: azurite.Emulator) -> None:
    with pytest.raises(StoreError, match="there is no container 'nothing' in the account") as error:
        list(client(server, "nothing").listing(recursive=False))
    assert not error.value.retry


def test_a_wrong_key_is_an_error_that_says_what_to_check(
    server: azurite.Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_STORAGE_KEY", "c2VjcmV0")
    with pytest.raises(StoreError, match=r"credentials are refused.*account key.*clock") as error:
        list(client(server).listing(recursive=False))
    monkeypatch.setenv("AZURE_STORAGE_KEY", "secret")
    with pytest.raises(StoreError, match=r"credentials are refused.*AzureSigningError") as unsigned:
        list(client(server).listing(recursive=False))
    assert "c2VjcmV0" not in error.value.message
    assert "secret" not in unsigned.value.message


def test_without_credentials_public_containers_are_read_and_others_are_not(
    server: azurite.Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AZURE_STORAGE_KEY")
    assert list(client(server, "public").listing(recursive=False)) == [Folder("m")]
    with pytest.raises(
        StoreError, match=r"not public and there are no credentials.*AZURE_STORAGE_KEY"
    ):
        list(client(server).listing(recursive=False))


def test_a_rotated_key_of_triton_s_credential_file_is_read_after_a_refusal(
    server: azurite.Emulator, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    path = tmp_path / "credentials.json"
    monkeypatch.setenv("TRITON_CLOUD_CREDENTIAL_PATH", str(path))

    def write(key: str) -> None:
        entry = {"account_str": azurite.ACCOUNT, "account_key": key}
        path.write_text(json.dumps({"as": {f"as://127.0.0.1:{server.port}/": entry}}))

    write("b2xk")
    store = client(server)
    with pytest.raises(StoreError, match="credentials are refused"):
        list(store.listing(recursive=False))
    write(azurite.KEY)
    assert list(store.listing(recursive=False)) == [Folder("a"), Folder("b")]


def test_no_route_can_be_tried_again() -> None:
    with pytest.raises(StoreError, match=r"cannot be reached.*name of the account") as error:
        list(AzureClient(parse("as://127.0.0.1:9/account/container")).listing(recursive=False))
    assert error.value.retry


@pytest.mark.parametrize(
    ("status", "code", "message", "retry"),
    [
        (
            403,
            "AuthorizationPermissionMismatch",
            "no permission.*'Storage Blob Data Reader'",
            False,
        ),
        (403, "AuthorizationFailure", "credentials are refused.*firewall", False),
        (429, "", "cannot answer now", True),
        (503, "ServerBusy", "cannot answer now", True),
        (400, "InvalidUri", r"HTTP 400 \(InvalidUri\)", False),
    ],
)
def test_what_a_refusal_says(status: int, code: str, message: str, *, retry: bool) -> None:
    reply = Reply(status, headers={"x-ms-error-code": code})
    with web_server(lambda _: reply) as url:
        store = AzureClient(parse(f"as://{url.removeprefix('http://')}/account/container"))
        with pytest.raises(StoreError, match=message) as error:
            list(store.listing(recursive=False))
    assert error.value.retry == retry


def test_a_connection_that_breaks_can_be_tried_again() -> None:
    with web_server(lambda _: Reply(206, b"x" * 10, {"Content-Range": "bytes 0-9/10"}, 5)) as url:
        store = AzureClient(parse(f"as://{url.removeprefix('http://')}/account/container"))
        with pytest.raises(StoreError) as error:
            list(store.read(StoredObject("a", 10, "1"), 0, 10))
    assert error.value.retry


def test_without_a_key_what_the_default_chain_finds_is_used_or_requests_are_anonymous(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Anonymous requests are Triton's behaviour (row 18.28); the chain is an addition."""
    caplog.set_level("INFO")
    monkeypatch.delenv("AZURE_STORAGE_KEY")

    class Chain:
        def get_token(self, *_: str) -> None:
            logging.getLogger("azure.identity._chained").warning("twenty lines")
            if not available:
                raise ClientAuthenticationError("nothing is configured")

    monkeypatch.setattr(azure_client, "DefaultAzureCredential", Chain)
    store = AzureClient(parse("as://account/container"))
    available = True
    assert isinstance(store._build().credential, Chain)
    available = False
    assert store._build().credential is None
    assert "no Azure credentials were found" in caplog.text
    assert "twenty lines" not in caplog.text


def test_kinds_of_authentication(monkeypatch: pytest.MonkeyPatch) -> None:
    """The identities send no request before a token is needed (row 18.28)."""
    store = AzureClient(parse("as://account/container"))
    for kind, name in (
        ("managed_identity", "ManagedIdentityCredential"),
        ("default", "DefaultAzureCredential"),
    ):
        monkeypatch.setenv("AZURE_STORAGE_AUTH_TYPE", kind)
        built = store._build()
        assert type(built.credential).__name__ == name
        assert built.url == "https://account.blob.core.windows.net/container"
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT", "other")
    monkeypatch.setenv("AZURE_STORAGE_AUTH_TYPE", "key")
    assert store._build().url == "https://other.blob.core.windows.net/container"
    monkeypatch.setenv("AZURE_STORAGE_AUTH_TYPE", "kerberos")
    with pytest.raises(StoreError, match=r"'kerberos'.*it is key, managed_identity or default"):
        store._build()

"""Downloads from Google's and Azure's emulators through a proxy that cuts connections and corrupts bytes; and packages that are missing."""

import collections.abc
import contextlib
import hashlib
import os
import pathlib
import re
import subprocess
import sys

import pytest

from naiad.repository.stores.address import parse
from naiad.repository.stores.clients import connect
from naiad.repository.stores.clients.snapshots import Folders
from naiad.repository.stores.download import Downloader
from naiad.repository.stores.objects import ObjectClient, StoredObject, StoreError
from tests.stores import azurite, fake_gcs
from tests.stores.proxy import Proxy

CONTENT = os.urandom(3_000_000)

Opened = tuple[ObjectClient, Proxy]


@contextlib.contextmanager
def gs(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> collections.abc.Iterator[Opened]:
    (folder / "bucket").mkdir()
    (folder / "bucket" / "object").write_bytes(CONTENT)
    with fake_gcs.emulator(folder) as server, Proxy(int(server.url.rpartition(":")[2])) as proxy:
        monkeypatch.setenv(fake_gcs.VARIABLE, f"http://127.0.0.1:{proxy.port}")
        yield connect(parse("gs://bucket"), Folders(folder, folder)), proxy


@contextlib.contextmanager
def as_(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> collections.abc.Iterator[Opened]:
    from azure.storage.blob import ContainerClient, ContentSettings  # noqa: PLC0415 - only this one needs it

    monkeypatch.setenv("AZURE_STORAGE_KEY", azurite.KEY)
    with azurite.emulator(folder) as server, Proxy(server.port) as proxy:
        key = {"account_name": azurite.ACCOUNT, "account_key": azurite.KEY}
        url = f"http://127.0.0.1:{server.port}/{azurite.ACCOUNT}"
        container = ContainerClient(url, "bucket", key)
        container.create_container()
        md5 = bytearray(hashlib.md5(CONTENT).digest())
        container.upload_blob("object", CONTENT, content_settings=ContentSettings(content_md5=md5))
        address = f"as://127.0.0.1:{proxy.port}/{azurite.ACCOUNT}/bucket"
        yield connect(parse(address), Folders(folder, folder)), proxy


def download(client: ObjectClient, stored: StoredObject, path: pathlib.Path) -> bytes:
    downloader = Downloader(backoff=lambda _: 0.01, range_bytes=1 << 20)
    try:
        with path.open("w+b") as file:
            downloader.download(client, stored, file.fileno(), lambda _: None)
        return path.read_bytes()
    finally:
        downloader.close()


@pytest.mark.parametrize("kind", [gs, pytest.param(as_, marks=pytest.mark.stores)])
def test_connections_that_break_and_bytes_that_are_corrupted(
    kind: collections.abc.Callable[..., contextlib.AbstractContextManager[Opened]],
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "data").mkdir()
    with kind(tmp_path / "data", monkeypatch) as (client, proxy):
        (stored,) = client.listing(recursive=True)
        assert isinstance(stored, StoredObject)
        assert download(client, stored, tmp_path / "plain") == CONTENT

        broken = set[int]()

        def cut(piece: bytes, offset: int, connection: int) -> bytes | None:
            if offset > 200_000 and len(broken | {connection}) <= 5:
                broken.add(connection)
                return None
            return piece

        proxy.change = cut
        proxy.cut()
        assert download(client, stored, tmp_path / "cut") == CONTENT
        assert len(broken) == 5

        corrupted = set[int]()

        def corrupt(piece: bytes, offset: int, connection: int) -> bytes:
            if offset > 300_000 and not corrupted:
                corrupted.add(connection)
                return piece[:-1] + bytes([piece[-1] ^ 1])
            return piece

        proxy.change = corrupt
        proxy.cut()
        assert download(client, stored, tmp_path / "corrupt") == CONTENT
        assert corrupted

        proxy.change = lambda piece, offset, _: piece[:-1] + b"x" if offset > 300_000 else piece
        with pytest.raises(StoreError, match="does not have its checksum"):
            download(client, stored, tmp_path / "each")

        proxy.change = lambda *_: None
        proxy.cut()
        with pytest.raises(StoreError, match="cannot be reached") as error:
            list(client.listing(recursive=True))
        assert error.value.retry
        client.close()


@pytest.mark.parametrize(
    ("address", "package", "extra"),
    [
        ("gs://bucket", "google", "gcs"),
        ("as://account/container", "azure", "azure"),
        ("hf://owner/name", "huggingface_hub", "huggingface"),
        ("s3://bucket", "boto3", "s3"),
    ],
)
def test_a_missing_package_is_an_error_that_names_the_extra(
    address: str, package: str, extra: str
) -> None:
    code = (
        f"import sys; sys.modules[{package!r}] = None\n"
        "import pathlib\n"
        "from naiad.repository.stores import address, clients\n"
        f"clients.connect(address.parse({address!r}), None)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert re.search(
        rf"the package {package}\S* is missing; .*pip install .*\[{extra}\]'", ended.stderr
    ), ended.stderr

"""Models in the reference registry of the OCI distribution specification: what the stand-in of the other tests only claims."""

import base64
import collections.abc
import json
import pathlib

import pytest

from naiad.errors import InferenceError
from naiad.fetch import fetch
from naiad.repository.stores.address import parse
from naiad.repository.stores.clients import http_requests
from naiad.repository.stores.clients.oci import OciClient
from naiad.repository.stores.clients.snapshots import Folders
from naiad.repository.stores.objects import StoredObject, StoreError
from tests.stores.clients.distribution import (
    PASSWORD,
    USER,
    Distribution,
    TokenService,
    registry,
)
from tests.stores.clients.registry import IMAGE_CONFIG, TAR_GZIP, TITLE, digest, gzipped
from tests.stores.clients.tarballs import tarball
from tests.stores.conftest import BUILD_S

pytestmark = pytest.mark.timeout(BUILD_S)

CONTENT = bytes(range(256)) * 100_000
WEIGHTS = "application/vnd.cncf.model.weight.v1.raw"


@pytest.fixture(autouse=True)
def settings(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> pathlib.Path:
    """The file of a pull secret, which names no registry yet."""
    monkeypatch.setattr(http_requests, "_BACKOFF_S", 0.001)
    path = tmp_path / "config.json"
    path.write_text("{}")
    monkeypatch.setenv("REGISTRY_AUTH_FILE", str(path))
    return path


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory) -> collections.abc.Iterator[Distribution]:
    with registry(tmp_path_factory.mktemp("distribution")) as running:
        yield running


def descriptor(content: bytes, media_type: str, **annotations: str) -> dict[str, object]:
    return {
        "mediaType": media_type,
        "digest": digest(content),
        "size": len(content),
        "annotations": annotations,
    }


def files(folder: pathlib.Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith(".")
    }


def image(server: Distribution, name: str, tag: str, content: bytes) -> str:
    layer = gzipped(tarball(("models/a/1/model.onnx", content), ("etc/x", b"")))
    return server.push(name, tag, [descriptor(layer, TAR_GZIP)], [layer], config=IMAGE_CONFIG)


def test_an_image_by_its_tag_and_by_its_digest(plain: Distribution, tmp_path: pathlib.Path) -> None:
    pinned = image(plain, "acme/models", "v1", CONTENT)
    fetch(f"oci://{plain.host}/acme/models:v1", tmp_path / "tag")
    fetch(f"oci://http://{plain.host}/acme/models@{pinned}", tmp_path / "digest")
    assert files(tmp_path / "tag") == files(tmp_path / "digest") == {"a/1/model.onnx": CONTENT}


@pytest.mark.parametrize("annotation", [TITLE, "org.cncf.model.filepath"])
def test_an_artifact_of_files(plain: Distribution, tmp_path: pathlib.Path, annotation: str) -> None:
    """ORAS has a title; Docker's model artifacts and ModelPack have a path."""
    config = b"name: 'a'"
    layers = [
        descriptor(CONTENT, WEIGHTS, **{annotation: "a/1/model.onnx"}),
        descriptor(config, WEIGHTS, **{annotation: "a/config.pbtxt"}),
    ]
    plain.push("acme/artifact", "v1", layers, [CONTENT, config])
    fetch(f"oci://{plain.host}/acme/artifact:v1", tmp_path / "to")
    assert files(tmp_path / "to") == {"a/1/model.onnx": CONTENT, "a/config.pbtxt": config}


def test_an_artifact_that_is_packed_by_its_media_type(
    plain: Distribution, tmp_path: pathlib.Path
) -> None:
    packed = tarball(("a/1/model.onnx", b"1"))
    path = {"org.cncf.model.filepath": "a"}
    layer = descriptor(packed, "application/vnd.cncf.model.weight.v1.tar", **path)
    plain.push("acme/packed", "v1", [layer], [packed])
    fetch(f"oci://{plain.host}/acme/packed:v1", tmp_path / "to")
    assert files(tmp_path / "to") == {"a/1/model.onnx": b"1"}


def test_a_path_that_leads_out_reaches_no_disk(plain: Distribution, tmp_path: pathlib.Path) -> None:
    layer = descriptor(b"1", WEIGHTS, **{TITLE: "a/../../../escaped"})
    plain.push("acme/hostile", "v1", [layer], [b"1"])
    with pytest.raises(InferenceError, match="there is no model"):
        fetch(f"oci://{plain.host}/acme/hostile:v1", tmp_path / "a" / "b" / "to")
    assert not list(tmp_path.rglob("escaped"))


def opened(location: str, folder: pathlib.Path) -> OciClient:
    folder.mkdir(exist_ok=True)
    return OciClient(parse(location), Folders(folder, folder / "listings"))


def listed(client: OciClient) -> dict[str, str]:
    list(client.listing(recursive=False))
    entries = client.listing("", recursive=True)
    return {one.key: one.version for one in entries if isinstance(one, StoredObject)}


def test_a_tag_that_moves_is_a_change(plain: Distribution, tmp_path: pathlib.Path) -> None:
    image(plain, "acme/moving", "latest", b"1")
    client = opened(f"oci://{plain.host}/acme/moving", tmp_path / "scratch")
    before = listed(client)
    assert listed(client) == before
    image(plain, "acme/moving", "latest", b"2")
    assert listed(client) != before
    client.close()


def log_in(settings: pathlib.Path, server: Distribution, password: str) -> None:
    """As kubectl create secret docker-registry writes it."""
    auth = base64.b64encode(f"{USER}:{password}".encode()).decode()
    entry = {"username": USER, "password": password, "auth": auth}
    settings.write_text(json.dumps({"auths": {server.host: entry}}))


@pytest.mark.parametrize("with_tokens", [False, True], ids=["password", "tokens"])
def test_a_pull_secret(settings: pathlib.Path, tmp_path: pathlib.Path, *, with_tokens: bool) -> None:  # fmt: skip
    tokens = TokenService() if with_tokens else None
    (tmp_path / "server").mkdir()
    with registry(tmp_path / "server", password=not with_tokens, tokens=tokens) as server:
        image(server, "acme/private", "v1", CONTENT)
        location = f"oci://{server.host}/acme/private:v1"
        with pytest.raises(StoreError, match="401"):
            listed(opened(location, tmp_path / "scratch"))
        log_in(settings, server, "wrong")
        with pytest.raises(StoreError, match="401"):
            listed(opened(location, tmp_path / "scratch"))
        log_in(settings, server, PASSWORD)
        assert set(listed(opened(location, tmp_path / "scratch"))) == {"a/1/model.onnx"}
        if tokens is not None:
            assert "scope=repository%3Aacme%2Fprivate%3Apull" in tokens.asked[-1]


def test_names_and_passwords_without_auth(settings: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Some tools write no `auth` into a pull secret."""
    (tmp_path / "server").mkdir()
    with registry(tmp_path / "server", password=True) as server:
        image(server, "acme/private", "v1", CONTENT)
        entry = {"username": USER, "password": PASSWORD}
        settings.write_text(json.dumps({"auths": {f"https://{server.host}/v1/": entry}}))
        assert listed(opened(f"oci://{server.host}/acme/private:v1", tmp_path / "scratch"))

"""Images and artifacts of a registry: layers, tags that move, tokens, digests, and what the messages say."""

import base64
import json
import pathlib

import pytest

from naiad.repository.stores.address import parse
from naiad.repository.stores.clients import http_requests, registry as registry_client
from naiad.repository.stores.clients.oci import OciClient
from naiad.repository.stores.clients.snapshots import Folders
from naiad.repository.stores.objects import ChangedError, Folder, StoredObject, StoreError
from tests.stores.clients.registry import (
    IMAGE_CONFIG,
    IMAGE_INDEX,
    TAR,
    TAR_GZIP,
    Registry,
    digest,
    gzipped,
    serving,
)
from tests.stores.clients.tarballs import folder, tarball
from tests.stores.clients.web_server import Reply, Request, web_server

CONTENT = bytes(range(256)) * 10_000

MODEL = tarball(("models/a/1/model.onnx", CONTENT), ("models/a/config.pbtxt", b"name: 'a'"))


@pytest.fixture(autouse=True)
def settings(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> pathlib.Path:
    """The folder of docker's settings, the only ones."""
    monkeypatch.setattr(http_requests, "_BACKOFF_S", 0.001)
    for variable in ("REGISTRY_AUTH_FILE", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    (tmp_path / "docker").mkdir()
    return tmp_path / "docker"


@pytest.fixture
def scratch(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "scratch").mkdir()
    return tmp_path / "scratch"


def opened(location: str, scratch: pathlib.Path) -> OciClient:
    return OciClient(parse(location), Folders(scratch, scratch.parent / "listings"))


def client(registry: Registry, scratch: pathlib.Path, reference: str = "") -> OciClient:
    return opened(f"oci://{registry.host}/models/all{reference}", scratch)


def objects(client: OciClient, below: str = "") -> dict[str, StoredObject]:
    """What is listed for a load: the names first, which looks for a newer version."""
    assert all(isinstance(entry, Folder) for entry in client.listing(recursive=False))
    listed = client.listing(below, recursive=True)
    return {entry.key: entry for entry in listed if isinstance(entry, StoredObject)}


def content(client: OciClient, stored: StoredObject) -> bytes:
    return b"".join(client.read(stored, 0, stored.size))


def log_in(settings: pathlib.Path, registry: Registry, password: str) -> None:
    auth = base64.b64encode(f"user:{password}".encode()).decode()
    (settings / "config.json").write_text(json.dumps({"auths": {registry.host: {"auth": auth}}}))


def test_an_image_holds_its_models_in_slash_models(scratch: pathlib.Path) -> None:
    with serving(Registry()) as registry:
        base = registry.layer(tarball(("etc/passwd", b"x"), ("models/a/old", b"x")), TAR)
        layers = [
            base,
            registry.layer(gzipped(MODEL), TAR_GZIP),
            registry.layer(tarball(("models/a/.wh.old", b"")), TAR),
        ]
        registry.push("latest", layers, config=IMAGE_CONFIG)
        image = client(registry, scratch)
        assert list(image.listing(recursive=False)) == [Folder("a")]
        listed = objects(image)
        assert set(listed) == {"a/1/model.onnx", "a/config.pbtxt"}
        assert content(image, listed["a/1/model.onnx"]) == CONTENT
        image.close()
        image.close()
        assert list(scratch.iterdir()) == []


def test_an_artifact_of_files_is_read_in_ranges(scratch: pathlib.Path) -> None:
    with serving(Registry()) as registry:
        files = {"a/1/model.onnx": CONTENT, "a/config.pbtxt": b"name: 'a'"}
        registry.push(
            "v1",
            [
                registry.layer(data, "application/octet-stream", title=name)
                for name, data in files.items()
            ],
        )
        artifact = client(registry, scratch, ":v1")
        listed = objects(artifact)
        stored = listed["a/1/model.onnx"]
        assert stored.version == artifact.checksum(stored) == digest(CONTENT)
        assert b"".join(artifact.read(stored, 1_000_000, 1_000_010)) == CONTENT[1_000_000:1_000_010]
        assert registry.requests[-1].headers["Range"] == "bytes=1000000-1000009"
        assert set(listed) == set(files)
        artifact.close()


def test_an_artifact_of_folders_is_unpacked(scratch: pathlib.Path) -> None:
    with serving(Registry()) as registry:
        packed = gzipped(tarball(folder("b/2"), ("b/1/model.onnx", b"b")))
        registry.push(
            "latest",
            [
                registry.layer(packed, TAR_GZIP, title="b", unpack="true"),
                registry.layer(CONTENT, "application/octet-stream", title="a/1/model.onnx"),
            ],
        )
        artifact = client(registry, scratch)
        listed = objects(artifact)
        assert list(listed) == ["a/1/model.onnx", "b/1/model.onnx", "b/2/"]
        assert content(artifact, listed["b/1/model.onnx"]) == b"b"
        artifact.close()


def test_the_manifest_for_this_machine_is_taken_from_an_index(scratch: pathlib.Path) -> None:
    with serving(Registry()) as registry:
        machines = {
            name: registry.push(
                name,
                [registry.layer(tarball((f"models/{name}/1/m", b"x")), TAR)],
                config=IMAGE_CONFIG,
            )
            | {"platform": {"os": "linux", "architecture": name}}
            for name in ("amd64", "arm64", "s390x")
        }
        registry.put("latest", {"manifests": list(machines.values())}, IMAGE_INDEX)
        image = client(registry, scratch)
        (model,) = image.listing(recursive=False)
        assert model in (Folder("amd64"), Folder("arm64"))
        image.close()
        registry.put("latest", {"manifests": [machines["s390x"], machines["s390x"]]}, IMAGE_INDEX)
        with pytest.raises(StoreError, match=r"no image for linux/\w+, only for linux/s390x"):
            objects(image)


def test_a_tag_that_moves_is_read_again_and_one_that_does_not_costs_one_head(
    scratch: pathlib.Path,
) -> None:
    with serving(Registry()) as registry:
        registry.push("latest", [registry.layer(b"1", "x", title="a/1/m")])
        artifact = client(registry, scratch)
        first = objects(artifact)
        count = len(registry.requests)
        assert objects(artifact) == first
        assert [request.method for request in registry.requests[count:]] == ["HEAD"]
        registry.push("latest", [registry.layer(b"2", "x", title="a/1/m")])
        second = objects(artifact)
        assert second != first
        with pytest.raises(ChangedError):
            content(artifact, first["a/1/m"])
        assert content(artifact, second["a/1/m"]) == b"2"
        artifact.close()


def test_a_digest_is_asked_for_once(scratch: pathlib.Path) -> None:
    with serving(Registry()) as registry:
        manifest = registry.push("v1", [registry.layer(b"1", "x", title="a/1/m")])
        artifact = client(registry, scratch, f"@{manifest['digest']}")
        first = objects(artifact)
        count = len(registry.requests)
        assert objects(artifact) == first
        assert len(registry.requests) == count
        artifact.close()


def test_tokens_are_fetched_with_the_password_of_docker_login_and_again_when_they_expire(
    scratch: pathlib.Path, settings: pathlib.Path
) -> None:
    with serving(Registry(password="first")) as registry:
        registry.push("latest", [registry.layer(CONTENT, "x", title="a/1/m")])
        with pytest.raises(
            StoreError, match=r"the token of the registry: no permission \(HTTP 401\)"
        ):
            objects(client(registry, scratch))
        log_in(settings, registry, "first")
        artifact = client(registry, scratch)
        (stored,) = objects(artifact).values()
        registry.tokens.clear()
        assert content(artifact, stored) == CONTENT
        registry.tokens.clear()
        registry.password = "rotated"
        with pytest.raises(StoreError, match="HTTP 401"):
            content(artifact, stored)
        log_in(settings, registry, "rotated")
        assert content(artifact, stored) == CONTENT
        artifact.close()


def test_a_registry_that_wants_a_password_without_tokens(
    scratch: pathlib.Path, settings: pathlib.Path
) -> None:
    registry = Registry()
    registry.push("latest", [registry.layer(b"1", "x", title="a/1/m")])

    def respond(request: Request) -> Reply:
        if request.headers["Authorization"] != http_requests.basic("user", "right"):
            return Reply(401, headers={"WWW-Authenticate": 'Basic realm="x"'})
        return registry(request)

    with web_server(respond) as registry.url:
        log_in(settings, registry, "right")
        artifact = client(registry, scratch)
        assert list(objects(artifact)) == ["a/1/m"]
        artifact.close()


def test_tokens_and_passwords_do_not_go_to_the_host_of_the_blobs(
    scratch: pathlib.Path, settings: pathlib.Path
) -> None:
    seen: list[Request] = []
    with serving(Registry(password="p")) as registry:

        def blobs(request: Request) -> Reply:
            seen.append(request)
            return Reply.file(request, registry.blobs[request.path.removeprefix("/")])

        with web_server(blobs) as registry.blobs_at:
            log_in(settings, registry, "p")
            registry.push(
                "latest",
                [
                    registry.layer(CONTENT, "x", title="a/1/m"),
                    registry.layer(gzipped(MODEL), TAR_GZIP),
                ],
            )
            artifact = client(registry, scratch)
            listed = objects(artifact)
            assert content(artifact, listed["a/1/m"]) == CONTENT
            artifact.close()
    assert len(seen) == 2
    assert [request.headers["Authorization"] for request in seen] == [None, None]


def test_a_token_service_without_tls_does_not_get_the_password(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    challenge = {"WWW-Authenticate": 'Bearer realm="http://other/token"'}
    error = http_requests.HttpError("", status=401, headers=challenge)
    monkeypatch.setattr(http_requests, "send", lambda *_, **__: (_ for _ in ()).throw(error))
    client = registry_client.Registry("registry.example", "a/b", where="oci://registry.example/a/b")
    with pytest.raises(StoreError, match="http://other/token, which is not HTTPS"):
        client.digest("latest")


@pytest.mark.parametrize("packed", [False, True])
def test_a_layer_without_its_digest_is_refused(scratch: pathlib.Path, *, packed: bool) -> None:
    with serving(Registry()) as registry:
        layer = registry.layer(MODEL, TAR) if packed else registry.layer(MODEL, TAR, title="b/1/m")
        registry.push("latest", [layer, registry.layer(b"x", "x", title="a/1/m")])
        registry.blobs[layer["digest"]] = MODEL.replace(b"name: 'a'", b"name: 'b'")
        artifact = client(registry, scratch)
        if packed:
            with pytest.raises(StoreError, match="a layer does not have its digest sha256:"):
                objects(artifact)
            assert list(scratch.iterdir()) == []
        else:  # whatever reads it compares it with its checksum
            assert artifact.checksum(objects(artifact)["b/1/m"]) == layer["digest"]
            artifact.close()


def test_a_manifest_without_its_digest_is_refused(scratch: pathlib.Path) -> None:
    with serving(Registry()) as registry:
        manifest = registry.push("v1", [])
        registry.manifests[manifest["digest"]] += b" "
        with pytest.raises(StoreError, match="sends a manifest that does not have the digest"):
            objects(client(registry, scratch, f"@{manifest['digest']}"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"<html>", "its manifest is not valid"),
        (b'{"layers": [{"digest": 1}]}', "its manifest is not valid"),
        (b'{"layers": []}', r"this artifact holds no files: put the models there"),
        (
            b'{"config": {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": "d", "size": 1}}',
            "this image holds no folder /models",
        ),
    ],
)
def test_a_manifest_that_holds_no_models(scratch: pathlib.Path, text: bytes, message: str) -> None:
    with serving(Registry()) as registry:
        registry.manifests["latest"] = text
        with pytest.raises(StoreError, match=message):
            objects(client(registry, scratch))


def test_a_wrong_name_is_an_error_that_says_so(scratch: pathlib.Path) -> None:
    with (
        serving(Registry()) as registry,
        pytest.raises(
            StoreError, match=r"models/all:v9: there is nothing at this address \(HTTP 404\)"
        ),
    ):
        objects(client(registry, scratch, ":v9"))
    with pytest.raises(StoreError, match="cannot be reached") as error:
        objects(opened("oci://127.0.0.1:9/a/b", scratch))
    assert error.value.retry


def test_hosts_and_schemes() -> None:
    urls = {
        host: registry_client.Registry(host, "name", where="")._base
        for host in ("docker.io", "ghcr.io", "localhost:5000", "127.0.0.1:5000", "registry:5000")
    }
    assert urls == {
        "docker.io": "https://registry-1.docker.io/v2/library/name",
        "ghcr.io": "https://ghcr.io/v2/name",
        "localhost:5000": "http://localhost:5000/v2/name",
        "127.0.0.1:5000": "http://127.0.0.1:5000/v2/name",
        "registry:5000": "https://registry:5000/v2/name",
    }

"""Repositories of the Hugging Face Hub, against a stand-in for its API: commits, ranges, tokens, and what the messages say."""

import collections.abc
import hashlib
import pathlib

import pytest
from huggingface_hub import constants

from naiad.repository.stores.address import parse
from naiad.repository.stores.clients.huggingface import HuggingFaceClient
from naiad.repository.stores.objects import ChangedError, Folder, StoredObject, StoreError
from tests.stores.clients.hub import Hub
from tests.stores.clients.web_server import Reply, Request, web_server

CONTENT = bytes(range(256)) * 10_000

FILES = {
    ".gitattributes": b"*.onnx filter=lfs",
    "README.md": b"# models",
    "models/a/1/model.onnx": CONTENT,
    "models/a/config.pbtxt": b"name: 'a'",
    "models/b/1/model.onnx": CONTENT[::-1],
}


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> collections.abc.Iterator[Hub]:
    served = Hub()
    with web_server(served) as url:
        # HF_ENDPOINT is read with the import.
        monkeypatch.setattr(constants, "ENDPOINT", url)
        monkeypatch.setattr(
            constants,
            "HUGGINGFACE_CO_URL_TEMPLATE",
            url + "/{repo_id}/resolve/{revision}/{filename}",
        )
        monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
        monkeypatch.delenv("HF_TOKEN", raising=False)
        yield served


def client(location: str = "hf://owner/name/models") -> HuggingFaceClient:
    return HuggingFaceClient(parse(location))


def objects(client: HuggingFaceClient, below: str = "") -> dict[str, StoredObject]:
    listed = client.listing(below, recursive=True)
    return {entry.key: entry for entry in listed if isinstance(entry, StoredObject)}


def content(client: HuggingFaceClient, stored: StoredObject) -> bytes:
    return b"".join(client.read(stored, 0, stored.size))


def test_listings_and_reads(hub: Hub) -> None:
    hub.commit(FILES)
    store = client()
    assert list(store.listing(recursive=False)) == [Folder("a"), Folder("b")]
    assert len(hub.requests) == 1
    listed = objects(store)
    assert list(listed) == ["a/1/model.onnx", "a/config.pbtxt", "b/1/model.onnx"]
    large = listed["a/1/model.onnx"]
    assert store.checksum(large) == f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"
    assert content(store, large) == CONTENT
    assert b"".join(store.read(large, 1000, 1001)) == CONTENT[1000:1001]
    assert hub.requests[-1].headers["Range"] == "bytes=1000-1000"
    small = listed["a/config.pbtxt"]
    assert (store.checksum(small), content(store, small)) == ("", b"name: 'a'")
    assert b"".join(store.read(small, 2, 4)) == b"me"
    assert list(store.read(small, 3, 3)) == []
    assert list(objects(store, "b")) == ["b/1/model.onnx"]
    assert list(client("hf://owner/name").listing(recursive=False))[-1] == Folder("models")
    store.close()


def test_a_new_commit_is_listed_and_what_stayed_the_same_keeps_its_version(hub: Hub) -> None:
    hub.commit(FILES)
    store = client()
    first = objects(store)
    hub.commit({**FILES, "models/a/config.pbtxt": b"name: 'A'"})
    assert content(store, first["a/config.pbtxt"]) == b"name: 'a'", "at its own commit"
    second = objects(store)
    assert second["a/1/model.onnx"] == first["a/1/model.onnx"]
    assert content(store, second["a/config.pbtxt"]) == b"name: 'A'"
    with pytest.raises(ChangedError):
        content(store, StoredObject("a/config.pbtxt", 1, "other"))


def test_a_revision_is_a_commit_too(hub: Hub) -> None:
    old = hub.commit(FILES)
    hub.commit({})
    assert len(objects(client(f"hf://owner/name@{old}/models"))) == 3
    assert objects(client()) == {}
    with pytest.raises(StoreError, match="there is no revision 'v9'"):
        objects(client("hf://owner/name@v9"))


def test_tokens_go_to_the_hub_only_and_a_rotated_one_is_read(
    hub: Hub, tmp_path: pathlib.Path
) -> None:
    hub.commit(FILES)
    hub.token = "first"
    (tmp_path / "token").write_text("first")
    seen: list[Request] = []

    def storage(request: Request) -> Reply:
        seen.append(request)
        return Reply.file(request, CONTENT)

    with web_server(storage) as hub.storage:
        store = client()
        large = objects(store)["a/1/model.onnx"]
        assert content(store, large) == CONTENT
        assert [request.headers["Authorization"] for request in seen] == [None]
        hub.token = "second"
        with pytest.raises(StoreError, match=r"the token is refused \(HTTP 401\): set HF_TOKEN"):
            content(store, large)
        (tmp_path / "token").write_text("second")
        assert content(store, large) == CONTENT


def test_a_wrong_name_is_an_error_that_says_so(hub: Hub) -> None:
    with pytest.raises(StoreError, match="no model repository 'owner/other', or it is private"):
        objects(client("hf://owner/other"))


@pytest.mark.parametrize(
    ("reply", "message", "retry"),
    [
        (
            Reply(403, b"{}", {"X-Error-Code": "GatedRepo"}),
            "is gated: accept its conditions",
            False,
        ),
        (Reply(403, b"{}"), "the token is refused", False),
        (Reply(429, b"{}"), "cannot answer now", True),
        (Reply(503, b"{}"), "cannot answer now", True),
        (Reply(418, b"{}"), "HTTP 418", False),
        (Reply(200, b"{}", cut_at=1), "cannot be reached", True),
    ],
)
def test_what_a_refusal_says(
    monkeypatch: pytest.MonkeyPatch, reply: Reply, message: str, *, retry: bool
) -> None:
    with web_server(lambda _: reply) as url:
        monkeypatch.setattr(constants, "ENDPOINT", url)
        with pytest.raises(StoreError, match=message) as error:
            objects(client())
    assert error.value.retry == retry


def test_no_route_and_offline_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(StoreError, match=r"cannot be reached .*HF_ENDPOINT") as error:
        objects(client())
    assert error.value.retry
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(StoreError, match="HF_HUB_OFFLINE is set"):
        objects(client())

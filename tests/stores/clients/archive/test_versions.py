"""Tarballs of a web server: newer versions, damaged and hostile ones, and listings that are kept."""

import pathlib
import threading

import pytest

from naiad.repository.stores.clients import snapshots
from naiad.repository.stores.objects import ChangedError, StoreError
from tests.stores.clients.archive.archives import CONTENT, Site, names, objects, opened
from tests.stores.clients.tarballs import repository, tarball
from tests.stores.clients.web_server import Reply, Request, web_server
from tests.support.waiting import wait_until


def test_another_tarball_is_unpacked_and_the_same_one_is_not(scratch: pathlib.Path) -> None:
    site = Site(repository({"a": b"one", "b": b"b"}))
    with web_server(site) as url:
        client = opened(f"{url}/m.tgz", scratch)
        first = objects(client)
        assert objects(client) == first
        assert site.requests[-1].headers["If-None-Match"]
        site.content = repository({"a": b"two", "b": b"b"})
        second = objects(client)
        assert second["b/1/model.onnx"] == first["b/1/model.onnx"]
        changed = first["a/1/model.onnx"]
        with pytest.raises(ChangedError):
            list(client.read(changed, 0, changed.size))
        assert len(list(scratch.iterdir())) == 1
        client.close()


def test_a_damaged_upload_fails_loads_and_leaves_what_was_there(
    scratch: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    whole = repository({"a": CONTENT})
    site = Site(whole)
    with web_server(site) as url:
        client = opened(f"{url}/m.tgz", scratch)
        before = objects(client)["a/1/model.onnx"]
        site.content = whole[: len(whole) // 2]
        for _ in range(3):
            assert names(client) == ["a"]
            with pytest.raises(StoreError, match="is not a readable tarball"):
                objects(client)
        assert caplog.text.count("unpacking while it is downloaded") == 2, "it fails again"
        assert b"".join(client.read(before, 0, 3)) == CONTENT[:3]
        assert len(list(scratch.iterdir())) == 1
        site.content = whole
        assert objects(client)["a/1/model.onnx"] == before, "the upload was undone"
        site.content = repository({"a": b"new"})
        assert objects(client)["a/1/model.onnx"].size == 3
        client.close()


def test_a_failure_that_may_pass_is_tried_again(scratch: pathlib.Path) -> None:
    site = Site(repository({"a": b"old"}))
    with web_server(site) as url:
        client = opened(f"{url}/m.tgz", scratch)
        assert objects(client)["a/1/model.onnx"].size == 3
        site.content = repository({"a": b"newer"})
        site.cut_at = 0
        with pytest.raises(StoreError, match="breaks again and again"):
            objects(client)
        site.cut_at = None
        assert objects(client)["a/1/model.onnx"].size == 5
        client.close()


def test_polls_do_not_wait_for_a_new_version_and_loads_of_it_fail_until_it_is_complete(
    scratch: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "_WAIT_S", 0.01)
    served = [repository({"a": b"old"})]
    complete = threading.Event()

    def respond(request: Request) -> Reply:
        if len(served) > 1 and request.headers["Range"]:
            complete.wait(20)
        cut_at = None if len(served) == 1 or request.headers["Range"] else 1
        return Reply.file(request, served[-1], cut_at=cut_at)

    with web_server(respond) as url:
        client = opened(f"{url}/m.tgz", scratch)
        (old,) = objects(client).values()
        served.append(repository({"a": b"newer", "b": b"b"}))
        for _ in range(3):
            assert names(client) == ["a"]
        with pytest.raises(
            StoreError, match="a newer version is being downloaded; load the model again"
        ) as error:
            list(client.listing("a", recursive=True))
        assert error.value.retry
        assert b"".join(client.read(old, 0, 3)) == b"old"
        complete.set()
        wait_until(lambda: names(client) == ["a", "b"])
        assert objects(client)["a/1/model.onnx"].size == 5
        client.close()


def test_a_hostile_tarball_writes_nothing_outside(scratch: pathlib.Path) -> None:
    packed = tarball(("a/1/model.onnx", b"x"), ("../../evil", b"x"))
    with (
        web_server(lambda request: Reply.file(request, packed)) as url,
        pytest.raises(StoreError, match="leads out of the tarball"),
    ):
        objects(opened(f"{url}/m.tar", scratch))
    assert list(scratch.parent.rglob("evil")) == []


def test_a_listing_that_was_kept_needs_no_download_until_something_is_read(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A second server with the same cache folder."""
    caplog.set_level("INFO")
    for name in ("one", "two", "three"):
        (tmp_path / name).mkdir()
    site = Site(repository({"a": CONTENT}))
    with web_server(site) as url:
        first = opened(f"{url}/m.tgz", tmp_path / "one")
        listed = objects(first)
        first.close()
        second = opened(f"{url}/m.tgz?other=signature", tmp_path / "two")
        assert objects(second) == listed
        assert caplog.text.count("unpacking while it is downloaded") == 1
        stored = listed["a/1/model.onnx"]
        assert b"".join(second.read(stored, 5, 10)) == CONTENT[5:10]
        assert caplog.text.count("unpacking while it is downloaded") == 2
        second.close()

        third = opened(f"{url}/m.tgz", tmp_path / "three")
        assert objects(third) == listed
        site.content = repository({"a": b"new"})
        with pytest.raises(ChangedError, match="it was replaced since it was listed"):
            list(third.read(stored, 5, 10))
        assert objects(third)["a/1/model.onnx"].size == 3
        third.close()
        kept = next((tmp_path / "listings").iterdir())
        kept.write_bytes(b"{")
        fourth = opened(f"{url}/m.tgz", tmp_path / "three")
        assert objects(fourth)["a/1/model.onnx"].size == 3
        fourth.close()


def test_a_server_that_says_nothing_of_versions_is_read_once_per_start(
    scratch: pathlib.Path,
) -> None:
    served = [repository({"a": b"one"})]
    with web_server(lambda _: Reply(200, served[-1])) as url:
        client = opened(f"{url}/m.tgz", scratch)
        assert objects(client)["a/1/model.onnx"].size == 3
        served.append(repository({"a": b"newer"}))
        assert objects(client)["a/1/model.onnx"].size == 3
        client.close()
        client = opened(f"{url}/m.tgz", scratch)
        assert objects(client)["a/1/model.onnx"].size == 5
        client.close()

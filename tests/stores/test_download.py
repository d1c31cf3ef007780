"""Downloads in ranges: complete, in the right places, resumed where a connection broke, and verified."""

import collections.abc
import hashlib
import pathlib
import random
import zlib

import pytest

from naiad.repository.stores import checksums
from naiad.repository.stores.download import Downloader, backoff_seconds
from naiad.repository.stores.objects import ChangedError, StoredObject, StoreError
from tests.stores.fakes import FakeClient, no_wait, plainly

CONTENT = random.Random(0).randbytes(1000)
KEY = "m/1/x"


def download(client: FakeClient, path: pathlib.Path, content: bytes = CONTENT) -> tuple[bytes, int]:
    """What is in the file then, and the sum of the progress."""
    client.contents[KEY] = content
    progress: list[int] = []
    with path.open("w+b") as file:
        downloader = Downloader(backoff=no_wait, range_bytes=64)
        stored = StoredObject(KEY, len(content), "v0")
        downloader.download(client, stored, file.fileno(), progress.append)
        return path.read_bytes(), sum(progress)


def failing(error: StoreError) -> collections.abc.Iterator[bytes]:
    """A response that fails at once."""
    yield from ()
    raise error


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 1000])
def test_every_byte_is_in_its_place_and_counted(tmp_path: pathlib.Path, size: int) -> None:
    client = FakeClient()
    assert download(client, tmp_path / "x", CONTENT[:size]) == (CONTENT[:size], size)
    assert client.reads[KEY] == -(-size // 64)


def test_a_range_goes_on_where_its_connection_broke(tmp_path: pathlib.Path) -> None:
    client = FakeClient()
    starts = list[int]()

    def breaks(content: bytes, start: int, end: int) -> collections.abc.Iterator[bytes]:
        starts.append(start)
        yield content[start : start + 10]
        if start + 10 < end:
            raise StoreError("broken", retry=True)

    client.how = breaks
    assert download(client, tmp_path / "x", CONTENT[:30]) == (CONTENT[:30], 30)
    assert starts == [0, 10, 20]


def test_a_response_that_ends_early_is_continued(tmp_path: pathlib.Path) -> None:
    client = FakeClient()
    client.how = lambda content, start, end: iter([content[start : min(start + 7, end)]])
    assert download(client, tmp_path / "x") == (CONTENT, 1000)


def test_a_response_that_is_too_long_is_an_error_and_not_written(tmp_path: pathlib.Path) -> None:
    client = FakeClient()
    client.how = lambda content, start, end: iter([content[start : end + 1]])
    with pytest.raises(StoreError, match="more bytes than requested"):
        download(client, tmp_path / "x", CONTENT[:65])
    assert (tmp_path / "x").read_bytes()[64:] in (b"\0", CONTENT[64:65])


@pytest.mark.parametrize("is_refused", [True, False])
def test_attempts_without_progress_end(tmp_path: pathlib.Path, *, is_refused: bool) -> None:
    client = FakeClient()
    client.how = lambda *_: failing(StoreError("broken", retry=True)) if is_refused else iter(())
    with pytest.raises(StoreError):
        download(client, tmp_path / "x", CONTENT[:10])
    assert client.reads[KEY] == 6


@pytest.mark.parametrize("error", [ChangedError("changed"), StoreError("no permission")])
def test_what_repeats_is_not_tried_again(tmp_path: pathlib.Path, error: StoreError) -> None:
    client = FakeClient()
    client.how = lambda *_: failing(error)
    with pytest.raises(StoreError) as caught:
        download(client, tmp_path / "x", CONTENT[:10])
    assert caught.value is error
    assert client.reads[KEY] == 1


SUMS = {
    "md5": hashlib.md5(CONTENT).hexdigest(),
    "sha1": hashlib.sha1(CONTENT).hexdigest(),
    "sha256": hashlib.sha256(CONTENT).hexdigest(),
    "crc32": f"{zlib.crc32(CONTENT):08x}",
}


@pytest.mark.parametrize("algorithm", SUMS)
def test_corrupted_bytes_are_downloaded_again(tmp_path: pathlib.Path, algorithm: str) -> None:
    client = FakeClient()
    client.checksums[KEY] = f"{algorithm}:{SUMS[algorithm]}"
    corrupted = 0

    def corrupts_once(content: bytes, start: int, end: int) -> collections.abc.Iterator[bytes]:
        nonlocal corrupted
        for piece in plainly(content, start, end):
            if start == 640 and piece and not corrupted:
                corrupted += 1
                yield bytes([piece[0] ^ 1]) + piece[1:]
            else:
                yield piece

    client.how = corrupts_once
    assert download(client, tmp_path / "x") == (CONTENT, 1000)
    assert corrupted == 1


def test_bytes_that_are_corrupted_each_time_are_an_error(tmp_path: pathlib.Path) -> None:
    client = FakeClient()
    client.checksums[KEY] = "md5:" + "0" * 32
    with pytest.raises(
        StoreError, match=f"m/1/x: the content does not have its checksum .*{SUMS['md5']}"
    ):
        download(client, tmp_path / "x")


def test_a_checksum_that_cannot_be_read_at_first_is_read_again(tmp_path: pathlib.Path) -> None:
    client = FakeClient()
    failures = [StoreError("busy", retry=True), StoreError("no permission")]

    def checksum(stored: StoredObject) -> str:
        raise failures.pop(0)

    client.checksum = checksum  # type: ignore[method-assign]
    with pytest.raises(StoreError, match="no permission"):
        download(client, tmp_path / "x")


def test_the_cheapest_checksum_that_can_be_verified_is_chosen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    offered = ["md5:0", "crc64nvme:1", "crc32c:2", "sha256:3"]
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert checksums.choose(offered) == "sha256:3"
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    assert checksums.choose(offered) == "crc32c:2"
    assert checksums.choose(["crc64nvme:1"]) == ""


def test_waits_grow_and_end() -> None:
    waits = [backoff_seconds(attempt) for attempt in range(6)]
    assert all(0.25 * 2**attempt <= wait <= 0.5 * 2**attempt for attempt, wait in enumerate(waits))

"""The cache folder: what is trusted, what is shared, and what is removed when."""

import fcntl
import os
import pathlib
import subprocess
import sys
import threading

import pytest

from naiad.core.clock import ManualClock
from naiad.errors import ErrorCode, InferenceError
from naiad.repository.stores import cache as cache_module
from naiad.repository.stores.cache import Cache, Lease
from naiad.repository.stores.objects import StoredObject
from tests.stores.fakes import FakeClient, make_store
from tests.support.waiting import wait_until

STORED = StoredObject("m/x", 4, "v1", 10**18)


@pytest.fixture
def root(tmp_path: pathlib.Path) -> pathlib.Path:
    Lease(tmp_path / "cache").close()
    return tmp_path / "cache"


def make(
    root: pathlib.Path,
    *,
    limit: int = 0,
    is_temporary: bool = False,
    clock: ManualClock | None = None,
) -> Cache:
    return Cache(
        root,
        limit=limit,
        is_temporary=is_temporary,
        clock=clock if clock is not None else ManualClock(),
    )


def put(cache: Cache, identity: str = "s3://b/m/x", content: bytes = b"1234") -> StoredObject:
    stored = StoredObject("m/x", len(content), "v1", 10**18)
    with cache.part(identity, stored) as file:
        assert file is not None
        os.write(file, content)
    return stored


def test_an_object_is_linked_once_it_is_complete(
    root: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    cache, target = make(root), tmp_path / "target"
    with cache.part("s3://b/m/x", STORED) as file:
        assert file is not None
        os.write(file, b"1234")
        assert not cache.link("s3://b/m/x", STORED, target)
    assert cache.link("s3://b/m/x", STORED, target)
    assert target.read_bytes() == b"1234"
    assert target.stat().st_mode & 0o777 == 0o444


@pytest.mark.parametrize(
    "other",
    [
        StoredObject("m/x", 4, "v2", 10**18),
        StoredObject("m/x", 5, "v1", 10**18),
        StoredObject("m/x", 4, "v1", 2 * 10**18),
    ],
)
def test_another_version_is_another_object(
    root: pathlib.Path, tmp_path: pathlib.Path, other: StoredObject
) -> None:
    cache = make(root)
    put(cache)
    assert not cache.link("s3://b/m/x", other, tmp_path / "target")
    assert not cache.link("s3://c/m/x", STORED, tmp_path / "target")


def test_a_failed_download_leaves_nothing(root: pathlib.Path) -> None:
    def fail() -> None:
        with make(root).part("s3://b/m/x", STORED):
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert not list((root / "objects").iterdir())


@pytest.mark.parametrize("change", [b"12345", b"4321"])
def test_an_object_that_was_written_to_is_not_trusted(
    root: pathlib.Path, tmp_path: pathlib.Path, change: bytes
) -> None:
    cache = make(root)
    put(cache)
    assert cache.link("s3://b/m/x", STORED, tmp_path / "first")
    (tmp_path / "first").chmod(0o644)
    (tmp_path / "first").write_bytes(change)
    assert not cache.link("s3://b/m/x", STORED, tmp_path / "second")
    assert not (tmp_path / "second").exists()
    put(cache)
    assert cache.link("s3://b/m/x", STORED, tmp_path / "second")


_KILLED = """
import os, pathlib, sys
from naiad.core.clock import SystemClock
from naiad.repository.stores.cache import Cache, Lease
from naiad.repository.stores.objects import StoredObject
root = pathlib.Path(sys.argv[1])
lease = Lease(root)
(lease.folder / "1" / "m").mkdir(parents=True)
cache = Cache(root, limit=0, is_temporary=False, clock=SystemClock())
with cache.reserved(4, lease.folder), cache.part("s3://b/m/x", StoredObject("m/x", 4, "v1", 10**18)) as file:
    os.write(file, b"12")
    print("half", flush=True)
    sys.stdin.read()
"""


def test_a_kill_leaves_nothing_that_is_trusted_and_the_next_one_removes_it(
    root: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    command = [sys.executable, "-c", _KILLED, str(root)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"half\n"
        cache = make(root)
        cache.clean()
        assert len(list((root / "objects").iterdir())) == 1, "it is in use"
        assert len(list((root / "servers").glob("*/*"))) == 2
        process.kill()
    assert not cache.link("s3://b/m/x", STORED, tmp_path / "target")
    cache.clean()
    assert not list((root / "objects").iterdir())
    assert not list((root / "servers").iterdir())


def test_the_part_of_a_killed_process_is_written_again(
    root: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    cache = make(root)
    name = cache._path("s3://b/m/x", STORED).name
    (root / "objects" / f"{name}.part").write_bytes(b"half of something else")
    put(cache)
    assert cache.link("s3://b/m/x", STORED, tmp_path / "target")
    assert (tmp_path / "target").read_bytes() == b"1234"


def test_of_two_that_need_an_object_one_downloads_it(root: pathlib.Path) -> None:
    results = list[int | None]()

    def second() -> None:
        with make(root).part("s3://b/m/x", STORED) as file:
            results.append(file)

    with make(root).part("s3://b/m/x", STORED) as file:
        assert file is not None
        thread = threading.Thread(target=second)
        thread.start()
        os.write(file, b"1234")
    thread.join()
    assert results == [None]


def test_one_that_does_not_go_on_is_not_waited_for(
    root: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_module, "_STALLED_S", 0.05)
    cache = make(root)
    path = root / "objects" / (cache._path("s3://b/m/x", STORED).name + ".part")
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with (
            pytest.raises(InferenceError, match="without progress"),
            cache.part("s3://b/m/x", STORED),
        ):
            pass


def content(number: int) -> str:
    return f"s3://b/m/{number}"


def test_the_least_recently_used_objects_make_room(
    root: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    clock = ManualClock()
    cache = make(root, limit=100, clock=clock)
    for number in range(4):
        clock.advance(ns=10**9)
        stored = put(cache, content(number), b"x" * 25)
    clock.advance(ns=10**9)
    assert cache.link(content(0), stored, tmp_path / "0")  # in use
    assert cache.link(content(1), stored, tmp_path / "1")
    (tmp_path / "1").unlink()  # used most recently
    lease = Lease(root)
    with cache.reserved(30, lease.folder):
        left = [number for number in range(4) if cache._path(content(number), stored).exists()]
        assert left == [0, 1]
        with (
            pytest.raises(InferenceError, match="--repository-cache-bytes=100") as caught,
            cache.reserved(50, lease.folder),
        ):
            pass
    assert caught.value.code is ErrorCode.UNAVAILABLE


def test_a_reservation_counts_what_is_still_to_come(root: pathlib.Path) -> None:
    cache, lease = make(root, limit=100), Lease(root)
    with cache.reserved(80, lease.folder) as first:
        first.spend(60)
        with cache.reserved(80, lease.folder):
            pass
        first.spend(-60)
        with pytest.raises(InferenceError), cache.reserved(30, lease.folder):
            pass
    with cache.reserved(100, lease.folder):
        pass


def test_a_reservation_that_ends_while_another_one_is_made_does_not_count(
    root: pathlib.Path,
) -> None:
    cache, lease = make(root, limit=100), Lease(root)
    # A file that is listed and gone a moment later, as its stat sees it.
    (lease.folder / "ended.reserved").symlink_to(lease.folder / "gone")
    with cache.reserved(100, lease.folder):
        pass


def test_a_full_disk_is_noticed_before_the_download(root: pathlib.Path) -> None:
    lease = Lease(root)
    with (
        pytest.raises(
            InferenceError, match=r"the disk of .* has room for .*--repository-cache-directory"
        ),
        make(root).reserved(1 << 60, lease.folder),
    ):
        pass
    assert not list(lease.folder.iterdir())


@pytest.mark.parametrize("is_temporary", [True, False])
def test_a_temporary_folder_keeps_what_is_in_use(
    root: pathlib.Path, tmp_path: pathlib.Path, *, is_temporary: bool
) -> None:
    clock = ManualClock()
    cache = make(root, is_temporary=is_temporary, clock=clock)
    stored = put(cache, content(0))
    clock.advance(ns=61 * 10**9)
    put(cache, content(1))
    put(cache, content(2))
    assert cache.link(content(1), stored, tmp_path / "1")
    cache.trim()
    assert [cache._path(content(number), stored).exists() for number in range(3)] == [
        not is_temporary,
        True,
        True,
    ]


def test_a_folder_that_cannot_be_used_is_named(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(
        InferenceError, match=r"--repository-cache-directory=.*file.*: the folder cannot be used"
    ):
        Lease(tmp_path / "file" / "cache")


def test_the_end_of_a_lease_removes_its_checkouts_only(tmp_path: pathlib.Path) -> None:
    root = tmp_path / "cache"
    mine, other = Lease(root), Lease(root)
    for lease in (mine, other):
        (lease.folder / "1" / "m").mkdir(parents=True)
    mine.close()
    mine.close()
    assert [path.name for path in sorted((root / "servers").iterdir())] == [
        other.folder.name,
        other.folder.name + ".lock",
    ]


def test_a_file_system_without_hard_links_gets_copies(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "link", fail)
    client = FakeClient(**{"m/1/x": b"content"})
    for _ in range(2):
        folder = make_store(client, tmp_path).checkout("m").folder
        assert (folder / "1" / "x").read_bytes() == b"content"
    assert client.reads["m/1/x"] == 2


def test_a_full_disk_in_the_middle_of_a_download_is_named(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    store = make_store(FakeClient(**{"m/1/x": b"content"}), tmp_path)
    with pytest.raises(InferenceError, match=r"the disk of the cache folder .* is full"):
        store.checkout("m")
    assert not list((tmp_path / "objects").iterdir())
    wait_until(lambda: not list((tmp_path / "servers").glob("*/*")))

"""Connections that break, stall and corrupt, between the client and a real server: a download ends, complete and right or with a reason."""

import collections.abc
import contextlib
import pathlib
import random
import threading

import pytest

from naiad.repository.stores.address import parse
from naiad.repository.stores.clients import s3
from naiad.repository.stores.clients.s3 import S3Client
from naiad.repository.stores.object_store import ObjectStore
from naiad.repository.stores.objects import StoreError
from tests.stores.conftest import Bucket
from tests.stores.fakes import make_store
from tests.stores.proxy import Proxy

CONTENT = random.Random(1).randbytes(3_000_000)
RANGE = 400_000


@pytest.fixture
def model(bucket: Bucket) -> Bucket:
    bucket.put("m/1/model.onnx", CONTENT)
    bucket.put("m/config.pbtxt", b"config")
    return bucket


def through(proxy: Proxy, model: Bucket, root: pathlib.Path) -> ObjectStore:
    client = S3Client(parse(proxy.address(f"{model.name}/models")))
    store = make_store(client, root, range_bytes=RANGE)  # type: ignore[arg-type]  # an ObjectClient, too
    store.names()
    store.fingerprint("m")
    return store


def check(store: ObjectStore, root: pathlib.Path) -> None:
    """A checkout is right, and what is in the cache is complete."""
    folder = store.checkout("m").folder
    assert (folder / "1" / "model.onnx").read_bytes() == CONTENT
    assert sorted(path.stat().st_size for path in (root / "objects").iterdir()) == [6, len(CONTENT)]


def test_connections_that_break_are_resumed(model: Bucket, tmp_path: pathlib.Path) -> None:
    broken = list[int]()

    def cut(piece: bytes, offset: int, connection: int) -> bytes | None:
        if offset > 100_000 and len(broken) < 10:
            broken.append(connection)
            return None
        return piece

    with Proxy(model.server.port) as proxy:
        store = through(proxy, model, tmp_path)
        proxy.change = cut
        check(store, tmp_path)
        assert len(broken) == 10
        assert proxy.received < 2 * len(CONTENT), "what has arrived is not downloaded again"


def test_a_corrupted_range_is_found_by_its_checksum(model: Bucket, tmp_path: pathlib.Path) -> None:
    corrupted = list[int]()

    def corrupt(piece: bytes, offset: int, connection: int) -> bytes | None:
        if offset > 50_000 and not corrupted:
            corrupted.append(connection)
            return piece[:-1] + bytes([piece[-1] ^ 1])
        return piece

    with Proxy(model.server.port) as proxy:
        store = through(proxy, model, tmp_path)
        proxy.change = corrupt
        check(store, tmp_path)
        assert corrupted


def test_a_connection_that_stalls_is_given_up_and_resumed(
    model: Bucket, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(s3._TIMEOUTS, "read_timeout", 0.5)
    stalled = threading.Event()

    def stall(piece: bytes, offset: int, connection: int) -> bytes | None:
        if offset > 100_000 and not stalled.is_set():
            stalled.set()
            proxy.hold()
        return piece

    with Proxy(model.server.port) as proxy:
        store = through(proxy, model, tmp_path)
        proxy.change = stall
        check(store, tmp_path)
        assert stalled.is_set()


def test_a_store_that_goes_away_is_an_error_and_leaves_nothing(
    model: Bucket, tmp_path: pathlib.Path
) -> None:
    with Proxy(model.server.port) as proxy:
        store = through(proxy, model, tmp_path)
        proxy.change = lambda piece, offset, connection: None
        proxy.cut()
        with pytest.raises(
            StoreError, match=r"no connection to http://127.0.0.1:.*, or it broke"
        ) as caught:
            store.checkout("m")
        assert caught.value.retry
        assert not list((tmp_path / "objects").iterdir())
        proxy.change = lambda piece, offset, connection: piece
        check(store, tmp_path)


Fault = collections.abc.Callable[[bytes, random.Random], bytes | None]


def _dropped(piece: bytes, chance: random.Random) -> bytes | None:
    return None if chance.random() < 0.1 else piece


def _cut_short(piece: bytes, chance: random.Random) -> bytes | None:
    return piece[: chance.randrange(len(piece))] if chance.random() < 0.02 else piece


def _corrupted(piece: bytes, chance: random.Random) -> bytes | None:
    if chance.random() > 0.01:
        return piece
    place = chance.randrange(len(piece))
    return piece[:place] + bytes([piece[place] ^ (1 << chance.randrange(8))]) + piece[place + 1 :]


def _repeated(piece: bytes, chance: random.Random) -> bytes | None:
    return piece * 2 if chance.random() < 0.02 else piece


@pytest.mark.stores
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("fault", [_dropped, _cut_short, _corrupted, _repeated])
def test_whatever_happens_to_responses_a_checkout_is_right_or_fails_and_the_next_one_is_right(
    model: Bucket, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, fault: Fault, seed: int
) -> None:
    monkeypatch.setitem(s3._TIMEOUTS, "read_timeout", 1)
    chance = random.Random(seed)
    with Proxy(model.server.port) as proxy:
        store = through(proxy, model, tmp_path)
        proxy.change = lambda piece, offset, connection: fault(piece, chance)
        with contextlib.suppress(StoreError):
            check(store, tmp_path)
        proxy.change = lambda piece, offset, connection: piece
        store.names()
        check(store, tmp_path)

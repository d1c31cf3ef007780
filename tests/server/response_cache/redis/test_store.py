"""The store in Redis, with a real redis-server: entries that servers share, and a Redis that is dead, slow or refuses."""

import asyncio
import collections.abc
import contextlib
import logging
import pathlib
import socket
import subprocess
import time

import pytest

from naiad.core.clock import SystemClock
from naiad.core.response import InferResponse
from naiad.response_cache.entry import CachedResponse, entry_of
from naiad.response_cache.redis.store import RedisStore
from naiad.response_cache.settings import RedisSettings
from naiad.response_cache.store import Inserted
from tests.server.backends.configs import tensor
from tests.stores.ports import free_port
from tests.support.waiting import TIMEOUT_S, until

ENTRY = entry_of(InferResponse("m", 1, "", [tensor("Y", [[1.0, 2.0]])], {}))
KEY = b"k" * 16


class Redis:
    """A redis-server in memory."""

    def __init__(self, folder: pathlib.Path, *options: str) -> None:
        self.port = free_port()
        self.options = options
        self.folder = folder
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            [
                "redis-server", f"--port {self.port}", "--bind 127.0.0.1", "--save ''", "--appendonly no", f"--dir {self.folder}",
                *self.options,
            ],
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
        end = time.monotonic() + TIMEOUT_S
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                return
            assert self.process.poll() is None, "redis-server has ended"
            assert time.monotonic() < end, "redis-server does not start"
            time.sleep(0.02)

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


@pytest.fixture
def redis(tmp_path: pathlib.Path) -> collections.abc.Iterator[Redis]:
    server = Redis(tmp_path)
    yield server
    server.stop()


@contextlib.asynccontextmanager
async def store_at(port: int, **more: object) -> collections.abc.AsyncIterator[RedisStore]:
    """A store that waits long for Redis, which a busy machine makes slow, unless `more` says how long."""
    given = {"socket_timeout_ms": 30_000, "connect_timeout_ms": 30_000, **more}
    settings = RedisSettings(host="127.0.0.1", port=port, **given)  # type: ignore[arg-type]  # settings by name
    store = RedisStore(settings, clock=SystemClock())
    await store.start()
    try:
        yield store
    finally:
        await store.close()


async def found(store: RedisStore, key: bytes = KEY) -> CachedResponse | None:
    got: asyncio.Future[CachedResponse | None] = asyncio.get_running_loop().create_future()
    store.look_up("m", key, got.set_result)
    return await asyncio.wait_for(got, TIMEOUT_S)


async def test_servers_share_entries(redis: Redis) -> None:
    async with store_at(redis.port) as one, store_at(redis.port) as other:
        assert await found(one) is None
        assert one.insert("m", KEY, ENTRY) is Inserted.NEW
        assert await found(one) is not None
        entry = await found(other)
        assert entry is not None
        assert entry.outputs[0].array.tolist() == [[1.0, 2.0]]
        one.forget("m")
        assert await found(other) is not None


async def test_many_look_ups_share_a_connection_and_keep_their_order(redis: Redis) -> None:
    async with store_at(redis.port) as store:
        for number in range(50):
            entry = entry_of(InferResponse("m", 1, "", [tensor("Y", [number])], {}))
            store.insert("m", bytes([number]), entry)
        entries = await asyncio.gather(*(found(store, bytes([n])) for n in range(60)))
        assert [each and each.outputs[0].array.tolist() for each in entries] == [
            *([number] for number in range(50)), *[None] * 10
        ]  # fmt: skip


async def test_large_entries(redis: Redis) -> None:
    large = entry_of(InferResponse("m", 1, "", [tensor("Y", list(range(500_000)))], {}))
    async with store_at(redis.port) as store:
        store.insert("m", KEY, large)
        entry = await found(store)
        assert entry is not None
        assert entry.outputs[0].array[-1] == 499_999


async def test_a_redis_that_dies_costs_one_warning_and_no_request_and_is_used_again(
    redis: Redis, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with store_at(redis.port) as store:
        store.insert("m", KEY, ENTRY)
        redis.stop()
        for _ in range(20):
            assert await found(store) is None
            assert store.insert("m", KEY, ENTRY) is Inserted.NEW
        assert caplog.text.count("does not respond") == 1
        redis.start()
        await until(lambda: "responds again" in caplog.text)
        store.insert("m", KEY, ENTRY)
        assert await found(store) is not None
    assert caplog.text.count("does not respond") == 1


async def test_no_redis_at_the_start_is_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    async with store_at(free_port()) as store:
        at_once: list[CachedResponse | None] = []
        for _ in range(1_000):
            store.look_up("m", KEY, at_once.append)
        assert at_once == [None] * 1_000
    assert caplog.text.count("does not respond") == 1


async def test_a_redis_that_hangs_costs_its_time_limit_once(
    redis: Redis, caplog: pytest.LogCaptureFixture
) -> None:
    async with store_at(redis.port, socket_timeout_ms=20) as store:
        assert redis.process is not None
        redis.process.send_signal(19)  # SIGSTOP
        assert await asyncio.gather(*(found(store) for _ in range(10))) == [None] * 10
        at_once: list[CachedResponse | None] = []
        store.look_up("m", KEY, at_once.append)
        assert at_once == [None]
    assert "no reply within 20 ms" in caplog.text


async def test_a_busy_loop_does_not_count_against_redis(
    redis: Redis, caplog: pytest.LogCaptureFixture
) -> None:
    async with store_at(redis.port, socket_timeout_ms=500) as store:
        store.insert("m", KEY, ENTRY)
        for _ in range(2):
            got: list[CachedResponse | None] = []
            store.look_up("m", KEY, got.append)
            time.sleep(0.6)  # noqa: ASYNC251 - that is what a busy loop does
            await until(lambda got=got: bool(got))  # type: ignore[misc]  # its own list
            assert got != [None]
    assert not caplog.text


async def test_a_password_and_a_database(tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:  # fmt: skip
    server = Redis(tmp_path, "--requirepass secret")
    try:
        async with store_at(server.port, password="secret", db=3) as store:
            store.insert("m", KEY, ENTRY)
            assert await found(store) is not None
        async with store_at(server.port, password="secret", db=4) as store:
            assert await found(store) is None
        assert not caplog.text
        async with store_at(server.port, password="wrong") as store:
            assert await found(store) is None
        assert "WRONGPASS" in caplog.text or "invalid" in caplog.text
    finally:
        server.stop()


async def test_a_redis_without_memory_is_not_asked(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = Redis(tmp_path, "--maxmemory 1", "--maxmemory-policy noeviction")
    try:
        async with store_at(server.port) as store:
            for _ in range(3):
                store.insert("m", KEY, ENTRY)
                await found(store)
        assert caplog.text.count("it refuses an entry: OOM") == 1
    finally:
        server.stop()


@pytest.mark.parametrize("said", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"+PONG\r\n+PONG\r\n"])
async def test_another_server_is_given_up(said: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(said)
        with contextlib.suppress(OSError):
            await writer.drain()
        await reader.read(100)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with store_at(port) as store:
        await until(lambda: "does not respond" in caplog.text)
        assert await found(store) is None
    server.close()


async def test_an_entry_of_something_else_is_a_miss_and_logged_once(
    redis: Redis, caplog: pytest.LogCaptureFixture
) -> None:
    async with store_at(redis.port) as store:
        for key in (KEY, b"other"):
            with socket.create_connection(("127.0.0.1", redis.port)) as other:
                other.sendall(b"SET naiad:%s rubbish\r\n" % key.hex().encode())
                assert other.recv(100) == b"+OK\r\n"
            assert await found(store, key) is None
    assert caplog.text.count("has an entry that cannot be read") == 1


async def test_tls(tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    tls = pathlib.Path(__file__).parents[3] / "conformance" / "tls"
    certificate, key = tls / "server.pem", tls / "server.key"
    port = free_port()
    server = Redis(
        tmp_path,
        f"--tls-port {port}",
        f"--tls-cert-file {certificate}",
        f"--tls-key-file {key}",
        f"--tls-ca-cert-file {certificate}",
        "--tls-auth-clients no",
    )
    try:
        await until(lambda: not _refused(port))
        settings = {"tls": True, "cacert": str(certificate), "sni": "localhost"}
        async with store_at(port, **settings) as store:
            store.insert("m", KEY, ENTRY)
            assert await found(store) is not None
        assert not caplog.text
        async with store_at(port, tls=True) as store:
            assert await found(store) is None
        assert "CERTIFICATE_VERIFY_FAILED" in caplog.text
    finally:
        server.stop()


def _refused(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return True
    return False

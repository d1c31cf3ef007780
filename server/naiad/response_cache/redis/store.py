"""The store in Redis, which several servers may share: a request waits for it 20 ms at most, and not at all while it does not respond.

The entries of a model version have a key of its name, its version and the identity of its files, so that servers which loaded the same files share
them, and no server finds those of other files. They are not deleted when the model is unloaded: Redis drops them by its own policy (`maxmemory`).
"""

import asyncio
import functools
import logging
import ssl

from naiad.core.clock import Clock
from naiad.core.timeouts import timeout
from naiad.response_cache.entry import CachedResponse, from_bytes, to_bytes
from naiad.response_cache.redis.breaker import Circuit, CircuitBreaker
from naiad.response_cache.redis.connection import RedisConnection
from naiad.response_cache.redis.resp import Reply, ReplyError
from naiad.response_cache.settings import RedisSettings
from naiad.response_cache.store import Inserted, OnFound

_log = logging.getLogger(__name__)

LARGEST_BYTES = 1 << 24
"""Larger entries are not sent to Redis."""

_MOST_UNSENT = 1 << 25
"""While so many bytes wait to be sent, further entries are not kept."""

_PREFIX = b"naiad:"
_NS_PER_MS = 1_000_000
_NS_PER_SECOND = 1e9


class RedisStore:
    """Implements `ResponseStore`.

    Args:
        settings: where it is.
        clock: gives the time.
    """

    shared = True

    def __init__(self, settings: RedisSettings, *, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._where = f"{settings.host}:{settings.port}"
        self._breaker = CircuitBreaker()
        self._connection: RedisConnection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._closed = False
        self._broken_entry_logged = False

    def look_up(self, owner: str, key: bytes, on_found: OnFound) -> None:
        """See `ResponseStore`."""
        connection = self._connection
        if connection is None or self._breaker.state is not Circuit.CLOSED:
            on_found(None)
            return
        connection.send(
            b"GET", _PREFIX + key.hex().encode(), on_reply=functools.partial(self._got, on_found)
        )

    def _got(self, on_found: OnFound, reply: Reply) -> None:
        entry: CachedResponse | None = None
        if isinstance(reply, bytes):
            try:
                entry = from_bytes(reply)
            except ValueError as error:
                if not self._broken_entry_logged:
                    self._broken_entry_logged = True
                    _log.warning(
                        "the response cache in Redis at %s has an entry that cannot be read: %s; this is logged once",
                        self._where,
                        error,
                    )
        on_found(entry)

    def insert(self, owner: str, key: bytes, entry: CachedResponse) -> Inserted:
        """See `ResponseStore`."""
        connection = self._connection
        if connection is None or self._breaker.state is not Circuit.CLOSED:
            return Inserted.NEW
        if connection.unsent > _MOST_UNSENT:
            return Inserted.NEW
        try:
            data = to_bytes(entry)
        except TypeError:  # a parameter that JSON does not have
            return Inserted.TOO_LARGE
        limit_ns = self._settings.socket_timeout_ms * _NS_PER_MS + 10 * len(data)  # 100 MB/s
        connection.send(
            b"SET", _PREFIX + key.hex().encode(), data, on_reply=self._set, limit_ns=limit_ns
        )
        return Inserted.NEW

    def _set(self, reply: Reply) -> None:
        if isinstance(reply, ReplyError) and self._breaker.state is Circuit.CLOSED:
            # Out of memory, or a replica that only reads: look-ups would work, but nothing new would ever be found.
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()
            self._on_broken(f"it refuses an entry: {reply}")

    def accepts(self, size: int) -> bool:
        """See `ResponseStore`."""
        return size <= LARGEST_BYTES

    def forget(self, owner: str) -> None:
        """See `ResponseStore`: no server finds them any more, unless it loads the same files."""

    async def start(self) -> None:
        """See `ResponseStore`."""
        await self._connect()

    async def close(self) -> None:
        """See `ResponseStore`."""
        self._closed = True
        if self._retry is not None:
            self._retry.cancel()
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.gather(self._connecting, return_exceptions=True)
        if self._connection is not None:
            self._connection.close()

    def _try_again(self) -> None:
        self._retry = None
        self._connecting = asyncio.get_running_loop().create_task(self._connect())

    async def _connect(self) -> None:
        settings = self._settings
        connection: RedisConnection | None = None
        try:
            async with timeout(settings.connect_timeout_ms / 1_000):
                loop = asyncio.get_running_loop()
                context = await asyncio.to_thread(_tls, settings) if settings.tls else None
                _, connection = await loop.create_connection(
                    self._new_connection,
                    settings.host,
                    settings.port,
                    ssl=context,
                    server_hostname=(settings.sni or settings.host) if context else None,
                )
                await self._greet(connection)
                if not connection.is_open:
                    raise ReplyError("the connection broke")  # noqa: TRY301 - as one that broke before
        except asyncio.CancelledError:
            if connection is not None:
                connection.close()
            raise
        except (OSError, TimeoutError, ReplyError, ValueError) as error:
            if connection is not None:
                connection.close()
            limit = f"no connection within {settings.connect_timeout_ms} ms"
            self._on_broken(limit if isinstance(error, TimeoutError) else str(error))
            return
        self._connection = connection
        if self._breaker.responded():
            _log.warning("the response cache in Redis at %s responds again", self._where)
        else:
            _log.info("the response cache is in Redis at %s", self._where)

    def _new_connection(self) -> RedisConnection:
        return RedisConnection(
            limit_ns=self._settings.socket_timeout_ms * _NS_PER_MS,
            on_broken=self._connection_broken,
            clock=self._clock,
        )

    def _connection_broken(self, why: str) -> None:
        if self._connection is not None:  # else it has not been greeted, and `_connect` reports it
            self._connection = None
            self._on_broken(why)

    async def _greet(self, connection: RedisConnection) -> None:
        """Log in and choose the database.

        Raises:
            ReplyError: Redis refuses that, or does not respond.
        """
        settings = self._settings
        if settings.password:
            user = [settings.user.encode()] if settings.user else []
            await self._ask(connection, b"AUTH", *user, settings.password.encode())
        if settings.db:
            await self._ask(connection, b"SELECT", str(settings.db).encode())
        await self._ask(connection, b"PING")

    async def _ask(self, connection: RedisConnection, *arguments: bytes) -> None:
        replied: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()

        def on_reply(reply: Reply) -> None:
            if not replied.done():
                replied.set_result(reply)

        limit_ns = self._settings.connect_timeout_ms * _NS_PER_MS
        connection.send(*arguments, on_reply=on_reply, limit_ns=limit_ns)
        reply = await replied
        if isinstance(reply, ReplyError):
            raise reply
        if reply is None:
            raise ReplyError("the connection broke")

    def _on_broken(self, why: str) -> None:
        """Redis does not respond: requests do not ask it, until a try succeeds."""
        now_ns = self._clock.monotonic_ns()
        if self._breaker.failed(now_ns):
            _log.warning(
                "the response cache in Redis at %s does not respond: %s. Requests are executed without it until it does",
                self._where,
                why,
            )
        if self._closed or self._retry is not None:
            return
        wait = (self._breaker.retry_at_ns - now_ns) / _NS_PER_SECOND
        self._retry = asyncio.get_running_loop().call_later(wait, self._try_again)


def _tls(settings: RedisSettings) -> ssl.SSLContext:
    """The TLS settings of a connection. Blocking: reads files.

    Raises:
        OSError: a file cannot be read.
    """
    context = ssl.create_default_context(
        cafile=settings.cacert or None, capath=settings.cacertdir or None
    )
    if settings.cert:
        context.load_cert_chain(settings.cert, settings.key)
    return context

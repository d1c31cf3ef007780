"""One connection to Redis: commands in a row, their replies in the same order, each within a time limit. No task per command."""

import asyncio
import collections
import collections.abc
import typing

from typing_extensions import override

from naiad.core.clock import Clock
from naiad.response_cache.redis.resp import Reply, ReplyParser, command

OnReply = collections.abc.Callable[[Reply], None]
"""Called with the reply; with a `ReplyError` also if there is none, because the connection broke."""

_NS_PER_SECOND = 1e9
_LAST_LOOK_S = 0.001


class RedisConnection(asyncio.Protocol):
    """A connection.

    Args:
        limit_ns: how long a reply may take.
        on_broken: called once when the connection cannot be used any more, after every command without a reply got None.
        clock: gives the time.

    Attributes:
        is_open: whether commands can be sent.
    """

    def __init__(
        self, *, limit_ns: int, on_broken: collections.abc.Callable[[str], None], clock: Clock
    ) -> None:
        self._limit_ns = limit_ns
        self._on_broken = on_broken
        self._now = clock.monotonic_ns
        self._loop = asyncio.get_running_loop()
        self._parser = ReplyParser()
        self._pending = collections.deque[tuple[int, OnReply]]()
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0
        self._late = False
        self._transport: asyncio.Transport | None = None
        self.is_open = False

    @property
    def unsent(self) -> int:
        """Bytes of commands that wait to be sent."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def send(self, *arguments: bytes, on_reply: OnReply, limit_ns: int = 0) -> None:
        """Send a command; `on_reply` is called once. `limit_ns` replaces that of the connection.

        Without a reply within the limit the connection is given up: replies have no numbers, so that none of the later ones could be trusted.
        """
        transport = self._transport
        assert transport is not None
        deadline = self._now() + (limit_ns or self._limit_ns)
        self._pending.append((deadline, on_reply))
        transport.write(command(*arguments))
        if self._timer is None or deadline < self._due:
            self._watch(deadline)

    def close(self) -> None:
        """End it; `on_broken` is not called."""
        self._end("")

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        self._transport = typing.cast("asyncio.Transport", transport)
        self.is_open = True

    @override
    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        try:
            for reply in self._parser.feed(data):
                if not self._pending:
                    raise ValueError("a reply to no command")  # noqa: TRY301 - as one that is not valid
                _, on_reply = self._pending.popleft()
                on_reply(reply)
        except ValueError as error:
            self._end(f"it sent something else than a reply: {error}")

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self._end(f"the connection broke: {exc}" if exc else "it closed the connection")

    def _watch(self, deadline: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._due = deadline
        wait = max(0, deadline - self._now()) / _NS_PER_SECOND
        self._timer = self._loop.call_later(wait, self._check)

    def _check(self) -> None:
        self._timer = None
        if not self._pending:
            self._late = False
            return
        deadline = min(due for due, _ in self._pending)
        if deadline > self._now():
            self._late = False
            self._watch(deadline)
            return
        if not self._late:
            # The loop may have been busy, with the reply in the socket: it reads before the next timer.
            self._late = True
            self._timer = self._loop.call_later(_LAST_LOOK_S, self._check)
            return
        self._end(f"no reply within {self._limit_ns // 1_000_000} ms")

    def _end(self, why: str) -> None:
        if not self.is_open:
            return
        self.is_open = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._transport is not None:
            self._transport.abort()
        pending, self._pending = self._pending, collections.deque()
        if why:
            self._on_broken(why)
        for _, on_reply in pending:
            on_reply(None)

"""The time limits of commands on one connection, in virtual time."""

import asyncio
import unittest.mock

import pytest

from naiad.response_cache.redis.connection import RedisConnection
from naiad.response_cache.redis.resp import Reply
from tests.support.clock import LoopClock

_MS = 1_000_000


@pytest.mark.looptime
async def test_a_short_limit_counts_beside_a_longer_one_that_began_before() -> None:
    loop = asyncio.get_running_loop()
    broken: list[tuple[float, str]] = []
    replies: list[Reply] = []
    connection = RedisConnection(
        limit_ns=20 * _MS,
        on_broken=lambda why: broken.append((loop.time(), why)),
        clock=LoopClock(loop),
    )
    connection.connection_made(unittest.mock.Mock(spec=asyncio.Transport))
    connection.send(b"PING", on_reply=replies.append, limit_ns=30_000 * _MS)
    connection.data_received(b"+PONG\r\n")
    connection.send(b"GET", b"key", on_reply=replies.append)
    await asyncio.sleep(60)
    [(when, why)] = broken
    assert 0.02 <= when < 0.03
    assert why == "no reply within 20 ms"
    assert replies == [b"PONG", None]

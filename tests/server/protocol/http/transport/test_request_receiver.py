"""What reaches the receiver in any pieces, and in any shape: identical replies, or an answer or a close; never an exception."""

import asyncio
import collections.abc
import itertools
import logging

import pytest
from hypothesis import given, strategies as st

from naiad.protocol.http.transport.service import HttpSettings
from tests.server.protocol.http.scripted import (
    Client,
    SilentLog,
    post,
    read_replies,
    request,
    settle,
)

SETTINGS = HttpSettings(max_pipelined=3, max_chunks=20, body_high_bytes=16, max_line_bytes=300)


def chunked(path: str, pieces: list[bytes]) -> bytes:
    """A POST request with one chunk a piece."""
    body = b"".join(b"%X\r\n%b\r\n" % (len(piece), piece) for piece in pieces if piece)
    return request("POST", path, "Transfer-Encoding: chunked") + body + b"0\r\n\r\n"


paths = st.sampled_from(["/echo", "/app", "/%65cho?x=1", "/unknown/path"])
bodies = st.binary(max_size=60)
valid_requests = st.one_of(
    st.builds(post, paths, bodies),
    st.builds(chunked, paths, st.lists(bodies, max_size=5)),
    st.builds(request, st.sampled_from(["GET", "DELETE", "OPTIONS"]), paths),
    st.builds(post, paths, bodies, st.just("Upgrade: h2c"), st.just("Connection: upgrade")),
    st.just(post("/echo", b"same each time")),
    st.just(b"\r\n" + post("/echo", b"after an empty line")),
)
streams = st.lists(valid_requests, min_size=1, max_size=6).map(b"".join)
cuts = st.lists(st.integers(min_value=0, max_value=2000), max_size=12)


def split(data: bytes, at: collections.abc.Iterable[int]) -> list[bytes]:
    """`data` in pieces, cut at these places (taken modulo its length)."""
    places = sorted({0, len(data), *(place % (len(data) + 1) for place in at)})
    pieces = [data[start:end] for start, end in itertools.pairwise(places)]
    return [piece for piece in pieces if piece]


async def converse(pieces: list[bytes]) -> Client:
    """Send the pieces as a kernel would: only while the server reads. Then end the stream, and let all finish."""
    client = Client(settings=SETTINGS)
    for piece in pieces:
        for _ in range(200):
            if client.is_reading() or client.is_closed():
                break
            await settle()
        client.send(piece)
    for _ in range(6):
        await settle()
    return client


@given(stream=streams, at=cuts)
@pytest.mark.slow
def test_replies_do_not_depend_on_how_the_stream_was_cut(stream: bytes, at: list[int]) -> None:
    whole = asyncio.run(converse([stream]))
    parts = asyncio.run(converse(split(stream, at)))
    assert whole.transport.sent == parts.transport.sent
    assert [asked.body for asked in whole.routes.requests] == [
        asked.body for asked in parts.routes.requests
    ]
    assert not whole.has_ended()
    assert not parts.has_ended()


def mutate(stream: bytes, edits: list[tuple[int, int, bytes]]) -> bytes:
    """Replace stretches of a stream with other bytes."""
    data = bytearray(stream)
    for place, length, new in edits:
        start = place % (len(data) + 1)
        data[start : start + length] = new
    return bytes(data)


snippets = st.one_of(
    st.binary(max_size=8),
    st.sampled_from(
        [
            b"\r\n",
            b"\n",
            b"\r\n\r\n",
            b"Transfer-Encoding: chunked\r\n",
            b"Content-Length: 5\r\n",
            b"content-length: -1\r\n",
            b"Expect: 100-continue\r\n",
            b"Connection: close\r\n",
            b"HTTP/1.0",
            b"0\r\n",
            b"FFFFFFFFFFFFFFFF\r\n",
            b"CONNECT ",
            b"*",
            b"http://[",
            b"%ff%00",
            b"x" * 400,
        ]
    ),
)
edits = st.lists(
    st.tuples(st.integers(0, 3000), st.integers(0, 12), snippets), min_size=1, max_size=6
)


@given(
    garbage=st.one_of(st.builds(mutate, streams, edits), st.binary(min_size=1, max_size=200)),
    at=cuts,
)
def test_garbage_is_answered_or_the_connection_closed_and_nothing_raises(
    garbage: bytes, at: list[int]
) -> None:
    log = SilentLog()
    logging.getLogger("naiad").addHandler(log)
    try:
        asyncio.run(_garbage(garbage, at))
    finally:
        logging.getLogger("naiad").removeHandler(log)
    assert log.messages == []


async def _garbage(garbage: bytes, at: list[int]) -> None:
    client = await converse(split(garbage, at))
    complete = client.is_closed() or not client.connection.eof_received()
    if not complete:
        await settle()
    assert complete or client.is_closed(), "the client ended and the server did not"
    if b"HEAD" not in garbage:
        for reply in read_replies(bytes(client.transport.sent)):
            assert reply.status in (100, 200, 204, 400, 408, 414, 417, 431, 501, 505)

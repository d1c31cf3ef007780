"""Remembered header blocks: bounded, and right also where a header differs with every request."""

import pytest
from hypothesis import given, strategies as st

from naiad.protocol.http.message import SpelledHeaders
from naiad.protocol.http.transport.framing import HttpError
from naiad.protocol.http.transport.head import RequestHead, parse_head
from naiad.protocol.http.transport.head_cache import HeadCache
from tests.server.protocol.http.scripted import Client, post

BLOCK = b"POST /v2/models/m/infer HTTP/1.1\r\nHost: h\r\nContent-Length: 7\r\n\r\n"


def traced(number: int, *, name: str = "traceparent", length: int = 7) -> bytes:
    """A block as a service mesh sends it."""
    return (
        f"POST /v2/models/m/infer HTTP/1.1\r\nHost: h\r\n{name}: 00-{number:032x}-01\r\n"
        f"Content-Length: {length}\r\nX-Request-Id: id-{number}\r\nUser-Agent: u\r\n\r\n"
    ).encode()


def seasoned() -> HeadCache:
    """A cache that has seen a hundred requests of a service mesh."""
    cache = HeadCache(entries=1024, entry_bytes=2048)
    for number in range(100):
        cache.learn(traced(number))
    return cache


def test_the_cache_keeps_plain_short_heads_and_stays_bounded() -> None:
    cache = HeadCache(entries=2, entry_bytes=100)
    cache.remember(b"chunked", parse_head(b"PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"))
    cache.remember(b"x" * 101, parse_head(BLOCK))
    assert len(cache) == 0
    for block in (b"1", b"2", b"3"):
        cache.remember(block, parse_head(BLOCK))
    assert list(cache.known) == [b"3"]


def test_a_cache_of_no_entries_remembers_nothing() -> None:
    cache = HeadCache(entries=0, entry_bytes=100)
    cache.remember(BLOCK, parse_head(BLOCK))
    assert len(cache) == 0


def test_headers_that_differ_with_every_request_need_no_entries_of_their_own() -> None:
    cache = seasoned()
    assert cache.varying == {b"traceparent", b"x-request-id"}
    size = len(cache)
    assert size < 100
    bases = set[RequestHead]()
    for number in range(1000, 6000):
        head, base = cache.learn(traced(number))
        assert head is not None
        assert base is not None
        assert head.headers[b"traceparent"] == f"00-{number:032x}-01".encode()
        assert head.headers[b"x-request-id"] == f"id-{number}".encode()
        bases.add(base)
    assert len(cache) <= size + 1
    assert len(bases) == 1


def test_what_decides_a_request_is_never_cut_out() -> None:
    cache = HeadCache(entries=1024, entry_bytes=2048)
    for number in range(200):
        cache.learn(BLOCK.replace(b"Host: h", b"Host: %d" % number))
        cache.learn(BLOCK.replace(b": 7", b": %d" % number))
        cache.learn(BLOCK.replace(b"Host", b"Inference-Header-Content-Length: %d\r\nHost" % number))
    assert cache.varying == set()


def test_headers_that_a_client_makes_up_do_not_grow_the_cache() -> None:
    cache = HeadCache(entries=100, entry_bytes=2048)
    for name in range(40):
        for number in range(50):
            cache.learn(traced(number, name=f"X-Made-Up-{name}"))
    assert len(cache.varying) <= 16
    assert len(cache) <= 100
    for name in range(5000):
        cache.learn(traced(0, name=f"X-{name}"))
    assert len(cache) <= 100
    assert len(cache._last) <= 512


def test_clients_with_headers_of_their_own_that_stay_are_remembered_whole() -> None:
    cache = HeadCache(entries=1024, entry_bytes=2048)
    blocks = [
        BLOCK.replace(b"Host: h", b"Host: h\r\nUser-Agent: %d" % client) for client in range(20)
    ]
    for _ in range(50):
        for block in blocks:
            if block not in cache.known:
                cache.learn(block)
    assert cache.varying == set()
    assert len(cache) == 20


def seen(block: bytes, cache: HeadCache | None) -> object:
    """What a block means, comparable."""
    try:
        head = parse_head(block) if cache is None else cache.read(block)[0]
    except HttpError as refusal:
        return refusal.status
    spelling = head.headers.spelling if isinstance(head.headers, SpelledHeaders) else {}
    rest = (
        head.method,
        head.path,
        head.target,
        head.length,
        head.minor,
        head.keep_alive,
        head.plain,
    )
    return (rest, dict(head.headers), spelling)


_NAMES = st.sampled_from(
    ["traceparent", "TraceParent", "x-request-id", "X-Request-ID", "X-Other", "Connection"]
)
_VALUES = st.one_of(
    st.sampled_from(
        [
            "",
            " ",
            "a",
            "a b",
            " a\t",
            "a\r\n b",
            "a\r\n\tb",
            "a\nb",
            "a\rb",
            "a\x00b",
            "\xe9",
            "a: b",
            "close",
            "a\x7f",
            "\t",
        ]
    ),
    st.text(alphabet="ab \t:,\x1f\xff\r\n", max_size=8),
)
_LINES = st.lists(
    st.tuples(_NAMES, st.sampled_from([":", ": ", ":\t ", " : ", "::"]), _VALUES), max_size=5
)


@given(_LINES)
def test_a_block_means_the_same_whether_it_is_cut_or_parsed(
    lines: list[tuple[str, str, str]],
) -> None:
    cache = seasoned()
    text = "".join(f"{name}{colon}{value}\r\n" for name, colon, value in lines)
    block = (
        f"POST /v2/models/m/infer HTTP/1.1\r\nHost: h\r\n{text}Content-Length: 2\r\n\r\n".encode(
            "latin-1"
        )
    )
    parsed = seen(block, None)
    for _ in range(2):
        found = seen(block, cache)
        assert found == parsed


@pytest.mark.parametrize("name", ["TraceParent", "traceparent"])
async def test_requests_of_a_service_mesh_reach_their_handler_with_their_headers(name: str) -> None:
    client = Client()
    for number in range(200):
        client.send(post("/echo", b"body", f"{name}: {number}"))
        assert client.reply().body == b"body"
        headers = client.routes.requests[-1].headers
        assert headers[b"traceparent"] == b"%d" % number
    assert len(client.service.heads) < 60
    assert len(client.service.heads.handlers) < 60

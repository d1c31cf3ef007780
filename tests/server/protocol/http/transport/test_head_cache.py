"""Remembered header blocks: bounded, and right also where a header differs with every request."""

import pytest
from hypothesis import given, strategies as st

from naiad.protocol.http.message import HttpRequest, SpelledHeaders, spelling_of
from naiad.protocol.http.transport.framing import HttpError
from naiad.protocol.http.transport.head import RequestHead, parse_head
from naiad.protocol.http.transport.head_cache import HeadCache
from naiad.protocol.http.transport.head_template import PARTIAL, HeadTemplate
from tests.server.protocol.http.scripted import Client, ScriptedRoutes, entries, post

BLOCK = b"POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 7\r\n\r\n"


def traced(number: int, *, name: str = "traceparent", length: int = 7) -> bytes:
    """A block as a service mesh sends it."""
    return (
        f"POST /echo HTTP/1.1\r\nHost: h\r\n{name}: 00-{number:032x}-01\r\n"
        f"Content-Length: {length}\r\nX-Request-Id: id-{number}\r\nUser-Agent: u\r\n\r\n"
    ).encode()


def cache_of(*, entries: int = 1024, entry_bytes: int = 2048) -> HeadCache:
    """A new cache."""
    return HeadCache(ScriptedRoutes(), entries=entries, entry_bytes=entry_bytes)


def learn(cache: HeadCache, block: bytes) -> RequestHead:
    """What a connection does with a block that its last template does not fit."""
    cache.find(block, 2048)
    return cache.read(block)


def seasoned() -> HeadCache:
    """A cache that has seen a hundred requests of a service mesh with a header of its own."""
    cache = cache_of()
    for number in range(100):
        learn(cache, traced(number))
        learn(cache, traced(number, name="X-Mesh"))
    return cache


def test_the_cache_keeps_ordinary_short_heads_and_stays_bounded() -> None:
    cache = cache_of(entries=2, entry_bytes=100)
    learn(cache, b"PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
    learn(cache, b"HEAD / HTTP/1.1\r\n\r\n")
    learn(cache, b"GET / HTTP/1.0\r\n\r\n")
    learn(cache, b"PUT / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
    learn(cache, BLOCK.replace(b"Host: h", b"Host: %s" % (b"h" * 100)))
    assert len(cache) == 0
    for host in (b"1", b"2", b"3"):
        learn(cache, BLOCK.replace(b"Host: h", b"Host: " + host))
    assert len(cache) == 1


def test_a_cache_of_no_entries_remembers_nothing() -> None:
    cache = cache_of(entries=0)
    assert learn(cache, BLOCK).length == 7
    assert len(cache) == 0


def test_requests_that_differ_in_trace_ids_lengths_and_cookies_share_an_entry() -> None:
    cache = cache_of()
    for number in range(1, 1000):
        block = traced(number, length=number * 7).replace(
            b"User-Agent", b"Cookie: session=%d; theme=a b\r\nUser-Agent" % number
        )
        head = learn(cache, block)
        assert head.headers[b"traceparent"] == f"00-{number:032x}-01".encode()
        assert head.headers[b"x-request-id"] == f"id-{number}".encode()
        assert head.headers[b"cookie"] == b"session=%d; theme=a b" % number
        assert head.length == number * 7
    assert len(cache) == 1
    assert cache.varying == set()


def test_headers_that_nothing_is_known_of_and_that_always_change_need_no_entries_of_their_own() -> (
    None
):
    cache = seasoned()
    assert cache.varying == {b"x-mesh"}
    size = len(cache)
    assert size < 40
    for number in range(1000, 6000):
        assert (
            learn(cache, traced(number, name="X-Mesh")).headers[b"x-mesh"]
            == f"00-{number:032x}-01".encode()
        )
    assert len(cache) <= size + 1


def test_what_decides_a_request_is_never_cut_out() -> None:
    cache = cache_of()
    for number in range(200):
        learn(cache, BLOCK.replace(b"Host: h", b"Host: %d" % number))
        learn(cache, BLOCK.replace(b"Host", b"Accept: %d\r\nHost" % number))
        learn(cache, BLOCK.replace(b"Host", b"Content-Encoding: %d\r\nHost" % number))
    assert cache.varying == set()


@pytest.mark.slow
def test_headers_that_a_client_makes_up_do_not_grow_the_cache() -> None:
    cache = cache_of(entries=100)
    for name in range(40):
        for number in range(50):
            learn(cache, traced(number, name=f"X-Made-Up-{name}"))
    assert len(cache.varying) <= 16
    assert len(cache) <= 100
    for name in range(5000):
        learn(cache, traced(0, name=f"X-{name}"))
    assert len(cache) <= 100
    assert len(cache._last) <= 512


def test_clients_with_headers_of_their_own_that_stay_are_remembered_whole() -> None:
    cache = cache_of()
    blocks = [
        BLOCK.replace(b"Host: h", b"Host: h\r\nUser-Agent: %d" % client) for client in range(20)
    ]
    for _ in range(50):
        for block in blocks:
            learn(cache, block)
    assert cache.varying == set()
    assert len(cache) == 20


Meaning = tuple[bytes, str, dict[bytes, bytes], dict[bytes, bytes], int, bool]


def meaning(head: RequestHead) -> Meaning:
    """What a head says, comparable."""
    spelling = head.headers.spelling if isinstance(head.headers, SpelledHeaders) else {}
    return (head.method, head.path, dict(head.headers), spelling, head.length, head.keep_alive)


def parsed(block: bytes) -> Meaning | int:
    """What a block means, or the status of its refusal."""
    try:
        return meaning(parse_head(block))
    except HttpError as refusal:
        return refusal.status


def cached(block: bytes, cache: HeadCache) -> Meaning | int:
    """The same, through a cache."""
    try:
        return meaning(learn(cache, block))
    except HttpError as refusal:
        return refusal.status


def taken(data: bytes, template: HeadTemplate | None) -> HttpRequest | None:
    """The request that the fast lane takes at once; None if it leaves it to a closer look."""
    request = None if template is None else template.read(data, 2048)
    return None if request is PARTIAL else request


_NAMES = st.sampled_from(
    [
        "traceparent",
        "TraceParent",
        "x-request-id",
        "X-Request-ID",
        "X-Mesh",
        "x-mesh",
        "Cookie",
        "X-Other",
        "Connection",
        "Content-Length",
        "content-length",
        "Inference-Header-Content-Length",
        "Transfer-Encoding",
        "Host",
    ]
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
            "chunked",
            "0",
            "2",
            "02",
            "+2",
            "2, 2",
            "2\r\nContent-Length: 3",
            "a\r\nTransfer-Encoding: chunked",
            "%0A",
            "9" * 19,
            "a\x7f",
            "\t",
        ]
    ),
    st.text(alphabet="ab \t:,\x1f\xff\r\n", max_size=8),
)
_LINES = st.lists(
    st.tuples(_NAMES, st.sampled_from([":", ": ", ":\t ", " : ", "::"]), _VALUES), max_size=5
)


def _block(lines: list[tuple[str, str, str]], length: str = "Content-Length: 2\r\n") -> bytes:
    text = "".join(f"{name}{colon}{value}\r\n" for name, colon, value in lines)
    return f"POST /echo HTTP/1.1\r\nHost: h\r\n{text}{length}\r\n".encode("latin-1")


@given(_LINES, st.sampled_from(["Content-Length: 2\r\n", ""]))
@pytest.mark.slow
def test_a_block_means_the_same_whether_it_is_cut_or_parsed(
    lines: list[tuple[str, str, str]], length: str
) -> None:
    cache, block = seasoned(), _block(lines, length)
    expected = parsed(block)
    for _ in range(2):
        assert cached(block, cache) == expected


@given(st.lists(_LINES, min_size=2, max_size=6))
@pytest.mark.slow
def test_no_block_changes_what_another_one_means(
    blocks: list[list[tuple[str, str, str]]],
) -> None:
    cache = seasoned()
    for lines in (*blocks, *blocks):
        assert cached(_block(lines), cache) == parsed(_block(lines))


@given(_LINES, _LINES, st.sampled_from([b"", b"ab", b"abc", b"ab\r\n\r\n"]))
@pytest.mark.slow
def test_the_fast_lane_takes_no_request_that_a_parse_reads_differently(
    known: list[tuple[str, str, str]], lines: list[tuple[str, str, str]], body: bytes
) -> None:
    cache = seasoned()
    template = cache.find(_block(known), 2048)
    for data in (_block(known) + body, _block(lines) + body):
        for found in (template, cache.find(data, 2048)):
            request = taken(data, found)
            if request is not None:
                assert found is not None
                end = data.index(b"\r\n\r\n") + 4
                head = parse_head(data[:end])
                assert request.headers == head.headers
                assert request.body == data[end:]
                assert len(request.body) == head.length
                assert meaning(found.head)[:2] == (head.method, head.path)
                assert found.head.keep_alive is head.keep_alive


@pytest.mark.parametrize(
    "changed",
    [
        b"Content-Length: 7\r\nContent-Length: 7",
        b"Content-Length: 7\r\nTransfer-Encoding: chunked",
        b"Content-Length: 7\r\n ",
        b"Content-Length : 7",
        b"Content-Length:\x0b7",
        b"Content-Length: 7\x00",
        b"Content-Length: 7\r",
        b"Content-Length: 7\n",
        b"Content-Length: +7",
        b"Content-Length: 0x7",
        b"Content-Length: 7, 7",
        b"Content-Length: \xb2",
        b"Content-Length: 7\nTransfer-Encoding: chunked",
        b"Content-Length: 7\r\n\tx",
        b"Content-Length: 1%s" % (b"0" * 19),
    ],
)
def test_a_hostile_length_is_never_taken_for_that_of_a_known_head(changed: bytes) -> None:
    cache = cache_of()
    for length in range(20):
        template = cache.find(BLOCK.replace(b"7", b"%d" % length), 2048)
    assert template is not None
    assert taken(BLOCK + bytes(7), template) is not None
    hostile = BLOCK.replace(b"Content-Length: 7", changed)
    assert taken(hostile + bytes(7), template) is None
    assert cached(hostile, cache) == parsed(hostile)
    assert taken(hostile + bytes(7), cache.find(hostile + bytes(7), 2048)) is None


def test_a_value_that_is_not_as_it_should_be_does_not_keep_others_from_the_cache() -> None:
    cache = cache_of()
    for number in range(20):
        learn(cache, traced(number).replace(b"Content-Length: 7", b"Content-Length:  7 "))
        learn(cache, traced(number).replace(b"traceparent: 00", b"traceparent:"))
        learn(cache, traced(number))
    template = cache.find(traced(20), 2048)
    assert taken(traced(21) + bytes(7), template) is not None
    long = traced(22).replace(b"id-22", b"x" * 3000) + bytes(7)
    assert taken(long, template) is None
    assert cache.find(long, 2048) is None


@pytest.mark.slow
def test_patterns_are_compiled_for_heads_that_come_often_and_stay_bounded() -> None:
    cache = cache_of()
    for path in range(500):
        for number in range(20):
            block = traced(number).replace(b"Host: h", b"Host: %d" % path)
            template = cache.find(block, 2048)
            assert template is not None
            assert (template.match is not None) is (number >= 8)
        assert cache._compiled <= 128
    assert cache.recent is template
    assert sum(template.match is not None for template in cache._templates.values()) <= 128


@pytest.mark.parametrize("name", ["TraceParent", "traceparent", "X-Mesh"])
async def test_requests_of_a_service_mesh_reach_their_handler_with_their_headers(name: str) -> None:
    client = Client()
    for number in range(200):
        body = b"b" * (number % 7)
        client.send(post("/echo", body, f"{name}: {number}"))
        assert client.reply().body == body
        headers = client.routes.requests[-1].headers
        assert headers[name.lower().encode()] == b"%d" % number
        assert headers[b"content-length"] == b"%d" % len(body)
        assert spelling_of(headers, name.lower().encode()) == name.encode()
    assert len(client.service.heads) < 60


async def test_the_connection_closes_after_a_known_head_that_says_so() -> None:
    for _ in range(3):
        client = Client()
        client.send(post("/echo", b"body", "Connection: close"))
        assert client.reply().body == b"body"
        assert client.transport.closed


async def test_the_access_log_has_the_trace_of_each_request() -> None:
    found, log = entries()
    client = Client(access_log=log)
    for number in range(1, 20):
        client.send(
            post("/echo", b"b" * number, f"traceparent: 00-{number:032x}-b7ad6b7169203331-01")
        )
        client.reply()
    traces = [each.context.trace for each in found]
    assert [(each.trace_id, each.span_id, each.flags) for each in traces if each is not None] == [
        (f"{number:032x}", "b7ad6b7169203331", 1) for number in range(1, 20)
    ]
    assert [each.context.request_bytes for each in found] == list(range(1, 20))

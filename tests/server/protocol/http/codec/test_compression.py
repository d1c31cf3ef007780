import gzip
import sys
import tracemalloc
import zlib

import pytest

from naiad.errors import ErrorCode, InferenceError
from naiad.protocol.http.codec import compression
from naiad.protocol.http.codec.compression import Encoding
from naiad.protocol.http.message import HttpReply

DATA = b"some bytes that repeat, " * 50


@pytest.mark.parametrize(
    ("header", "encoding"),
    [
        (b"gzip", Encoding.GZIP), (b"deflate", Encoding.DEFLATE), (b"identity", Encoding.IDENTITY), (b"", Encoding.IDENTITY),
        (b"GZip ", Encoding.GZIP), (b"br", Encoding.UNKNOWN), (b"gzip, gzip", Encoding.UNKNOWN),
    ],
)  # fmt: skip
def test_a_content_encoding_is_one_of_three_or_unknown(header: bytes, encoding: Encoding) -> None:
    assert compression.of_request(header) is encoding


@pytest.mark.parametrize(
    ("header", "encoding"),
    [
        (b"gzip", Encoding.GZIP),
        (b"deflate", Encoding.DEFLATE),
        (b"gzip, deflate", Encoding.GZIP),
        (b"deflate, gzip", Encoding.DEFLATE),
        (b"gzip;q=0.5, deflate;q=0.8", Encoding.DEFLATE),
        (b"gzip ; q=0.5, deflate; q=0.4", Encoding.GZIP),
        (b"identity, gzip;q=0.9", Encoding.IDENTITY),
        (b"identity;q=0.5, gzip", Encoding.GZIP),
        (b"gzip;q=0", Encoding.IDENTITY),
        (b"gzip;q=x, deflate;q=0.1", Encoding.DEFLATE),
        (b"gzip;q=nan", Encoding.IDENTITY),
        (b"gzip;q=0_9", Encoding.IDENTITY),
        (b"gzip;q=+1", Encoding.IDENTITY),
        (b"gzip;q=infinity", Encoding.IDENTITY),
        (b"gzip;q=.5", Encoding.GZIP),
        (b"br, zstd", Encoding.IDENTITY),
        (b"*", Encoding.IDENTITY),
        (b",;q=1,", Encoding.IDENTITY),
        (b"", Encoding.IDENTITY),
    ],
)
def test_the_highest_weight_wins_and_the_first_on_a_tie(header: bytes, encoding: Encoding) -> None:
    assert compression.of_reply(header) is encoding


@pytest.mark.parametrize("packed", [gzip.compress(DATA), zlib.compress(DATA)], ids=["gzip", "zlib"])
def test_gzip_and_zlib_are_distinguished_by_their_content(packed: bytes) -> None:
    assert compression.decompress(packed, limit=len(DATA)) == DATA


def refused(body: bytes, *, limit: int = 10_000) -> str:
    with pytest.raises(InferenceError) as caught:
        compression.decompress(body, limit=limit)
    assert caught.value.code is ErrorCode.INVALID_ARG
    return caught.value.message


def test_one_byte_more_than_the_limit_is_refused() -> None:
    message = refused(gzip.compress(DATA), limit=len(DATA) - 1)
    assert f"exceeds the maximum allowed value of {len(DATA) - 1} bytes" in message
    assert "Use --http-max-input-size to increase the limit." in message


def test_the_largest_limit_there_is_refuses_nothing() -> None:
    assert compression.decompress(gzip.compress(DATA), limit=sys.maxsize) == DATA


@pytest.mark.slow
def test_a_bomb_costs_no_more_memory_than_the_limit() -> None:
    bomb = gzip.compress(bytes(50_000_000), 1)
    tracemalloc.start()
    try:
        refused(bomb, limit=1_000_000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4_000_000


@pytest.mark.parametrize(
    ("body", "fragment"),
    [
        (b"", "nothing to be decompressed"),
        (b"no such thing", "cannot decompress"),
        (gzip.compress(DATA, mtime=0)[:-1], "ends too early"),
        (gzip.compress(DATA, mtime=0) + b"more", "4 bytes follow"),
    ],
)
def test_a_truncated_or_invalid_stream_is_refused(body: bytes, fragment: str) -> None:
    assert fragment in refused(body)


REPLY = HttpReply(200, ((b"A", b"b"),), (DATA, memoryview(DATA)), "id")


@pytest.mark.parametrize("encoding", [Encoding.GZIP, Encoding.DEFLATE])
def test_a_reply_is_compressed_as_a_whole_and_says_so(encoding: Encoding) -> None:
    packed = compression.compress(REPLY, encoding)
    assert packed.headers == ((b"A", b"b"), (b"Content-Encoding", encoding.value))
    (body,) = packed.body
    assert (gzip.decompress if encoding is Encoding.GZIP else zlib.decompress)(body) == DATA * 2
    assert packed.request_id == "id"


def test_a_reply_that_would_become_longer_stays_as_it_is() -> None:
    short = HttpReply(200, (), (b"short",))
    assert compression.compress(short, Encoding.GZIP) is short

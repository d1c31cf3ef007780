"""Header blocks: what is remembered, what a block of a connection with a table means, what differs from call to call."""

import hpack
import pytest
from hpack.huffman import HuffmanEncoder
from hpack.huffman_constants import REQUEST_CODES, REQUEST_CODES_LENGTH
from hpack.huffman_table import decode_huffman
from hypothesis import given, strategies as st

from naiad.protocol.transport.http2 import frames
from naiad.protocol.transport.http2.errors import ConnectionFault
from naiad.protocol.transport.http2.header_blocks import MAX_LIST_BYTES, BlockCache, encode
from naiad.protocol.transport.http2.header_fields import PER_CALL, huffman_decoded, split
from tests.server.protocol.transport.http2.peer import REQUEST, Client, block, headers

_NAMES = st.sampled_from([*PER_CALL[:4], "x-other", "user-agent", "content-type", "grpc-encoding"])
_VALUES = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), max_size=200)


@given(
    extra=st.lists(st.tuples(_NAMES, _VALUES), max_size=8),
    shorter=st.booleans(),
    indexing=st.booleans(),
)
def test_a_block_in_two_has_the_fields_that_hpack_finds(
    extra: list[tuple[str, str]], *, shorter: bool, indexing: bool
) -> None:
    fields = [(name.encode(), value.encode(), not indexing) for name, value in (*REQUEST, *extra)]
    encoder = hpack.Encoder()
    encoder.header_table_size = 0
    encoded = encoder.encode(fields, huffman=shorter)
    cache = BlockCache()
    for _ in range(2):
        found = cache.read(encoded).fields
        assert sorted(found) == sorted((name, value) for name, value, _ in fields)


def test_calls_that_differ_in_their_deadlines_share_a_block() -> None:
    cache = BlockCache()
    first, second = (
        cache.read(block(*REQUEST, ("grpc-timeout", value), ("te", "trailers")))
        for value in ("1S", "2S")
    )
    assert first.block is second.block
    assert (first.per_call, second.per_call) == (
        [(b"grpc-timeout", b"1S")],
        [(b"grpc-timeout", b"2S")],
    )


def huffman(name: bytes, value: bytes) -> bytes:
    """A field that is not indexed, whose value is what is given and said to be in Huffman's code."""
    return b"\x00" + bytes((len(name),)) + name + bytes((0x80 | len(value),)) + value


def test_a_trace_that_cannot_be_decoded_is_left_out_and_a_deadline_is_a_fault() -> None:
    trace, wrong = huffman(b"traceparent", b"\xff\xff\xff\xff"), b"\xff\xff\xff\xff"
    found = BlockCache().read(block(*REQUEST) + trace + block(("x-request-id", "7")))
    assert found.per_call == [(b"x-request-id", b"7")]
    assert found.value(b"grpc-timeout") is None
    late = BlockCache().read(block(*REQUEST) + huffman(b"grpc-timeout", wrong))
    with pytest.raises(ConnectionFault, match="cannot be decoded"):
        late.value(b"grpc-timeout")


def _found(cache: BlockCache, encoded: bytes) -> object:
    try:
        headers = cache.read(encoded)
        return headers.fields, headers.block.fault, headers.value(b"grpc-timeout")
    except ConnectionFault as fault:
        return str(fault)


@pytest.mark.parametrize("long", [False, True])
@pytest.mark.parametrize("coded", [False, True])
def test_a_block_like_the_one_before_is_read_as_if_it_were_the_first(
    *, long: bool, coded: bool
) -> None:
    fields = ("grpc-timeout", "12S"), ("x-a", "b"), ("traceparent", "7" * (140 if long else 8))
    encoded = hpack.Encoder().encode([(*each, True) for each in (*REQUEST, *fields)], huffman=coded)
    for at in range(len(encoded)):
        for change in (1, 0x10, 0x80):
            other = encoded[:at] + bytes((encoded[at] ^ change,)) + encoded[at + 1 :]
            cache = BlockCache()
            cache.read(encoded)
            assert _found(cache, other) == _found(BlockCache(), other), at


def test_long_lists_of_a_calls_own_fields_are_seen_to_be_too_long() -> None:
    cache = BlockCache()
    for times, too_long in ((1, False), (2, True)):
        trace = ("baggage", "y" * 8_500 * times)
        assert (cache.read(block(*REQUEST, trace)).block.size > MAX_LIST_BYTES) is too_long


def test_what_is_remembered_is_bounded() -> None:
    cache = BlockCache()
    first = cache.read(block(*REQUEST)).block
    for number in range(5_000):
        cache.read(block(*REQUEST, ("x", str(number))))
    assert len(cache._young) + len(cache._old) <= 2_048
    assert cache.read(block(*REQUEST)).block is not first
    long = block(*REQUEST, ("x", "y" * 3_000))
    assert cache.read(long).block is not cache.read(long).block


def test_until_the_acknowledgement_blocks_are_decoded_with_a_table() -> None:
    cache = BlockCache()
    client = Client(settled=False, blocks=cache)
    encoder = hpack.Encoder()
    blocks = [encoder.encode([*REQUEST, ("x-a", "b")]) for _ in range(2)]
    assert len(blocks[1]) < len(blocks[0])  # it refers to the first
    for stream, encoded in zip((1, 3), blocks, strict=True):
        (event,) = client.send(headers(stream, encoded))
        assert dict(event.headers.fields)[b"x-a"] == b"b"
    assert not cache._young
    client.server.give_up_table()
    assert client.server.sender.out[-1] == frames.settings({1: 0})
    client.send(frames.SETTINGS_ACK)
    (event,) = client.send(
        frames.SETTINGS_ACK, headers(5, encoder.encode([*REQUEST, ("x-a", "b")]))
    )
    assert dict(event.headers.fields)[b"x-a"] == b"b"  # it has not given up its table
    encoder.header_table_size = 0
    (event,) = client.send(headers(7, encoder.encode([*REQUEST, ("x-a", "c")])))
    assert dict(event.headers.fields)[b"x-a"] == b"c"
    assert cache._young


@pytest.mark.parametrize("cut", range(1, 12))
def test_a_block_that_ends_too_early_is_not_split(cut: int) -> None:
    assert split(block(("grpc-timeout", "12S"))[:-cut]) is None or cut > 15


def test_responses_do_not_touch_the_client_s_table() -> None:
    decoder = hpack.Decoder()
    fields = ((b":status", b"200"), (b"grpc-status", b"5"), (b"x", b"y"))
    assert [tuple(field) for field in decoder.decode(encode(fields), raw=True)] == list(fields)
    assert not decoder.header_table.dynamic_entries


@given(st.binary(max_size=60))
def test_huffman_s_code_is_read_as_hpack_reads_it(value: bytes) -> None:
    encoder = HuffmanEncoder(REQUEST_CODES, REQUEST_CODES_LENGTH)
    assert huffman_decoded(encoder.encode(value)) == value


@given(st.binary(max_size=30))
def test_bytes_that_are_not_huffman_s_code_are_refused_as_hpack_refuses_them(value: bytes) -> None:
    try:
        expected = decode_huffman(value)
    except hpack.HPACKDecodingError:
        with pytest.raises(hpack.HPACKDecodingError):
            huffman_decoded(value)
    else:
        assert huffman_decoded(value) == expected

"""The pure parts of the native engine: timeouts, metadata, messages, statuses, keepalive, deadlines."""

import asyncio
import random
import struct
import typing

import pytest
from hypothesis import given, strategies as st

from naiad.protocol.grpc.call import LongMessage, RpcStatus, in_one_piece
from naiad.protocol.grpc.settings import GrpcSettings
from naiad.protocol.grpc.transport.native import compression, messages, responses
from naiad.protocol.grpc.transport.native.call_head import (
    UNREADABLE,
    metadata_of,
    timeout_seconds,
)
from naiad.protocol.grpc.transport.native.deadlines import Deadlines
from naiad.protocol.grpc.transport.native.keepalive import Keepalive, Verdict
from naiad.protocol.grpc.transport.native.listener import tick
from naiad.protocol.grpc.transport.native.messages import (
    AHEAD_BYTES,
    MessageError,
    MessageReader,
    credit,
)
from naiad.protocol.transport.http2.streams import Filling


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (b"5S", 5.0),
        (b"250m", 0.25),
        (b"2H", 7200.0),
        (b"7u", 7e-6),
        (b"0S", 0.0),
        (b"99999999n", 0.099999999),
        (b"123456789S", UNREADABLE),
        (b"5", UNREADABLE),
        (b"-5S", UNREADABLE),
        (b"5s", UNREADABLE),
        (b"", UNREADABLE),
    ],
)
def test_timeouts(value: bytes, seconds: float) -> None:
    assert timeout_seconds(value) == pytest.approx(seconds)


def test_metadata_are_what_is_neither_http_s_nor_grpc_s() -> None:
    fields = [
        (b":path", b"/a"),
        (b"te", b"trailers"),
        (b"grpc-timeout", b"1S"),
        (b"user-agent", b"x"),
        (b"k-bin", b"AAE"),
        (b"k-bin", b"AAE=,AAI"),
        (b"bad-bin", b"?"),
    ]
    assert list(metadata_of(fields)) == [
        ("user-agent", "x"),
        ("k-bin", b"\x00\x01"),
        ("k-bin", b"\x00\x01"),
        ("k-bin", b"\x00\x02"),
    ]


@given(st.lists(st.tuples(st.binary(max_size=30), st.booleans()), max_size=6), st.data())
def test_messages_come_whole_however_they_are_cut(
    sent: list[tuple[bytes, bool]], data: st.DataObject
) -> None:
    wire = b"".join(struct.pack(">BI", flag, len(body)) + body for body, flag in sent)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(wire)), max_size=8)))
    reader = MessageReader()
    got = []
    for start, end in zip([0, *cuts], [*cuts, len(wire)], strict=True):
        buffer = b"before" + wire[start:end] + b"after"
        got += [(m.body, m.compressed) for m in reader.read(buffer, 6, 6 + end - start)]
    assert got == sent
    assert not reader.inside


def test_a_long_message_comes_in_pieces_that_nothing_else_refers_to() -> None:
    length = messages.LONG_BYTES + 1
    sent = struct.pack(">BI", 0, length) + bytes(range(256)) * (length // 256 + 1)
    reader = MessageReader()
    found = [
        message
        for at in range(0, len(sent), 16_384)
        for message in reader.read(sent[at : at + 16_384], 0, len(sent[at : at + 16_384]))
    ]
    (message, *rest) = found
    assert not rest
    assert message.parts is not None
    assert {type(part) for part in message.parts} == {
        bytes
    }  # as `join` needs them to free the interpreter lock
    assert message.joined() == sent[5 : 5 + length]
    assert message.joined() is message.joined()


def test_a_long_message_goes_to_the_memory_that_is_lent_for_it() -> None:
    asked = []

    def lend(beginning: memoryview, length: int) -> Filling:
        asked.append((bytes(beginning), length))
        return Filling(memoryview(bytearray(length)))

    length = messages.LENT_BYTES
    body = bytes(range(256)) * (length // 256)
    sent = struct.pack(">BI", 0, length) + body + struct.pack(">BI", 0, 2) + b"ok"
    reader = MessageReader(lend=lend)
    assert list(reader.read(sent, 0, 5)) == []
    assert list(reader.read(sent, 5, 105)) == []
    assert asked == [(sent[5:], length)]
    filling = reader.filling
    assert filling is not None
    filling.put(sent, 105, length)  # as the connection does
    assert list(reader.read(b"", 0, 0)) == []
    assert reader.missing == 5
    first, second = reader.read(sent, length, len(sent))
    assert first.view is not None
    assert first.view.readonly
    assert first.view == body
    assert second.body == b"ok"
    assert reader.filling is None
    assert not reader.inside


def test_small_pieces_of_a_message_are_kept_together() -> None:
    reader = MessageReader()
    sent = struct.pack(">BI", 0, 5_000) + bytes(range(250)) * 20
    found = [m for at in range(len(sent)) for m in reader.read(sent, at, at + 1)]
    assert [m.body for m in found] == [sent[5:]]
    assert list(reader.read(sent, 0, 2_000)) == []
    for at in range(2_000, 4_000):
        assert list(reader.read(sent, at, at + 1)) == []
    assert len(reader._parts) == 2


def test_a_message_that_is_too_long_is_refused_by_its_length() -> None:
    with pytest.raises(MessageError, match=r"larger than max \(11 vs\. 10\)") as caught:
        list(MessageReader(10).read(struct.pack(">BI", 0, 11), 0, 5))
    assert caught.value.status.status == 8


def test_credit_is_for_the_message_that_has_begun() -> None:
    assert credit(window=60_000, missing=0, initial=65_535) == 0
    assert credit(window=30_000, missing=0, initial=65_535) == 35_535
    assert credit(window=60_000, missing=1_000_000, initial=65_535) == 940_000
    assert credit(window=0, missing=2**31, initial=65_535) == AHEAD_BYTES


def test_messages_of_a_status_are_percent_encoded() -> None:
    assert responses.percent_encoded("50% of ü\n") == b"50%25 of %C3%BC%0A"
    assert b"grpc-message" in responses.trailers_only(RpcStatus(5, "x"))


def test_a_response_is_compressed_only_if_that_makes_it_shorter() -> None:
    assert compression.chosen((b"deflate", b"gzip"), {b"gzip"}) == b"gzip"
    assert compression.chosen((b"deflate",), {b"gzip"}) == b"identity"
    for encoding in (b"gzip", b"deflate"):
        short = in_one_piece(compression.framed(bytes(1_000), encoding))
        assert short[0] == 1
        assert compression.decompressed(short[5:], encoding, 1_000) == bytes(1_000)
        assert compression.framed(b"ab", encoding) == b"\0\0\0\0\2ab"


@pytest.mark.parametrize("encoding", [b"gzip", b"deflate"])
def test_a_long_response_is_compressed_in_pieces(encoding: bytes) -> None:
    noise = random.Random(1).randbytes(1_500_000)
    for values in (bytes(3_000_000), noise):
        message = LongMessage([b"head", memoryview(values), b""])
        sent = in_one_piece(compression.framed(message, encoding))
        flag, length = struct.unpack_from(">BI", sent)
        assert (flag, length) == (values is not noise, len(sent) - 5)
        body = sent[5:] if not flag else compression.decompressed(sent[5:], encoding, 4_000_000)
        assert body == b"head" + values


@pytest.mark.parametrize(("encoding", "status"), [(b"identity", 13), (b"snappy", 12)])
def test_what_says_that_it_is_compressed_and_not_how(encoding: bytes, status: int) -> None:
    refused = compression.decompressed(b"x", encoding, 10)
    assert isinstance(refused, RpcStatus)
    assert refused.status == status


def kept(now: float = 0.0, **settings: typing.Any) -> Keepalive:
    return Keepalive(GrpcSettings(**settings), now)


def test_a_silent_client_with_calls_is_pinged_and_then_dead() -> None:
    alive = kept(keepalive_time_ms=1_000, keepalive_timeout_ms=500)
    assert alive.verdict(0.9, calls=True) is Verdict.NOTHING
    assert alive.verdict(1.0, calls=False) is Verdict.NOTHING
    assert alive.verdict(1.0, calls=True) is Verdict.PING
    assert alive.verdict(1.4, calls=True) is Verdict.NOTHING
    assert alive.verdict(1.5, calls=True) is Verdict.DEAD
    alive.heard(1.5)
    assert alive.verdict(2.4, calls=True) is Verdict.NOTHING


def test_only_so_many_pings_go_out_without_data() -> None:
    alive = kept(keepalive_time_ms=10, max_pings_without_data=2)
    said = []
    for turn in range(1, 5):
        said.append(alive.verdict(float(turn), calls=True))
        alive.heard(float(turn))
    assert said == [Verdict.PING, Verdict.PING, Verdict.NOTHING, Verdict.NOTHING]
    alive.sent_data()
    assert alive.verdict(9.0, calls=True) is Verdict.PING


def test_a_connection_grows_old_and_then_too_old() -> None:
    alive = kept(max_connection_age_ms=1_000, max_connection_age_grace_ms=500)
    assert [alive.verdict(now, calls=True) for now in (0.9, 1.0, 1.4, 1.5)] == [
        Verdict.NOTHING,
        Verdict.OLD,
        Verdict.NOTHING,
        Verdict.TOO_OLD,
    ]


def test_pings_that_come_too_early_are_strikes() -> None:
    alive = kept(min_recv_ping_interval_ms=1_000, max_ping_strikes=2)
    pings = [alive.is_ping_too_many(now, calls=True) for now in (0.0, 0.5, 1.5, 1.6, 1.7)]
    assert pings == [False, False, False, False, True]
    without_calls = kept(min_recv_ping_interval_ms=1, max_ping_strikes=1)
    assert [without_calls.is_ping_too_many(float(n), calls=False) for n in (0, 60, 120)] == [False, False, True]  # fmt: skip


def test_the_tick_follows_the_shortest_time() -> None:
    assert tick(GrpcSettings()) == 1.0
    assert tick(GrpcSettings(keepalive_timeout_ms=2_000)) == 0.2
    assert tick(GrpcSettings(max_connection_age_ms=50)) == 0.05


class _Call:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop, self.expired_at = loop, 0.0
        self.done, self.due = False, -1

    def expire(self) -> None:
        self.expired_at = self.loop.time()


@pytest.mark.looptime
async def test_deadlines_pass_in_their_order_and_not_for_calls_that_have_ended() -> None:
    loop = asyncio.get_running_loop()
    deadlines, begun = Deadlines(loop), loop.time()
    late, early, ended = _Call(loop), _Call(loop), _Call(loop)
    deadlines.add(late, 5.0)
    deadlines.add(early, 1.0)
    deadlines.remove(ended, deadlines.add(ended, 0.5))
    await asyncio.sleep(10)
    assert early.expired_at - begun == pytest.approx(1.0, abs=0.03)
    assert late.expired_at - begun == pytest.approx(5.0, abs=0.03)
    assert not ended.expired_at
    assert deadlines._timer is None


@pytest.mark.looptime
async def test_a_brief_call_gets_a_place_in_the_order_only_if_it_lasts() -> None:
    loop = asyncio.get_running_loop()
    deadlines, begun = Deadlines(loop), loop.time()
    late, at_once, ended, removed = (_Call(loop) for _ in range(4))
    for call, seconds in ((late, 1.0), (at_once, 0.001), (ended, 0.5), (removed, 0.5)):
        deadlines.add_brief(call, seconds)
    ended.done = True
    await asyncio.sleep(0.1)
    assert at_once.expired_at - begun == pytest.approx(0.02, abs=0.01)
    assert ended.due == at_once.due == -1
    assert deadlines._brief == []
    deadlines.remove(removed, removed.due)
    await asyncio.sleep(2)
    assert late.expired_at - begun == pytest.approx(1.0, abs=0.03)
    assert not ended.expired_at
    assert not removed.expired_at
    assert deadlines._timer is deadlines._step is None

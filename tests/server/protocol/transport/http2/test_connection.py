"""HTTP/2 without a socket: requests and responses, the windows, and what each broken rule is answered with."""

import struct
import typing

import hpack
import pytest
from hypothesis import given, strategies as st

from naiad.protocol.transport.http2 import frames, settings
from naiad.protocol.transport.http2.connection import Http2Server, Limits
from naiad.protocol.transport.http2.errors import ErrorCode
from naiad.protocol.transport.http2.events import (
    ConnectionFailed,
    DataReceived,
    PingAnswered,
    RequestReceived,
    StreamDrained,
    StreamEnded,
    StreamReset,
    WholeRequest,
)
from naiad.protocol.transport.http2.frames import END_HEADERS, END_STREAM, PADDED, Kind
from naiad.protocol.transport.http2.header_blocks import BlockCache, encode
from naiad.protocol.transport.http2.sender import TURN_BYTES, Envelope
from naiad.protocol.transport.http2.settings import STREAM_WINDOW
from naiad.protocol.transport.http2.streams import TRANSITIONS, Filling, State, Step
from tests.server.protocol.transport.http2.peer import (
    REQUEST,
    Client,
    block,
    data,
    frame,
    goaway_of,
    headers,
    resets_of,
)

OK = encode(((b":status", b"200"),))
END = encode(((b"grpc-status", b"0"),))
AROUND = Envelope(OK, END)


def test_a_request_is_answered_in_one_piece() -> None:
    client = Client()
    (request,) = client.send(headers(1, block(*REQUEST)), data(1, b"hello", ended=True))
    assert isinstance(request, WholeRequest)
    assert dict(request.headers.fields)[b":path"] == b"/a/b"
    assert request.buffer[request.start : request.end] == b"hello"
    client.server.streams.respond(request.stream, AROUND, b"wor", b"ld")
    assert len(client.server.sender.out) == 1
    assert client.got() == [
        (Kind.HEADERS, END_HEADERS, 1, OK),
        (Kind.DATA, 0, 1, b"world"),
        (Kind.HEADERS, END_HEADERS | END_STREAM, 1, END),
    ]
    assert len(client.server.streams) == 0


@pytest.mark.parametrize("piece", [1, 2, 7, 30])
def test_bytes_may_come_in_pieces_of_any_length(piece: int) -> None:
    server = Http2Server(BlockCache(), Limits())
    sent = frames.PREFACE + frames.settings({}) + headers(1, block(*REQUEST)) + data(1, b"ab", ended=True)  # fmt: skip
    events: list[typing.Any] = []
    for at in range(0, len(sent), piece):
        events += server.receive(sent[at : at + piece])
    begun, *received = events
    assert isinstance(begun, RequestReceived)
    assert received
    assert all(isinstance(each, DataReceived) for each in received)
    assert b"".join(each.buffer[each.start : each.end] for each in received) == b"ab"
    assert [each.ended for each in received] == [False] * (len(received) - 1) + [True]


def test_a_long_frame_is_passed_on_as_it_comes_without_its_padding() -> None:
    client = Client()
    stream = client.open()
    body = bytes(range(256)) * 40
    padded = frame(Kind.DATA, PADDED | END_STREAM, 1, b"\x03" + body + b"pad")
    sent = frame(Kind.DATA, 0, 1, body) + padded
    received = [e for at in range(0, len(sent), 1_000) for e in client.send(sent[at : at + 1_000])]
    assert b"".join(each.buffer[each.start : each.end] for each in received) == body * 2
    assert [each.ended for each in received].index(True) == len(received) - 1
    assert STREAM_WINDOW - stream.receive_window == 2 * len(body) + 4


@pytest.mark.parametrize("cut", range(9, 13))
def test_a_frame_of_nothing_but_padding_makes_one_event_since_it_takes_of_the_window(
    cut: int,
) -> None:
    client = Client()
    stream = client.open()
    sent = frame(Kind.DATA, PADDED, 1, b"\x03pad")
    (event,) = client.send(sent[:cut]) + client.send(sent[cut:])
    assert event.start == event.end
    assert STREAM_WINDOW - stream.receive_window == 4


def test_frames_that_are_alike_come_in_one_event_and_stop_where_the_window_ends() -> None:
    client = Client()
    stream = client.open()
    stream.receive_window = 35
    events = client.send(data(1, b"0123456789") * 4)
    (received, reset) = events
    assert received.more == [(9 + 10 + 9, 9 + 10 + 9 + 10), (47, 57)]
    assert isinstance(reset, StreamReset)
    assert reset.code is ErrorCode.FLOW_CONTROL_ERROR


def test_data_go_where_the_user_wants_them() -> None:
    client = Client()
    stream = client.open()
    filling = stream.filling = Filling(memoryview(bytearray(25)))
    sent = data(1, b"0123456789") * 3
    first = client.send(sent[:30])
    second = client.send(sent[30:])
    assert bytes(filling.memory) == b"0123456789" * 2 + b"01234"
    assert not filling.missing
    assert all(each.start == each.end for each in first)
    assert b"".join(each.buffer[each.start : each.end] for each in second) == b"56789"


def test_data_wait_for_the_client_s_windows() -> None:
    client = Client()
    client.send(frames.settings({settings.INITIAL_WINDOW_SIZE: 10}))
    stream = client.open(ended=True)
    client.got()
    client.server.streams.respond(stream, AROUND, b"", b"x" * 25)
    assert [payload for kind, _, _, payload in client.got() if kind is Kind.DATA] == [b"x" * 10]
    assert stream.unsent_bytes == 15
    assert client.send(frames.window_update(1, 14)) == []
    assert list(client.send(frames.window_update(1, 1))) == [StreamDrained(stream)]
    last = client.got()
    assert b"".join(payload for kind, _, _, payload in last if kind is Kind.DATA) == b"x" * 15
    assert last[-1][:2] == (Kind.HEADERS, END_HEADERS | END_STREAM)


def test_long_data_are_sent_some_megabytes_at_a_time() -> None:
    client = Client()
    client.send(frames.settings({settings.INITIAL_WINDOW_SIZE: 1 << 30}), frames.window_update(0, 1 << 30))  # fmt: skip
    stream = client.open(ended=True)
    client.got()
    message = b"x" * (2 * TURN_BYTES)
    client.server.streams.send_headers(stream, OK)
    client.server.streams.send_pieces(stream, (b"head", message))
    client.server.streams.send_trailers(stream, END)
    turns, wanted = [], []
    for _ in range(3):
        wanted.append(client.server.sender.wants_turn)
        found = client.got()
        turns.append(sum(len(payload) for kind, _, _, payload in found if kind is Kind.DATA))
        client.server.streams.go_on()
    assert turns == [TURN_BYTES, TURN_BYTES, 4]
    assert wanted == [True, True, False]
    assert found[-1][:2] == (Kind.HEADERS, END_HEADERS | END_STREAM)
    assert found[0][3] == b"xxxx"


def test_streams_share_the_connection_s_window_in_turn() -> None:
    client = Client()
    client.send(frames.settings({settings.INITIAL_WINDOW_SIZE: 1_000_000}))
    one, two = client.open(1, ended=True), client.open(3, ended=True)
    client.got()
    for stream in (one, two):
        client.server.streams.respond(stream, AROUND, b"", b"x" * 200_000)
    client.got()
    client.send(frames.window_update(0, 200_000))
    sent = {1: 0, 3: 0}
    for kind, _, stream, payload in client.got():
        if kind is Kind.DATA:
            sent[stream] += len(payload)
    assert min(sent.values()) > 60_000


def test_a_window_that_shrinks_below_zero_stops_the_data() -> None:
    """RFC 9113, section 6.9.2."""
    client = Client()
    stream = client.open(ended=True)
    client.server.streams.send_headers(stream, OK)
    client.server.streams.send_data(stream, b"x" * 60_000)
    client.send(frames.settings({settings.INITIAL_WINDOW_SIZE: 1_000}))
    client.got()
    assert stream.send_window == 1_000 - 60_000
    client.server.streams.send_data(stream, b"y")
    client.send(frames.window_update(1, 59_000))
    assert not [kind for kind, *_ in client.got() if kind is Kind.DATA]
    client.send(frames.window_update(1, 1))
    assert [kind for kind, *_ in client.got()] == [Kind.DATA]


def test_the_next_block_for_a_client_with_a_smaller_table_says_that_nothing_is_in_it() -> None:
    """RFC 7541, section 4.2: a client ends the connection over a block that does not say it."""
    client = Client()
    decoder = hpack.Decoder()

    def responded(stream: int) -> list[typing.Any]:
        request = client.open(stream, ended=True)
        client.server.streams.respond(request, AROUND, b"", b"x")
        found = client.got()
        return [decoder.decode(payload) for kind, _, _, payload in found if kind is Kind.HEADERS]

    usual = [[(":status", "200")], [("grpc-status", "0")]]
    assert responded(1) == usual
    for stream, table_bytes in ((3, 65_536), (5, 1_000), (7, 0), (9, 4_096), (11, 100)):
        client.send(frames.settings({settings.HEADER_TABLE_SIZE: table_bytes}))
        client.got()
        decoder.max_allowed_table_size = table_bytes
        assert responded(stream) == usual
    assert decoder.header_table_size == 0


def test_white_space_around_a_value_is_part_of_it() -> None:
    """As grpc takes the metadata of its own clients."""
    client = Client()
    (event,) = client.send(headers(1, block(*REQUEST, ("authorization", " Bearer a ")), ended=True))
    assert event.headers.fields[-1] == (b"authorization", b" Bearer a ")


def test_a_socket_that_takes_nothing_holds_data_back() -> None:
    client = Client()
    stream = client.open(ended=True)
    client.server.streams.hold(held=True)
    client.server.streams.respond(stream, AROUND, b"", b"x")
    assert [kind for kind, *_ in client.got()] == [Kind.HEADERS]
    assert stream.unsent_bytes == 1
    assert client.server.streams.hold(held=False) == [stream]
    assert [kind for kind, *_ in client.got()] == [Kind.DATA, Kind.HEADERS]


def test_the_connection_s_window_is_given_back() -> None:
    client = Client(limits=Limits(connection_window=100_000))
    client.open()
    client.send(*[data(1, b"x" * 10_000)] * 4)
    assert client.got() == []
    client.send(data(1, b"x" * 10_000))
    assert client.got() == [(Kind.WINDOW_UPDATE, 0, 0, struct.pack(">I", 50_000))]


def test_an_end_by_trailers_is_the_end() -> None:
    client = Client()
    stream = client.open()
    assert client.send(headers(1, block(("x", "y")), ended=True)) == [StreamEnded(stream)]


def test_a_response_before_the_end_of_its_request_asks_the_client_to_stop() -> None:
    client = Client()
    stream = client.open()
    client.server.streams.send_headers(stream, OK, end_stream=True)
    assert resets_of(client.got()) == [(1, ErrorCode.NO_ERROR)]
    assert client.send(data(1, b"still coming", ended=True)) == []
    assert client.got() == []


def test_a_drain_serves_what_the_client_sends_before_it_knows() -> None:
    client = Client()
    client.server.go_away()
    (last, code), (_, _, _, token) = goaway_of(found := client.got()), found[-1]
    assert (last, code) == (2**31 - 1, ErrorCode.NO_ERROR)
    client.open(1)
    assert client.send(frames.ping(token, ack=True)) == [PingAnswered(token)]
    client.open(3)  # begun before the client knew, and written behind its answer
    assert client.got() == []
    client.server.finish()
    assert goaway_of(client.got()) == (3, ErrorCode.NO_ERROR)
    assert client.send(headers(5, block(*REQUEST)), data(5, b"late", ended=True)) == []
    assert client.got() == [(Kind.RST_STREAM, 0, 5, struct.pack(">I", ErrorCode.REFUSED_STREAM))]
    assert len(client.server.streams) == 2


def test_every_state_has_a_row_for_every_step() -> None:
    assert {state: set(row) for state, row in TRANSITIONS.items()} == {
        key: set(Step) for key in State
    }


_OPEN = headers(1, block(*REQUEST))
_DONE = headers(1, block(*REQUEST), ended=True)

BROKEN: list[tuple[str, bytes, ErrorCode]] = [
    ("4.2 a frame that is too long", frame(Kind.DATA, 0, 1, b"x" * 16_385), ErrorCode.FRAME_SIZE_ERROR),
    ("5.1 data on an idle stream", data(1, b"x"), ErrorCode.PROTOCOL_ERROR),
    ("5.1 reset of an idle stream", frames.reset(1, ErrorCode.CANCEL), ErrorCode.PROTOCOL_ERROR),
    ("5.1 window update of an idle stream", frames.window_update(1, 1), ErrorCode.PROTOCOL_ERROR),
    ("5.1.1 an even stream", headers(2, block(*REQUEST)), ErrorCode.PROTOCOL_ERROR),
    ("5.1.1 an earlier stream", headers(5, block(*REQUEST), ended=True) + headers(3, block(*REQUEST)), ErrorCode.STREAM_CLOSED),
    ("6.1 data on the connection", data(0, b"x"), ErrorCode.PROTOCOL_ERROR),
    ("6.1 padding longer than the frame", _OPEN + frame(Kind.DATA, 8, 1, b"\5xxx"), ErrorCode.PROTOCOL_ERROR),
    ("6.2 headers on the connection", headers(0, b""), ErrorCode.PROTOCOL_ERROR),
    ("6.2 a frame inside a header block", frame(Kind.HEADERS, 0, 1, block(*REQUEST)) + frames.ping(b"12345678"), ErrorCode.PROTOCOL_ERROR),
    ("6.3 priority of four bytes", _OPEN + frame(Kind.PRIORITY, 0, 1, b"1234"), ErrorCode.FRAME_SIZE_ERROR),
    ("6.4 reset of three bytes", _OPEN + frame(Kind.RST_STREAM, 0, 1, b"123"), ErrorCode.FRAME_SIZE_ERROR),
    ("6.4 reset of the connection", frames.reset(0, ErrorCode.CANCEL), ErrorCode.PROTOCOL_ERROR),
    ("6.5 settings on a stream", frame(Kind.SETTINGS, 0, 1), ErrorCode.PROTOCOL_ERROR),
    ("6.5 settings of five bytes", frame(Kind.SETTINGS, 0, 0, b"12345"), ErrorCode.FRAME_SIZE_ERROR),
    ("6.5 an acknowledgement with values", frame(Kind.SETTINGS, 1, 0, b"123456"), ErrorCode.FRAME_SIZE_ERROR),
    ("6.5.2 push of 2", frames.settings({2: 2}), ErrorCode.PROTOCOL_ERROR),
    ("6.5.2 a window of 2**31", frames.settings({4: 2**31}), ErrorCode.FLOW_CONTROL_ERROR),
    ("6.5.2 frames of 16,383", frames.settings({5: 16_383}), ErrorCode.PROTOCOL_ERROR),
    ("6.5.2 frames of 2**24", frames.settings({5: 2**24}), ErrorCode.PROTOCOL_ERROR),
    ("6.6 a client pushes", frame(Kind.PUSH_PROMISE, 4, 1, b"\0\0\0\2"), ErrorCode.PROTOCOL_ERROR),
    ("6.7 ping on a stream", frame(Kind.PING, 0, 1, b"12345678"), ErrorCode.PROTOCOL_ERROR),
    ("6.7 ping of seven bytes", frame(Kind.PING, 0, 0, b"1234567"), ErrorCode.FRAME_SIZE_ERROR),
    ("6.8 goaway on a stream", frame(Kind.GOAWAY, 0, 1, b"12345678"), ErrorCode.PROTOCOL_ERROR),
    ("6.9 window update of 0", frames.window_update(0, 0), ErrorCode.PROTOCOL_ERROR),
    ("6.9 window update of three bytes", frame(Kind.WINDOW_UPDATE, 0, 0, b"123"), ErrorCode.FRAME_SIZE_ERROR),
    ("6.9.1 a window above 2**31 - 1", frames.window_update(0, 2**31 - 1), ErrorCode.FLOW_CONTROL_ERROR),
    ("6.9.2 a stream's window above it", frames.window_update(0, 1) + _OPEN + frames.window_update(1, 2**31 - 65_536) + frames.settings({4: 65_537}), ErrorCode.FLOW_CONTROL_ERROR),
    ("6.10 continuation without headers", frame(Kind.CONTINUATION, 4, 1), ErrorCode.PROTOCOL_ERROR),
    ("4.3 a block that cannot be decoded", headers(1, b"\x7f\xff\xff\xff\xff\xff"), ErrorCode.COMPRESSION_ERROR),
    ("4.3 a dynamic table after the acknowledgement", headers(1, b"\xbe"), ErrorCode.COMPRESSION_ERROR),
    ("4.3 a table larger than ours", headers(1, b"\x3f\xe1\x1f" + block(*REQUEST)), ErrorCode.COMPRESSION_ERROR),
    ("10.5 resets", b"".join(headers(n, block(*REQUEST)) + frames.reset(n, ErrorCode.CANCEL) for n in range(1, 8_200, 2)), ErrorCode.ENHANCE_YOUR_CALM),
    ("10.5 settings", frames.settings({}) * 101, ErrorCode.ENHANCE_YOUR_CALM),
    ("10.5 pings", frames.ping(b"12345678") * 1_001, ErrorCode.ENHANCE_YOUR_CALM),
    ("10.5 empty data", _OPEN + data(1, b"") * 1_001, ErrorCode.ENHANCE_YOUR_CALM),
    ("10.5 unknown frames", frame(99, 0, 0) * 1_001, ErrorCode.ENHANCE_YOUR_CALM),
    ("10.5 priorities", frame(Kind.PRIORITY, 0, 1, b"12345") * 4_097, ErrorCode.ENHANCE_YOUR_CALM),
    ("10.5 window updates", frames.window_update(0, 1) * 100_001, ErrorCode.ENHANCE_YOUR_CALM),
    ("10.5.1 continuations", frame(Kind.HEADERS, 0, 1) + frame(Kind.CONTINUATION, 0, 1) * 32, ErrorCode.ENHANCE_YOUR_CALM),
    ("10.5.1 a bomb of indexed fields", headers(1, block(*REQUEST) + b"\x90" * 16_000), ErrorCode.ENHANCE_YOUR_CALM),
]  # fmt: skip


@pytest.mark.parametrize(("what", "sent", "code"), BROKEN, ids=[row[0] for row in BROKEN])
def test_a_broken_rule_of_the_connection_ends_it(what: str, sent: bytes, code: ErrorCode) -> None:
    del what
    client = Client()
    events = client.send(sent)
    assert isinstance(events[-1], ConnectionFailed)
    assert goaway_of(client.got())[1] == code
    assert client.send(_OPEN) == []
    assert client.got() == []


def with_field(name: str, value: str) -> bytes:
    return headers(1, block(*REQUEST, (name, value)))


OF_STREAMS: list[tuple[str, bytes, ErrorCode]] = [
    ("5.1 data after the end", _DONE + data(1, b"x"), ErrorCode.STREAM_CLOSED),
    ("6.9 window update of 0", _OPEN + frames.window_update(1, 0), ErrorCode.PROTOCOL_ERROR),
    ("6.9.1 more than 2**31 - 1", _OPEN + frames.window_update(1, 2**31 - 1), ErrorCode.FLOW_CONTROL_ERROR),
    ("6.9.1 more data than the window", _OPEN + data(1, b"x" * 16_384) * 17, ErrorCode.FLOW_CONTROL_ERROR),
    ("8.1 headers again without the end", _OPEN + headers(1, block(("x", "y"))), ErrorCode.PROTOCOL_ERROR),
    ("8.1 trailers with a pseudo-header field", _OPEN + headers(1, block((":path", "/")), ended=True), ErrorCode.PROTOCOL_ERROR),
    ("8.1.1 less than content-length", with_field("content-length", "2") + data(1, b"x", ended=True), ErrorCode.PROTOCOL_ERROR),
    ("8.1.1 more than content-length", with_field("content-length", "2") + data(1, b"xxx"), ErrorCode.PROTOCOL_ERROR),
    ("8.1.1 nothing for content-length", headers(1, block(*REQUEST, ("content-length", "2")), ended=True), ErrorCode.PROTOCOL_ERROR),
    ("8.2.1 a capital", with_field("X", "y"), ErrorCode.PROTOCOL_ERROR),
    ("8.2.1 a line feed", with_field("x", "a\nb"), ErrorCode.PROTOCOL_ERROR),
    ("8.2.2 connection", with_field("connection", "close"), ErrorCode.PROTOCOL_ERROR),
    ("8.2.2 te", with_field("te", "gzip"), ErrorCode.PROTOCOL_ERROR),
    ("8.3 a pseudo-header field after a regular one", headers(1, block(*REQUEST[1:], REQUEST[0])), ErrorCode.PROTOCOL_ERROR),
    ("8.3 the same behind a field of this call", headers(1, block(*REQUEST[1:4], ("grpc-timeout", "1S"), REQUEST[0])), ErrorCode.PROTOCOL_ERROR),
    ("8.3.1 an unknown one", headers(1, block((":x", "y"), *REQUEST)), ErrorCode.PROTOCOL_ERROR),
    ("8.3.1 one twice", headers(1, block(REQUEST[0], *REQUEST)), ErrorCode.PROTOCOL_ERROR),
    ("8.3.1 no path", headers(1, block(*REQUEST[:2], *REQUEST[3:])), ErrorCode.PROTOCOL_ERROR),
]  # fmt: skip


@pytest.mark.parametrize(("what", "sent", "code"), OF_STREAMS, ids=[row[0] for row in OF_STREAMS])
def test_a_broken_rule_of_a_stream_ends_the_stream(what: str, sent: bytes, code: ErrorCode) -> None:
    del what
    client = Client()
    events = client.send(sent)
    assert resets_of(client.got()) == [(1, code)]
    if isinstance(events and events[0], RequestReceived):
        assert StreamReset(events[0].stream, code) in events
    client.open(3)  # the connection goes on


def test_a_block_that_is_too_long_is_read_to_its_end_and_not_kept() -> None:
    client = Client()
    pieces = [frame(Kind.CONTINUATION, 0, 1, b"x" * 16_384)] * 6
    sent = frame(Kind.HEADERS, END_STREAM, 1, b"x" * 16_384), *pieces, frame(Kind.CONTINUATION, END_HEADERS, 1)  # fmt: skip
    (event,) = client.send(*sent)
    assert event.headers.size > 65_536
    client.open(3)


def test_a_block_that_is_too_long_may_be_the_one_that_gives_up_the_table() -> None:
    client = Client(settled=False)
    client.server.give_up_table()
    pieces = [frame(Kind.CONTINUATION, 0, 1, b"x" * 16_384)] * 6
    sent = frame(Kind.HEADERS, END_STREAM, 1, b"\x20\x83" + b"x" * 16_000), *pieces, frame(Kind.CONTINUATION, END_HEADERS, 1)  # fmt: skip
    (event,) = client.send(frames.SETTINGS_ACK * 2, *sent)
    assert event.headers.size > 65_536


def test_a_block_that_is_too_long_ends_a_connection_with_a_table() -> None:
    client = Client(settled=False)
    pieces = [frame(Kind.CONTINUATION, END_HEADERS, 1, b"x" * 16_384)]
    client.send(frame(Kind.HEADERS, 0, 1, b"x" * 16_384), *[frame(Kind.CONTINUATION, 0, 1, b"x" * 16_384)] * 4, *pieces)  # fmt: skip
    assert goaway_of(client.got())[1] == ErrorCode.ENHANCE_YOUR_CALM


def test_a_stream_too_many_is_refused() -> None:
    client = Client(limits=Limits(streams=1))
    client.open(1)
    client.send(headers(3, block(*REQUEST)))
    assert resets_of(client.got()) == [(3, ErrorCode.REFUSED_STREAM)]


def test_floods_are_counted_by_the_second() -> None:
    client = Client()
    for _ in range(3):
        assert not client.server.failed
        client.send(frames.settings({}) * 60)
        client.server.tick()


@pytest.mark.parametrize(
    ("sent", "count"),
    [
        (frames.SETTINGS_ACK, 101),
        (frames.ping(b"12345678"), 1_001),
        (frame(Kind.GOAWAY, 0, 0, bytes(8)), 101),
    ],
)
def test_what_costs_a_client_little_is_limited(sent: bytes, count: int) -> None:
    client = Client()
    *_, failed = client.send(sent * count)
    assert failed.code is ErrorCode.ENHANCE_YOUR_CALM


def test_much_that_comes_at_once_is_handled_in_turns() -> None:
    """So that one client does not keep the loop from the others."""
    numbers = range(1, 801, 2)
    many = tuple(("a", "b") for _ in range(300))
    short = [headers(n, block(*REQUEST)) + data(n, b"x", ended=True) for n in numbers]
    long = [headers(n, block(*REQUEST, ("x-n", str(n)), *many), ended=True) for n in numbers[:40]]
    for sent, turns in ((short, 2), (long, 6)):
        server = Client().server
        events: list[typing.Any] = list(server.receive(b"".join(sent)))
        taken = 1
        while server.behind:
            assert 0 < len(events) < len(sent)
            events += server.receive(b"")
            taken += 1
        assert [event.stream.id for event in events] == [2 * n + 1 for n in range(len(sent))]
        assert taken >= turns


_REQUESTS = st.lists(
    st.tuples(
        st.integers(0, 9),
        st.sampled_from((END_HEADERS, END_HEADERS, END_HEADERS | END_STREAM, 0)),
        st.sampled_from((END_STREAM, END_STREAM, 0, END_STREAM | frames.PADDED)),
        st.sampled_from(("", "", "4", "5")),
        st.sampled_from((b"", b"\1ab\0", b"abcd", bytes(16_385))),
        st.booleans(),
    ),
    max_size=6,
)


@given(_REQUESTS, st.sampled_from((2, 4_096)))
def test_whole_requests_give_what_their_frames_give_one_by_one(
    requests: list[tuple[int, int, int, str, bytes, bool]], streams: int
) -> None:
    sent: list[bytes] = []
    for stream, head_flags, data_flags, length, body, same in requests:
        declared = (("content-length", length),) if length else ()
        sent += (
            frame(Kind.HEADERS, head_flags, stream, block(*REQUEST, *declared)),
            frame(Kind.DATA, data_flags, stream if same else stream + 2, body),
        )
    one_piece = Client(limits=Limits(streams=streams))
    one_by_one = Client(limits=Limits(streams=streams))
    events = one_piece.send(*sent)
    expected = [event for piece in sent for event in one_by_one.send(piece)]
    seen = [part for event in events for part in _parts(event)]
    assert seen == [_seen(event) for event in expected]
    assert one_piece.got() == one_by_one.got()
    for name in ("last_id", "final"):
        assert getattr(one_piece.server.streams, name) == getattr(one_by_one.server.streams, name)
    assert one_piece.server.incoming.credit == one_by_one.server.incoming.credit
    assert [
        (each.id, each.state, each.receive_window) for each in one_piece.server.streams.all()
    ] == [(each.id, each.state, each.receive_window) for each in one_by_one.server.streams.all()]


def _parts(event: typing.Any) -> list[tuple[typing.Any, ...]]:
    if not isinstance(event, WholeRequest):
        return [_seen(event)]
    stream, data = event.stream, event.buffer[event.start : event.end]
    return [
        (RequestReceived, stream.id, event.headers.fields, False),
        (DataReceived, stream.id, data, event.ended),
    ]


def _seen(event: typing.Any) -> tuple[typing.Any, ...]:
    match event:
        case RequestReceived():
            return (type(event), event.stream.id, event.headers.fields, event.ended)
        case DataReceived():
            return (
                type(event),
                event.stream.id,
                event.buffer[event.start : event.end],
                event.ended,
            )
        case ConnectionFailed():
            return (type(event), event.code, event.why)
        case _:
            return (type(event), event.stream.id)


@given(st.lists(st.binary(max_size=80) | st.builds(frame, st.integers(0, 11), st.integers(0, 255), st.integers(0, 8), st.binary(max_size=40)), max_size=12))  # fmt: skip
def test_no_bytes_make_it_raise(pieces: list[bytes]) -> None:
    client = Client(settled=len(pieces) % 2 == 0)
    for piece in pieces:
        client.send(piece)
    client.got()
    assert client.server.failed or len(client.server.streams) <= len(pieces)

"""Data that go to memory which waits for them come there whole, however the bytes of the connection are cut, and from a buffer that is used again."""

import random

import pytest

from naiad.protocol.transport.http2.events import ConnectionFailed, DataReceived, RequestReceived
from naiad.protocol.transport.http2.frames import END_HEADERS, END_STREAM, PADDED, Kind
from naiad.protocol.transport.http2.streams import Filling, Stream
from tests.server.protocol.transport.http2.peer import REQUEST, Client, block, frame

SIZE = 200_000
DATA = random.Random(3).randbytes(SIZE)


def frames_of(stream: int, data: bytes, sizes: list[int], *, end: bool = True) -> bytes:
    """DATA frames of these sizes, over and over."""
    out, at, turn = b"", 0, 0
    while at < len(data):
        piece = data[at : at + sizes[turn % len(sizes)]]
        at, turn = at + len(piece), turn + 1
        last = end and at >= len(data)
        out += frame(Kind.DATA, END_STREAM if last else 0, stream, piece)
    return out


class Receiver:
    """A server whose streams have memory for a number of bytes from their first data on; the rest of their data are kept beside it."""

    def __init__(self, room: int) -> None:
        self.client = Client()
        self.server = self.client.server
        self.buffer = bytearray(1 << 16)
        self.room = room
        self.behind = b""
        self.ended = False
        self.failed: ConnectionFailed | None = None
        self.direct = 0
        self.stream: Stream | None = None

    def take(self, data: bytes) -> None:
        """Bytes come: as a connection would read them."""
        if self.server.fills:
            self.direct += 1
            self.buffer[: len(data)] = data
            events = self.server.receive_in(self.buffer, len(data))
            self.buffer[:] = bytes(len(self.buffer))
        else:
            events = self.server.receive(data)
        for event in events:
            if isinstance(event, RequestReceived):
                self.stream = event.stream
                event.stream.filling = Filling(memoryview(bytearray(self.room)))
            elif isinstance(event, DataReceived):
                filling = event.stream.filling
                assert filling is not None
                for start, end in ((event.start, event.end), *event.more):
                    taken = filling.put(event.buffer, start, end)  # as a message's reader does
                    self.behind += event.buffer[start + taken : end]
                self.ended = self.ended or event.ended
            elif isinstance(event, ConnectionFailed):
                self.failed = event
        if self.stream is not None:
            self.server.streams.grant(self.stream, 262_144 - self.stream.receive_window)

    @property
    def content(self) -> bytes:
        """What came for the stream, in order."""
        assert self.stream is not None
        filling = self.stream.filling
        assert filling is not None
        return bytes(filling.memory[: filling.at]) + self.behind


def cut(data: bytes, seed: int, most: int) -> list[bytes]:
    """Pieces of random lengths."""
    chosen, at, pieces = random.Random(seed), 0, []
    while at < len(data):
        size = chosen.randint(1, most)
        pieces.append(data[at : at + size])
        at += size
    return pieces


@pytest.mark.parametrize("sizes", [[16_384], [1, 16_384, 16_384, 7], [100], [0, 5_000]])
@pytest.mark.parametrize("room", [SIZE, SIZE - 1, 70_000, SIZE + 9])
@pytest.mark.parametrize("most", [40, 9_000, 65_536])
def test_however_it_is_cut_it_is_the_same(sizes: list[int], room: int, most: int) -> None:
    head = frame(Kind.HEADERS, END_HEADERS, 1, block(*REQUEST))
    data = DATA[:20_000] if 0 in sizes or most < 100 or sizes == [100] else DATA
    receiver = Receiver(min(room, len(data)) if room <= SIZE else room)
    for piece in cut(head + frames_of(1, data, [each for each in sizes if each]), 5, most):
        receiver.take(piece)
    assert receiver.failed is None
    assert receiver.ended
    assert receiver.content == data
    assert receiver.direct or most > len(data)


def test_padding_goes_nowhere() -> None:
    receiver = Receiver(SIZE)
    receiver.take(frame(Kind.HEADERS, END_HEADERS, 1, block(*REQUEST)))
    padded = frame(Kind.DATA, PADDED, 1, bytes([200]) + DATA[:10_000] + bytes(200))
    for piece in cut(padded + frames_of(1, DATA[10_000:60_000], [16_000]), 1, 3_000):
        receiver.take(piece)
    assert receiver.content == DATA[:60_000]
    assert receiver.ended


def test_a_client_that_sends_more_than_its_window_is_still_refused() -> None:
    receiver = Receiver(SIZE)
    receiver.take(frame(Kind.HEADERS, END_HEADERS, 1, block(*REQUEST)))
    assert receiver.stream is not None
    half = frame(Kind.DATA, 0, 1, DATA[:16_384])
    receiver.take(half[:5_000])
    receiver.stream.receive_window = 20_000
    receiver.buffer[: len(half) * 3 - 5_000] = (half * 3)[5_000:]
    receiver.server.receive_in(receiver.buffer, len(half) * 3 - 5_000)
    kinds = [each[0] for each in receiver.client.got()]
    assert Kind.RST_STREAM in kinds


def test_the_window_of_the_connection_is_given_back() -> None:
    receiver = Receiver(20_000_000)
    receiver.take(frame(Kind.HEADERS, END_HEADERS, 1, block(*REQUEST)))
    whole = frame(Kind.DATA, 0, 1, DATA[:16_384])
    receiver.take(whole[:9_000])
    given = 0
    stream = (whole * 601)[9_000:]
    for at in range(0, len(stream), 60_000):
        receiver.take(stream[at : at + 60_000])
        given += sum(each[0] is Kind.WINDOW_UPDATE and each[2] == 0 for each in receiver.client.got())  # fmt: skip
    assert receiver.failed is None
    assert given == 1  # after half of 16 MiB


def test_frames_that_come_one_by_one_go_there_directly() -> None:
    receiver = Receiver(SIZE)
    receiver.take(frame(Kind.HEADERS, END_HEADERS, 1, block(*REQUEST)))
    for at in range(0, SIZE, 16_384):
        receiver.take(frames_of(1, DATA[at : at + 16_384], [16_384], end=at + 16_384 >= SIZE))
    assert receiver.content == DATA
    assert receiver.ended
    assert receiver.direct == SIZE // 16_384  # all but the first of them


def test_what_is_awaited_comes_in_any_case() -> None:
    receiver = Receiver(SIZE)
    receiver.take(frame(Kind.HEADERS, END_HEADERS, 1, block(*REQUEST)))
    assert receiver.server.awaited == 0
    wire = frames_of(1, DATA, [16_384])
    at = 0
    while at < len(wire):
        piece = wire[at : at + 10_000]
        receiver.take(piece)
        at += len(piece)
        awaited = receiver.server.awaited
        assert awaited <= len(wire) - at
        # Of what is to come nothing is missing but what is behind the head of a frame that has not come.
        assert awaited >= len(wire) - at - 9
    assert receiver.server.awaited == 0


def test_no_more_is_awaited_than_the_client_may_send() -> None:
    receiver = Receiver(SIZE)
    receiver.take(frame(Kind.HEADERS, END_HEADERS, 1, block(*REQUEST)))
    receiver.take(frame(Kind.DATA, 0, 1, DATA[:16_384])[:5_000])
    assert receiver.stream is not None
    receiver.stream.receive_window = 1_000
    assert receiver.server.awaited == 16_384 + 9 - 5_000 + 1_000 + 9


def test_behind_the_last_frame_nothing_is_awaited() -> None:
    receiver = Receiver(SIZE)
    receiver.take(frame(Kind.HEADERS, END_HEADERS, 1, block(*REQUEST)))
    receiver.take(frame(Kind.DATA, END_STREAM, 1, DATA[:16_384])[:5_000])
    assert receiver.server.awaited == 16_384 + 9 - 5_000

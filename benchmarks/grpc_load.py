"""gRPC load whose calls change, which h2load cannot send: an id, values, a deadline and a `traceparent` of its own in each.

A client of its own on plain sockets, in one thread: all but the numbers of streams is prepared before the measurement, so that a call costs it little. It does what
gRPC's clients do: it uses the header table that the server allows, acknowledges settings and answers pings, and it checks the status of every call.
"""

import itertools
import selectors
import socket
import statistics
import struct
import time
import typing

import hpack

from benchmarks.changing import NUMBER
from benchmarks.load import LoadError, Rate
from naiad.core.messages import service_pb2
from naiad.protocol.transport.http2 import frames
from naiad.protocol.transport.http2.frames import Kind

_TURNS = 64
"""Messages with other values that take turns."""

_PREPARED_PER_S = 30_000
"""Calls that are prepared for each second; when there are more, they begin again."""

_WINDOW = 1 << 30
_TIMEOUT_S = 60.0
_HEADERS = int(Kind.HEADERS)


class Call(typing.NamedTuple):
    """What differs in a call: the end of its header block, and its data."""

    fields: bytes
    data: bytes


class Message:
    """A request as clients serialise it, around a number of twelve digits in the place of its id."""

    def __init__(self, message: bytes) -> None:
        request = service_pb2.ModelInferRequest.FromString(message)
        request.id = NUMBER
        self._before, self._after = request.SerializeToString().split(NUMBER.encode())

    def turns(self) -> list[tuple[bytes, bytes]]:
        """What comes before and behind the number, with other values each time; their first byte counts, which any datatype takes."""
        tail = self._after
        return [(self._before, tail[:-1] + bytes((tail[-1] ^ turn & 1,))) for turn in range(_TURNS)]

    def calls(self, first: int, count: int) -> list[Call]:
        """So many calls, each with a number of its own. The parts of all of them have the same lengths."""
        turns = self.turns()
        calls = []
        for number in range(first, first + count):
            before, after = turns[number % _TURNS]
            fields = b"\x00\x0cgrpc-timeout\x09%08du\x00\x0btraceparent\x37" % (
                90_000_000 - number % 1_000_000
            )
            fields += b"00-0af7651916cd43dd8448%012d-b7ad6b7169203331-01" % number
            length = len(before) + 12 + len(after)
            data = struct.pack(">BI", 0, length) + before + b"%012d" % number + after
            calls.append(Call(fields, data))
        return calls


class _Connection:
    """One connection: its calls in flight with the times at which they began."""

    def __init__(self, address: str, path: str) -> None:
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host.strip("[]"), int(port)), timeout=_TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.begun: dict[int, float] = {}
        self._fields = (
            (":method", "POST"), (":scheme", "http"), (":path", path), (":authority", address), ("te", "trailers"),
            ("content-type", "application/grpc"), ("user-agent", "grpc-bench/1.0"), ("grpc-accept-encoding", "identity, deflate, gzip"),
        )  # fmt: skip
        self._encoder = hpack.Encoder()
        self._decoder = hpack.Decoder()
        self._block = b""
        self._fine: set[bytes] = set()
        self._next = 1
        self._unread = b""
        self._answers = b""
        settings = frames.settings(
            {1: 0, 4: _WINDOW}
        )  # no header table for responses: their blocks repeat
        self.socket.sendall(frames.PREFACE + settings + frames.window_update(0, _WINDOW))

    def call(self, call: Call) -> bytes:
        """The bytes of the next call."""
        block = self._block
        if not block:
            block = self._encoder.encode(self._fields)
            again = self._encoder.encode(self._fields)
            self._block = again  # the table knows the fields by now, if the server allows one
        fields, data = call
        stream = self._next
        self._next += 2
        self.begun[stream] = time.perf_counter()
        answers, self._answers = self._answers, b""
        return b"".join(
            (
                answers,
                frames.PACK_HEAD(len(block) + len(fields) << 8 | _HEADERS, frames.END_HEADERS, stream), block, fields,
                frames.PACK_HEAD(len(data) << 8, frames.END_STREAM, stream), data,
            )
        )  # fmt: skip

    def read(self) -> list[float]:
        """Take what the server sent; returns the times at which the calls that have ended began.

        Raises:
            LoadError: a call failed, or the connection.
        """
        data = self._unread + self.socket.recv(1 << 18)
        if data == self._unread:
            raise LoadError("the server closed a connection")
        ended: list[float] = []
        at, end = 0, len(data)
        while end - at >= frames.HEAD_BYTES:
            size_and_kind, flags, stream = frames.READ_HEAD(data, at)
            following = at + 9 + (size_and_kind >> 8)
            if following > end:
                break
            kind = size_and_kind & 0xFF
            if kind == _HEADERS:
                if flags & frames.END_STREAM:
                    self._check(data[at + 9 : following])
                    ended.append(self.begun.pop(stream))
            elif kind:  # not DATA
                self._control(kind, flags, data[at + 9 : following])
            at = following
        self._unread = data[at:]
        if self._answers and not ended:
            self.socket.sendall(self._answers)
            self._answers = b""
        return ended

    def _check(self, trailers: bytes) -> None:
        if trailers not in self._fine:
            fields = dict(hpack.Decoder().decode(trailers, raw=True))
            if fields.get(b"grpc-status") != b"0":
                raise LoadError(f"a call failed: {fields}")
            self._fine.add(trailers)

    def _control(self, kind: int, flags: int, payload: bytes) -> None:
        if kind == Kind.PING and not flags & frames.ACK:
            self._answers += frames.ping(payload, ack=True)
        elif kind == Kind.SETTINGS and not flags & frames.ACK:
            for at in range(0, len(payload), 6):
                name, value = struct.unpack_from(">HI", payload, at)
                if name == 1:
                    self._encoder.header_table_size = value
                    self._block = b""
            self._answers += frames.SETTINGS_ACK
        elif kind in {Kind.RST_STREAM, Kind.GOAWAY}:
            raise LoadError(f"the server sent {Kind(kind).name}: {payload!r}")


def changing_calls(
    *,
    address: str,
    path: str,
    message: bytes,
    connections: int,
    seconds: float,
    first: int,
    streams: int = 1,
) -> Rate:
    """Load that changes from call to call.

    Args:
        address: `host:port`.
        path: the method's.
        message: a ModelInferRequest with raw contents, short enough for one frame.
        connections: how many at once.
        seconds: how long.
        first: the number in the first call.
        streams: calls in flight on each connection.

    Raises:
        LoadError: a call failed.
    """
    if len(message) > frames.MAX_FRAME_BYTES - 64:
        raise LoadError(f"a message of {len(message)} bytes: it has to fit one frame")
    count = max(1_000, int(_PREPARED_PER_S * seconds))
    calls = itertools.cycle(Message(message).calls(first, count))
    opened = [_Connection(address, path) for _ in range(connections)]
    latencies: list[float] = []
    with selectors.DefaultSelector() as selector:
        for connection in opened:
            selector.register(connection.socket, selectors.EVENT_READ, connection)
            connection.read()  # the settings
            for _ in range(streams):
                connection.socket.sendall(connection.call(next(calls)))
        started = time.perf_counter()
        end = started + seconds
        while (now := time.perf_counter()) < end:
            for key, _ in selector.select(_TIMEOUT_S):
                connection = typing.cast("_Connection", key.data)
                ended = connection.read()
                now = time.perf_counter()
                if ended:
                    latencies += [now - begun for begun in ended]
                    following = [connection.call(next(calls)) for _ in ended]
                    connection.socket.sendall(b"".join(following))
    took = time.perf_counter() - started
    for connection in opened:
        connection.socket.close()
    if len(latencies) < 2:  # noqa: PLR2004 - quantiles need two
        raise LoadError(f"{address}: no call was answered")
    hundredths = statistics.quantiles(latencies, n=100)
    return Rate(len(latencies) / took, hundredths[49] * 1e3, hundredths[98] * 1e3, len(latencies))

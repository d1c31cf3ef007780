"""One connection to the gRPC port: takes bytes to the HTTP/2 protocol, its events to calls, and what they send to the socket.

What is sent in one iteration of the loop leaves in one write. No input raises out of this module. `check` applies the timeouts once per tick.
"""

import asyncio
import contextlib
import random
import typing

from typing_extensions import override

from naiad.protocol.grpc.call import RpcStatus
from naiad.protocol.grpc.transport.native import responses
from naiad.protocol.grpc.transport.native.call_head import (
    CallHead,
    CallMetadata,
    head_of,
    timeout_of,
)
from naiad.protocol.grpc.transport.native.departure import Departure
from naiad.protocol.grpc.transport.native.direct_reader import DirectReader
from naiad.protocol.grpc.transport.native.keepalive import Keepalive, Verdict
from naiad.protocol.grpc.transport.native.reading_turns import FULL_READ_BYTES, ReadingTurns
from naiad.protocol.grpc.transport.native.refused import ForeignRequest, RefusedCall
from naiad.protocol.grpc.transport.native.service import (
    DEADLINE,
    GIVEN_UP,
    NO_METHOD,
    NO_TIMEOUT,
    TOO_MUCH_METADATA,
    TOO_OLD,
    BegunCall,
    Entry,
    GrpcService,
)
from naiad.protocol.grpc.transport.native.stream_call import StreamCall
from naiad.protocol.grpc.transport.native.tls import ALPN
from naiad.protocol.grpc.transport.native.unary_call import UnaryCall
from naiad.protocol.transport.http2.connection import Http2Server
from naiad.protocol.transport.http2.errors import ErrorCode
from naiad.protocol.transport.http2.events import (
    ConnectionFailed,
    DataReceived,
    Event,
    PingAnswered,
    PingReceived,
    RequestReceived,
    StreamDrained,
    StreamEnded,
    StreamReset,
    WholeRequest,
)
from naiad.protocol.transport.http2.header_blocks import MAX_LIST_BYTES, Headers
from naiad.protocol.transport.http2.sender import TURN_BYTES
from naiad.protocol.transport.http2.streams import State, Stream
from naiad.protocol.transport.idle_reader import IDLE_S
from naiad.protocol.transport.low_water import LowWaterMark
from naiad.protocol.transport.peer import Peer

_CLOSED = State.CLOSED

_PREFACE_S = 20.0
"""How long a client may take for its preface and first SETTINGS."""

_KEEPALIVE_PING = b"keepaliv"


class GrpcConnection(asyncio.Protocol):
    """The protocol of one accepted socket. Attributes: `h2`, its HTTP/2; `peer`, the client's address behind its family."""

    __slots__ = (
        "__weakref__", "_began", "_closing", "_departure", "_direct", "_goes_on", "_keepalive", "_lost", "_mark", "_peer", "_scheduled", "_service",
        "_ticked", "_transport", "_turns", "h2", "peer",
    )  # fmt: skip

    # from `connection_made` on
    _transport: asyncio.Transport
    _peer: Peer
    _keepalive: Keepalive

    def __init__(self, service: GrpcService) -> None:
        self._service = service
        self.h2 = Http2Server(service.blocks, service.limits)
        self.peer = ""
        self._scheduled = self._goes_on = False
        self._closing = self._lost = False
        self._direct = False  # `DirectReader` is the transport's protocol
        self._mark: LowWaterMark | None = None
        self._turns: ReadingTurns | None = None  # of a client that sends much at once
        self._departure: Departure | None = None  # from the first GOAWAY on
        self._ticked = self._began = 0.0

    # Called by the event loop

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        service = self._service
        self._transport = typing.cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=service.transport.write_high_bytes)
        self._peer = Peer(self._transport)
        address = self._peer.address()
        if address is not None:
            host, port = address
            self.peer = f"ipv6:%5B{host}%5D:{port}" if ":" in host else f"ipv4:{host}:{port}"
        registry = service.registry
        registry.add(self)
        self._began = self._ticked = registry.now
        self._keepalive = Keepalive(service.settings, registry.now, random.uniform(0.9, 1.1))  # noqa: S311 - spreads the load
        secured = transport.get_extra_info("ssl_object")
        if secured is not None and secured.selected_alpn_protocol() != ALPN:
            self._close()
            return
        self._flush()
        if registry.draining:
            self._ask_to_go("")

    @override
    def data_received(self, data: bytes) -> None:
        if self._closing:
            return  # read so that the kernel does not answer it with a reset, see `_leave`
        self._receive(data)

    def _receive(self, data: bytes) -> None:
        h2 = self.h2
        self._take(h2.receive(data))
        if h2.behind or len(data) >= FULL_READ_BYTES:
            self._end_turn()
        if h2.incoming.stream is not None and not h2.behind:
            self._read_directly()

    def _end_turn(self) -> None:
        """Read no more before the next iteration of the loop: other clients are served meanwhile."""
        if self._turns is None:
            self._turns = ReadingTurns(self, self._service.loop, self._transport)
        self._turns.end()

    def go_on_reading(self) -> None:
        """See `Reading`."""
        if not self._closing:
            if self.h2.sender.held:
                return  # `resume_writing` goes on
            if self.h2.behind:
                self._receive(b"")
        if not (self._transport.is_closing() or (self._turns is not None and self._turns.waits)):
            self._transport.resume_reading()

    def _read_directly(self) -> None:
        """A frame is not whole, or more come behind it: have a long message read to where it belongs."""
        if self.h2.fills and not (self._direct or self._transport.is_closing()):
            self._direct = True
            if self._mark is None:
                self._mark = LowWaterMark(self._service.loop, self._transport)
            self._mark.wait_for(self.h2.awaited)
            self._transport.set_protocol(DirectReader(self, self._service.read_into, self._mark))

    def direct_received(self, buffer: bytearray, count: int) -> list[Event]:
        """See `Reads`."""
        if self._closing:
            return []
        events = self.h2.receive_in(buffer, count)
        self._take(events)
        if self.h2.behind:
            self._end_turn()
        return events

    def direct_ended(self) -> None:
        """See `Reads`."""
        if not self._transport.is_closing():
            self._direct = False
            self._transport.set_protocol(self)

    def _take(self, events: list[Event]) -> None:
        self._keepalive.heard(self._service.registry.now)
        for event in events:
            if type(event) is WholeRequest:
                stream = event.stream
                self._begin(stream, event.headers)
                call = stream.call
                if call is not None:
                    call.data(event)
            elif isinstance(event, DataReceived):
                call = event.stream.call
                if call is not None:
                    call.data(event)
            elif isinstance(event, RequestReceived):
                self._begin(event.stream, event.headers)
                if event.ended and event.stream.call is not None:
                    event.stream.call.ended()
            else:
                self._other(event)
        h2 = self.h2
        if h2.sender.out or self._departure is not None or h2.failed:
            self._flush()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = self._closing = True
        self._service.registry.remove(self)
        self._departure = None
        if self._mark is not None:
            self._mark.close()
        for stream in self.h2.streams.all():
            call, stream.call = stream.call, None
            if call is not None:
                call.reset()
        self.h2.streams.by_id.clear()

    @override
    def pause_writing(self) -> None:
        """The client does not read: responses wait, and nothing more is taken from it."""
        self.h2.streams.hold(held=True)
        if not self._transport.is_closing():
            self._transport.pause_reading()

    @override
    def resume_writing(self) -> None:
        self._sent(self.h2.streams.hold(held=False))
        self.go_on_reading()
        self._flush()

    # Called by the registry and the listener

    def check(self, now: float) -> None:
        """Apply the timeouts."""
        if now - self._ticked >= 1.0:
            self._ticked = now
            self.h2.tick()
        if self._closing:
            self._check_leaving(now)
            return
        limits = self._service.transport
        if self.h2.sender.held and self._peer.is_stuck(now, limits.write_stall_timeout):
            self.cut()
            return
        if not self.h2.began and now - self._began >= _PREFACE_S:
            self._break_off(ErrorCode.SETTINGS_TIMEOUT, "no connection preface in time")
            return
        self._note_sent()
        self._rest_if_idle(now)
        match self._keepalive.verdict(now, calls=bool(self.h2.streams)):
            case Verdict.NOTHING:
                return
            case Verdict.PING:
                self.h2.ping(_KEEPALIVE_PING)
                self._flush()
            case Verdict.OLD:
                self._ask_to_go(TOO_OLD.message)
            case Verdict.DEAD:
                self.cut()
            case Verdict.TOO_OLD:
                self.give_up(TOO_OLD)

    def _check_leaving(self, now: float) -> None:
        if self._peer.is_stuck(now, self._service.transport.linger_timeout):
            self.cut()
        elif self._peer.has_all() and not self._transport.is_closing():
            # Not twice: asyncio forgets a TLS connection that is closed again.
            self._transport.close()

    def _rest_if_idle(self, now: float) -> None:
        if not self.h2.streams and self._keepalive.silent_s(now) >= IDLE_S:
            self._direct = False
            self._service.registry.rest(self, self._transport)

    def drain(self, *, close_idle: bool) -> None:
        """Ask the client to go; the connection closes after its calls (RFC 9113, section 6.8)."""
        del close_idle  # a client may be sending: GOAWAY comes first in any case
        self._ask_to_go("")

    def _ask_to_go(self, why: str) -> None:
        if self._departure is not None or self._closing:
            return
        owes = bool(self.h2.streams) or not self._peer.has_all()
        self._departure = Departure(self, self._service, self._keepalive, owes=owes)
        self._departure.begin(why)
        self._flush()

    def give_up(self, status: RpcStatus = GIVEN_UP) -> None:
        """End every call, and close."""
        for stream in self.h2.streams.all():
            if stream.call is not None:
                stream.call.give_up(status)
        self.h2.finish(status.message)
        self._flush()
        self._leave()

    def finish(self) -> None:
        """Take no more calls. A client that waited for nothing and has sent nothing since it was asked to go is not waited for. Idempotent."""
        if self._closing:
            return
        self.h2.finish()
        self._flush()
        departure = self._departure
        if departure is not None and not self.h2.streams and departure.is_client_gone():
            self.cut()

    def cut(self) -> None:
        """Abort the connection and cancel its calls."""
        self._transport.abort()

    @property
    def is_settled(self) -> bool:
        """Whether the client knows that no further call is taken."""
        return self._closing or self.h2.streams.final is not None

    @property
    def awaits_message(self) -> bool:
        """Whether the first message of a stream is still to come."""
        streams = self.h2.streams.all()
        return any(isinstance(each.call, StreamCall) and not each.call.began for each in streams)

    # For calls

    def flush_soon(self) -> None:
        """Write what is to be sent at the end of this iteration of the loop."""
        if not self._scheduled:
            self._scheduled = True
            self._service.loop.call_soon(self._flush)

    # Inside

    def _begin(self, stream: Stream, headers: Headers) -> None:
        """A request: find its method, admit it, and begin the call."""
        service = self._service
        if stream.state is _CLOSED:
            return  # reset in the same read: nothing is begun for it
        block = headers.block
        if block.size > MAX_LIST_BYTES:
            self._refuse(stream, TOO_MUCH_METADATA)
            return
        head: CallHead = block.memo or head_of(headers)
        if head.http_status != 200:  # noqa: PLR2004 - OK
            stream.call = ForeignRequest(self, stream, head.http_status)
            return
        path = head.path
        entry = service.entries.get(path)
        if entry is None or path not in service.methods.unchecked:
            refused = self._refusal(path, entry, headers)
            if refused is not None or entry is None:
                self._refuse(stream, refused or NO_METHOD)
                return
        if not self.h2.asked:
            self.h2.give_up_table()
        timeout = timeout_of(headers, head) if headers.places else head.timeout
        if timeout is not None and timeout <= 0:
            self._refuse(stream, DEADLINE if timeout == 0 else NO_TIMEOUT)
            return
        begun = BegunCall(stream, headers, head, entry, timeout)
        if entry.streaming is not None:
            stream.call = StreamCall(self, service, begun)
            return
        call = stream.call = UnaryCall(self, service, begun)
        if timeout is not None:
            service.deadlines.add_brief(call, timeout)

    def _refusal(self, path: str, entry: Entry | None, headers: Headers) -> RpcStatus | None:
        """Why a call may not begin."""
        refused = NO_METHOD if entry is None else entry.refused
        return refused or self._service.methods.admit(path, CallMetadata(headers))

    def _refuse(self, stream: Stream, status: RpcStatus) -> None:
        """Answer a call that may not begin: now if its client has finished sending."""
        if stream.state is State.HALF_CLOSED_REMOTE:
            self.h2.streams.send_headers(stream, responses.trailers_only(status), end_stream=True)
        else:
            stream.call = RefusedCall(self, self._service, stream, status)

    def _other(self, event: Event) -> None:
        match event:
            case StreamEnded():
                if event.stream.call is not None:
                    event.stream.call.ended()
            case StreamReset():
                call, event.stream.call = event.stream.call, None
                if call is not None:
                    call.reset()
            case StreamDrained():
                if event.stream.call is not None:
                    event.stream.call.drained()
            case PingReceived():
                self._pinged()
            case PingAnswered():
                self._answered(event.payload)
            case ConnectionFailed():
                self._fail(event.code, event.why)
            case _:
                pass

    def _pinged(self) -> None:
        self._note_sent()
        if self._keepalive.is_ping_too_many(self._service.registry.now, calls=bool(self.h2.streams)):  # fmt: skip
            self._break_off(ErrorCode.ENHANCE_YOUR_CALM, "too_many_pings")

    def _answered(self, ping: bytes) -> None:
        if self._departure is not None:
            self._departure.answered(ping)

    def _note_sent(self) -> None:
        """Tell the rules about pings what was sent since they were last asked."""
        if self.h2.sender.sent:
            self.h2.sender.sent = False
            self._keepalive.sent_data()

    def _break_off(self, code: ErrorCode, why: str) -> None:
        self.h2.fail(code, why)
        self._fail(code, why)

    def _fail(self, code: ErrorCode, why: str) -> None:
        """The client broke a rule; GOAWAY is in the output."""
        self._service.log_failure(self.peer, code, why)
        self._flush()
        self._close()

    def _flush(self) -> None:
        self._scheduled = False
        h2 = self.h2
        sender = h2.sender
        more = sender.turn <= 0 and sender.wants_turn
        out, sender.out = sender.out, []
        sender.turn = TURN_BYTES
        if out and not self._closing:
            if len(out) == 1:
                self._transport.write(out[0])
            else:
                self._transport.writelines(out)
        if h2.streams.final is not None and not h2.streams:
            self._leave()
        if more and not (self._goes_on or self._closing):
            self._goes_on = True
            self._service.loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        """Send more of long data."""
        self._goes_on = False
        if not self._closing:
            self._sent(self.h2.streams.go_on())
            self._flush()

    @staticmethod
    def _sent(streams: list[Stream]) -> None:
        """Tell the calls of these streams that all their data are sent."""
        for stream in streams:
            if stream.call is not None:
                stream.call.drained()

    def _leave(self) -> None:
        """Say that nothing more is sent, and close once the client has everything: it closes too, or `check` sees it.

        A socket that is closed while something is unread, an acknowledgement say, is reset: what it holds of our responses would be lost.
        """
        if not self._closing:
            self._closing = True
            self._peer.drained()
            if self._transport.can_write_eof() and not self._transport.is_closing():
                with contextlib.suppress(OSError):  # the client has gone
                    self._transport.write_eof()

    def _close(self) -> None:
        if not self._closing:
            self._closing = True
            self._transport.close()

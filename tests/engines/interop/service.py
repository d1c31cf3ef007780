"""grpc.testing.TestService, as gRPC's interop test descriptions have it, on the native engine."""

import asyncio
import collections
import collections.abc
import typing

from typing_extensions import override

from naiad.protocol.grpc.call import (
    Metadata,
    OnRpcResponse,
    RpcCall,
    RpcStatus,
    Streaming,
    StreamWriter,
    Unary,
    ValuesIn,
)
from naiad.protocol.grpc.settings import GrpcSettings
from naiad.protocol.grpc.transport.native.listener import NativeGrpcServer
from naiad.protocol.grpc.transport.native.service import Extras, NativeCall
from tests.engines.interop import messages

SERVICE = "/grpc.testing.TestService/"
INITIAL = "x-grpc-test-echo-initial"
TRAILING = "x-grpc-test-echo-trailing-bin"

_INVALID_ARGUMENT = 3


class TestService:
    """A `MethodTable`."""

    __test__ = False  # no test of pytest's

    def __init__(self) -> None:
        self.unary: dict[str, Unary] = {
            SERVICE + "EmptyCall": _empty_call,
            SERVICE + "CacheableUnaryCall": _unary_call,
            SERVICE + "UnaryCall": _unary_call,
        }
        self.streaming: dict[str, Streaming] = {
            SERVICE + "StreamingInputCall": _InputCall,
            SERVICE + "StreamingOutputCall": _OutputCall,
            SERVICE + "FullDuplexCall": _OutputCall,
            SERVICE + "HalfDuplexCall": _HalfDuplexCall,
        }
        self.refused: collections.abc.Mapping[str, RpcStatus] = {}
        self.compressed = frozenset((*self.unary, *self.streaming))
        self.unchecked = self.compressed
        self.values_in: collections.abc.Mapping[str, ValuesIn] = {}

    def admit(self, path: str, metadata: Metadata) -> RpcStatus | None:
        return None

    def shut(self) -> None:
        """The tests end their calls."""


def server(**settings: typing.Any) -> NativeGrpcServer:
    """The service on a free port; responses may be compressed where a call asks for it."""
    chosen = {"address": "127.0.0.1", "port": 0, "infer_response_compression_level": "low"}
    return NativeGrpcServer(GrpcSettings(**{**chosen, **settings}), TestService())


def _native(call: RpcCall) -> NativeCall:
    return typing.cast("NativeCall", call)


def _echo(call: RpcCall) -> Extras:
    """What goes out beside the messages: the metadata that the client asks to have back."""
    extras = Extras(compress=False)
    sent = tuple(call.invocation_metadata() or ())
    extras.initial = tuple((key, value) for key, value in sent if key == INITIAL)
    extras.trailing = tuple((key, value) for key, value in sent if key == TRAILING)
    _native(call).extras = extras
    return extras


def _payload(size: int) -> dict[str, bytes]:
    return {"body": bytes(size)}


def _misunderstood(call: RpcCall, request: typing.Any) -> RpcStatus | None:
    """The error of a message that is not compressed and should be, or the reverse."""
    if request.HasField("expect_compressed"):
        expected, compressed = request.expect_compressed.value, _native(call).compressed
        if expected != compressed:
            return RpcStatus(
                _INVALID_ARGUMENT, f"compressed: expected {expected}, came {compressed}"
            )
    return None


def _empty_call(body: bytes, call: RpcCall, on_response: OnRpcResponse) -> None:
    on_response(b"")


def _unary_call(body: bytes, call: RpcCall, on_response: OnRpcResponse) -> None:
    extras = _echo(call)
    request = messages.SimpleRequest.FromString(body)
    misunderstood = _misunderstood(call, request)
    status = request.response_status
    if misunderstood is not None:
        on_response(misunderstood)
    elif status.code:
        on_response(RpcStatus(status.code, status.message))
    else:
        extras.compress = request.response_compressed.value
        response = messages.SimpleResponse(payload=_payload(request.response_size))
        if request.fill_server_id:
            response.server_id = "the only one"
        on_response(response.SerializeToString())


class _Call:
    """What the streams have in common; a `StreamHandler`."""

    def __init__(self, call: RpcCall, writer: StreamWriter) -> None:
        self._call = call
        self._extras = _echo(call)
        self._writer = writer
        self._ended = self._paused = self._half_closed = False

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False

    def cancel(self) -> None:
        self._ended = True

    def may_take(self) -> bool:
        return not self._paused

    def has_sequences(self) -> bool:
        return False


class _InputCall(_Call):
    """StreamingInputCall: the sum of the payloads' sizes, once the client has sent all."""

    _bytes = 0

    def take(self, body: bytes) -> None:
        request = messages.StreamingInputCallRequest.FromString(body)
        misunderstood = _misunderstood(self._call, request)
        if misunderstood is not None:
            self._writer.end(misunderstood)
        self._bytes += len(request.payload.body)

    def half_close(self) -> None:
        response = messages.StreamingInputCallResponse(aggregated_payload_size=self._bytes)
        self._writer.send(response.SerializeToString())
        self._writer.end(None)


class _OutputCall(_Call):
    """StreamingOutputCall and FullDuplexCall: the responses that each request asks for, each after its interval."""

    _at_the_end = False

    def __init__(self, call: RpcCall, writer: StreamWriter) -> None:
        super().__init__(call, writer)
        self._wanted: collections.deque[typing.Any] = collections.deque()
        self._running = False

    def take(self, body: bytes) -> None:
        request = messages.StreamingOutputCallRequest.FromString(body)
        status = request.response_status
        if status.code:
            self._writer.end(RpcStatus(status.code, status.message))
            return
        self._wanted += request.response_parameters
        if not self._at_the_end:
            self._run()

    def half_close(self) -> None:
        self._half_closed = True
        self._run()

    @override
    def resume(self) -> None:
        super().resume()
        self._run()

    @override
    def may_take(self) -> bool:
        return super().may_take() and (self._at_the_end or not self._wanted)

    def _run(self) -> None:
        """Send what is wanted; one at a time waits for its interval."""
        while self._wanted and not (self._ended or self._paused or self._running):
            wanted = self._wanted[0]
            if wanted.interval_us:
                self._running = True
                asyncio.get_running_loop().call_later(wanted.interval_us / 1e6, self._waited)
                return
            self._send()
        if self._half_closed and not self._wanted and not self._ended:
            self._writer.end(None)

    def _waited(self) -> None:
        self._running = False
        if not self._ended and self._wanted:
            self._wanted[0].interval_us = 0
            self._run()

    def _send(self) -> None:
        wanted = self._wanted.popleft()
        self._extras.compress = wanted.compressed.value
        response = messages.StreamingOutputCallResponse(payload=_payload(wanted.size))
        self._writer.send(response.SerializeToString())
        if not self._wanted:
            self._writer.capacity()


class _HalfDuplexCall(_OutputCall):
    """HalfDuplexCall: the responses to all requests, once the client has sent all."""

    _at_the_end = True

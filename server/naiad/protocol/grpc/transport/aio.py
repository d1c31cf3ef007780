"""Carries the methods by grpc.aio, on the server's own event loop.

Bytes go through as they are: no serialisers. grpc.aio wants one coroutine per call, so each call that has no response at once costs
one future; grpc.aio itself costs far more (see docs). A client that leaves and a deadline that passes both cancel
the coroutine, which cancels the inference (row 10.24). Importing this module imports grpc, and nothing else here does.
"""

import asyncio
import collections.abc
import functools
import logging
import typing

import grpc
import grpc.aio
from typing_extensions import override

from naiad.protocol.grpc import retry_info
from naiad.protocol.grpc.call import Response, RpcStatus, Streaming, Unary, in_one_piece
from naiad.protocol.grpc.codec.compression import COMPRESSED
from naiad.protocol.grpc.methods import INFER, REFUSED, Methods
from naiad.protocol.grpc.settings import (
    CannotServeError,
    GrpcSettings,
    cannot_listen,
    channel_arguments,
    target,
)
from naiad.protocol.grpc.transport.aio_stream import BidiStream, joined
from naiad.protocol.grpc.transport.calls_in_progress import CallsInProgress, complete
from naiad.protocol.grpc.transport.credentials import server_credentials
from naiad.protocol.grpc.transport.message_memory import LARGE_MESSAGE_BYTES
from naiad.protocol.transport.listener import UNANSWERED_GRACE_S

_log = logging.getLogger(__name__)

_GRPC_LOGGER = "grpc._cython.cygrpc"
_CLIENT_HAS_GONE = "ExecuteBatchError raised in core by servicer method"

_HOLD_LIMIT_S = 0.5
"""How long responses are kept back at most when the port closes: see `calls_in_progress.py`."""

_STATUS = {status.value[0]: status for status in grpc.StatusCode}


class GrpcServer:
    """The gRPC port; a `Frontend`."""

    def __init__(self, settings: GrpcSettings, methods: Methods) -> None:
        self._settings = settings
        self._methods = methods
        self._server: typing.Any = None
        self._started = False
        self._calls = CallsInProgress()
        self._seen = 0
        self.address: tuple[str, int] = (settings.address, settings.port)
        """Where it listens; with the real port in place of 0 once that is taken."""

    async def reserve(self) -> None:
        """Take the port without serving: clients that connect wait for `start`.

        Raises:
            CannotServeError: the port or a TLS file cannot be used; the message names the option.
        """
        settings = self._settings
        self._server = grpc.aio.server(options=channel_arguments(settings))
        compresses = settings.infer_response_compression_level != "none"
        self._server.add_generic_rpc_handlers(
            (_Handlers(self._methods, self._calls, settings, compresses=compresses),)
        )
        try:
            port = _bind(self._server, settings)
        except CannotServeError:
            await self.close(0)
            raise
        self.address = (settings.address, port)

    def announce(self, on_client: collections.abc.Callable[[], None]) -> None:
        """See `Frontend`: with each call."""
        self._calls.on_arrival = on_client

    async def start(self) -> None:
        """Serve; takes the port first if `reserve` did not, and raises what `reserve` raises."""
        if self._server is None:
            await self.reserve()
        self._started = True
        logging.getLogger(_GRPC_LOGGER).addFilter(_FILTER)  # a second time changes nothing
        await self._server.start()

    def was_in_use(self) -> bool:
        """See `Frontend`."""
        calls, before = self._calls, self._seen
        self._seen = calls.arrived
        return bool(calls.waiting or calls.streams) or calls.arrived != before

    def begin_drain(self) -> None:
        """Change nothing: calls are taken, and readiness says no. grpc.aio sends GOAWAY only when it takes no more calls."""

    async def close(self, timeout: float) -> int:  # noqa: ASYNC109 - see `Frontend`
        """Take no more connections, refuse new calls (row 10.34), let those in progress finish, then give them up. Idempotent.

        Args:
            timeout: seconds that calls in progress have. Then they end with UNAVAILABLE, and are cancelled in the engine too.

        Returns:
            How many calls were given up.
        """
        self._methods.shut()
        if self._server is None:
            return 0
        if not self._started:
            # grpc.aio gives the port and its core objects back only if it was started.
            self._started = True
            await self._server.start()
        loop, calls = asyncio.get_running_loop(), self._calls
        give_up_at = loop.time() + max(timeout, 0.0)
        timer = loop.call_at(give_up_at, calls.give_up)
        stopping: asyncio.Task[None] | None = None
        try:
            await calls.hold(min(timeout, _HOLD_LIMIT_S))
            stopping = loop.create_task(
                self._server.stop(max(0.0, give_up_at - loop.time()) + UNANSWERED_GRACE_S)
            )
            await asyncio.sleep(0)  # its first step sends GOAWAY
            calls.release()
            await stopping
        finally:
            if stopping is not None:
                stopping.cancel()
            calls.release()
            timer.cancel()
            calls.memory.close()
        return calls.given_up


def _bind(server: typing.Any, settings: GrpcSettings) -> int:
    where = target(settings)
    credentials = None if settings.tls is None else server_credentials(settings.tls)
    try:
        if credentials is None:
            port: int = server.add_insecure_port(where)
        else:
            port = server.add_secure_port(where, credentials)
    except RuntimeError:
        raise cannot_listen(settings) from None
    return port


class _Handlers:
    """Selects the handler of a call, as a `grpc.GenericRpcHandler`; grpc.aio calls it when it has the metadata, before the message.

    A call that is refused by its metadata is handled as a stream whose messages are never read: of a message that is coming only what
    HTTP/2's flow control lets through (64 KiB at first) is ever held, and it is freed with the call.
    """

    def __init__(
        self, methods: Methods, calls: CallsInProgress, settings: GrpcSettings, *, compresses: bool
    ) -> None:
        limit = settings.max_decompressed_bytes
        self._admit = methods.admit
        self._calls = calls
        table: dict[str, typing.Any] = {}
        for path, method in methods.unary.items():
            plain = compresses and path != INFER  # row 10.36: only infer responses
            behaviour = _unary(method, calls, limit, plain=plain)
            table[path] = grpc.unary_unary_rpc_method_handler(behaviour)
        for path, streaming in methods.streaming.items():
            table[path] = grpc.stream_stream_rpc_method_handler(_streaming(streaming, calls, limit))
        for path, refused in REFUSED.items():
            table[path] = _refusing(refused, calls)
        self._table = table

    def service(self, handler_call_details: typing.Any) -> typing.Any:
        """The handler of a call; None for an unknown path."""
        self._calls.arrived += 1
        self._calls.on_arrival()
        path = handler_call_details.method
        handler = self._table.get(path)
        if handler is None:
            return None
        refused = self._admit(path, handler_call_details.invocation_metadata)
        return handler if refused is None else _refusing(refused, self._calls)


Behaviour = collections.abc.Callable[
    [bytes, typing.Any], collections.abc.Coroutine[None, None, bytes]
]


def _unary(method: Unary, calls: CallsInProgress, limit: int, *, plain: bool) -> Behaviour:
    memory = calls.memory

    async def behaviour(body: bytes, context: typing.Any) -> bytes:
        if body.startswith(COMPRESSED):
            decompressed = await calls.decompressed(body, limit)
            if isinstance(decompressed, RpcStatus):
                _refuse(context, decompressed)
                return b""
            body = in_one_piece(decompressed)
        if len(body) > LARGE_MESSAGE_BYTES:
            memory.used()
        response_future: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        work = method(body, context, functools.partial(complete, response_future))
        if not response_future.done():
            await calls.answered(response_future, work)
        response = response_future.result()
        if calls.is_held:
            await calls.released()
        if isinstance(response, RpcStatus):
            _refuse(context, response)
            return b""
        if len(response) > LARGE_MESSAGE_BYTES:
            memory.used()
        if plain:
            context.disable_next_message_compression()
        return await joined(response)

    return behaviour


def _streaming(
    streaming: Streaming, calls: CallsInProgress, limit: int
) -> collections.abc.Callable[[typing.Any, typing.Any], collections.abc.Awaitable[None]]:
    async def behaviour(requests: typing.Any, context: typing.Any) -> None:
        bidi_stream = BidiStream(context, streaming, calls.memory, limit=limit)
        calls.streams.add(bidi_stream)
        try:
            refused = await bidi_stream.run()
        finally:
            calls.streams.discard(bidi_stream)
        if calls.is_held:
            await calls.released()
        if refused is not None:
            _refuse(context, refused)

    return behaviour


def _refusing(refused: RpcStatus, calls: CallsInProgress) -> typing.Any:
    async def behaviour(requests: typing.Any, context: typing.Any) -> None:
        if calls.is_held:
            await calls.released()
        _refuse(context, refused)

    return grpc.stream_stream_rpc_method_handler(behaviour)


def _refuse(context: typing.Any, refused: RpcStatus) -> None:
    """Set the status that a call ends with when its coroutine returns.

    `context.abort` would raise: the exception's traceback holds the coroutine's frame, and with it the request message, in a cycle
    that only the garbage collector ends.
    """
    context.set_code(_STATUS[refused.status])
    context.set_details(refused.message)
    if details := retry_info.details(refused):
        context.set_trailing_metadata(details)


class _ClientHasGone(logging.Filter):
    """Turns what grpc.aio logs when a client goes into a line at debug level, in place of an error with a traceback.

    A call that was cancelled, or whose deadline passed, just before its response is sent fails inside grpc.aio, which cannot always tell
    that the client has gone. Nothing is wrong with the server then: the client has its status, and the inference was cancelled or is done.
    """

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        if not message.startswith(_CLIENT_HAS_GONE):
            return True
        _log.debug(
            "the client has gone before its response was sent%s", message[len(_CLIENT_HAS_GONE) :]
        )
        return False


_FILTER = _ClientHasGone()

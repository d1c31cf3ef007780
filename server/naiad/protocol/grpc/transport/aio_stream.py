"""Runs streams on grpc.aio: requests from the client to a handler, responses from the handler to the client.

Two coroutines per stream, one reading and one writing. The writer passes a message to grpc only when grpc has sent the one before; the
queue is bounded: above a limit the handler is paused, and reading stops.
"""

import asyncio
import collections
import contextlib
import typing

import grpc.aio

from naiad.protocol.grpc.call import RpcStatus, Streaming
from naiad.protocol.grpc.transport.message_memory import LARGE, MessageMemory

HIGH_BYTES = 262_144
"""Unsent bytes of a stream above which the handler is paused; the buffers of grpc come on top."""

LOW_BYTES = HIGH_BYTES // 2


class BidiStream:
    """One stream; implements `call.StreamWriter`."""

    def __init__(self, context: typing.Any, streaming: Streaming, memory: MessageMemory) -> None:
        self._memory = memory
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._queue = collections.deque[bytes]()
        self._waiting = 0
        self._held = False
        self._ended = False
        self._refused: RpcStatus | None = None
        self._wakeup: asyncio.Future[None] | None = None
        self._capacity: asyncio.Future[None] | None = None
        self._handler = streaming(context, self)

    async def run(self) -> RpcStatus | None:
        """Run the stream to its end; returns a status other than OK. Cancelled when the client has gone or the server stops."""
        reading = self._loop.create_task(self._read())
        try:
            await self._write()
        finally:
            self._handler.cancel()
            # Free unsent messages now: grpc may keep this call for longer.
            self._queue.clear()
            reading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await reading
        return self._refused

    def send(self, message: bytes) -> None:
        """See `StreamWriter`."""
        self._queue.append(message)
        self._waiting += len(message)
        if self._waiting > HIGH_BYTES and not self._held:
            self._held = True
            self._handler.pause()
        wakeup = self._wakeup
        if wakeup is not None and not wakeup.done():  # no call of `_wake`: every message comes here
            wakeup.set_result(None)

    def capacity(self) -> None:
        """See `StreamWriter`."""
        _wake(self._capacity)

    def end(self, refused: RpcStatus | None) -> None:
        """See `StreamWriter`."""
        if not self._ended:
            self._ended = True
            self._refused = refused
            _wake(self._wakeup)

    async def _read(self) -> None:
        context, handler = self._context, self._handler
        while (body := await context.read()) is not grpc.aio.EOF:
            if len(body) > LARGE:
                self._memory.used()
            handler.take(body)
            body = b""  # free it while waiting for the next
            while not handler.may_take():
                self._capacity = self._loop.create_future()
                await self._capacity
        handler.half_close()

    async def _write(self) -> None:
        queue, write = self._queue, self._context.write
        while True:
            while queue:
                size = len(queue[0])
                if size > LARGE:
                    self._memory.used()
                await write(queue.popleft())
                self._waiting -= size
                if self._held and self._waiting <= LOW_BYTES:
                    self._held = False
                    self._handler.resume()
                    _wake(self._capacity)
            if self._ended:
                return
            self._wakeup = self._loop.create_future()
            await self._wakeup


def _wake(waiting: "asyncio.Future[None] | None") -> None:
    if waiting is not None and not waiting.done():
        waiting.set_result(None)

"""Runs streams on grpc.aio: requests from the client to a handler, responses from the handler to the client.

Two coroutines per stream, one reading and one writing. The writer passes a message to grpc only when grpc has sent the one before; the
queue is bounded: above a limit the handler is paused, and reading stops.
"""

import asyncio
import collections
import typing

import grpc.aio

from naiad.protocol.grpc.call import (
    JOINED_HERE,
    RpcStatus,
    Sent,
    Streaming,
    as_inference_error,
    in_one_piece,
    rpc_status,
)
from naiad.protocol.grpc.codec.compression import COMPRESSED, HERE, decompress
from naiad.protocol.grpc.settings import MAX_MESSAGE_BYTES
from naiad.protocol.grpc.transport.message_memory import LARGE_MESSAGE_BYTES, MessageMemory

HIGH_BYTES = 262_144
"""Unsent bytes of a stream above which the handler is paused; the buffers of grpc come on top."""

LOW_BYTES = HIGH_BYTES // 2

CANCEL_S = 0.05
"""How long a stream with open sequences goes on after its last message: grpc gives the end of a cancelled one like that of any other, and the
cancellation just after it."""


class BidiStream:
    """One stream; implements `call.StreamWriter`. `limit`: bytes that one message may have once it is decompressed."""

    def __init__(
        self,
        context: typing.Any,
        streaming: Streaming,
        memory: MessageMemory,
        *,
        limit: int = MAX_MESSAGE_BYTES,
    ) -> None:
        self._limit = limit
        self._memory = memory
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._queue = collections.deque[Sent]()
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
        reading.add_done_callback(self._reading_ended)
        try:
            await self._write()
        finally:
            self._handler.cancel()
            # Free unsent messages now: grpc may keep this call for longer.
            self._queue.clear()
            reading.cancel()
            await asyncio.wait((reading,))
        return self._refused

    def send(self, message: Sent) -> None:
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
            if body.startswith(COMPRESSED):
                body = await self._decompressed(body)
                if isinstance(body, RpcStatus):
                    self.end(body)
                    return
            if len(body) > LARGE_MESSAGE_BYTES:
                self._memory.used()
            handler.take(body)
            body = b""  # free it while waiting for the next
            while not handler.may_take():
                self._capacity = self._loop.create_future()
                await self._capacity
        if handler.has_sequences():
            await asyncio.sleep(CANCEL_S)
        handler.half_close()

    async def _decompressed(self, body: bytes) -> bytes | RpcStatus:
        if len(body) <= HERE:
            return decompress(body, self._limit)
        return await self._loop.run_in_executor(None, decompress, body, self._limit)

    def _reading_ended(self, reading: "asyncio.Task[None]") -> None:
        """End the stream if reading failed: nothing else would."""
        error = None if reading.cancelled() else reading.exception()
        if isinstance(error, Exception):
            self.end(rpc_status(as_inference_error(error, "reading the stream")))

    async def _write(self) -> None:
        queue, write = self._queue, self._context.write
        while True:
            while queue:
                size = len(queue[0])
                if size > LARGE_MESSAGE_BYTES:
                    self._memory.used()
                await write(await joined(queue.popleft()))
                self._waiting -= size
                if self._held and self._waiting <= LOW_BYTES:
                    self._held = False
                    self._handler.resume()
                    _wake(self._capacity)
            if self._ended:
                return
            self._wakeup = self._loop.create_future()
            await self._wakeup


async def joined(message: Sent) -> bytes:
    """A message in one piece, as grpc.aio takes it; a long one is joined in a thread."""
    if type(message) is bytes or len(message) <= JOINED_HERE:
        return in_one_piece(message)
    return await asyncio.get_running_loop().run_in_executor(None, in_one_piece, message)


def _wake(waiting: "asyncio.Future[None] | None") -> None:
    if waiting is not None and not waiting.done():
        waiting.set_result(None)

"""Carries streams by grpc.aio: what the client sends to a conversation, what that says to the client.

Two coroutines a stream, one reading and one writing. The writer takes a message only when grpc has taken the one before; what waits for
it is bounded: above a limit the conversation is told to hold, and reading stops.
"""

import asyncio
import collections
import contextlib
import typing

import grpc.aio

from naiad.protocol.grpc.call import Refusal, Streaming
from naiad.protocol.grpc.message_memory import LARGE, MessageMemory

HIGH_BYTES = 262_144
"""Unsent bytes of a stream above which nothing more is asked for; the writer's own buffers come on top."""

LOW_BYTES = HIGH_BYTES // 2


class Talk:
    """One stream; implements `call.Replies`.

    Args:
        context: grpc's side of the call.
        streaming: the method.
        memory: told of large messages.
    """

    def __init__(self, context: typing.Any, streaming: Streaming, memory: MessageMemory) -> None:
        self._memory = memory
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._queue = collections.deque[bytes]()
        self._waiting = 0
        self._held = False
        self._ended = False
        self._refused: Refusal | None = None
        self._news: asyncio.Future[None] | None = None
        self._room: asyncio.Future[None] | None = None
        self._conversation = streaming(context, self)

    async def run(self) -> Refusal | None:
        """Until it is over; gives the status that is not OK. Being cancelled means that the client left or the server is cut."""
        reading = self._loop.create_task(self._read())
        try:
            await self._write()
        finally:
            self._conversation.cancel()
            # What is unsent goes now: grpc may keep this call for longer.
            self._queue.clear()
            reading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await reading
        return self._refused

    def send(self, message: bytes) -> None:
        """See `Replies`."""
        self._queue.append(message)
        self._waiting += len(message)
        if self._waiting > HIGH_BYTES and not self._held:
            self._held = True
            self._conversation.hold()
        news = self._news
        if news is not None and not news.done():  # no call of `_wake`: every message comes here
            news.set_result(None)

    def room(self) -> None:
        """See `Replies`."""
        _wake(self._room)

    def end(self, refused: Refusal | None) -> None:
        """See `Replies`."""
        if not self._ended:
            self._ended = True
            self._refused = refused
            _wake(self._news)

    async def _read(self) -> None:
        context, conversation = self._context, self._conversation
        while (body := await context.read()) is not grpc.aio.EOF:
            if len(body) > LARGE:
                self._memory.used()
            conversation.take(body)
            body = b""  # not held while the next is waited for
            while not conversation.may_take():
                self._room = self._loop.create_future()
                await self._room
        conversation.half_close()

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
                    self._conversation.go_on()
                    _wake(self._room)
            if self._ended:
                return
            self._news = self._loop.create_future()
            await self._news


def _wake(waiting: "asyncio.Future[None] | None") -> None:
    if waiting is not None and not waiting.done():
        waiting.set_result(None)

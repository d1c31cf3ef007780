"""How the load of a model in a worker process ends: the worker says so, or the server finds that it will not."""

import asyncio

from naiad.errors import ErrorCode, InferenceError
from naiad.hosts.worker import codec, link


class Loading:
    """A load under way; only its first end counts. All of it is on the event loop.

    Args:
        loop: whose future it makes.
    """

    __slots__ = ("_ended",)

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._ended: asyncio.Future[None] = loop.create_future()

    async def wait(self) -> None:
        """Wait for the end.

        Raises:
            InferenceError: the worker refused to load, or `fail` was called.
        """
        await self._ended

    def take(self, kind: int, header: bytes | bytearray) -> bool:
        """A message of the worker came; gives back whether it was this load's end.

        Raises:
            Exception: it is an invalid message.
        """
        if self._ended.done():
            return False
        if kind == link.LOADED:
            self._ended.set_result(None)
        elif kind == link.REFUSED:
            code, message = codec.read_json(header)
            self._ended.set_exception(InferenceError(ErrorCode[code], message))
        else:
            return False
        return True

    def fail(self, error: InferenceError) -> None:
        """It will not load."""
        if not self._ended.done():
            self._ended.set_exception(error)

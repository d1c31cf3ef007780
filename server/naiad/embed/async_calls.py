"""Requests of tasks on the server's event loop: one that has one response, and one that has a stream of them."""

import asyncio
import types
from typing import Self

from naiad.core.request import InferRequest
from naiad.core.response import InferResponse
from naiad.core.timeouts import timeout
from naiad.embed.calls import Calls, Responses
from naiad.embed.requests import Result, result_of


def late(request: InferRequest, seconds: float | None) -> TimeoutError:
    """The error of a request whose response did not come in time."""
    return TimeoutError(
        f"model '{request.model_name}' has not responded within {seconds:g} s: the request is cancelled"
    )


class AsyncCall:
    """A request that has one response; a `Caller`."""

    __slots__ = ("_future",)

    def __init__(self) -> None:
        self._future: asyncio.Future[InferResponse] = asyncio.get_running_loop().create_future()

    def take(self, response: InferResponse) -> None:
        """See `Caller`."""
        if not self._future.done():
            self._future.set_result(response)

    async def run(self, calls: Calls, request: InferRequest, seconds: float | None) -> Result:
        """Send it and wait for its response; cancelling the task cancels it.

        Raises:
            InferenceError: it failed.
            TimeoutError: the seconds have passed.
        """
        handle = calls.begin(self, request)
        answered = False
        try:
            if seconds is None:
                response = await self._future
            else:
                async with timeout(seconds):
                    response = await self._future
            answered = True
        except TimeoutError:
            raise late(request, seconds) from None
        finally:
            calls.end(self)
            if handle is not None and not answered:
                handle.cancel()
        return result_of(response)


class AsyncStream:
    """The responses to a request, as an asynchronous iterator for one task; made by `AsyncServer.stream`. The request is cancelled when it is dropped."""

    def __init__(self, calls: Calls, request: InferRequest, seconds: float | None) -> None:
        self._request = request
        self._seconds = seconds
        self._ended = False
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[InferResponse | None] = asyncio.Queue()
        self._responses = Responses(request, self._queue.put_nowait, self._loop.call_soon)
        self._responses.begin(calls)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Result:
        """The outputs of the next response.

        Raises:
            InferenceError: the response says that the request, or a part of it, failed.
            TimeoutError: it did not come in time.
        """
        while not self._ended:
            response = await self._next()
            if response is None:
                break
            self._ended = response.final
            if not response.empty:
                return result_of(response)
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Cancel the request, unless it has ended; a task that waits for a response sees the end. Idempotent."""
        self._ended = True
        self._responses.cancel()
        self._queue.put_nowait(None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        await self.aclose()

    def __del__(self) -> None:
        if not self._ended and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._responses.cancel)

    async def _next(self) -> InferResponse | None:
        try:
            async with timeout(self._seconds):
                response = await self._queue.get()
        except TimeoutError:
            await self.aclose()
            raise late(self._request, self._seconds) from None
        except asyncio.CancelledError:
            await self.aclose()
            raise
        self._responses.backlog.took()
        return response

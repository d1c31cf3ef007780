"""The responses to a request as an iterator of the program's threads."""

import queue
import types
from typing import Self

from naiad.core.request import InferRequest
from naiad.core.response import InferResponse
from naiad.embed.async_calls import late
from naiad.embed.calls import STOPPED, Calls, Post, Responses
from naiad.embed.requests import Result, result_of
from naiad.errors import unavailable


class Stream:
    """An iterator over the outputs of each response; made by `Server.stream`. One thread at a time takes from it; any thread may close it.

    Args:
        post: of the server's loop; returns whether the loop runs.
        calls: of the server.
        request: sent at once.
        seconds: to wait for each response; None: any time.

    Raises:
        InferenceError: UNAVAILABLE: the server does not run.
    """

    def __init__(
        self, post: Post, calls: Calls, request: InferRequest, seconds: float | None
    ) -> None:
        self._request = request
        self._seconds = seconds
        self._post = post
        self._ended = True
        self._queue: queue.SimpleQueue[InferResponse | None] = queue.SimpleQueue()
        self._responses = Responses(request, self._queue.put, post)
        responses = self._responses
        if not post(lambda: responses.begin(calls)):
            raise unavailable(STOPPED)
        self._ended = False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Result:
        """The outputs of the next response.

        Raises:
            InferenceError: the response says that the request, or a part of it, failed.
            TimeoutError: it did not come in time.
        """
        while not self._ended:
            try:
                response = self._queue.get(timeout=self._seconds)
            except queue.Empty:
                self.close()
                raise late(self._request, self._seconds) from None
            if response is None:
                break
            self._responses.backlog.took()
            self._ended = response.final
            if not response.empty:
                return result_of(response)
        raise StopIteration

    def close(self) -> None:
        """Cancel the request, unless it has ended; a thread that waits for a response sees the end. Idempotent."""
        if not self._ended:
            self._ended = True
            self._post(self._responses.cancel)
            self._queue.put(None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

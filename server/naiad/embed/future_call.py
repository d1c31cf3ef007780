"""A request of a program that does not wait for it: a `concurrent.futures.Future` of its result."""

import collections.abc
import concurrent.futures
import threading
import typing

from typing_extensions import override

from naiad.core.inference import Inference
from naiad.core.request import InferRequest
from naiad.core.response import InferResponse
from naiad.embed.calls import STOPPED, Calls, Post
from naiad.embed.requests import Result, result_of
from naiad.errors import InferenceError, unavailable


class FutureCall:
    """A request that has one response, for which no thread has to wait; a `Caller`.

    Args:
        calls: of the server.
        request: not validated yet.
        post: has the loop make a call; says whether it still runs.

    Attributes:
        future: gets the result; cancelling it cancels the request.
    """

    __slots__ = ("_calls", "_ended", "_handle", "_request", "future")

    def __init__(self, calls: Calls, request: InferRequest, post: Post) -> None:
        self._calls = calls
        self._request = request
        self._handle: Inference | None = None
        self._ended = False
        self.future = ResultFuture(lambda: post(self._cancel))
        if not post(self._begin):
            # Perhaps the loop took it after all: the first of both answers stands.
            self.future.fail(unavailable(STOPPED))

    def take(self, response: InferResponse) -> None:
        """See `Caller`."""
        if not self._ended:
            self._end()
            self._handle = None  # which refers to this
            self.future.answer(response)

    def _begin(self) -> None:
        if not self._ended:
            handle = self._calls.begin(self, self._request)
            if not self._ended:
                self._handle = handle

    def _cancel(self) -> None:
        self._end()
        if self._handle is not None:
            self._handle.cancel()

    def _end(self) -> None:
        self._ended = True
        self._calls.end(self)


class ResultFuture(concurrent.futures.Future[Result]):
    """The result of a request; arrays are copied in the thread that asks for them first, not on the server's loop.

    Args:
        cancelled: called in the thread that cancels it.
    """

    def __init__(self, cancelled: collections.abc.Callable[[], object]) -> None:
        super().__init__()
        self._cancelled = cancelled
        self._once = threading.Lock()
        self._is_answered = False

    @override
    def cancel(self) -> bool:
        """Cancel the request; returns False if it has its result."""
        was_cancelled = self.cancelled()
        is_cancelled = super().cancel()
        if is_cancelled and not was_cancelled:
            self._takes()  # those who wait for several futures learn it by this alone
            self._cancelled()
            self._cancelled = _nothing
        return is_cancelled

    @override
    def result(self, timeout: float | None = None) -> Result:
        """The outputs by name; waits for them.

        Args:
            timeout: seconds to wait. The request goes on after it: `cancel` ends it.

        Raises:
            InferenceError: the request failed.
            TimeoutError: there is no response in time.
            CancelledError: it was cancelled.
        """
        found: Result | InferResponse = super().result(timeout)
        if isinstance(found, Result):
            return found
        with self._once:
            made = self._result
            if not isinstance(made, Result):
                # In its place: what the model's batch holds is free.
                made = self._result = result_of(found)
            return made

    def answer(self, response: InferResponse) -> None:
        """Its response has come."""
        error = response.error
        if error is not None:
            # Responses of one batch share an error, and callers in several threads would share what is raised.
            self.fail(InferenceError(error.code, error.message, reason=error.reason))
        elif self._takes():
            self.set_result(typing.cast(typing.Any, response))

    def fail(self, error: InferenceError) -> None:
        """There will be no response."""
        if self._takes():
            self.set_exception(error)

    def _takes(self) -> bool:
        with self._once:
            is_first, self._is_answered = not self._is_answered, True
        if not (is_first and self.set_running_or_notify_cancel()):
            return False
        self._cancelled = (
            _nothing  # which refers to its call: without a cycle both are freed at once
        )
        return True


def _nothing() -> None:
    """Of a future that has its result."""

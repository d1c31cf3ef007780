"""The requests of a program that are in progress; on the server's event loop, but for what says otherwise."""

import collections.abc
import typing

from naiad.core.flow import Flow
from naiad.core.inference import Inference
from naiad.core.request import InferRequest
from naiad.core.response import InferResponse, failure
from naiad.engine.api import Engine
from naiad.errors import InferenceError, invalid, unavailable

STOPPED = "the server is not running: it was stopped, or has not been started"

AHEAD = 64
"""Responses of a stream that may wait for the program, until the model is paused."""


class Caller(typing.Protocol):
    """Waits for the responses to a request."""

    def take(self, response: InferResponse) -> None:
        """A response; the last one is final. Called again after a final one when the server stops, which has no effect."""


class Calls:
    """Begins requests, and fails those without an answer when the server has stopped.

    Args:
        engine: runs them.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine: Engine | None = engine
        self._waiting: dict[Caller, tuple[InferRequest, Inference | None]] = {}

    def begin(
        self, caller: Caller, request: InferRequest, flow: Flow | None = None
    ) -> Inference | None:
        """Run a request; the caller gets its responses and calls `end` after the last one.

        Args:
            caller: takes the responses, perhaps before this returns.
            request: not validated yet.
            flow: of a caller that takes any number of responses; None for one that takes one.

        Returns:
            The handle to cancel it; None if it has its final response.
        """
        engine = self._engine
        if engine is None:
            caller.take(failure(request, unavailable(STOPPED), version=request.model_version))
            return None
        try:
            model = engine.look_up(request.model_name, request.model_version)
            decoupled = model.traits.decoupled
            if decoupled and flow is None:
                raise invalid(  # noqa: TRY301 - one handler for whatever is refused
                    f"model '{request.model_name}' is decoupled, so that a request has any number of responses: take stream(…) in place of infer(…)"
                )
            self._waiting[caller] = request, None
            handle = model.infer(request, caller.take, flow if decoupled else None)
            if caller in self._waiting:
                self._waiting[caller] = request, handle
        except InferenceError as error:
            caller.take(failure(request, error, version=request.model_version))
        except Exception as error:  # noqa: BLE001 - arguments of types that no request has: the caller must not wait for ever
            wrong = invalid(f"the request cannot be sent, an argument is of a wrong type: {error}")
            caller.take(failure(request, wrong, version=request.model_version))
        else:
            return handle
        self.end(caller)
        return None

    @property
    def waiting(self) -> int:
        """So many callers wait."""
        return len(self._waiting)

    def end(self, caller: Caller) -> None:
        """The caller waits no more."""
        self._waiting.pop(caller, None)

    def close(self) -> None:
        """Begin nothing more. What has no answer by now fails and is cancelled, for its model has not ended in time. Idempotent."""
        self._engine = None
        waiting, self._waiting = self._waiting, {}
        for caller, (request, handle) in waiting.items():
            caller.take(failure(request, unavailable(STOPPED), version=request.model_version))
            if handle is not None:
                handle.cancel()


class Backlog:
    """Counts the responses of a stream that the program has not taken, and pauses the model. One thread of the program calls `took`, the loop the rest.

    Args:
        flow: of the request.
        post: has the loop make a call.
    """

    def __init__(
        self,
        flow: Flow,
        post: "Post",
    ) -> None:
        self._flow = flow
        self._post = post
        self._came = 0
        self._taken = 0
        self._paused = False

    def came(self) -> None:
        """A response was queued."""
        self._came += 1
        if not self._paused and self._came - self._taken >= AHEAD:
            self._paused = True
            self._flow.pause()
            # Again: the program may have taken all of them before it could see that the model is paused.
            if self._came - self._taken < AHEAD:
                self._resume()

    def took(self) -> None:
        """The program has taken a response."""
        self._taken += 1
        if self._paused and self._came - self._taken <= AHEAD // 2:
            self._post(self._resume)

    def _resume(self) -> None:
        if self._paused:
            self._paused = False
            self._flow.resume()


Post = collections.abc.Callable[[collections.abc.Callable[[], object]], object]
"""Has the loop make a call, in any thread."""


class Responses:
    """The responses to one request on their way to the program; a `Caller`.

    Args:
        request: not validated yet.
        put: gives the program a response; nothing after a final one.
        post: of the loop.
    """

    def __init__(
        self,
        request: InferRequest,
        put: collections.abc.Callable[[InferResponse], object],
        post: Post,
    ) -> None:
        self._request = request
        self._put = put
        self._flow = Flow()
        self.backlog = Backlog(self._flow, post)
        self._calls: Calls | None = None
        self._handle: Inference | None = None
        self._ended = False

    def begin(self, calls: Calls) -> None:
        """Send the request."""
        if self._ended:
            return
        self._calls = calls
        self._handle = calls.begin(self, self._request, self._flow)

    def take(self, response: InferResponse) -> None:
        """See `Caller`."""
        if self._ended:
            return
        if self._flow.overran():
            self.cancel()
            self._put(
                failure(self._request, _overrun(self._request), version=response.model_version)
            )
            return
        self._put(response)
        if response.final:
            # At a stop the model may still be paused: its thread must not wait for a program that takes nothing more.
            self.cancel()
        else:
            self.backlog.came()

    def cancel(self) -> None:
        """Cancel the request, unless it has ended; the program gets nothing more."""
        if not self._ended:
            handle = self._handle
            self._end()
            if handle is not None:
                handle.cancel()

    def _end(self) -> None:
        self._ended = True
        self._handle = None
        if self._calls is not None:
            self._calls.end(self)


def _overrun(request: InferRequest) -> InferenceError:
    return unavailable(
        f"model '{request.model_name}' sends faster than the stream is read, and does not wait: the request is cancelled; take its responses sooner"
    )

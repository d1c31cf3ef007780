"""Puts the responses to one request into the form that it asks for, on their way out; in a thread if that takes long."""

import abc
import asyncio
import collections
import functools

import msgspec

from naiad.core.inference import OnResponse
from naiad.core.response import NO_OUTPUTS, InferResponse
from naiad.errors import InferenceError, internal, unavailable


class FormedResponses(abc.ABC):
    """An `OnResponse` in front of another one; responses keep their order. All of it belongs to the event loop, but for `form` of what takes long.

    Args:
        on_response: gets the responses.
    """

    __slots__ = ("_on_response", "_waiting", "_working")

    WHAT = ""
    """What could not be done, for the client."""

    def __init__(self, on_response: OnResponse) -> None:
        self._on_response = on_response
        self._working = False
        self._waiting = collections.deque[InferResponse]()

    @abc.abstractmethod
    def form(self, response: InferResponse) -> InferResponse:
        """The response in the form that was asked for; one with an error if it has none. The argument has outputs and no error."""

    @abc.abstractmethod
    def takes_long(self, response: InferResponse) -> bool:
        """Whether `form` would keep the event loop for long."""

    def __call__(self, response: InferResponse) -> None:
        """See `OnResponse`."""
        if self._working:
            self._waiting.append(response)
        else:
            self._take(response)

    def _take(self, response: InferResponse) -> None:
        if response.error is not None or not response.outputs:
            self._on_response(response)
        elif not self.takes_long(response):
            self._on_response(self.form(response))
        else:
            self._working = True
            work = asyncio.get_running_loop().run_in_executor(None, self.form, response)
            work.add_done_callback(functools.partial(self._done, response))

    def _done(self, response: InferResponse, work: "asyncio.Future[InferResponse]") -> None:
        self._working = False
        if work.cancelled():  # the executor was shut down before the work began
            text = "the server is shutting down; send the request to another one"
            self._on_response(failed(response, unavailable(text)))
        elif (error := work.exception()) is not None:
            self._on_response(failed(response, internal(f"{self.WHAT}: {type(error).__name__}")))
        else:
            self._on_response(work.result())
        while self._waiting and not self._working:
            self._take(self._waiting.popleft())


def failed(response: InferResponse, error: InferenceError) -> InferResponse:
    """The response that is sent in place of one that cannot have its form."""
    return msgspec.structs.replace(response, outputs=NO_OUTPUTS, error=error.bare())

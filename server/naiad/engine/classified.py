"""Classifies the responses to one request on their way out, in a thread if that takes long (see `classification`)."""

import asyncio
import collections
import functools

from naiad.config.labels import Labels
from naiad.core.inference import OnResponse
from naiad.core.response import InferResponse
from naiad.engine.classification import Classes, classify, cost, failed
from naiad.errors import internal, unavailable

_LONG = 100_000
"""Responses that cost more are classified in a thread: about a millisecond."""


class ClassifiedResponses:
    """An `OnResponse` in front of another one; responses keep their order. All of it belongs to the event loop.

    Args:
        on_response: gets the responses.
        classes: of each output that is wanted as classes.
        labels: of the model.
        batched: whether the first dimension of its outputs is the batch.
    """

    __slots__ = ("_classify", "_cost", "_on_response", "_waiting", "_working")

    def __init__(
        self, on_response: OnResponse, classes: Classes, labels: Labels, *, batched: bool
    ) -> None:
        self._on_response = on_response
        self._classify = functools.partial(
            classify, classes=classes, labels=labels, batched=batched
        )
        self._cost = functools.partial(cost, classes=classes)
        self._working = False
        self._waiting = collections.deque[InferResponse]()

    def __call__(self, response: InferResponse) -> None:
        """See `OnResponse`."""
        if self._working:
            self._waiting.append(response)
        else:
            self._take(response)

    def _take(self, response: InferResponse) -> None:
        if response.error is not None or not response.outputs:
            self._on_response(response)
        elif self._cost(response) <= _LONG:
            self._on_response(self._classify(response))
        else:
            self._working = True
            work = asyncio.get_running_loop().run_in_executor(None, self._classify, response)
            work.add_done_callback(functools.partial(self._done, response))

    def _done(self, response: InferResponse, work: "asyncio.Future[InferResponse]") -> None:
        self._working = False
        if work.cancelled():  # the executor was shut down before the work began
            text = "the server is shutting down; send the request to another one"
            self._on_response(failed(response, unavailable(text)))
        elif (error := work.exception()) is not None:
            text = f"the classes of the outputs could not be computed: {type(error).__name__}"
            self._on_response(failed(response, internal(text)))
        else:
            self._on_response(work.result())
        while self._waiting and not self._working:
            self._take(self._waiting.popleft())

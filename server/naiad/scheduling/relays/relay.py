"""An inference whose work is another one: the outer one has a client or a caller, the inner one is executed, at once or later.

For requests that wait for an evicted model, calls between models, and whatever looks or decides first. The outer inference gets exactly one final
response, whatever happens: the inner one's, its refusal, a cancellation before there is an inner one, or an error of its owner. Flow control is the
outer's `flow`, which the inner one is given. All of it belongs to the event loop.
"""

import collections.abc

from naiad.core.inference import Cancellable, Inference, OnResponse
from naiad.core.response import InferResponse, failure
from naiad.errors import ErrorCode, FailureReason, InferenceError

BeginInner = collections.abc.Callable[[OnResponse], Cancellable | None]
"""Begins the inner inference, with the callback for its responses.

It returns the handle to cancel it, or None if its final response was sent already; it may raise an InferenceError in place of a response.
"""


def _ignore(_error: InferenceError | None) -> None:
    """For owners that keep no account of their relays."""


class Relay:
    """Passes on what the inner inference responds. After the end it is in no cycle, which would keep tensors until the garbage collector runs.

    Args:
        outer: not completed; the relay sets its `on_cancel`, and completes it.
        on_end: called once, just before the final response: with the error if the relay ends the inference itself, which nothing else has counted
            then; with None if the inner one does.
    """

    __slots__ = ("_begun", "_inner", "_on_end", "_outer")

    def __init__(
        self,
        outer: Inference,
        *,
        on_end: collections.abc.Callable[[InferenceError | None], None] = _ignore,
    ) -> None:
        self._outer = outer
        self._on_end = on_end
        self._begun = False
        self._inner: Cancellable | None = None
        outer.on_cancel = self._cancel

    @property
    def is_over(self) -> bool:
        """Whether the outer inference has its final response."""
        return self._outer.completed

    def begin(self, begin_inner: BeginInner) -> None:
        """Begin the inner inference, or the next one once the last is over without a final response; no effect after the end."""
        outer = self._outer
        if outer.completed:
            return
        self._begun, self._inner = True, None
        try:
            inner = begin_inner(self._respond)
        except InferenceError as error:
            self.fail(error)
            return
        if self.is_over or inner is None:
            return
        self._inner = inner
        if outer.cancelled:  # while it began
            inner.cancel()

    def fail(self, error: InferenceError) -> None:
        """End with an error; an inner inference is cancelled. No effect after the end."""
        outer, inner = self._outer, self._inner
        if outer.completed:
            return
        self._end(error)
        outer.on_response(failure(outer.request, error, version=outer.request.model_version))
        if inner is not None:
            inner.cancel()

    def _respond(self, response: InferResponse) -> None:
        outer = self._outer
        if outer.completed:
            return
        if response.final:
            self._end(None)
        outer.on_response(response)

    def _end(self, error: InferenceError | None) -> None:
        outer, on_end = self._outer, self._on_end
        outer.completed = True
        outer.on_cancel = None
        self._inner, self._on_end = None, _ignore
        on_end(error)

    def _cancel(self, _: Inference) -> None:
        if self._inner is not None:
            self._inner.cancel()
        elif not self._begun:
            self.fail(InferenceError(ErrorCode.CANCELLED, "", reason=FailureReason.CANCELED))

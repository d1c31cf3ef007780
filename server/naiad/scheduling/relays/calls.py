"""A call of one model by another, from its beginning to its last response, whether a model's code makes it or a step of an ensemble."""

import collections.abc
import typing

from typing_extensions import override

from naiad.core.flow import Flow
from naiad.core.inference import (
    Cancellable,
    Inference,
    OnResponse,
    RecordsInference,
    RequestContext,
)
from naiad.core.record import Record
from naiad.core.request import InferRequest
from naiad.core.response import InferResponse, failure
from naiad.errors import InferenceError
from naiad.scheduling.occupancy import Occupancy


class Caller(Record, frozen=True, gc=True):
    """The code that makes a call.

    Attributes:
        batch: the batch that the instance executes; None if unknown.
        blocks: whether the thread that executes the batch waits for the call.
    """

    model: str
    instance: str
    batch: list[Inference] | None
    blocks: bool


class TakesTogether(typing.Protocol):
    """Takes the responses of the calls of one batch at once: each by itself would cost more than all the rest of the call."""

    @property
    def in_progress(self) -> int:
        """How many requests its calls are made for now."""
        ...

    def take(self, answered: collections.abc.Sequence[tuple[typing.Any, InferResponse]]) -> None:
        """Take final responses without errors, each with its call, which is one that was made for this object; raises nothing."""
        ...


class RunsCalls(typing.Protocol):
    """What runs a call, or begins it once its model can: `engine.api.Infers`."""

    def infer(
        self,
        request: InferRequest,
        on_response: OnResponse,
        flow: Flow | None = None,
        context: RequestContext | None = None,
    ) -> Cancellable | None:
        """See `engine.api.Infers.infer`."""
        ...


class Called(typing.Hashable, typing.Protocol):
    """A model version that runs calls."""

    def occupancy(self) -> Occupancy:
        """What it executes."""
        ...


class CallInProgress(RequestContext, kw_only=True, eq=False):
    """A call, and the context of its request; it gets exactly one final response. All of it belongs to the event loop.

    After the end it refers to no inference, so that it is in no cycle, which would keep tensors until the garbage collector runs.

    Attributes:
        received_ns: when it was made (monotonic).
        together: takes the responses of a batch to several of its calls; None: each call takes its own.
        traced: its trace; None for most.
        in_progress: those in progress, by number: it is there from its beginning to its last response.
        number: in the order in which calls are made.
        is_over: whether it has its last response.
        model: the model version that runs it; None before one does.
        inference: its inference; None if it was refused, or has not begun yet. It is there while the last response is taken.
    """

    request: InferRequest
    flow: Flow | None = None
    together: TakesTogether | None = None
    traced: RecordsInference | None = None
    number: int = 0
    in_progress: "dict[int, CallInProgress] | None" = None
    is_over: bool = False
    cancelled: bool = False
    model: Called | None = None
    handle: Cancellable | None = None

    def made_by(self) -> Caller:
        """Who makes it."""
        raise NotImplementedError

    def take(self, response: InferResponse) -> None:
        """A response came; each is passed on once."""
        raise NotImplementedError

    def abort(self, error: InferenceError) -> None:
        """It would wait for ever."""
        self.fail(error)

    def begin(self, model: RunsCalls) -> None:
        """Have a model run it."""
        try:
            handle = model.infer(
                self.request,
                self.respond if self.together is None else self,
                self.flow,
                self,
            )
        except InferenceError as error:
            self.fail(error)
            return
        if self.is_over or handle is None:
            return
        self.handle = handle
        if self.cancelled:  # while it began
            handle.cancel()

    def __call__(self, response: InferResponse) -> None:
        """As `respond`: a call that takes responses together is itself the callback, by which `ResponseDispatcher` knows it."""
        self.respond(response)

    @override
    def runs(self, model: typing.Any, inference: Inference) -> None:
        self.model, self.inference = model, inference
        inference.called = True
        if self.traced is not None:
            inference.traced = self.traced
            self.traced.begins(model, inference)

    def respond(self, response: InferResponse) -> None:
        """The model sends a response."""
        if self.is_over:
            return
        if self.traced is not None and self.inference is not None:
            self.traced.responds(self.inference, response)
        if not response.final:
            self.take(response)
            return
        self.is_over = True
        if self.in_progress is not None:
            del self.in_progress[self.number]
        try:
            self.take(response)
        finally:
            self.model = self.inference = self.handle = None

    def end(self) -> None:
        """It has its last response, which was taken."""
        self.is_over = True
        if self.in_progress is not None:
            del self.in_progress[self.number]
        self.model = self.inference = self.handle = None

    def fail(self, error: InferenceError) -> None:
        """End with an error; the model's inference is cancelled. No effect after the end."""
        if self.is_over:
            return
        handle = self.handle
        self.respond(failure(self.request, error, version=self.request.model_version))
        if handle is not None:
            handle.cancel()

    def cancel(self) -> None:
        """The caller no longer needs the response. The last response still comes. Safe at any time."""
        if self.is_over or self.cancelled:
            return
        self.cancelled = True
        if self.flow is not None:
            self.flow.close()
        if self.handle is not None:
            self.handle.cancel()


class Submit(typing.Protocol):
    """Has the model run a call that its request names. A call that would wait for ever is aborted."""

    def __call__(self, *calls: CallInProgress, namespace: str = "") -> None:
        """Begin calls; errors are responses, perhaps before this returns.

        Args:
            calls: of one model version; none of them is begun, or each has a response and a further request.
            namespace: of the model; "" for any.
        """
        ...

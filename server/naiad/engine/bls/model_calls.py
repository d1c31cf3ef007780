"""Calls between models (BLS, rows 15.20, 15.21), and the check that none of them waits for ever.

A call is an ordinary request except for three rules: an immediate refusal has the message of row 15.21; only a caller that takes many
responses may call a decoupled model; and while any call has no response, a check every tenth of a second finds calls
that wait for each other (`scheduling/deadlock.py`) and fails the youngest call. All of it belongs to the event loop.
"""

import asyncio
import collections.abc
import functools
import logging
import typing

from typing_extensions import override

from naiad.core.clock import Clock
from naiad.core.flow import Flow
from naiad.core.inference import Inference, OnResponse, RequestContext
from naiad.core.record import Record
from naiad.core.request import InferRequest
from naiad.core.response import InferResponse
from naiad.engine.api import ServedModel
from naiad.errors import ErrorCode, FailureReason, InferenceError, internal
from naiad.scheduling.deadlock import Wait, find_cycle
from naiad.scheduling.relay import Relay
from naiad.scheduling.scheduler import Occupancy

_log = logging.getLogger(__name__)

CHECK_INTERVAL_S = 0.1
"""Interval of the check for cycles; a call that takes less is never checked."""


FindModel = collections.abc.Callable[[str, int], ServedModel]
"""The version of a model that serves now, or would for this call, by name and version; raises InferenceError if none does."""


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


Worded = collections.abc.Callable[[InferRequest, InferenceError], InferenceError]
"""Makes the error of a call that failed before it was in progress."""


class _Called(typing.Hashable, typing.Protocol):
    """A model version that runs calls."""

    def occupancy(self) -> Occupancy:
        """What it executes."""


class _CallContext(RequestContext):
    """The context of a call: which model runs it, once one does."""

    model: _Called | None = None

    @override
    def runs(self, model: typing.Any, inference: Inference) -> None:
        self.model, self.inference = model, inference


class ModelCall:
    """A call in progress. Made by `ModelCalls.begin`."""

    __slots__ = (
        "_outer", "caller", "context", "number", "relay", "request", "since_ns", "worded",
    )  # fmt: skip

    def __init__(
        self,
        calls: "ModelCalls",
        outer: Inference,
        *,
        number: int,
        caller: Caller,
        worded: "Worded",
    ) -> None:
        self._outer = outer
        self.worded = worded
        self.number = number
        self.caller = caller
        self.request = outer.request
        self.since_ns = outer.received_ns
        self.relay = Relay(outer, on_end=functools.partial(calls.over, number))
        self.context = _CallContext(outer.received_ns)

    @property
    def is_over(self) -> bool:
        """Whether it has its last response."""
        return self.relay.is_over

    @property
    def inference(self) -> Inference | None:
        """See `scheduling.scheduler.MadeCall`."""
        return self.context.inference

    def cancel(self) -> None:
        """The caller no longer needs the response. The last response still comes. Safe at any time."""
        self._outer.cancel()


class ModelCalls:
    """All calls in progress."""

    def __init__(self, *, clock: Clock) -> None:
        self._now = clock.monotonic_ns
        self._find_model: FindModel | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._calls: dict[int, ModelCall] = {}
        self._made = 0
        self._timer: asyncio.TimerHandle | None = None

    def open(self, find_model: FindModel, loop: asyncio.AbstractEventLoop) -> None:
        """Accept calls."""
        self._find_model = find_model
        self._loop = loop

    def close(self) -> None:
        """Accept no more calls; those without a response fail."""
        self._find_model = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for call in tuple(self._calls.values()):
            call.relay.fail(call.worded(call.request, internal("the server is stopping")))

    def begin(
        self,
        request: InferRequest,
        *,
        caller: Caller,
        decoupled: bool,
        on_response: OnResponse,
        flow: Flow | None = None,
        worded: "Worded | None" = None,
    ) -> ModelCall:
        """Make a call; `decoupled`: the caller takes any number of responses, as fast as `flow` allows.

        `on_response` is called on the loop with each response, perhaps before this returns; the last one is final.
        `worded` makes the error of a call that fails before it is in progress; by default that of row 15.21.
        """
        self._made += 1
        worded = worded or _error
        outer = Inference(request, on_response, batch_size=1, received_ns=self._now(), flow=flow)
        call = ModelCall(self, outer, number=self._made, caller=caller, worded=worded)
        try:
            model = self._find(request, decoupled=decoupled, worded=worded)
        except InferenceError as error:
            call.relay.fail(worded(request, error))
            return call
        self._calls[call.number] = call
        call.relay.begin(functools.partial(_infer, model, request, flow, call))
        if self._timer is None and call.number in self._calls:
            self._set_timer()
        return call

    def submit(
        self,
        request: InferRequest,
        on_response: OnResponse,
        *,
        model: str,
        batch: list[Inference],
        flow: Flow | None = None,
    ) -> ModelCall:
        """See `scheduling.scheduler.Submit`."""
        return self.begin(
            request,
            caller=Caller(model, model, batch, blocks=True),
            decoupled=True,
            on_response=on_response,
            flow=flow,
            worded=_as_it_is,
        )

    def over(self, number: int, _error: InferenceError | None) -> None:
        """A call gets its last response next."""
        self._calls.pop(number, None)

    def _find(self, request: InferRequest, *, decoupled: bool, worded: Worded) -> ServedModel:
        if self._find_model is None:
            raise internal("the server is stopping")
        name = request.model_name
        try:
            model = self._find_model(name, request.model_version)
        except InferenceError as error:
            if worded is not _error:
                raise
            # New releases say the first, 2.51 the second.
            raise internal(
                f"{error.message} (Failed for execute the inference request. Model '{name}' is not ready.)"
            ) from error
        if model.traits.decoupled and not decoupled:
            raise internal(
                f"Model {name} is using the decoupled. The current BLS request call doesn't support models using the decoupled "
                "transaction policy. Please use 'decoupled=True' argument to the 'exec' or 'async_exec' calls for decoupled models.'"
            )
        return model

    def _set_timer(self) -> None:
        assert self._loop is not None, "calls are made when it is open"
        self._timer = self._loop.call_later(CHECK_INTERVAL_S, self._check)

    def _check(self) -> None:
        self._timer = None
        while self._calls and (cycle := self._cycle()):
            self._abort_youngest(cycle)
        if self._calls:
            self._set_timer()

    def _cycle(self) -> collections.abc.Sequence[ModelCall]:
        contexts = [call.context for call in self._calls.values()]
        models = {context.model for context in contexts if context.model is not None}
        occupancies = {model: model.occupancy() for model in models}
        executed_in: dict[Inference, int] = {}
        for occupancy in occupancies.values():
            for _, batch in occupancy.executions:
                executed_in.update((inference, id(batch)) for inference in batch or ())
            for kept, before in occupancy.kept:
                executed_in.update((inference, id(before)) for inference in kept)
        # The rest of a batch that came back with deferred responses; its calls may know different parts of it.
        batches = (call.caller.batch for call in self._calls.values() if call.caller.batch)
        for calling in {id(batch): batch for batch in batches}.values():
            known = next(
                (executed_in[inference] for inference in calling if inference in executed_in),
                id(calling),
            )
            executed_in.update((inference, known) for inference in calling)
        waits: list[Wait] = []
        for call in self._calls.values():
            model, inference, caller = call.context.model, call.context.inference, call.caller
            if model is None or inference is None:
                continue
            queued = occupancies[model].waits(inference)
            waits.append(
                Wait(
                    number=call.number,
                    caller=executed_in[caller.batch[0]] if caller.batch else None,
                    blocks=caller.blocks,
                    queued_at=model if queued else None,
                    executed_in=None if queued else executed_in.get(inference),
                    since_ns=call.since_ns,
                )
            )
        pools = {
            model: [None if batch is None else id(batch) for _, batch in occupancy.executions]
            for model, occupancy in occupancies.items()
        }
        return [self._calls[wait.number] for wait in find_cycle(waits, pools, self._now())]

    def _abort_youngest(self, cycle: collections.abc.Sequence[ModelCall]) -> None:
        youngest = cycle[0]
        steps = ", ".join(f"'{call.caller.instance}' waits for {_what_for(call)}" for call in cycle)
        message = (
            f"deadlock: this call from model '{youngest.caller.model}' to model '{youngest.request.model_name}' would wait for ever "
            f"and was aborted to break the cycle (youngest call): {steps}. Give one of these models more instances "
            "(instance_group count) than there are requests that may wait inside it, or do not call back."
        )
        _log.error("%s", message)
        youngest.relay.fail(youngest.worded(youngest.request, internal(message)))


def _what_for(call: ModelCall) -> str:
    model = call.context.model
    assert model is not None, "a model runs a call in a cycle"
    held = [name for name, batch in model.occupancy().executions if batch is not None]
    return f"model '{call.request.model_name}' (held: {', '.join(held)})"


def _infer(
    model: ServedModel,
    request: InferRequest,
    flow: Flow | None,
    call: ModelCall,
    on_response: OnResponse,
) -> Inference | None:
    """Begin a call. One that is refused before it is in progress gets the message of the reference."""
    refused: list[InferResponse] = []
    begun = False

    def respond(response: InferResponse) -> None:
        if begun or response.error is None:
            on_response(response)
        else:
            refused.append(response)

    inference = model.infer(request, respond, flow, call.context)
    begun = True
    for refusal in refused:
        if inference is None and refusal.error is not None:
            raise call.worded(request, refusal.error)
        on_response(refusal)
    return inference


def _as_it_is(_request: InferRequest, error: InferenceError) -> InferenceError:
    """The error of a scheduler's call: the scheduler says which model it is from."""
    return error


def _error(request: InferRequest, error: InferenceError) -> InferenceError:
    """The error of a call that failed before it was in progress (row 15.21)."""
    return InferenceError(
        ErrorCode.INTERNAL,
        f"Model {request.model_name} - Error when running inference: {error.message}",
        reason=FailureReason.OTHER,
    )

"""Calls between models (BLS, rows 15.20, 15.21), and the check that none of them waits for ever.

A call is an ordinary request except for three rules: an immediate refusal has the message of row 15.21; only a caller that takes many
responses may call a decoupled model; and while any call has no response, a check every tenth of a second finds calls
that wait for each other (`scheduling/relays/deadlock.py`) and fails the youngest call. All of it belongs to the event loop.
"""

import asyncio
import collections.abc
import logging

from typing_extensions import override

from naiad.core.clock import Clock
from naiad.core.flow import Flow
from naiad.core.inference import Inference, OnResponse, TracedInference
from naiad.core.request import InferRequest
from naiad.core.response import InferResponse
from naiad.engine.api import ServedModel
from naiad.errors import ErrorCode, FailureReason, InferenceError, internal
from naiad.scheduling.relays.calls import Caller, CallInProgress, RunsCalls
from naiad.scheduling.relays.deadlock import Wait, find_cycle

_log = logging.getLogger(__name__)

CHECK_INTERVAL_S = 0.1
"""Interval of the check for cycles; a call that takes less is never checked."""


FindModel = collections.abc.Callable[[str, int, str], ServedModel]
"""The version of a model that serves now, or would for this call, by name, version and namespace ("" for any); raises InferenceError if none does."""


Worded = collections.abc.Callable[[InferRequest, InferenceError], InferenceError]
"""Makes the error of a call that failed before it was in progress."""


class ModelCall(CallInProgress, kw_only=True, eq=False):
    """A call that a model's code makes. Made by `ModelCalls.begin`.

    Attributes:
        worded: makes the error of a call that fails before it is in progress.
    """

    caller: Caller
    on_response: OnResponse
    worded: Worded
    begun: bool = False
    refused: list[InferResponse] | None = None

    @override
    def made_by(self) -> Caller:
        return self.caller

    @override
    def take(self, response: InferResponse) -> None:
        if not response.final:
            self.on_response(response)
            return
        on_response, self.on_response = self.on_response, _ignore
        on_response(response)

    @override
    def abort(self, error: InferenceError) -> None:
        self.fail(self.worded(self.request, error))

    @override
    def begin(self, model: RunsCalls) -> None:
        """Have a model run it. If it is refused before it is in progress, the error is that of a call."""
        try:
            handle = model.infer(self.request, self.respond, self.flow, self)
        except InferenceError as error:
            self.fail(error)
            return
        self.begun = True
        refused, self.refused = self.refused, None
        for refusal in refused or ():
            if handle is None and refusal.error is not None:
                self.fail(self.worded(self.request, refusal.error))
                return
            self.respond(refusal)
        if handle is None:
            return
        if self.cancelled or self.is_over:  # while it began
            handle.cancel()
        else:
            self.handle = handle

    @override
    def respond(self, response: InferResponse) -> None:
        if response.error is None or self.begun or self.is_over:
            CallInProgress.respond(self, response)
            return
        if self.refused is None:
            self.refused = []
        self.refused.append(response)

    @override
    def fail(self, error: InferenceError) -> None:
        if not self.is_over:
            self.begun = True
            CallInProgress.fail(self, error)


def _ignore(_response: InferResponse) -> None:
    """Of a call that is over."""


class ModelCalls:
    """All calls in progress."""

    def __init__(self, *, clock: Clock) -> None:
        self._now = clock.monotonic_ns
        self._find_model: FindModel = _stopping
        self._loop: asyncio.AbstractEventLoop | None = None
        self._calls: dict[int, CallInProgress] = {}
        self._made = 0
        self._timer: asyncio.TimerHandle | None = None

    def open(self, find_model: FindModel, loop: asyncio.AbstractEventLoop) -> None:
        """Accept calls."""
        self._find_model = find_model
        self._loop = loop

    def close(self) -> None:
        """Accept no more calls; those without a response fail."""
        self._find_model, self._loop = _stopping, None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for call in tuple(self._calls.values()):
            call.abort(internal("the server is stopping"))

    def begin(
        self,
        request: InferRequest,
        *,
        caller: Caller,
        decoupled: bool,
        on_response: OnResponse,
        flow: Flow | None = None,
        worded: "Worded | None" = None,
        traced: TracedInference | None = None,
    ) -> ModelCall:
        """Make a call; `decoupled`: the caller takes any number of responses, as fast as `flow` allows.

        `on_response` is called on the loop with each response, perhaps before this returns; the last one is final.
        `worded` makes the error of a call that fails before it is in progress; by default that of row 15.21. `traced`: the trace of the inference
        that makes the call, of which this one becomes a child (row 9.16).
        """
        call = ModelCall(
            self._now(),
            request=request,
            flow=flow,
            caller=caller,
            on_response=on_response,
            worded=worded or _error,
            traced=None if traced is None else traced.child(),
        )
        try:
            model = self._find(request, decoupled=decoupled, worded=call.worded)
        except InferenceError as error:
            call.fail(call.worded(request, error))
            return call
        self._begin(call, model)
        return call

    def submit(self, *calls: CallInProgress, namespace: str = "") -> None:
        """See `scheduling.calls.Submit`."""
        request = calls[0].request
        try:
            called = self._find_model(request.model_name, request.model_version, namespace)
        except InferenceError as error:
            for call in calls:
                call.fail(error)
            return
        if calls[0].in_progress is not None:  # and so all of them
            called.run_calls(calls)
            return
        for call in calls:
            self._begin(call, called)

    def input_device(self, model: str, version: int) -> int | None:
        """The GPU on which a model takes its inputs; -1: in the host's memory. None if it is not found."""
        try:
            device = self._find_model(model, version, "").traits.input_device
        except InferenceError:
            return None
        return -1 if device is None else device

    def _begin(self, call: CallInProgress, model: RunsCalls) -> None:
        self._made = number = self._made + 1
        call.number = number
        call.in_progress = calls = self._calls
        calls[number] = call
        call.begin(model)
        if self._timer is None and calls:
            self._set_timer()

    def _find(self, request: InferRequest, *, decoupled: bool, worded: Worded) -> ServedModel:
        name = request.model_name
        try:
            model = self._find_model(name, request.model_version, "")
        except InferenceError as error:
            if worded is not _error or self._loop is None:
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

    def _cycle(self) -> collections.abc.Sequence[CallInProgress]:
        models = {call.model for call in self._calls.values() if call.model is not None}
        occupancies = {model: model.occupancy() for model in models}
        executed_in: dict[Inference, int] = {}
        for occupancy in occupancies.values():
            for _, batch in occupancy.executions:
                executed_in.update((inference, id(batch)) for inference in batch or ())
            for kept, before in occupancy.kept:
                executed_in.update((inference, id(before)) for inference in kept)
        # The rest of a batch that came back with deferred responses; its calls may know different parts of it.
        callers = {number: call.made_by() for number, call in self._calls.items()}
        batches = (caller.batch for caller in callers.values() if caller.batch)
        for calling in {id(batch): batch for batch in batches}.values():
            known = next(
                (executed_in[inference] for inference in calling if inference in executed_in),
                id(calling),
            )
            executed_in.update((inference, known) for inference in calling)
        waits: list[Wait] = []
        for call in self._calls.values():
            model, inference, caller = call.model, call.inference, callers[call.number]
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
                    since_ns=call.received_ns,
                )
            )
        pools = {
            model: [None if batch is None else id(batch) for _, batch in occupancy.executions]
            for model, occupancy in occupancies.items()
        }
        return [self._calls[wait.number] for wait in find_cycle(waits, pools, self._now())]

    def _abort_youngest(self, cycle: collections.abc.Sequence[CallInProgress]) -> None:
        youngest = cycle[0]
        steps = ", ".join(
            f"'{call.made_by().instance}' waits for {_what_for(call)}" for call in cycle
        )
        message = (
            f"deadlock: this call from model '{youngest.made_by().model}' to model '{youngest.request.model_name}' would wait for ever "
            f"and was aborted to break the cycle (youngest call): {steps}. Give one of these models more instances "
            "(instance_group count) than there are requests that may wait inside it, do not call back, and do not call a model that needs a "
            "resource of the rate limiter which the caller has."
        )
        _log.error("%s", message)
        youngest.abort(internal(message))


def _what_for(call: CallInProgress) -> str:
    model = call.model
    assert model is not None, "a model runs a call in a cycle"
    held = [name for name, batch in model.occupancy().executions if batch is not None]
    return f"model '{call.request.model_name}' (held: {', '.join(held)})"


def _stopping(_name: str, _version: int, _namespace: str) -> ServedModel:
    """In place of a look-up while no calls are accepted."""
    raise internal("the server is stopping")


def _error(request: InferRequest, error: InferenceError) -> InferenceError:
    """The error of a call that failed before it was in progress (row 15.21)."""
    return InferenceError(
        ErrorCode.INTERNAL,
        f"Model {request.model_name} - Error when running inference: {error.message}",
        reason=FailureReason.OTHER,
    )

"""One request of an ensemble without decoupled steps, from its inputs to its response (rows 14.1, 14.6 to 14.15); `streaming_run` has the others.

A step is called as soon as its inputs are there, and tensors go from step to step as they are, without a copy. The request ends once no call is
left, whatever happens: with its response; with the first error, after which no further step begins and those in progress are awaited; with a
cancellation, which cancels these; or with the end of its scheduler, which does not wait for them. All of it belongs to the event loop.

A small request spends most of its time in the server here, so there are few calls and few objects per step.
"""

import collections.abc

from naiad.core.inference import Inference
from naiad.core.response import InferResponse
from naiad.core.tensor import Tensor
from naiad.errors import ErrorCode, InferenceError
from naiad.scheduling.ensemble import deadline, errors
from naiad.scheduling.ensemble.composed import parameters_of, response_of, sequence_of
from naiad.scheduling.ensemble.context import RunContext
from naiad.scheduling.ensemble.plan import Following, Key, PlannedStep, Value, as_named
from naiad.scheduling.ensemble.requests import first_request, inputs_of, next_request
from naiad.scheduling.ensemble.steps import StepCall
from naiad.scheduling.ensemble.times import RunTimes

ROOT: Key = ()
"""The key of what the request brought."""

_OWN_PARAMETERS = frozenset(("sequence_id", "sequence_start", "sequence_end"))


class EnsembleRun:
    """Implements `StepOwner`.

    Args:
        inference: the request.
        context: of the ensemble.

    Attributes:
        batch: the inference, as in `Occupancy.executions`.
    """

    __slots__ = (
        "_busy", "_context", "_error", "_first", "_following", "_inference", "_is_of_step", "_last", "_made", "_over", "_response", "_selection",
        "_tables", "_times", "_values", "_waiting", "batch",
    )  # fmt: skip

    def __init__(self, inference: Inference, context: RunContext) -> None:
        self._inference = inference
        self._context = context
        self.batch = [inference]
        selection = self._selection = context.plan.select(inference.request.output_names)
        self._following = selection.following
        self._first = selection.first
        self._last = selection.last
        self._values: dict[str, Value] = {}
        self._tables: tuple[list[int], dict[str, int]] | None = None
        self._made: dict[StepCall, None] = {}  # calls in progress
        self._waiting: dict[StepCall, None] = {}  # calls that wait for a place
        self._response: InferResponse | None = None
        self._error: InferenceError | None = None
        self._busy = self._over = self._is_of_step = False
        self._times = RunTimes()

    @property
    def model(self) -> str:
        """The ensemble."""
        return self._context.config.name

    @property
    def is_waiting(self) -> bool:
        """Whether it does nothing but wait for calls of other requests of the ensemble to end."""
        return bool(self._waiting) and not self._made

    def start(self) -> None:
        """Begin the steps that need nothing but the request's inputs."""
        inference, context = self._inference, self._context
        first, inputs = self._first, inference.request.inputs
        self._busy = True
        if first is not None and len(inputs) == 1:
            self._begin_first(first, inputs[0])
            self._busy = False
            if not self._made:
                self._proceed()
            return
        batch_size = inference.batch_size if context.config.max_batch_size > 0 else 0
        values = {tensor.name: Value(tensor, batch_size) for tensor in inference.request.inputs}
        for name in context.plan.optional:
            if name not in values:
                values[name] = Value(None, batch_size)
        self._add(values, ROOT)
        self._busy = False
        self._proceed()

    def _begin_first(self, first: Following, tensor: Tensor) -> None:
        """Begin with the step that needs the only input and nothing else."""
        inference, context, step = self._inference, self._context, first.step
        shape, traced = tensor.shape, inference.traced
        request = next_request(inference.request, first, tensor)
        self._begin(
            StepCall(
                0,
                request=request,
                owner=self,
                step=step,
                key=ROOT,
                batch_size=(shape[0] if shape else 1) if step.batched else 0,
                sequence=(request.correlation_id, request.flags),
                together=context.together if traced is None else None,
                traced=None if traced is None else traced.child(),
            )
        )

    def cancel(self) -> None:
        """The client has gone: the steps in progress are cancelled, and those that wait do not begin."""
        self._fail(errors.cancelled(self.model))
        busy, self._busy = self._busy, True
        for call in tuple(self._made):
            call.cancel()  # which may end it at once
        self._busy = busy
        if not busy:
            self._proceed()

    def abort(self, error: InferenceError) -> None:
        """End with an error at once."""
        if self._over:
            return
        made = tuple(self._made)
        self._fail(error)
        self._end(error)
        for call in made:
            call.cancel()

    def begins(self, call: StepCall) -> None:
        """See `StepOwner`."""
        if self._waiting.pop(call, call) is None:
            self._made[call] = None

    def responded(self, call: StepCall, response: InferResponse) -> None:
        """See `StepOwner`."""
        busy, self._busy = self._busy, True
        error = response.error
        if error is not None:
            if self._error is None:
                self._is_of_step = error.code is not ErrorCode.CANCELLED
            self._fail(errors.of_step(self.model, call.step, error))
        elif self._error is None and not response.empty:
            self._take(call, response, call.key)
        if response.final:
            self._ended(call, failed=error is not None)
        self._busy = busy
        if not busy:
            self._proceed()

    def goes_on(self, call: StepCall, response: InferResponse, now: int) -> PlannedStep | None:
        """Make a call that has its final response, without an error, that of the next step of its chain, for the caller to submit.

        A request that was cancelled, and one with a call that was aborted, has an error.

        Returns:
            The next step; None if the call is not in a chain, or the response not what it usually is: `call.respond` takes it.
        """
        step, sent = call.step, response.outputs
        following = self._following.get(step.index)
        if (
            following is None
            or len(sent) != 1
            or (tensor := sent[0]).name != following.output
            or response.parameters
            or self._error is not None
        ):
            return None
        self._times.count(call, self._context.calls.times, now)
        if step.batched and (shape := tensor.shape):
            call.batch_size = shape[0]
        request = call.request = next_request(call.request, following, tensor)
        if request.parameters:
            deadline.pass_on(self._inference, request, now)
        step = call.step = following.step
        call.received_ns = now
        call.model = call.inference = call.handle = None
        return step

    def ends_with(self, call: StepCall, response: InferResponse, now: int) -> bool:
        """Respond with the final response of the last step, without an error; False if it is not the last, or the response not what it usually is."""
        last, sent = self._last, response.outputs
        if (
            last is None
            or call.step.index != last.index
            or len(sent) != 1
            or sent[0].name != last.output
            or response.parameters
            or self._error is not None
            or len(self._made) != 1
        ):
            return False
        self._times.count(call, self._context.calls.times, now)
        call.end()
        self._made.clear()
        inference, context, tensor = self._inference, self._context, sent[0]
        outputs = [as_named(tensor, last.name, tensor.shape)]
        self._send_last(
            InferResponse(
                context.config.name,
                context.version,
                inference.request.id,
                outputs,
                parameters_of(call.sequence),
            )
        )
        return True

    def _take(self, call: StepCall, response: InferResponse, key: Key) -> None:
        """Take the tensors of a step's response."""
        sequence, batch_size = call.sequence, call.batch_size
        parameters = response.parameters
        if parameters and not _OWN_PARAMETERS.isdisjoint(parameters):
            sequence = sequence_of(parameters, sequence)
        step, sent = call.step, response.outputs
        following = self._following.get(step.index)
        if following is not None and len(sent) == 1 and sent[0].name == following.output:
            tensor = sent[0]
            shape = tensor.shape
            inputs = [as_named(tensor, following.input, shape)]
            batch_size = shape[0] if step.batched and shape else call.batch_size
            self._begin(self._made_of(following.step, key, inputs, batch_size, sequence))
            return
        outputs = step.outputs
        if len(outputs) == 1 and len(sent) == 1 and (name := outputs.get(sent[0].name)) is not None:
            self._add({name: Value(sent[0], batch_size, sequence)}, key)
            return
        tensors = {tensor.name: tensor for tensor in sent}
        values = {
            tensor: Value(tensors.get(name), batch_size, sequence)
            for name, tensor in outputs.items()
        }
        self._add(values, key)

    def _add(self, values: dict[str, Value], key: Key) -> None:
        """Add tensors, begin the steps that can run then, and make the response once all outputs are there; `key` is the root's."""
        context, awaited, kept = self._context, self._selection.awaited, self._values
        missing, uses = self._tables or self._make_tables()
        ready: list[int] = []
        for tensor, value in values.items():
            those = awaited.get(tensor)
            if not those:
                continue  # nothing needs it
            kept[tensor] = value
            for index in those:
                left = missing[index] = missing[index] - 1
                if not left:
                    ready.append(index)
        steps = context.plan.steps
        for index in ready:
            if index == len(steps):
                self._response = self._respond_with(kept)
                continue
            if self._error is not None:
                return
            step = steps[index]
            call = self._call(step, key, kept)
            for tensor in step.tensors:
                left = uses[tensor] = uses[tensor] - 1
                if not left:
                    del kept[tensor]
            self._begin(call)

    def _make_tables(self) -> tuple[list[int], dict[str, int]]:
        """How many tensors each step and the response lack, and how many steps are left that need each tensor; a chain needs neither."""
        selection = self._selection
        tables = self._tables = selection.missing.copy(), selection.uses.copy()
        return tables

    def _begin(self, call: StepCall) -> None:
        calls = self._context.calls
        if calls.limit and calls.is_full(call.step):
            self._waiting[call] = None
            calls.wait(call)
        else:
            self._made[call] = None
            calls.make(call)
            if self._inference.cancelled or self._over:
                call.cancel()

    def _call(
        self, step: PlannedStep, key: Key, values: collections.abc.Mapping[str, Value]
    ) -> StepCall:
        inputs, batch_size, sequence = inputs_of(step, values)
        if sequence is None:
            request = self._inference.request
            sequence = request.correlation_id, request.flags
        return self._made_of(step, key, inputs, batch_size, sequence)

    def _made_of(
        self,
        step: PlannedStep,
        key: Key,
        inputs: list[Tensor],
        batch_size: int,
        sequence: tuple[int | str, int],
    ) -> StepCall:
        traced = self._inference.traced
        return StepCall(
            0,
            request=first_request(self._inference.request, step, inputs, self._selection, sequence),
            owner=self,
            step=step,
            key=key,
            batch_size=batch_size,
            sequence=sequence,
            together=self._context.together if traced is None else None,
            traced=None if traced is None else traced.child(),
        )

    def _ended(self, call: StepCall, *, failed: bool) -> None:
        self._made.pop(call, None)
        calls = self._context.calls
        self._times.count(call, calls.times, calls.now(), failed=failed)
        calls.ended(call)

    def _fail(self, error: InferenceError) -> None:
        """Nothing more begins; the first error counts."""
        if self._error is not None or self._over:
            return
        self._error = error
        self._values.clear()
        waiting, self._waiting = self._waiting, {}
        for call in waiting:
            self._context.calls.withdraw(call)

    def _proceed(self) -> None:
        """End if no call is left."""
        if self._made or self._waiting or self._over:
            return
        response, error = self._response, self._error
        if response is not None and error is None:
            self._send_last(response)
            return
        if error is None:
            error = errors.incomplete(self.model, self._inference.request)
            self._fail(error)
        self._end(error)

    def _send_last(self, response: InferResponse) -> None:
        """Send the final response."""
        inference, context = self._inference, self._context
        self._over = True
        self._values.clear()
        self._response = None
        context.on_end(inference)
        self._pass_on(response, streams=False)

    def _pass_on(self, response: InferResponse, *, streams: bool) -> None:
        self._context.dispatcher.respond_composed(
            self._inference,
            response,
            queue_ns=self._times.queue_ns,
            timing=self._times.timing,
            streams=streams,
        )

    def _end(self, error: InferenceError) -> None:
        """Send the error as the final response."""
        self._over = True
        context = self._context
        context.on_end(self._inference)
        context.dispatcher.fail(self._inference, error, counted=2 if self._is_of_step else 1)

    def _respond_with(self, outputs: collections.abc.Mapping[str, Value]) -> InferResponse:
        """The response of these values, which are those of its outputs or more."""
        context = self._context
        return response_of(
            context.config,
            context.version,
            self._inference.request.id,
            {name: outputs[name] for name in self._selection.outputs},
        )

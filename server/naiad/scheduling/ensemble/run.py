"""One request of an ensemble without decoupled steps, from its inputs to its response (rows 14.1, 14.6 to 14.15); `streaming_run` has the others.

A step is called as soon as its inputs are there, and tensors go from step to step as they are, without a copy. The request ends once no call is
left, whatever happens: with its response; with the first error, after which no further step begins and those in progress are awaited; with a
cancellation, which cancels these; or with the end of its scheduler, which does not wait for them. All of it belongs to the event loop.

A small request spends most of its time in the server here, so there are few calls and few objects per step.
"""

import collections.abc

from naiad.config.model_config import ModelConfig, TensorSpec
from naiad.core.inference import Inference
from naiad.core.record import Record
from naiad.core.request import SEQUENCE_END, SEQUENCE_START, InferRequest, Parameters
from naiad.core.response import NO_PARAMETERS, InferResponse
from naiad.core.tensor import Tensor
from naiad.errors import ErrorCode, FailureReason, InferenceError
from naiad.metrics.statistics import BatchTiming
from naiad.scheduling.ensemble.plan import (
    EnsemblePlan,
    Key,
    PlannedStep,
    Value,
    as_named,
    batch_shape,
)
from naiad.scheduling.ensemble.steps import StepCall, StepCalls
from naiad.scheduling.response_dispatcher import ResponseDispatcher

ROOT: Key = ()
"""The key of what the request brought."""

_OWN_PARAMETERS = frozenset(("sequence_id", "sequence_start", "sequence_end"))


class RunContext(Record, frozen=True, gc=True):
    """What all requests of an ensemble share.

    Attributes:
        config: of the ensemble.
        version: of the ensemble.
        plan: its graph.
        calls: makes the calls.
        dispatcher: counts requests, and sends their responses.
        on_end: called just before the final response.
    """

    config: ModelConfig
    version: int
    plan: EnsemblePlan
    calls: StepCalls
    dispatcher: ResponseDispatcher
    on_end: collections.abc.Callable[[Inference], None]


class EnsembleRun:
    """Implements `StepOwner`.

    Args:
        inference: the request.
        context: of the ensemble.

    Attributes:
        batch: the inference, as in `Occupancy.executions`.
    """

    __slots__ = (
        "_busy", "_context", "_error", "_following", "_infer_ns", "_inference", "_input_ns", "_is_of_step", "_left", "_made", "_missing", "_output_ns", "_over",
        "_queue_ns", "_response", "_selection", "_values", "_waiting", "batch",
    )  # fmt: skip

    def __init__(self, inference: Inference, context: RunContext) -> None:
        self._inference = inference
        self._context = context
        self.batch = [inference]
        selection = self._selection = context.plan.select(inference.request.output_names)
        self._following = selection.following
        self._values: dict[str, Value] = {}
        self._left = selection.uses.copy()  # of each tensor
        self._missing = selection.missing.copy()  # tensors of each step and of the response
        self._made: dict[StepCall, None] = {}  # calls in progress
        self._waiting: dict[StepCall, None] = {}  # calls that wait for a place
        self._response: InferResponse | None = None
        self._error: InferenceError | None = None
        self._busy = self._over = self._is_of_step = False
        self._queue_ns = self._input_ns = self._infer_ns = self._output_ns = 0

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
        batch_size = inference.batch_size if context.config.max_batch_size > 0 else 0
        values = {tensor.name: Value(tensor, batch_size) for tensor in inference.request.inputs}
        for name in context.plan.optional:
            if name not in values:
                values[name] = Value(None, batch_size)
        self._busy = True
        self._add(values, ROOT)
        self._busy = False
        self._proceed()

    def cancel(self) -> None:
        """The client has gone: the steps in progress are cancelled, and those that wait do not begin."""
        self._fail(
            InferenceError(
                ErrorCode.CANCELLED,
                f"in ensemble '{self._context.config.name}', the request was cancelled",
                reason=FailureReason.CANCELED,
            )
        )
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
            self._fail(self._of_step(call, error))
        elif self._error is None and not response.empty:
            self._take(call, response, call.key)
        if response.final:
            self._ended(call, failed=error is not None)
        self._busy = busy
        if not busy:
            self._proceed()

    def _take(self, call: StepCall, response: InferResponse, key: Key) -> None:
        """Take the tensors of a step's response."""
        sequence, batch_size = call.sequence, call.batch_size
        parameters = response.parameters
        if parameters and not _OWN_PARAMETERS.isdisjoint(parameters):
            sequence = _sequence(parameters, sequence)
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
        context, awaited, missing, kept = (
            self._context, self._selection.awaited, self._missing, self._values,
        )  # fmt: skip
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
        steps, uses = context.plan.steps, self._left
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
        inputs: list[Tensor] = []
        sequence: tuple[int | str, int] | None = None
        batched = step.batched
        batch_size = 1 if batched else 0
        for name, source, dims in step.inputs:
            value = values[source]
            sequence = sequence or value.sequence
            tensor = value.tensor
            if tensor is None:
                continue
            shape = tensor.shape
            if batched != (value.batch_size > 0):
                shape = batch_shape(shape, dims, batched=batched, batch_size=value.batch_size)
            if batched and not inputs and shape:
                batch_size = shape[0]
            inputs.append(as_named(tensor, name, shape))
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
        request = self._inference.request
        asked = InferRequest(
            step.model,
            step.version,
            request.id,
            inputs,
            self._selection.requested[step.index],
            request.parameters.copy() if request.parameters else request.parameters,
            request.priority,
            request.timeout_us,
            *sequence,
            on_device=self._selection.on_device.get(step.index),
        )
        return StepCall(
            0,
            request=asked,
            owner=self,
            step=step,
            key=key,
            batch_size=batch_size,
            sequence=sequence,
        )

    def _ended(self, call: StepCall, *, failed: bool) -> None:
        self._made.pop(call, None)
        queue_ns = compute_ns = 0
        inference = call.inference
        if inference is not None and not failed and (times := inference.execution) is not None:
            start_ns, end_ns = times.start_ns, times.end_ns
            queue_ns = start_ns - inference.queued_ns
            compute_ns = end_ns - start_ns
            self._queue_ns += queue_ns
            self._input_ns += times.input_end_ns - start_ns
            self._infer_ns += times.output_start_ns - times.input_end_ns
            self._output_ns += end_ns - times.output_start_ns
        self._context.calls.ended(call, failed=failed, queue_ns=queue_ns, compute_ns=compute_ns)

    def _fail(self, error: InferenceError) -> None:
        """Nothing more begins; the first error counts."""
        if self._error is not None or self._over:
            return
        self._error = error
        self._values.clear()
        waiting, self._waiting = self._waiting, {}
        for call in waiting:
            self._context.calls.withdraw(call)

    def _of_step(self, call: StepCall, error: InferenceError) -> InferenceError:
        step, cancelled = call.step, error.code is ErrorCode.CANCELLED
        return InferenceError(
            error.code,
            f"in ensemble '{self._context.config.name}', {error.message or 'the request was cancelled'} "
            f"(step {step.index}: model '{step.model}')",
            reason=FailureReason.CANCELED if cancelled else FailureReason.OTHER,
        )

    def _proceed(self) -> None:
        """End if no call is left."""
        if self._made or self._waiting or self._over:
            return
        response, error = self._response, self._error
        if response is not None and error is None:
            self._send_last(response)
            return
        if error is None:
            error = InferenceError(
                ErrorCode.INVALID_ARG,
                f"in ensemble '{self._context.config.name}', {self._inference.request.label}unexpected deadlock, at least one output is "
                "not set while no more ensemble steps can be made",
            )
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
            queue_ns=self._queue_ns,
            timing=BatchTiming(self._input_ns, self._infer_ns, self._output_ns),
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
        config = context.config
        batched, wanted = config.max_batch_size > 0, self._selection.outputs
        tensors: list[Tensor] = []
        parameters: Parameters = NO_PARAMETERS
        for spec in config.outputs:
            name = spec.name
            value = outputs.get(name) if name in wanted else None
            if value is None or value.tensor is None:
                continue
            shape = value.tensor.shape
            if spec.reshape is not None or batched != (value.batch_size > 0):
                shape = _output_shape(shape, value, spec, batched=batched)
            tensors.append(as_named(value.tensor, name, shape))
            if value.sequence is not None:
                identity, flags = value.sequence
                parameters = {
                    "sequence_id": identity,
                    "sequence_start": bool(flags & SEQUENCE_START),
                    "sequence_end": bool(flags & SEQUENCE_END),
                }
        return InferResponse(
            config.name, context.version, self._inference.request.id, tensors, parameters
        )


def _output_shape(
    shape: tuple[int, ...], value: Value, spec: TensorSpec, *, batched: bool
) -> tuple[int, ...]:
    """The shape that the client sees, after `reshape` (row 4.12)."""
    dims = spec.reshape if spec.reshape is not None else spec.dims
    shape = batch_shape(shape, dims, batched=batched, batch_size=value.batch_size)
    if spec.reshape is None:
        return shape
    batch = shape[:1] if batched else ()
    free = iter(
        size for wanted, size in zip(spec.reshape, shape[len(batch) :], strict=True) if wanted == -1
    )
    return (*batch, *(next(free) if size == -1 else size for size in spec.dims))


def _sequence(parameters: Parameters, before: tuple[int | str, int]) -> tuple[int | str, int]:
    """The sequence that a model answers with."""
    identity = parameters.get("sequence_id", before[0])
    flags = 0
    if parameters.get("sequence_start"):
        flags |= SEQUENCE_START
    if parameters.get("sequence_end"):
        flags |= SEQUENCE_END
    return identity if isinstance(identity, str) else int(identity), flags

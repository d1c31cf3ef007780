"""One request of an ensemble, from its inputs to its last response (rows 14.1, 14.6 to 14.15).

A step is called as soon as its inputs are there, and tensors go from step to step as they are, without a copy. The request ends once no call is
left, whatever happens: with its responses; with the first error, after which no further step begins and those in progress are awaited; with a
cancellation, which cancels these; or with the end of its scheduler, which does not wait for them. All of it belongs to the event loop.
"""

import collections.abc

import msgspec

from naiad.config.model_config import ModelConfig, TensorSpec
from naiad.core.flow import RESPONSE_BYTES
from naiad.core.inference import Inference
from naiad.core.request import SEQUENCE_END, SEQUENCE_START, InferRequest, Parameters
from naiad.core.response import NO_OUTPUTS, NO_PARAMETERS, InferResponse
from naiad.core.tensor import PackedStrings, Tensor
from naiad.errors import ErrorCode, FailureReason, InferenceError
from naiad.metrics.statistics import BatchTiming
from naiad.scheduling.ensemble.plan import (
    EnsemblePlan,
    Key,
    PlannedStep,
    TensorTable,
    Value,
    as_named,
    batch_shape,
)
from naiad.scheduling.ensemble.response_order import ResponseOrder
from naiad.scheduling.ensemble.steps import StepCall, StepCalls
from naiad.scheduling.response_dispatcher import ResponseDispatcher
from naiad.scheduling.scheduler import MadeCall

AHEAD = 64
"""A decoupled step pauses while its request has more calls in progress: its responses would fill the memory if those behind it are slower."""

_ROOT: Key = ()
_OWN_PARAMETERS = frozenset(("sequence_id", "sequence_start", "sequence_end"))


class EnsembleRun:
    """Implements `StepOwner`.

    Args:
        inference: the request.
        config: of the ensemble.
        version: of the ensemble.
        plan: its graph.
        calls: makes the calls.
        dispatcher: counts the request, and sends its responses.
        on_end: called just before the final response.

    Attributes:
        batch: the inference, as in `Occupancy.executions`.
    """

    __slots__ = (
        "_busy", "_calls", "_client_waits", "_compute_ns", "_config", "_dispatcher", "_error", "_inference", "_is_of_step", "_made", "_on_end", "_order",
        "_over", "_plan", "_queue_ns", "_ready", "_responses", "_selection", "_streams", "_table", "_version", "_waiting", "batch",
    )  # fmt: skip

    def __init__(
        self,
        inference: Inference,
        *,
        config: ModelConfig,
        version: int,
        plan: EnsemblePlan,
        calls: StepCalls,
        dispatcher: ResponseDispatcher,
        on_end: collections.abc.Callable[[Inference], None],
    ) -> None:
        self._inference = inference
        self.batch = [inference]
        self._config = config
        self._version = version
        self._plan = plan
        self._calls = calls
        self._dispatcher = dispatcher
        self._on_end = on_end
        self._selection = plan.select(inference.request.output_names)
        self._table = TensorTable(plan, self._selection)
        self._made: dict[StepCall, MadeCall | None] = {}  # calls in progress
        self._waiting: dict[StepCall, None] = {}  # calls that wait for a place
        self._streams: dict[StepCall, None] = {}  # those in progress of decoupled steps
        self._order = ResponseOrder[InferResponse]() if config.decoupled else None
        self._ready: list[InferResponse] = []
        self._responses = 0
        self._error: InferenceError | None = None
        self._busy = self._over = self._client_waits = self._is_of_step = False
        self._queue_ns = 0
        self._compute_ns = (0, 0, 0)

    @property
    def is_waiting(self) -> bool:
        """Whether it does nothing but wait for calls of other requests of the ensemble to end."""
        return bool(self._waiting) and not self._made

    def start(self) -> None:
        """Begin the steps that need nothing but the request's inputs."""
        inference = self._inference
        if self._order is not None and inference.flow is not None:
            inference.flow.watch(self._client_paused)
        batch_size = inference.batch_size if self._config.max_batch_size > 0 else 0
        values = {tensor.name: Value(tensor, batch_size) for tensor in inference.request.inputs}
        for name in self._plan.optional:
            if name not in values:
                values[name] = Value(None, batch_size)
        self._busy = True
        self._add(values, _ROOT)
        self._busy = False
        self._proceed()

    def cancel(self) -> None:
        """The client has gone: the steps in progress are cancelled, and those that wait do not begin."""
        self._fail(
            InferenceError(
                ErrorCode.CANCELLED,
                f"in ensemble '{self._config.name}', the request was cancelled",
                reason=FailureReason.CANCELED,
            )
        )
        busy, self._busy = self._busy, True
        for made in tuple(self._made.values()):
            if made is not None:
                made.cancel()  # which may end it at once
        self._busy = busy
        if not busy:
            self._proceed()

    def abort(self, error: InferenceError) -> None:
        """End with an error at once."""
        if self._over:
            return
        made = tuple(self._made.values())
        self._fail(error)
        self._end()
        for call in made:
            if call is not None:
                call.cancel()

    def begins(self, call: StepCall) -> None:
        """See `StepOwner`."""
        if self._waiting.pop(call, call) is None:
            self._made[call] = None
            self._set_pace()

    def made(self, call: StepCall, made: MadeCall) -> None:
        """See `StepOwner`."""
        if call in self._made:
            self._made[call] = made
            if self._inference.cancelled or self._over:
                made.cancel()

    def responded(self, call: StepCall, response: InferResponse) -> None:
        """See `StepOwner`."""
        busy, self._busy = self._busy, True
        if response.error is not None:
            if self._error is None:
                self._is_of_step = response.error.code is not ErrorCode.CANCELLED
            self._fail(self._of_step(call, response.error))
        elif self._error is None and not response.empty:
            self._take(call, response)
        if response.final:
            self._ended(call, failed=response.error is not None)
        self._busy = busy
        if not busy:
            self._proceed()

    def _take(self, call: StepCall, response: InferResponse) -> None:
        """Take the tensors of a step's response."""
        step, key, order = call.step, call.key, self._order
        if step.decoupled:
            key = (*key, call.count)
            call.count += 1
        sequence = call.sequence
        parameters = response.parameters
        if parameters and not _OWN_PARAMETERS.isdisjoint(parameters):
            sequence = _sequence(parameters, sequence)
        sent = {tensor.name: tensor for tensor in response.outputs}
        values = {
            tensor: Value(sent.get(name), call.batch_size, sequence)
            for name, tensor in step.outputs.items()
        }
        if order is None or not key:
            self._add(values, key)
            return
        order.begun(key[0])
        self._add(values, key)
        order.done(key[0])

    def _add(self, values: collections.abc.Mapping[str, Value], key: Key) -> None:
        """Add tensors, begin the steps that can run then, and respond once all outputs are there."""
        table, selection = self._table, self._selection
        runnable: list[PlannedStep] = []
        has_output = False
        for tensor, value in values.items():
            runnable += table.add(tensor, key, value)
            has_output = has_output or tensor in selection.outputs
        if has_output:
            outputs = table.take_outputs(key)
            if outputs is not None:
                response = self._response(outputs)
                if self._order is None or not key:
                    self._ready.append(response)
                else:
                    self._order.add(key[0], response)
        for step in runnable:
            if self._error is not None:
                return
            self._begin(step, key, table.take(step.tensors, key))

    def _begin(self, step: PlannedStep, key: Key, values: dict[str, Value]) -> None:
        call = self._call(step, key, values)
        if self._order is not None and key:
            self._order.begun(key[0])
        if step.decoupled:
            self._streams[call] = None
        if self._calls.is_full(step):
            self._waiting[call] = None
            self._calls.wait(call)
        else:
            self._made[call] = None
            self._calls.make(call)
        if self._streams:
            self._set_pace()

    def _call(self, step: PlannedStep, key: Key, values: dict[str, Value]) -> StepCall:
        request = self._inference.request
        inputs: list[Tensor] = []
        sequence: tuple[int | str, int] | None = None
        batch_size = 1 if step.batched else 0
        for name, source, dims in step.inputs:
            value = values[source]
            sequence = sequence or value.sequence
            tensor = value.tensor
            if tensor is None:
                continue
            shape = batch_shape(
                tensor.shape, dims, batched=step.batched, batch_size=value.batch_size
            )
            if step.batched and not inputs and shape:
                batch_size = shape[0]
            inputs.append(as_named(tensor, name, shape))
        identity, flags = sequence or (request.correlation_id, request.flags)
        asked = InferRequest(
            step.model,
            step.version,
            request.id,
            inputs,
            self._selection.requested[step.index],
            request.parameters.copy() if request.parameters else request.parameters,
            request.priority,
            request.timeout_us,
            identity,
            flags,
        )
        return StepCall(self, step, key, asked, batch_size=batch_size, sequence=(identity, flags))

    def _ended(self, call: StepCall, *, failed: bool) -> None:
        made = self._made.pop(call, None)
        self._streams.pop(call, None)
        if self._order is not None and call.key:
            self._order.done(call.key[0])
        queue_ns = compute_ns = 0
        inference = made.inference if made is not None else None
        if inference is not None and inference.execution is not None and not failed:
            times = inference.execution
            queue_ns = times.start_ns - inference.queued_ns
            compute_ns = times.end_ns - times.start_ns
            taken, inferred, given = self._compute_ns
            self._queue_ns += queue_ns
            self._compute_ns = (
                taken + times.input_end_ns - times.start_ns,
                inferred + times.output_start_ns - times.input_end_ns,
                given + times.end_ns - times.output_start_ns,
            )
        self._calls.ended(call, failed=failed, queue_ns=queue_ns, compute_ns=compute_ns)
        if self._streams:
            self._set_pace()

    def _fail(self, error: InferenceError) -> None:
        """Nothing more begins; the first error counts."""
        if self._error is not None or self._over:
            return
        self._error = error
        self._table.clear()
        waiting, self._waiting = self._waiting, {}
        for call in waiting:
            self._streams.pop(call, None)
            self._calls.withdraw(call)
        for call in self._streams:
            if call.flow is not None:
                call.flow.resume()

    def _of_step(self, call: StepCall, error: InferenceError) -> InferenceError:
        step, cancelled = call.step, error.code is ErrorCode.CANCELLED
        return InferenceError(
            error.code,
            f"in ensemble '{self._config.name}', {error.message or 'the request was cancelled'} "
            f"(step {step.index}: model '{step.model}')",
            reason=FailureReason.CANCELED if cancelled else FailureReason.OTHER,
        )

    def _proceed(self) -> None:
        """Send what is ready, and end if no call is left."""
        if self._over:
            return
        idle = not self._made and not self._waiting
        if self._error is None:
            if self._order is not None:
                self._ready += self._order.take()
            ready, self._ready = self._ready, []
            for index, response in enumerate(ready, 1):
                self._send(response, final=idle and index == len(ready))
        if idle and not self._over:
            if self._error is None and self._order is None:
                self._fail(
                    InferenceError(
                        ErrorCode.INVALID_ARG,
                        f"in ensemble '{self._config.name}', {self._inference.request.label}unexpected deadlock, at least one output is "
                        "not set while no more ensemble steps can be made",
                    )
                )
            self._end()

    def _send(self, response: InferResponse, *, final: bool) -> None:
        if self._over:
            return
        inference = self._inference
        if final:
            self._over = True
            self._table.clear()
            self._on_end(inference)
        elif inference.flow is not None:
            inference.flow.coming(sum(map(_size, response.outputs), RESPONSE_BYTES))
        if not final:
            response = msgspec.structs.replace(response, final=False)
        self._dispatcher.respond_composed(
            inference,
            response,
            queue_ns=self._queue_ns,
            timing=BatchTiming(*self._compute_ns),
            streams=self._order is not None,
        )

    def _end(self) -> None:
        """Send the final response: the error, or the end of a stream."""
        error = self._error
        if error is None:
            last = InferResponse(
                self._config.name, self._version, self._inference.request.id, NO_OUTPUTS, NO_PARAMETERS, empty=True,
            )  # fmt: skip
            self._send(last, final=True)
            return
        self._over = True
        self._on_end(self._inference)
        self._dispatcher.fail(self._inference, error, counted=2 if self._is_of_step else 1)

    def _client_paused(self, paused: bool) -> None:  # noqa: FBT001 - as `Flow.watch` calls it
        self._client_waits = paused
        self._set_pace()

    def _set_pace(self) -> None:
        """Pause the decoupled steps whose responses cannot be passed on, or come faster than the steps behind them take them; resume others."""
        depth = max((len(call.key) for call in self._waiting), default=0)
        if len(self._made) > AHEAD:
            depth = max(depth, 1)
        for call in self._streams:
            if call.flow is None:
                continue
            if self._client_waits or len(call.key) < depth:
                call.flow.pause()
            else:
                call.flow.resume()

    def _response(self, outputs: collections.abc.Mapping[str, Value]) -> InferResponse:
        config = self._config
        tensors: list[Tensor] = []
        parameters: Parameters = NO_PARAMETERS
        for spec in config.outputs:
            value = outputs.get(spec.name)
            if value is None or value.tensor is None:
                continue
            shape = _output_shape(
                value.tensor.shape, value, spec, batched=config.max_batch_size > 0
            )
            tensors.append(as_named(value.tensor, spec.name, shape))
            if value.sequence is not None:
                identity, flags = value.sequence
                parameters = {
                    "sequence_id": identity,
                    "sequence_start": bool(flags & SEQUENCE_START),
                    "sequence_end": bool(flags & SEQUENCE_END),
                }
        return InferResponse(
            config.name, self._version, self._inference.request.id, tensors, parameters
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


def _size(tensor: Tensor) -> int:
    return int(tensor.packed.nbytes if isinstance(tensor, PackedStrings) else tensor.array.nbytes)

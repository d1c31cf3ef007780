"""One request of an ensemble with decoupled steps: what `run` does, for a value of each tensor per response of these steps, and in their order.

A decoupled step pauses while the client does not read, and while the steps behind it are far behind.
"""

import msgspec
from typing_extensions import override

from naiad.core.flow import RESPONSE_BYTES, Flow
from naiad.core.inference import Inference
from naiad.core.response import NO_OUTPUTS, NO_PARAMETERS, InferResponse
from naiad.core.tensor import PackedStrings, Tensor
from naiad.errors import InferenceError
from naiad.scheduling.ensemble.context import RunContext
from naiad.scheduling.ensemble.plan import Key, PlannedStep, TensorTable, Value
from naiad.scheduling.ensemble.response_order import ResponseOrder
from naiad.scheduling.ensemble.run import EnsembleRun
from naiad.scheduling.ensemble.steps import StepCall

AHEAD = 64
"""A decoupled step pauses while its request has more calls in progress: its responses would fill the memory if those behind it are slower."""


class StreamingRun(EnsembleRun):
    """Implements `StepOwner`."""

    __slots__ = ("_client_waits", "_order", "_ready", "_streams", "_table")

    def __init__(self, inference: Inference, context: RunContext) -> None:
        super().__init__(inference, context)
        # Values have keys here, and an order.
        self._following, self._first, self._last = {}, None, None
        self._table = TensorTable(context.plan, self._selection)
        self._streams: dict[StepCall, None] = {}  # those in progress of decoupled steps
        self._order = ResponseOrder[InferResponse]()
        self._ready: list[InferResponse] = []
        self._client_waits = False

    @override
    def start(self) -> None:
        if self._inference.flow is not None:
            self._inference.flow.watch(self._client_paused)
        super().start()

    @override
    def begins(self, call: StepCall) -> None:
        super().begins(call)
        self._set_pace()

    @override
    def _take(self, call: StepCall, response: InferResponse, key: Key) -> None:
        if call.step.decoupled:
            key = (*key, call.count)
            call.count += 1
        if not key:
            super()._take(call, response, key)
            return
        self._order.begun(key[0])
        super()._take(call, response, key)
        self._order.done(key[0])

    @override
    def _add(self, values: dict[str, Value], key: Key) -> None:
        table, selection = self._table, self._selection
        runnable: list[PlannedStep] = []
        has_output = False
        for tensor, value in values.items():
            runnable += table.add(tensor, key, value)
            has_output = has_output or tensor in selection.outputs
        if has_output:
            outputs = table.take_outputs(key)
            if outputs is not None:
                response = self._respond_with(outputs)
                if key:
                    self._order.add(key[0], response)
                else:
                    self._ready.append(response)
        for step in runnable:
            if self._error is not None:
                return
            call = self._call(step, key, table.take(step.tensors, key))
            if key:
                self._order.begun(key[0])
            if step.decoupled:
                call.flow = Flow()
                self._streams[call] = None
            self._begin(call)
            if self._streams:
                self._set_pace()

    @override
    def _ended(self, call: StepCall, *, failed: bool) -> None:
        self._streams.pop(call, None)
        if call.key:
            self._order.done(call.key[0])
        super()._ended(call, failed=failed)
        if self._streams:
            self._set_pace()

    @override
    def _fail(self, error: InferenceError) -> None:
        if self._error is not None or self._over:
            return
        waiting = self._waiting
        super()._fail(error)
        self._table.clear()
        for call in waiting:
            self._streams.pop(call, None)
        for call in self._streams:
            if call.flow is not None:
                call.flow.resume()

    @override
    def _proceed(self) -> None:
        """Send what is ready, and end if no call is left."""
        if self._over:
            return
        idle = not self._made and not self._waiting
        if self._error is None:
            self._ready += self._order.take()
            ready, self._ready = self._ready, []
            for index, response in enumerate(ready, 1):
                if idle and index == len(ready):
                    self._send_last(response)
                else:
                    self._send(response)
        if not idle or self._over:
            return
        if self._error is not None:
            self._end(self._error)
            return
        config, request = self._context.config, self._inference.request
        self._send_last(
            InferResponse(
                config.name,
                self._context.version,
                request.id,
                NO_OUTPUTS,
                NO_PARAMETERS,
                empty=True,
            )
        )

    def _send(self, response: InferResponse) -> None:
        """Send a response that is not the last one."""
        if self._over:  # a callback has ended it
            return
        if self._inference.flow is not None:
            self._inference.flow.coming(sum(map(_size, response.outputs), RESPONSE_BYTES))
        self._pass_on(msgspec.structs.replace(response, final=False), streams=True)

    @override
    def _send_last(self, response: InferResponse) -> None:
        if self._over:
            return
        self._over = True
        self._table.clear()
        self._context.on_end(self._inference)
        self._pass_on(response, streams=True)

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


def _size(tensor: Tensor) -> int:
    return int(tensor.packed.nbytes if isinstance(tensor, PackedStrings) else tensor.array.nbytes)

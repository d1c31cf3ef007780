"""Traced requests, made without a server."""

import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np

from naiad.core.clock import ManualClock
from naiad.core.datatypes import BY_NAME
from naiad.core.inference import ExecutionTimes, Inference
from naiad.core.request import LATEST, InferRequest
from naiad.core.response import InferResponse
from naiad.core.tensor import Tensor
from naiad.tracing.context import TracedContext
from naiad.tracing.tracer import Tracer


def tensor(name: str, datatype: str, shape: tuple[int, ...], values: list[Any]) -> Tensor:
    known = BY_NAME[datatype]
    return Tensor(name, known, shape, np.array(values, dtype=known.dtype).reshape(shape))


def model(*, ensemble: bool = False, version: int = 3) -> Any:
    """What a trace reads of a model."""
    return SimpleNamespace(
        version=version, config=SimpleNamespace(ensemble=object() if ensemble else None)
    )


class Requests:
    """Sends requests through a tracer, each step a millisecond after the last one."""

    def __init__(self, tracer: Tracer, clock: ManualClock, *, protocol: str = "HTTP") -> None:
        self.tracer = tracer
        self.clock = clock
        self.protocol = protocol
        self._ids = itertools.count(1)

    def tick(self) -> int:
        self.clock.advance(ns=1_000_000)
        return self.clock.monotonic_ns()

    def begin(self, name: str = "m", **more: Any) -> TracedContext:
        context = TracedContext(self.tick(), tracer=self.tracer, protocol=self.protocol, **more)
        self.tick()
        context.asks(name)
        return context

    def run(
        self,
        context: TracedContext,
        *,
        name: str = "m",
        inputs: tuple[Tensor, ...] = (),
        request_id: str = "",
    ) -> Inference:
        """The model begins it."""
        request = InferRequest(name, LATEST, request_id, list(inputs), [], {})
        inference = Inference(request, lambda _: None, 1, self.tick(), queued_ns=self.tick())
        context.runs(model(), inference)
        return inference

    def respond(self, inference: Inference, *outputs: Tensor, final: bool = True) -> None:
        """The model responds."""
        inference.execution = ExecutionTimes(
            3, self.tick(), self.tick(), self.tick(), self.tick(), responded_ns=self.tick()
        )
        inference.completed = final
        name = inference.request.model_name
        inference.on_response(InferResponse(name, 3, "", list(outputs), {}, final=final))

    def finish(self, context: TracedContext) -> None:
        """The response is sent."""
        context.send_ns, context.sent_ns = self.tick(), self.tick()
        context.finish()

    def whole(self, name: str = "m") -> None:
        """One request from its first byte to its last one."""
        context = self.begin(name)
        self.respond(self.run(context, name=name))
        self.finish(context)

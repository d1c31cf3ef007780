"""A scripted engine for the tests of both wires; which answer it gives at once is each wire's tests' matter."""

import collections.abc
import logging
import typing

from naiad.core.clock import ManualClock
from naiad.core.flow import Flow
from naiad.core.inference import Inference, OnResponse, RequestContext
from naiad.core.messages import model_config_pb2
from naiad.core.regions import Regions
from naiad.core.request import LATEST, InferRequest
from naiad.core.response import InferResponse
from naiad.engine.api import EnsembleGraph, ModelQueue, ModelTraits
from naiad.errors import InferenceError, invalid, not_found
from naiad.logs import LogSettings
from naiad.repository.loading.progress import LoadProgress
from naiad.repository.requests.overrides import NO_PARAMETERS, Parameters
from naiad.tracing.settings import TraceOptions
from naiad.tracing.tracer import Tracer


class EngineOfOneModel:
    """Knows one model, and remembers what it was asked.

    Args:
        traits: of the model.
        model: its name.

    Attributes:
        ready: what readiness says, or raises.
        live: what liveness says, or raises.
        requests: inferences that were asked for.
        contexts: of each of these.
        inferences: those of them that were not answered at once, for a test to answer.
        on_held: called with each of these.
        asked: names and versions of the models that were looked up.
        changes: loads and unloads.
        change_error: what they raise.
        regions: clients' shared memory; switched off.
        tracer: traces nothing until a change of its settings; its file is t.json, which nothing opens.
        logs: of nothing that writes.
    """

    def __init__(self, traits: ModelTraits, *, model: str = "m") -> None:
        self.traits = traits
        self.replies = None
        self.model = model
        self.ready: bool | Exception = True
        self.live: bool | InferenceError = True
        self.requests: list[InferRequest] = []
        self.contexts: list[RequestContext | None] = []
        self.inferences: list[Inference] = []
        self.on_held: collections.abc.Callable[[Inference], None] | None = None
        self.asked: list[tuple[str, int]] = []
        self.changes: list[tuple[str, str, typing.Any]] = []
        self.change_error: InferenceError | None = None
        self.regions = Regions()
        self.tracer = Tracer(TraceOptions(file="t.json"), clock=ManualClock())
        self.logs = LogSettings(
            logging.NullHandler(), logger=logging.getLogger("of a scripted engine")
        )

    def answer_at_once(self, _request: InferRequest) -> InferResponse | None:
        """The response to a request; None: a test answers it."""
        return None

    def infer(
        self,
        request: InferRequest,
        on_response: OnResponse,
        flow: Flow | None = None,
        context: RequestContext | None = None,
    ) -> Inference | None:
        self.requests.append(request)
        self.contexts.append(context)
        response = self.answer_at_once(request)
        if response is not None:
            on_response(response)
            return None
        inference = Inference(request, on_response, batch_size=1, received_ns=0, flow=flow)
        if context is not None:
            context.inference = inference
        self.inferences.append(inference)
        if self.on_held is not None:
            self.on_held(inference)
        return inference

    def end_sequence(self, name: str, version: int, correlation_id: int | str) -> None:
        """No sequences here."""

    def look_up(self, name: str, version: int = LATEST) -> typing.Any:
        self.find(name, version)
        return self

    def server_live(self) -> bool:
        if isinstance(self.live, InferenceError):
            raise self.live
        return self.live

    async def server_ready(self) -> bool:
        if isinstance(self.ready, Exception):
            raise self.ready
        return self.ready

    async def model_ready(self, name: str, version: int = LATEST) -> bool:
        self.find(name, version)
        return await self.server_ready()

    def model_config(self, name: str, version: int = LATEST) -> typing.Any:
        self.find(name, version)
        return model_config_pb2.ModelConfig(name=name, max_batch_size=8)

    def model_graph(self, name: str, version: int = LATEST) -> EnsembleGraph:
        raise invalid(f"model '{name}' is not an ensemble")

    def model_queue(self, name: str, version: int = LATEST) -> ModelQueue:
        self.find(name, version)
        return ModelQueue(name=name, version=1, pending=0, queue=None, sequences=None)

    def load_progress(self) -> list[LoadProgress]:
        return []

    async def load_model(self, name: str, parameters: Parameters = NO_PARAMETERS) -> None:
        self._change("load", name, dict(parameters))

    async def unload_model(self, name: str, *, unload_dependents: bool = False) -> None:
        self._change("unload", name, unload_dependents)

    def find(self, name: str, version: int) -> None:
        """Remember that a model was asked for.

        Raises:
            InferenceError: NOT_FOUND: it is not the one.
        """
        self.asked.append((name, version))
        if name != self.model:
            raise not_found(f"Request for unknown model: '{name}' is not found")

    def _change(self, action: str, name: str, how: typing.Any) -> None:
        self.changes.append((action, name, how))
        if self.change_error is not None:
            raise self.change_error

"""Requests for evicted models: each loads its model again and waits for that, for a bounded time (`--evicted-model-wait-secs`).

Every wait ends: with the load, its failure, the time limit, a cancel, or the end of the server, which fails the load. All of it belongs to the event loop.
"""

import asyncio
import collections.abc
import functools
import logging

from naiad.core.clock import Clock
from naiad.core.flow import Flow
from naiad.core.inference import Inference, OnResponse, RequestContext
from naiad.core.request import LATEST, InferRequest
from naiad.core.response import InferResponse, failure
from naiad.engine.api import ModelTraits
from naiad.engine.model import Model, traits_of
from naiad.errors import ErrorCode, FailureReason, InferenceError, unavailable
from naiad.repository.manager import Repository
from naiad.repository.requests.namespaces import Namespaces

log = logging.getLogger("naiad.memory")

RETRY_SECONDS = 5.0
"""After a load that failed, requests get its error for so long before one tries again."""


OnRun = collections.abc.Callable[[Model, Inference], None]
"""Called with the model that is loaded again, and with the inference that it runs."""


def _ignore(model: Model, inference: Inference) -> None:
    """An `OnRun` for requests that nothing follows."""


class EvictedModels:
    """The requests that wait for evicted models.

    Args:
        repository: the models.
        wait_seconds: how long a request waits.
        clock: gives arrival times.
    """

    def __init__(
        self,
        repository: Repository[Model] | Namespaces[Model],
        *,
        wait_seconds: float,
        clock: Clock,
    ) -> None:
        self._repository = repository
        self.wait_seconds = wait_seconds
        self._clock = clock
        self._loads: dict[str, asyncio.Task[None]] = {}
        self._waiting: dict[str, set[WaitingRequest]] = {}
        self._failed: dict[str, tuple[float, InferenceError]] = {}
        """Until when, and why, by name."""

    def find(self, name: str, version: int) -> "EvictedModel | None":
        """An evicted model, if it has this version (LATEST: any); None otherwise."""
        plans = self._repository.evicted(name)
        plan = plans.get(max(plans) if plans and version == LATEST else version)
        return None if plan is None else EvictedModel(self, traits_of(plan.config))

    def inflight(self) -> int:
        """The requests that wait."""
        return sum(map(len, self._waiting.values()))

    def wait(self, request: "WaitingRequest") -> None:
        """Load the model of a request again, and then run it."""
        name = request.model_name
        until, error = self._failed.get(name, (0.0, None))
        if error is not None and asyncio.get_running_loop().time() < until:
            request.fail(error)
            return
        self._waiting.setdefault(name, set()).add(request)
        if name not in self._loads:
            self._start(name)

    def withdraw(self, request: "WaitingRequest") -> None:
        """A request waits no more. The load goes on: it serves the next one."""
        waiting = self._waiting.get(request.model_name, set())
        waiting.discard(request)
        if not waiting:
            self._waiting.pop(request.model_name, None)

    def now_ns(self) -> int:
        """The time at which a request arrives."""
        return self._clock.monotonic_ns()

    async def _load(self, name: str) -> None:
        try:
            await self._repository.load_evicted(name, functools.partial(self._run_waiting, name))
        except InferenceError as failed:
            error = unavailable(
                f"model '{name}' was evicted and could not be loaded again: {failed.message}"
            )
            until = asyncio.get_running_loop().time() + RETRY_SECONDS
            self._failed[name] = until, error
            for request in self._waiting.pop(name, set()):
                request.fail(error)

    def _run_waiting(self, name: str) -> None:
        """Run the requests at once: a model with requests is the last one to be evicted."""
        self._failed.pop(name, None)
        for request in self._waiting.pop(name, set()):
            try:
                model = self._repository.get(name, request.version)
            except InferenceError as error:
                request.fail(error)
            else:
                request.run(model)

    def _start(self, name: str) -> None:
        log.info("model '%s' was evicted and is loaded again for a request", name)
        load = asyncio.get_running_loop().create_task(self._load(name))
        self._loads[name] = load
        load.add_done_callback(functools.partial(self._loaded, name))

    def _loaded(self, name: str, _: asyncio.Task[None]) -> None:
        del self._loads[name]
        if name in self._waiting:
            # It was evicted again before this was called, and is requested again.
            self._start(name)


class EvictedModel:
    """Implements `ServedModel` for a model that is not loaded.

    Args:
        models: of all evicted models.
        traits: those that it had.
    """

    def __init__(self, models: EvictedModels, traits: ModelTraits) -> None:
        self._models = models
        self.traits = traits

    def infer(
        self,
        request: InferRequest,
        on_response: OnResponse,
        flow: Flow | None = None,
        context: RequestContext | None = None,
    ) -> Inference | None:
        """See `Infers`."""
        return self.infer_when_loaded(request, on_response, _ignore, flow, context)

    def infer_when_loaded(
        self,
        request: InferRequest,
        on_response: OnResponse,
        on_run: OnRun,
        flow: Flow | None = None,
        context: RequestContext | None = None,
    ) -> Inference | None:
        """The same, and call `on_run` once the model runs the request."""
        waiting = WaitingRequest(
            self._models, self.traits, request, on_response, on_run, flow, context
        )
        self._models.wait(waiting)
        return None if waiting.handle.completed else waiting.handle


class WaitingRequest:
    """A request that waits for its model, and afterwards its cancel.

    Args:
        models: of all evicted models.
        traits: by which it was decoded.
        request: the request, and the other arguments of `infer`.
        on_run: called once the model runs it.
    """

    def __init__(  # noqa: PLR0917 - those of `infer`
        self,
        models: EvictedModels,
        traits: ModelTraits,
        request: InferRequest,
        on_response: OnResponse,
        on_run: OnRun,
        flow: Flow | None,
        context: RequestContext | None,
    ) -> None:
        self.model_name = request.model_name
        self.version = request.model_version
        self._models = models
        self._traits = traits
        self._context = context
        self._on_run = on_run
        self._inner: Inference | None = None
        self.handle = Inference(
            request, on_response, batch_size=1, received_ns=models.now_ns(), flow=flow
        )
        self.handle.on_cancel = self._cancel
        self._timer = asyncio.get_running_loop().call_later(models.wait_seconds, self._expire)

    def run(self, model: Model) -> None:
        """The model is loaded."""
        self._timer.cancel()
        if model.traits != self._traits:
            self.fail(
                unavailable(
                    f"model '{self.model_name}' has changed since it was evicted: send the request again"
                )
            )
            return
        self._inner = model.infer(
            self.handle.request, self._respond, self.handle.flow, self._context
        )
        if self._inner is not None:
            self._on_run(model, self._inner)

    def fail(self, error: InferenceError) -> None:
        """Respond with an error."""
        self._timer.cancel()
        self._respond(failure(self.handle.request, error, version=self.version))

    def _respond(self, response: InferResponse) -> None:
        if response.final:
            self.handle.completed = True
        self.handle.on_response(response)

    def _cancel(self, _: Inference) -> None:
        if self._inner is not None:
            self._inner.cancel()
        elif not self.handle.completed:
            self._models.withdraw(self)
            self.fail(InferenceError(ErrorCode.CANCELLED, "", reason=FailureReason.CANCELED))

    def _expire(self) -> None:
        self._models.withdraw(self)
        self.fail(
            unavailable(
                f"model '{self.model_name}' was evicted and was not loaded again within {self._models.wait_seconds:g} s "
                "(--evicted-model-wait-secs): send the request again later"
            )
        )

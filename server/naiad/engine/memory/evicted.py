"""Requests for evicted models: each loads its model again and waits for that, for a bounded time (`--evicted-model-wait-secs`).

Every wait ends: with the load, its failure, the time limit, a cancel, or the end of the server, which fails the load. All of it belongs to the event loop.
"""

import asyncio
import collections
import collections.abc
import functools
import logging

import msgspec

from naiad.config.model_config import DynamicBatching
from naiad.core.clock import Clock
from naiad.core.flow import Flow
from naiad.core.inference import Inference, OnResponse, RequestContext
from naiad.core.request import LATEST, InferRequest
from naiad.engine.model import Model, traits_of
from naiad.errors import InferenceError, unavailable
from naiad.repository.manager import Repository
from naiad.repository.plan import VersionPlan
from naiad.repository.requests.namespaces import Namespaces
from naiad.scheduling.queue import queue_full
from naiad.scheduling.relays.calls import CallInProgress
from naiad.scheduling.relays.relay import Relay

log = logging.getLogger("naiad.memory")

RETRY_SECONDS = 5.0
"""After a load that failed, requests get its error for so long before one tries again."""


class _Waiting:
    """The requests that wait for one model, in order of arrival."""

    def __init__(self) -> None:
        self.requests: dict[WaitingRequest, None] = {}
        self._counts = collections.Counter[tuple[int, int]]()

    def add(self, request: "WaitingRequest") -> None:
        """Add a request.

        Raises:
            InferenceError: UNAVAILABLE: so many wait as the model's queue takes (row 12.11).
        """
        version, level = request.queue
        limit = request.model.batching.policy_of(level).max_queue_size
        if limit and self._counts[version, level] >= limit:
            raise queue_full(
                request.outer.request, model=request.model_name, limit=limit, priority=level
            )
        self.requests[request] = None
        self._counts[version, level] += 1

    def remove(self, request: "WaitingRequest") -> None:
        """Remove a request; no effect if it does not wait here."""
        if request in self.requests:
            del self.requests[request]
            self._counts[request.queue] -= 1


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
        self._waiting: dict[str, _Waiting] = {}
        self._failed: dict[str, tuple[InferenceError, asyncio.TimerHandle]] = {}
        """Why the last load failed, and what makes this forget it, by name."""

    def find(self, name: str, version: int) -> "EvictedModel | None":
        """An evicted model, if it has this version (LATEST: any); None otherwise."""
        plans = self._repository.evicted(name)
        plan = plans.get(max(plans) if plans and version == LATEST else version)
        return None if plan is None else EvictedModel(self, plan)

    def inflight(self) -> int:
        """The requests that wait."""
        return sum(len(waiting.requests) for waiting in self._waiting.values())

    def wait(self, request: "WaitingRequest") -> None:
        """Load the model of a request again, and then run it."""
        name = request.model_name
        try:
            if name in self._failed:
                raise self._failed[name][0]
            self._waiting.setdefault(name, _Waiting()).add(request)
        except InferenceError as error:
            request.fail(error)
            return
        if name not in self._loads:
            self._start(name)

    def withdraw(self, request: "WaitingRequest") -> None:
        """A request waits no more. The load goes on: it serves the next one."""
        waiting = self._waiting.get(request.model_name)
        if waiting is not None:
            waiting.remove(request)
            if not waiting.requests:
                del self._waiting[request.model_name]

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
            self._forget_failure(name)
            later = asyncio.get_running_loop().call_later(
                RETRY_SECONDS, self._failed.pop, name, None
            )
            self._failed[name] = error, later
            for request in self._waiting.pop(name, _Waiting()).requests:
                request.fail(error)

    def _run_waiting(self, name: str) -> None:
        """Run the requests at once: a model with requests is the last one to be evicted."""
        self._forget_failure(name)
        for request in self._waiting.pop(name, _Waiting()).requests:
            try:
                model = self._repository.get(name, request.version)
            except InferenceError as error:
                request.fail(error)
            else:
                request.run(model)

    def _forget_failure(self, name: str) -> None:
        if name in self._failed:
            _, later = self._failed.pop(name)
            later.cancel()

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
    """Implements `ServedModel` for a model version that is not loaded.

    Args:
        models: all evicted models.
        plan: what was loaded.

    Attributes:
        traits: those that it had.
        batching: its queue policies; defaults if it has none.
        version: its number.
        replies: none.
    """

    replies = None

    def __init__(self, models: EvictedModels, plan: VersionPlan) -> None:
        self._models = models
        self.traits = traits_of(plan.config)
        self.batching = plan.config.dynamic_batching or DynamicBatching()
        self.version = plan.version

    def infer(
        self,
        request: InferRequest,
        on_response: OnResponse,
        flow: Flow | None = None,
        context: RequestContext | None = None,
    ) -> Inference | None:
        """See `Infers`."""
        now = self._models.now_ns()
        outer = Inference(request, on_response, batch_size=1, received_ns=now, flow=flow)
        self._models.wait(WaitingRequest(self._models, self, outer, context))
        return None if outer.completed else outer

    def run_calls(self, calls: collections.abc.Sequence[CallInProgress]) -> None:
        """See `ServedModel`."""
        for call in calls:
            call.begin(self)


class WaitingRequest:
    """A request that waits for its model.

    Args:
        models: all evicted models.
        model: by whose traits it was decoded.
        outer: its inference, for the client.
        context: of the request.
    """

    def __init__(
        self,
        models: EvictedModels,
        model: EvictedModel,
        outer: Inference,
        context: RequestContext | None,
    ) -> None:
        self.model_name = outer.request.model_name
        self.version = outer.request.model_version
        self.model = model
        self.outer = outer
        self.queue = model.version, model.batching.level_of(outer.request.priority)
        self._models = models
        self._context = context
        self._relay = Relay(outer, on_end=self._on_end)
        self._timer = asyncio.get_running_loop().call_later(models.wait_seconds, self._expire)

    def run(self, model: Model) -> None:
        """The model is loaded."""
        self._timer.cancel()
        # Who reads clients' regions is known with the instances alone: an evicted model has none, and the server has read the inputs, which suits every instance.
        if msgspec.structs.replace(model.traits, reads_regions=False) != self.model.traits:
            self.fail(
                unavailable(
                    f"model '{self.model_name}' has changed since it was evicted: send the request again"
                )
            )
            return
        context, self._context = self._context, None
        self._relay.begin(functools.partial(_infer, model, self.outer, context))

    def fail(self, error: InferenceError) -> None:
        """Respond with an error."""
        self._relay.fail(error)

    def _on_end(self, _error: InferenceError | None) -> None:
        self._timer.cancel()
        self._models.withdraw(self)

    def _expire(self) -> None:
        self.fail(
            unavailable(
                f"model '{self.model_name}' was evicted and was not loaded again within {self._models.wait_seconds:g} s "
                "(--evicted-model-wait-secs): send the request again later"
            )
        )


def _infer(
    model: Model, outer: Inference, context: RequestContext | None, on_response: OnResponse
) -> Inference | None:
    return model.infer(outer.request, on_response, outer.flow, context)

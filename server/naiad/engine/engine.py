"""The engine: the interface between protocols and models. Read this page first.

A request goes from `infer` to the validator of its model version (`validation.py`), its scheduler (`scheduling/`), an instance's host
(`hosts/`) and a backend (`backends/`); its response comes back through its callback. Everything else here is about the state of the
server and its models. Wire formats are not known here.
"""

import asyncio
import collections
import enum
import logging
from typing import Any

from naiad.core.clock import SystemClock
from naiad.core.flow import Flow
from naiad.core.inference import Inference, OnResponse, RequestContext
from naiad.core.regions import Regions
from naiad.core.request import LATEST, InferRequest
from naiad.core.response import failure
from naiad.engine.api import (
    EnsembleGraph,
    IndexEntry,
    ModelMetadata,
    ModelQueue,
    ModelVersionStatistics,
    ServerMetadata,
)
from naiad.engine.memory.evicted import EvictedModel, EvictedModels
from naiad.engine.model import Model
from naiad.engine.readiness import Readiness
from naiad.engine.readiness_policy import ReadinessPolicy
from naiad.engine.sequence_model import SequenceModel, with_sequences
from naiad.errors import ErrorCode, InferenceError, invalid, unavailable
from naiad.logs import LogSettings
from naiad.repository.control_mode import ControlMode
from naiad.repository.lifecycle import State
from naiad.repository.loading.progress import LoadProgress
from naiad.repository.manager import Repository, VersionState
from naiad.repository.requests.namespaces import Namespaces
from naiad.repository.requests.overrides import NO_PARAMETERS, Parameters
from naiad.tracing.settings import TraceOptions
from naiad.tracing.tracer import Tracer

log = logging.getLogger("naiad.serve")

EXTENSIONS = (
    "classification",
    "sequence",
    "model_repository",
    "model_repository(unload_dependents)",
    "schedule_policy",
    "model_configuration",
    "system_shared_memory",
    "binary_tensor_data",
    "parameters",
    "statistics",
    "trace",
    "logging",
)
"""The extensions that work here, in the order of row 2.14."""

_IN_SERVICE = {State.LOADING.value, State.READY.value, State.UNLOADING.value}


class Phase(enum.Enum):
    """The phases of the server, in this order only: STARTING -> SERVING -> DRAINING -> EXITING."""

    STARTING = 1
    SERVING = 2
    DRAINING = 3
    EXITING = 4


class ServingEngine:
    """Implements `engine.api.Engine`.

    Args:
        repository: the models.
        server_id: the server's name (`--id`).
        version: the server's version.
        strict_readiness: whether the server's readiness depends on its models (rows 2.4, 2.5).
        readiness_policy: which of them must be ready.
        control_mode: whether models may be loaded and unloaded, and what the index lists.
        evicted: loads evicted models again for requests; None: these are refused.
        regions: the shared memory that clients may use; None: none.
        tracer: None: one that traces nothing.
        logs: None: those of a process that does not log.
    """

    def __init__(
        self,
        *,
        repository: Repository[Model] | Namespaces[Model],
        server_id: str,
        version: str,
        strict_readiness: bool,
        readiness_policy: ReadinessPolicy | None = None,
        control_mode: ControlMode = ControlMode.NONE,
        evicted: EvictedModels | None = None,
        regions: Regions | None = None,
        tracer: Tracer | None = None,
        logs: LogSettings | None = None,
    ) -> None:
        self.tracer = Tracer(TraceOptions(), clock=SystemClock()) if tracer is None else tracer
        self.logs = LogSettings() if logs is None else logs
        self.regions = Regions() if regions is None else regions
        self._repository = repository
        self._latest = repository.latest
        extensions: tuple[str, ...] = EXTENSIONS
        if self.regions.has_gpus:
            after = EXTENSIONS.index("binary_tensor_data")
            extensions = (*EXTENSIONS[:after], "cuda_shared_memory", *EXTENSIONS[after:])
        self._metadata = ServerMetadata(name=server_id, version=version, extensions=extensions)
        self._readiness = (
            Readiness(repository, readiness_policy or ReadinessPolicy())
            if strict_readiness
            else None
        )
        self._control_mode = control_mode
        self._evicted = evicted
        self.phase = Phase.STARTING
        """Set by `serve`."""
        self.not_served = collections.Counter[ErrorCode]()
        """Inference requests without a model, by error: NOT_FOUND if the model or version is unknown, UNAVAILABLE if it is not ready.
        No model has counters for them (row 2.8)."""

    def infer(
        self,
        request: InferRequest,
        on_response: OnResponse,
        flow: Flow | None = None,
        context: RequestContext | None = None,
    ) -> Inference | None:
        """Run a request: exactly one final response, errors included, perhaps before this returns."""
        try:
            model = self.look_up(request.model_name, request.model_version)
        except InferenceError as error:
            on_response(failure(request, error, version=request.model_version))
            return None
        return model.infer(request, on_response, flow, context)

    def inflight(self) -> int:
        """Inferences that were accepted and have no final response yet, over all models."""
        serving = sum(model.inflight() for _, _, model in self._repository.served())
        waiting = 0 if self._evicted is None else self._evicted.inflight()
        return serving + waiting + sum(model.inflight() for model in self._repository.unloading())

    def look_up(self, name: str, version: int = LATEST) -> Model | EvictedModel:
        """See `Engine`."""
        # The usual case, which every request asks: `get` would say the same.
        if version == LATEST and (latest := self._latest.get(name)) is not None:
            return latest
        try:
            return self._repository.get(name, version)
        except InferenceError as error:
            if self._evicted is not None and (found := self._evicted.find(name, version)):
                return found
            # Its open sequences go on; it refuses everything else.
            if leaving := with_sequences(self._repository.unloading(), name, version):
                return leaving
            self.not_served[error.code] += 1
            raise

    def end_sequence(self, name: str, version: int, correlation_id: int | str) -> None:
        """See `Engine`."""
        models = [
            *self._repository.unloading(),
            *(each for _, _, each in self._repository.served()),
        ]
        if model := with_sequences(models, name, version, correlation_id):
            model.end_sequence(correlation_id)

    async def finish_sequences(self, seconds: float) -> None:
        """The server stops: let open sequences end in this time, and start none."""
        models = [each for _, _, each in self._repository.served()]
        sequences = [each for each in models if isinstance(each, SequenceModel)]
        if any(each.has_sequence(None) for each in sequences):
            log.info("stopping: waiting for the end of open sequences, up to %.0f s", seconds)
        await asyncio.gather(*(each.finish_sequences(seconds) for each in sequences))

    def server_live(self) -> bool:
        """See `Engine`: live from the first socket to the end of the drain (row 2.1)."""
        self._refuse_when_exiting()
        return True

    async def server_ready(self) -> bool:
        """See `Engine`. False while starting and while draining, so that no new traffic is sent here (rows 2.2, 2.4, 2.5)."""
        self._refuse_when_exiting()
        if self.phase is not Phase.SERVING:
            return False
        return self._readiness is None or await self._readiness.holds()

    async def model_ready(self, name: str, version: int = LATEST) -> bool:
        """See `Engine` (row 2.7)."""
        self._refuse_when_exiting()
        return await self._repository.get(name, version).ready()

    def server_metadata(self) -> ServerMetadata:
        """See `Engine` (row 2.13)."""
        return self._metadata

    def model_metadata(self, name: str, version: int = LATEST) -> ModelMetadata:
        """See `Engine` (row 2.15)."""
        model = self._repository.get(name, version)
        config = model.config
        return ModelMetadata(
            name=name,
            versions=tuple(self._repository.ready_versions(name))
            if version == LATEST
            else (version,),
            platform=config.platform or config.backend,
            inputs=model.inputs,
            outputs=model.outputs,
        )

    def model_config(self, name: str, version: int = LATEST) -> Any:
        """The normalised config message."""
        return self._repository.get(name, version).config.message

    def model_graph(self, name: str, version: int = LATEST) -> EnsembleGraph:
        """See `Engine`."""
        model = self._repository.get(name, version)
        config = model.config
        if config.ensemble is None:
            raise invalid(
                f"model '{name}' is not an ensemble: only ensembles have a graph of steps"
            )
        return EnsembleGraph(
            name=name,
            version=model.version,
            inputs=tuple(spec.name for spec in config.inputs),
            outputs=tuple(spec.name for spec in config.outputs),
            steps=config.ensemble.steps,
            times=model.statistics.steps,
        )

    def model_queue(self, name: str, version: int = LATEST) -> ModelQueue:
        """See `Engine`."""
        model = self._repository.get(name, version)
        statistics = model.statistics
        return ModelQueue(
            name=name,
            version=model.version,
            pending=statistics.pending,
            queue=None if statistics.queue is None else statistics.queue(),
            sequences=None if statistics.sequences is None else statistics.sequences(),
        )

    def statistics(self, name: str = "", version: int = LATEST) -> list[ModelVersionStatistics]:
        """Counters, sorted by name and version (rows 8.1, 8.8)."""
        entries = [
            ModelVersionStatistics(name=model_name, version=number, statistics=model.statistics)
            for model_name, number, model in self._repository.served()
            if name in ("", model_name)
        ]
        if not name:
            return entries
        ready = ", ".join(map(str, self._repository.ready_versions(name)))
        if not ready:
            raise invalid(
                f"requested model '{name}' is not available: ask /v2/repository/index for the models and their states"
            )
        if version == LATEST:
            return entries
        entries = [entry for entry in entries if entry.version == version]
        if not entries:
            raise invalid(
                f"requested model version is not available for model '{name}': version {version}; versions that are ready: {ready}"
            )
        return entries

    async def index(self, *, ready_only: bool = False) -> list[IndexEntry]:
        """The repository index (rows 7.1 to 7.6); in mode explicit also the names of models that were never loaded."""
        lists_unloaded = self._control_mode.lists_unloaded and not ready_only
        entries: list[IndexEntry] = []
        warming = {
            (load.name, load.version): words
            for load in self.load_progress()
            if (words := load.warming)
        }
        for states, folders in await self._repository.listings(names=lists_unloaded):
            listed = [
                _index_entry(state, warming.get((state.name, state.version), ""))
                for state in states
            ]
            if ready_only:
                listed = [entry for entry in listed if entry.state == State.READY.value]
            if lists_unloaded:
                # A model that has left the repository is no longer listed once it has stopped serving.
                listed = [
                    entry for entry in listed if entry.name in folders or entry.state in _IN_SERVICE
                ]
                touched = {entry.name for entry in listed}
                listed += [IndexEntry(name=name) for name in folders if name not in touched]
                listed.sort(key=lambda entry: (entry.name, entry.version or 0))
            entries += listed
        return entries

    def load_progress(self) -> list[LoadProgress]:
        """See `Engine`."""
        return self._repository.load_progress()

    async def load_model(
        self, name: str, parameters: Parameters = NO_PARAMETERS, *, requested_by: str = ""
    ) -> None:
        """See `Engine`. `requested_by` names the model whose initialize waits for this load (row 15.24)."""
        self._control_mode.check_request(name)
        await self._repository.load(name, parameters, requested_by=requested_by)

    async def unload_model(
        self, name: str, *, unload_dependents: bool = False, requested_by: str = ""
    ) -> None:
        """See `Engine`. `requested_by` as for `load_model`."""
        self._control_mode.check_request(name)
        await self._repository.unload(
            name, with_dependents=unload_dependents, requested_by=requested_by
        )

    def model(self, name: str, version: int = LATEST) -> Model:
        """The version that serves now. Raises InferenceError as `look_up` does."""
        return self._repository.get(name, version)

    def called_model(
        self, name: str, version: int = LATEST, namespace: str = ""
    ) -> Model | EvictedModel:
        """As `look_up`, for calls between models, which `not_served` does not count; `namespace`: of the model, "" for any."""
        if version == LATEST and not namespace and (latest := self._latest.get(name)) is not None:
            return latest
        repository = self._repository
        if namespace and isinstance(repository, Namespaces):
            repository = repository.within(namespace)
        try:
            return repository.get(name, version)
        except InferenceError:
            if self._evicted is not None and (found := self._evicted.find(name, version)):
                return found
            raise

    def models(self) -> list[tuple[str, int, Model]]:
        """Every READY version with its name and number: what the metrics page shows."""
        return self._repository.served()

    def _refuse_when_exiting(self) -> None:
        if self.phase is Phase.EXITING:
            raise unavailable("Server exiting")


def _index_entry(state: VersionState, warming: str) -> IndexEntry:
    shown = warming if state.state is State.LOADING else ""
    return IndexEntry(
        name=state.name,
        version=state.version,
        state=state.state.value,
        reason=state.reason or shown,
        memory=state.memory,
    )

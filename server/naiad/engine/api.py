"""The engine's interface for the protocols: one frozen struct per result, no wire types.

`Engine` is a Protocol, so that the tests of a protocol can use a scripted engine; `engine.engine.ServingEngine` implements it.
"""

import collections.abc
import typing
from typing import Any

import msgspec

from naiad.config.model_config import EnsembleStep
from naiad.core.datatypes import DataType
from naiad.core.flow import Flow
from naiad.core.inference import Inference, OnResponse, RequestContext
from naiad.core.regions import Regions
from naiad.core.request import LATEST, InferRequest
from naiad.core.tensor import Texts
from naiad.logs import LogSettings
from naiad.metrics.memory import MemoryUsage
from naiad.metrics.queue_state import QueueState
from naiad.metrics.statistics import ModelStatistics, SequenceCounts, StepTimes
from naiad.repository.loading.progress import LoadProgress
from naiad.repository.requests.overrides import NO_PARAMETERS, Parameters
from naiad.scheduling.relays.calls import CallInProgress
from naiad.tracing.tracer import Tracer


class ServerMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """The server's metadata (row 2.13)."""

    name: str
    version: str
    extensions: tuple[str, ...]


class TensorMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """An input or output as metadata shows it: the batch dimension is a leading -1 (row 2.16)."""

    name: str
    datatype: DataType
    shape: tuple[int, ...]


class ModelMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """A model's metadata (row 2.15). `versions`: the READY versions, or only the requested one."""

    name: str
    versions: tuple[int, ...]
    platform: str
    inputs: tuple[TensorMetadata, ...]
    outputs: tuple[TensorMetadata, ...]


class IndexEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of the repository index (row 7.2): a model that was never loaded has only a name; `memory` is of a READY version."""

    name: str
    version: int | None = None
    state: str = ""
    reason: str = ""
    memory: tuple[MemoryUsage, ...] = ()


class ModelVersionStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """The counters of one READY model version. `statistics` is live: read it at once, on the loop."""

    name: str
    version: int
    statistics: ModelStatistics


class EnsembleGraph(msgspec.Struct, frozen=True, kw_only=True):
    """The steps of an ensemble and what they took; `times` are live: read them at once, on the loop."""

    name: str
    version: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    steps: tuple[EnsembleStep, ...]
    times: list[StepTimes]


class ModelQueue(msgspec.Struct, frozen=True, kw_only=True):
    """What waits at a model version now.

    Attributes:
        pending: requests that wait for an execution, as the metrics count them.
        queue: None for a model without a queue in front of instances: an ensemble, or one with sequences.
        sequences: None for a model without.
    """

    name: str
    version: int
    pending: int
    queue: QueueState | None
    sequences: SequenceCounts | None


class ModelTraits(msgspec.Struct, frozen=True, kw_only=True):
    """The traits of a model that decide how a request is decoded (rows 3.1, 3.2, 3.4).

    Attributes:
        max_batch_size: 0: no batch dimension.
        inputs: its inputs, without the batch dimension in `shape`.
        input_device: the GPU on which it takes its inputs from other models and from clients' regions; None: in the host's memory.
        outputs_may_stay: whether its outputs may stay on a GPU until they are in a client's region there; not those that the server keeps.
        reads_regions: whether its instances are in worker processes that read inputs from clients' regions in the host's memory, where the server needs none of their values.
        explainer: the model that explains its predictions, for KServe's v1; "" if none does.
    """

    decoupled: bool
    max_batch_size: int
    inputs: tuple[TensorMetadata, ...]
    input_device: int | None = None
    outputs_may_stay: bool = False
    reads_regions: bool = False
    explainer: str = ""


class Infers(typing.Protocol):
    """Runs requests: the engine, or a model version."""

    def infer(
        self,
        request: InferRequest,
        on_response: OnResponse,
        flow: Flow | None = None,
        context: RequestContext | None = None,
    ) -> Inference | None:
        """Run a request.

        `on_response` is called on the loop with the final response exactly once, perhaps before this returns (a refused request); a decoupled model
        may send any number of responses before that, as fast as `flow` allows. `context` gets the inference.

        Returns:
            The handle to `cancel()` it; None if the final response was sent already. InferenceError is never raised: errors are responses.
        """


class KnownReplies(typing.Protocol):
    """Replies that a protocol has written of responses from the response cache, for the same requests again. All calls are made on the event loop."""

    def get(self, body: bytes, form: tuple[bytes | int | None, ...]) -> typing.Any:
        """The reply to a request with this body, which counts as a hit of the cache; None if it is not known.

        `form` is what else decides about the reply.
        """

    def keep(
        self,
        body: bytes,
        form: tuple[bytes | int | None, ...],
        reply: typing.Any,
        size: int,
        texts: Texts,
    ) -> None:
        """Keep a reply of `size` bytes, written of the response with these texts."""


class ServedModel(Infers, typing.Protocol):
    """A model version that serves now. What is begun later, after other work, is to look it up again: it may be unloaded meanwhile."""

    @property
    def traits(self) -> ModelTraits:
        """What a decoder needs."""

    @property
    def replies(self) -> KnownReplies | None:
        """What was written before; None for a model without a response cache in this server's memory."""

    def run_calls(self, calls: collections.abc.Sequence[CallInProgress]) -> None:
        """Run calls of other models, as `CallInProgress.begin` does each."""


class Engine(Infers, typing.Protocol):
    """The calls that protocols make. All run on the event loop; those that are not async return at once.

    Attributes:
        regions: the shared memory that clients have registered.
        tracer: which requests are traced, and what becomes of their traces.
        logs: which lines the log has.
    """

    regions: Regions
    tracer: Tracer
    logs: LogSettings

    def look_up(self, name: str, version: int = LATEST) -> ServedModel:
        """The model version that serves now, which runs requests without another look-up.

        Raises:
            InferenceError: NOT_FOUND or UNAVAILABLE (row 2.8).
        """

    def end_sequence(self, name: str, version: int, correlation_id: int | str) -> None:
        """End an open sequence, if there is one: the client that sends its requests has gone."""

    def server_live(self) -> bool:
        """Whether the server is live (row 2.1). Raises InferenceError UNAVAILABLE "Server exiting" at the end of a drain."""

    async def server_ready(self) -> bool:
        """Whether the server is ready (rows 2.2, 2.4, 2.5). False while draining."""

    async def model_ready(self, name: str, version: int = LATEST) -> bool:
        """Whether a model version is ready (row 2.7). Raises InferenceError as `look_up` does."""

    def server_metadata(self) -> ServerMetadata:
        """The server's metadata (row 2.13)."""

    def model_metadata(self, name: str, version: int = LATEST) -> ModelMetadata:
        """A model's metadata (row 2.15). Raises InferenceError as `look_up` does."""

    def model_config(self, name: str, version: int = LATEST) -> Any:
        """The normalised model_config_pb2.ModelConfig; read only. Raises InferenceError as `look_up` does."""

    def statistics(self, name: str = "", version: int = LATEST) -> list[ModelVersionStatistics]:
        """Counters of one model version, of a model's READY versions, or of all READY ones (name ""). Row 8.8 for errors."""

    def model_queue(self, name: str, version: int = LATEST) -> ModelQueue:
        """What waits at a model version. Raises InferenceError as `look_up` does."""
        ...

    def model_graph(self, name: str, version: int = LATEST) -> EnsembleGraph:
        """The graph of an ensemble. Raises InferenceError as `look_up` does, and INVALID_ARG for another model."""

    async def index(self, *, ready_only: bool = False) -> list[IndexEntry]:
        """The repository index (rows 7.1-7.6)."""

    def load_progress(self) -> list[LoadProgress]:
        """The loads in progress, then the last result of each version."""

    async def load_model(self, name: str, parameters: Parameters = NO_PARAMETERS) -> None:
        """Load a model, or load it again if it has changed; returns once it is READY (rows 7.8, 7.11-7.18, 7.20-7.22).

        Raises:
            InferenceError: UNAVAILABLE in a control mode other than explicit, INVALID_ARG for a bad name or a load that fails, INTERNAL for a
                model that is not found or cannot be read, and for parameters that cannot be used.
        """

    async def unload_model(self, name: str, *, unload_dependents: bool = False) -> None:
        """Unload a model; requests in flight are finished (rows 7.9, 7.10, 7.13, 7.26).

        Raises:
            InferenceError: UNAVAILABLE in a control mode other than explicit.
        """

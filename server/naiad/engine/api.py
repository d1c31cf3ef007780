"""What the engine tells protocols about itself: one frozen dataclass an answer, no wire type.

`Engine` is a Protocol here so that a protocol's tests can bring a scripted engine; `engine.engine.ServingEngine` is the real one.
"""

import collections.abc
import types
import typing
from typing import Any

import msgspec

from naiad.core.datatypes import DataType
from naiad.core.flow import Flow
from naiad.core.inference import Inference, OnResponse
from naiad.core.request import LATEST, InferRequest
from naiad.metrics.statistics import ModelStatistics


class ServerMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """Row 2.13."""

    name: str
    version: str
    extensions: tuple[str, ...]


class TensorMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """An input or output as metadata shows it: the batch dimension is a leading -1 (row 2.16)."""

    name: str
    datatype: DataType
    shape: tuple[int, ...]


class ModelMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """Row 2.15. `versions` are the READY ones, or only the one asked for."""

    name: str
    versions: tuple[int, ...]
    platform: str
    inputs: tuple[TensorMetadata, ...]
    outputs: tuple[TensorMetadata, ...]


class IndexEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the repository index (row 7.2): a model never loaded has only a name."""

    name: str
    version: int | None = None
    state: str = ""
    reason: str = ""


class ModelVersionStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """The counters of one READY model version. `statistics` is live: read it at once, on the loop."""

    name: str
    version: int
    statistics: ModelStatistics


class ModelShape(msgspec.Struct, frozen=True, kw_only=True):
    """What a decoder must know of a model before it can decode (rows 3.1, 3.2, 3.4).

    Attributes:
        decoupled: it may answer many times.
        max_batch_size: 0 means no batch dimension.
        inputs: for raw mode: the one input, without the batch dimension in `shape`.
    """

    decoupled: bool
    max_batch_size: int
    inputs: tuple[TensorMetadata, ...]


Overrides = collections.abc.Mapping[str, str | bytes]
"""Parameters of a load, by name; text for "config", bytes for files."""

NO_OVERRIDES: Overrides = types.MappingProxyType({})


class Engine(typing.Protocol):
    """What protocols may ask. All of it runs on the event loop; what is not async returns at once."""

    def infer(
        self, request: InferRequest, on_response: OnResponse, flow: Flow | None = None
    ) -> Inference | None:
        """Run a request.

        Args:
            request: what is asked.
            on_response: called on the loop with the final response exactly once, perhaps before this returns (a refused request); a
                decoupled model may answer any number of times before that.
            flow: how fast a decoupled model may answer; None lets it answer as fast as it likes.

        Returns:
            The handle to `cancel()` it, or None when it is already answered. InferenceError is never raised: errors are responses.
        """
        ...

    def shape_of(self, name: str, version: int = LATEST) -> ModelShape:
        """What a decoder must know of a model.

        Raises:
            InferenceError: NOT_FOUND or UNAVAILABLE (row 2.8).
        """
        ...

    def server_live(self) -> bool:
        """Whether the process serves (row 2.1). Raises InferenceError UNAVAILABLE "Server exiting" at the end of a drain."""
        ...

    async def server_ready(self) -> bool:
        """Rows 2.2, 2.4, 2.5. False while draining."""
        ...

    async def model_ready(self, name: str, version: int = LATEST) -> bool:
        """Row 2.7. Raises InferenceError as `shape_of` does."""
        ...

    def server_metadata(self) -> ServerMetadata:
        """Row 2.13."""
        ...

    def model_metadata(self, name: str, version: int = LATEST) -> ModelMetadata:
        """Row 2.15. Raises InferenceError as `shape_of` does."""
        ...

    def model_config(self, name: str, version: int = LATEST) -> Any:
        """The normalised model_config_pb2.ModelConfig; nobody changes it. Raises InferenceError as `shape_of` does."""
        ...

    def statistics(self, name: str = "", version: int = LATEST) -> list[ModelVersionStatistics]:
        """Counters of one model version, of a model's READY versions, or of all READY ones (name ""). Row 8.8 for errors."""
        ...

    async def index(self, *, ready_only: bool = False) -> list[IndexEntry]:
        """Rows 7.1-7.6."""
        ...

    async def load_model(self, name: str, overrides: Overrides = NO_OVERRIDES) -> None:
        """Load a model, or load it again if it has changed; returns once it is READY (rows 7.8, 7.11-7.14, 7.20-7.22).

        Args:
            name: the model.
            overrides: load parameters: "config", and "file:<path>" (rows 7.15, 7.16). None can be used yet.

        Raises:
            InferenceError: UNAVAILABLE in control mode none, UNSUPPORTED for an override, INVALID_ARG for a bad name or a load that
                fails, INTERNAL for a model that is not there or cannot be read.
        """
        ...

    async def unload_model(self, name: str, *, unload_dependents: bool = False) -> None:
        """Serve a model no more, and finish what is in flight (rows 7.9, 7.10, 7.13, 7.26).

        Args:
            name: the model; one that nobody knows is unloaded already.
            unload_dependents: also unload what was loaded for its sake; nothing is yet.

        Raises:
            InferenceError: UNAVAILABLE in control mode none.
        """
        ...

"""What a framework must offer to serve models: three small protocols (roadmap: a backend is one file or folder).

`Backend` makes a `LoadedModel` of a model version (weights, sessions: what its instances share), which makes an `Instance`
for each place in the instance groups. All three are blocking and are called off the event loop: a
thread host or a worker process calls them, one call at a time for one instance (`ready` alone may come beside `execute`).
"""

import collections.abc
import pathlib
import typing
from typing import Any

import msgspec

from naiad.config.model_config import InstanceKind, ModelConfig
from naiad.core.inference import Inference
from naiad.core.record import Record
from naiad.core.response import InferResponse


class ModelSource(msgspec.Struct, frozen=True, kw_only=True):
    """What a backend loads.

    Attributes:
        config: normalised.
        version: the version number.
        model_dir: the model's folder.
        version_dir: the version's folder.
        options: `--backend-config` settings of this backend, global ones included.
    """

    config: ModelConfig
    version: int
    model_dir: pathlib.Path
    version_dir: pathlib.Path
    options: collections.abc.Mapping[str, str]


class InstanceSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One instance to make.

    Attributes:
        name: `<group>_<k>` (row 11.32).
        kind: where it runs.
        device_id: the GPU for KIND_GPU, else 0.
    """

    name: str
    kind: InstanceKind
    device_id: int


class WorkerPlan(msgspec.Struct, frozen=True, kw_only=True):
    """How one instance runs in a worker process.

    Attributes:
        runner: where its `Runner` is made, as `module:callable`; called with `settings` in the worker.
        settings: for JSON.
        executable: the interpreter.
        environ: what differs in its environment variables from the server's; None takes one out.
    """

    runner: str
    settings: collections.abc.Mapping[str, Any]
    executable: str
    environ: collections.abc.Mapping[str, str | None] = msgspec.field(default_factory=dict)


class Execution(Record, frozen=True):
    """What running a batch gave.

    Attributes:
        responses: one for each inference of the batch, in its order; a failed request has its `error` set (its reason
            BACKEND), the others are unharmed. Outputs that were not requested are already left out. None for an inference
            that is answered apart, through what `AnswersApart.answer_through` was given: before, now or later.
        input_end_ns: when inputs were ready and compute began (monotonic); what came before is compute_input.
        output_start_ns: when compute ended and outputs were split; what comes after is compute_output.
    """

    responses: collections.abc.Sequence[InferResponse | None]
    input_end_ns: int
    output_start_ns: int


class Answer(Record, frozen=True, gc=True):
    """One response to an inference that is answered apart from its batch.

    Attributes:
        inference: whose.
        response: as in `Execution`; the last one is final.
        begun_ns: when its batch began to compute (monotonic).
        weight: bytes, as `Flow.sent` was told; 0 when it was told nothing.
    """

    inference: Inference
    response: InferResponse
    begun_ns: int
    weight: int = 0


Post = collections.abc.Callable[[Answer], None]
"""Takes an answer, in any thread; does not wait."""


@typing.runtime_checkable
class AnswersApart(typing.Protocol):
    """What an instance offers besides `Instance` when it may answer inferences apart from their batch."""

    def answer_through(self, post: Post) -> None:
        """Where such answers go from now on. Called once, before the first batch."""
        ...


class Instance(typing.Protocol):
    """One place where batches run, one at a time.

    Attributes:
        holds_interpreter: whether most of its work holds Python's interpreter lock; a thread host places it accordingly.
        asks_model: whether `ready` runs the model's own code, which may take any time, and is therefore called in a thread of its
            own; otherwise it is called on the event loop.
    """

    holds_interpreter: bool
    asks_model: bool

    def execute(self, batch: collections.abc.Sequence[Inference]) -> Execution:
        """Run a batch whose tensors agree in shape.

        Raises:
            InferenceError: the whole batch failed.
        """
        ...

    def ready(self) -> bool:
        """Whether it could run a batch now (row 2.12); see `asks_model`."""
        ...

    def close(self) -> None:
        """Give everything back. Called once, after the last batch."""
        ...


class LoadedModel(typing.Protocol):
    """A model version in memory: what its instances share.

    Attributes:
        leaves_cycles: whether what is left after `close` refers to itself, so that only the garbage collector frees it.
    """

    leaves_cycles: bool

    def make_instance(self, spec: InstanceSpec) -> Instance:
        """Make one instance.

        Raises:
            InferenceError: it cannot be made; the message is the reason shown in the index.
        """
        ...

    def close(self) -> None:
        """Give back what the instances shared. Called once, after every instance is closed."""
        ...


@typing.runtime_checkable
class Closes(typing.Protocol):
    """What a backend offers besides `Backend` when something of it may run that has to end with the server."""

    def close(self) -> None:
        """End it. Safe to call again, from any thread; loads that are under way fail."""
        ...


class Backend(typing.Protocol):
    """A framework.

    Attributes:
        name: as in the config's `backend`.
    """

    name: str

    def complete(
        self,
        message: Any,
        *,
        model_dir: pathlib.Path,
        version_dir: pathlib.Path,
        options: collections.abc.Mapping[str, str],
    ) -> None:
        """Fill in what the model itself knows (rows 11.49-11.51, 15.27).

        Args:
            message: the model_config_pb2.ModelConfig to complete, changed in place.
            model_dir: the model's folder.
            version_dir: the folder of the highest version that will be served.
            options: `--backend-config` settings of this backend.

        Raises:
            InferenceError: the model cannot be read, or contradicts its config.
        """
        ...

    def load(self, source: ModelSource) -> LoadedModel:
        """Load a model version.

        Raises:
            InferenceError: it cannot be loaded; the message is the reason shown in the index.
        """
        ...

    def worker_plan(self, source: ModelSource, spec: InstanceSpec) -> WorkerPlan:
        """How an instance runs in a worker process: by a runner of the backend's own, or by `whole_backend` as it is.

        Raises:
            InferenceError: it cannot be loaded.
        """
        ...


@typing.runtime_checkable
class CompletesApart(typing.Protocol):
    """What a backend offers besides `complete` when that would run a model's own code: the same in a worker process."""

    def completion_plan(
        self,
        message: Any,
        *,
        model_dir: pathlib.Path,
        version_dir: pathlib.Path,
        options: collections.abc.Mapping[str, str],
    ) -> WorkerPlan | None:
        """What to call there: its `runner` is a function of the settings; None when the model has nothing to say.

        Raises:
            InferenceError: the model contradicts its config.
        """
        ...

    def take_completion(self, message: Any, result: Any) -> None:
        """Change the config by what the function gave back.

        Raises:
            InferenceError: it is no config.
        """
        ...

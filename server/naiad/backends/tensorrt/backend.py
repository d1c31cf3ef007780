"""The backend `tensorrt`. Importing this imports neither TensorRT nor CUDA: a load does, in the process of the model.

A plan becomes one engine on each device (and deep learning accelerator), which the instances there share; each has contexts and memory of its own.
"""

import collections.abc
import contextlib
import pathlib
import typing
from typing import Any

import msgspec
from typing_extensions import override

from naiad.backends import cuda_runtime, files_per_gpu, registry
from naiad.backends.backend import ModelSource, WorkerPlan
from naiad.backends.cuda_runtime import CudaRuntime
from naiad.backends.instance import Instance, InstanceSpec, LoadedModel
from naiad.backends.plugin import BackendContext
from naiad.backends.tensorrt.engine import completion
from naiad.backends.tensorrt.engine.description import EngineDescription
from naiad.backends.tensorrt.execution.lent_outputs import LentOutputs
from naiad.backends.tensorrt.plugin import PLUGIN
from naiad.backends.tensorrt.settings import backend_settings_of, dla_core_of, settings_of
from naiad.config.model_config import InstanceKind
from naiad.core.clock import Clock
from naiad.errors import InferenceError, internal, invalid, unavailable
from naiad.tensors.cudart import CudaError

if typing.TYPE_CHECKING:
    from naiad.backends.tensorrt.engine.library import Engine, Library


def make(context: BackendContext) -> "TensorrtBackend":
    """Make the backend."""
    return TensorrtBackend(clock=context.clock)


class TensorrtBackend:
    """The backend `tensorrt`."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock

    def load(self, source: ModelSource) -> "TensorrtModel":
        """Load a model version."""
        return TensorrtModel(source, clock=self._clock)

    def complete(
        self, message: Any, version_dir: pathlib.Path, options: collections.abc.Mapping[str, str]
    ) -> None:
        """See `ModelsComplete`: complete a config from the plan, read here."""
        plan = self.completion_plan(message, version_dir, options)
        if plan is not None:
            self.take_completion(message, completion.describe_plan(plan.settings))

    def completion_plan(
        self, message: Any, version_dir: pathlib.Path, options: collections.abc.Mapping[str, str]
    ) -> WorkerPlan | None:
        """See `ModelsComplete`; None where no instance is on a GPU, for then the model cannot be loaded anyway."""
        return completion.plan_in_worker(message, version_dir, options)

    def take_completion(self, message: Any, result: Any) -> None:
        """See `ModelsComplete`."""
        completion.complete(message, msgspec.convert(result, EngineDescription))


class TensorrtModel(LoadedModel):
    """A model version: its engines.

    Raises:
        InferenceError: as `Backend.load`.
    """

    def __init__(self, source: ModelSource, *, clock: Clock) -> None:
        config = source.config
        self._source = source
        self._clock = clock
        self._settings = settings_of(config.name, config.message, config.parameters)
        self._backend_settings = backend_settings_of(source.options)
        path = PLUGIN.model_file(source.version_dir, config.default_model_filename)
        self._path = files_per_gpu.existing(path, config.name, config.default_model_filename)
        self._library: Library = open_library()
        self._cuda: CudaRuntime = open_cuda(config.name)
        self._engines: dict[tuple[int, int], Engine] = {}
        self._lent = LentOutputs(self._cuda)

    @override
    def make_instance(self, spec: InstanceSpec) -> Instance:
        """Make an instance; the first one on a device makes the engine there."""
        from naiad.backends.tensorrt.execution.instance import TensorrtInstance  # noqa: PLC0415 - it imports TensorRT

        name = self._source.config.name
        if spec.kind is not InstanceKind.GPU:
            raise invalid(
                f"unable to load model '{name}', TensorRT backend supports only GPU device (instance '{spec.name}' is of KIND_{spec.kind.value}: write "
                "kind: KIND_GPU)"
            )
        try:
            self._cuda.use_device(spec.device_id)
            return TensorrtInstance(
                spec,
                self._engine(spec),
                self._cuda,
                self._lent,
                config=self._source.config,
                settings=self._settings,
                clock=self._clock,
            )
        except CudaError as error:
            raise internal(
                f"{error} (instance '{spec.name}' of model '{name}', GPU {spec.device_id})"
            ) from error

    @override
    def close(self) -> None:
        for engine in self._engines.values():
            engine.close()
        self._engines.clear()
        with contextlib.suppress(CudaError):  # the device may be lost, and what was on it
            self._lent.close()

    def _engine(self, spec: InstanceSpec) -> "Engine":
        core = dla_core_of(spec)
        where = spec.device_id, core
        if where not in self._engines:
            self._engines[where] = self._library.load(
                self._path, self._backend_settings, dla_core=core, model=self._source.config.name
            )
        return self._engines[where]


def open_library() -> "Library":
    """TensorRT of this process.

    Raises:
        InferenceError: UNAVAILABLE: it is not installed, broken, or too old.
    """
    try:
        from naiad.backends.tensorrt.engine.library import of_process  # noqa: PLC0415 - see the first lines
    except ImportError as error:
        if not (error.name or "").startswith("tensorrt"):
            raise
        raise registry.no_package(PLUGIN, error) from error
    return of_process()


def open_cuda(model: str) -> CudaRuntime:
    """The CUDA runtime, on a machine with a GPU.

    Raises:
        InferenceError: UNAVAILABLE: the runtime, the driver or the GPU is missing.
    """
    try:
        cuda = cuda_runtime.open_runtime()
        if cuda.devices():
            return cuda
        reason = "CUDA sees no GPU"
    except CudaError as error:
        reason = str(error)
    except InferenceError as error:
        raise unavailable(f"unable to load model '{model}': {error.message}") from error
    raise unavailable(
        f"unable to load model '{model}': {reason}: a TensorRT plan needs an NVIDIA GPU and NVIDIA's driver, which a container gets from NVIDIA's "
        "container toolkit"
    )

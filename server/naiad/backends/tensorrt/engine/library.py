"""TensorRT itself: its runtime, engines and what it logs. The only module that knows the package's names of an engine; importing it imports TensorRT."""

import collections.abc
import ctypes
import functools
import logging
import pathlib
import threading
from typing import Any

import tensorrt

from naiad.backends.tensorrt.engine import plan_file
from naiad.backends.tensorrt.engine.description import (
    EngineDescription,
    IoTensor,
    Profile,
    Range,
    Shape,
)
from naiad.backends.tensorrt.settings import BackendSettings
from naiad.errors import InferenceError, internal, invalid, unavailable

log = logging.getLogger("naiad.backends")

OLDEST = 10
"""The first release whose interface is the one used here."""


class Logger(tensorrt.ILogger):  # type: ignore[misc]
    """What TensorRT says: into the server's log, and the last error of each thread for the error that follows it."""

    def __init__(self) -> None:
        tensorrt.ILogger.__init__(self)
        self._said = threading.local()

    def log(self, severity: Any, msg: str) -> None:
        """Called by TensorRT, in the thread that uses it."""
        name = severity.name
        if name in ("ERROR", "INTERNAL_ERROR"):
            self._said.error = msg
            log.error("TensorRT: %s", msg)
        elif name == "WARNING":
            log.warning("TensorRT: %s", msg)
        else:
            log.debug("TensorRT: %s", msg)

    def take_error(self, otherwise: str) -> str:
        """The last error that TensorRT has reported in this thread, once."""
        error: str = getattr(self._said, "error", "") or otherwise
        self._said.error = ""
        return error


class Library:
    """TensorRT in this process: one for all of its models (`of_process`), because TensorRT keeps the first logger that it is given, and makes one engine at a time."""

    def __init__(self) -> None:
        version = tensorrt.__version__
        if int(version.partition(".")[0]) < OLDEST:
            raise unavailable(
                f"unable to load backend 'tensorrt': TensorRT {version} is installed, and this server needs {OLDEST} or newer: pip install "
                f"'tensorrt>={OLDEST}', and build the plans again with it (plans without an explicit batch dimension run on no such release)"
            )
        self.version: str = version
        self.logger = Logger()
        self._loading = threading.Lock()  # two engines at once are not safe to make
        self._plugins = set[str]()

    def load(
        self, path: pathlib.Path, settings: BackendSettings, *, dla_core: int, model: str
    ) -> "Engine":
        """Make an engine of a plan, on the calling thread's device.

        Raises:
            InferenceError: it cannot be made; TensorRT's own reason comes first.
        """
        version = plan_file.read_version(path, model)
        with self._loading:
            self._load_plugins(settings.plugins)
            try:
                runtime = tensorrt.Runtime(self.logger)
            except (TypeError, RuntimeError) as error:  # what pybind11 makes of a null pointer
                reason = self.logger.take_error(str(error))
                raise internal(f"unable to create TensorRT runtime: {reason}") from error
            if settings.version_compatible:
                runtime.engine_host_code_allowed = True
            if dla_core >= 0:
                if dla_core >= runtime.num_DLA_cores:
                    raise invalid(
                        f"unable to create TensorRT runtime with DLA Core ID: {dla_core}, available number of DLA cores: {runtime.num_DLA_cores} "
                        f"(secondary_devices of model '{model}': take it out, or use a machine whose GPU has such accelerators)"
                    )
                runtime.DLA_core = dla_core
            engine = runtime.deserialize_cuda_engine(path.read_bytes())
        if engine is None:
            raise self._no_engine(path, version, model, settings)
        return Engine(engine, runtime, self)

    def _load_plugins(self, paths: collections.abc.Iterable[str]) -> None:
        """Register TensorRT's own layers, and those of libraries; one that cannot be loaded is logged, as in Triton."""
        if not self._plugins:
            tensorrt.init_libnvinfer_plugins(self.logger, "")
            self._plugins.add("")
        for path in paths:
            if path in self._plugins:
                continue
            self._plugins.add(path)
            try:
                ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
            except OSError as error:
                log.error("plugins of the tensorrt backend: unable to load '%s': %s", path, error)  # noqa: TRY400

    def _no_engine(
        self,
        path: pathlib.Path,
        version: plan_file.Version | None,
        model: str,
        settings: BackendSettings,
    ) -> InferenceError:
        reason = self.logger.take_error("TensorRT gave no reason")
        other = (
            "" if settings.version_compatible else plan_file.other_release(version, self.version)
        )
        advice = other or (
            "a plan runs on the kind of GPU that it was built on, and on its release of TensorRT: build it again here, or name the plan of each "
            "kind of GPU in cc_model_filenames"
        )
        return internal(
            f"unable to create TensorRT engine: {reason} ('{path.name}' of model '{model}'; {advice})"
        )


@functools.cache
def of_process() -> Library:
    """The library of this process.

    Raises:
        InferenceError: UNAVAILABLE: the installed TensorRT is too old.
    """
    return Library()


class Engine:
    """An engine, and the runtime that it needs for as long as it lives."""

    def __init__(self, engine: Any, runtime: Any, library: Library) -> None:
        self._engine = engine
        self._runtime = runtime
        self._library = library
        self.description = describe(engine)

    def make_context(self, allocation: str) -> Any:
        """An execution context, which runs one batch at a time.

        Raises:
            InferenceError: it cannot be made.
        """
        strategy = getattr(tensorrt.ExecutionContextAllocationStrategy, allocation)
        context = self._engine.create_execution_context(strategy)
        if context is None:
            reason = self._library.logger.take_error("TensorRT gave no reason")
            raise internal(f"unable to create TensorRT context: {reason}")
        return context

    @property
    def logger(self) -> Logger:
        """Where TensorRT reports its errors."""
        return self._library.logger

    def close(self) -> None:
        """Release the engine, then the runtime."""
        self._engine = None
        self._runtime = None


def describe(engine: Any) -> EngineDescription:
    """An engine as it describes itself."""
    tensors = tuple(
        _tensor(engine, engine.get_tensor_name(index)) for index in range(engine.num_io_tensors)
    )
    inputs = [each for each in tensors if each.is_input]
    return EngineDescription(
        tensors,
        tuple(_profile(engine, index, inputs) for index in range(engine.num_optimization_profiles)),
    )


def _tensor(engine: Any, name: str) -> IoTensor:
    return IoTensor(
        name=name,
        is_input=engine.get_tensor_mode(name) == tensorrt.TensorIOMode.INPUT,
        type_name=engine.get_tensor_dtype(name).name,
        shape=_shape(engine.get_tensor_shape(name)),
        is_shape=engine.is_shape_inference_io(name),
        layout=engine.get_tensor_format(name).name,
    )


def _profile(engine: Any, index: int, inputs: collections.abc.Iterable[IoTensor]) -> Profile:
    shapes: dict[str, Range] = {}
    values: dict[str, Range] = {}
    for tensor in inputs:
        ranges = engine.get_tensor_profile_shape(tensor.name, index)
        shapes[tensor.name] = Range(*map(_shape, ranges))
        if tensor.is_shape:
            # By place: the package has the two names of these arguments the wrong way round.
            values[tensor.name] = Range(
                *map(_shape, engine.get_tensor_profile_values(index, tensor.name))
            )
    return Profile(shapes, values)


def _shape(dims: collections.abc.Iterable[int]) -> Shape:
    return tuple(int(size) for size in dims)

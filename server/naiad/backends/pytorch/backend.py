"""PyTorch models (rows 16.13 to 16.18): TorchScript, torch.export, and modules in Python. Importing this imports torch.

The instances of a model on one device share its weights.
"""

import logging
from typing import Any

import torch
from typing_extensions import override

from naiad.backends import reasons
from naiad.backends.backend import ModelSource
from naiad.backends.instance import Instance, InstanceSpec, LoadedModel
from naiad.backends.plugin import BackendContext
from naiad.backends.pytorch import exported, io_check, nn_module, torchscript
from naiad.backends.pytorch.cuda_graphs.capture import captured
from naiad.backends.pytorch.cuda_graphs.graphs import Graphs
from naiad.backends.pytorch.cuda_graphs.planning import wants_graphs
from naiad.backends.pytorch.devices import CudaDevice, Device, device_of
from naiad.backends.pytorch.exported import FlatProgram
from naiad.backends.pytorch.instance import PytorchInstance
from naiad.backends.pytorch.plugin import AOTI, PLUGIN, PYTHON_RUNTIME
from naiad.backends.pytorch.program import Program, load_operators, set_threads
from naiad.backends.pytorch.settings import Settings, device_settings_of, settings_of
from naiad.config.model_config import InstanceKind, ModelConfig
from naiad.core.clock import Clock
from naiad.errors import InferenceError, internal

log = logging.getLogger("naiad.backends")


def make(context: BackendContext) -> "PytorchBackend":
    """Make the backend."""
    return PytorchBackend(clock=context.clock)


class PytorchBackend:
    """The backend `pytorch`."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock

    def load(self, source: ModelSource) -> "PytorchModel":
        """Load a model version."""
        return PytorchModel(source, clock=self._clock)


class PytorchModel(LoadedModel):
    """A model version: what its instances share of each device.

    Raises:
        InferenceError: as `Backend.load`.
    """

    def __init__(self, source: ModelSource, *, clock: Clock) -> None:
        config = source.config
        self._config = config
        self._clock = clock
        self._settings = _settings(config)
        self._path = PLUGIN.model_file(
            source.version_dir, config.default_model_filename, config.message.runtime
        )
        self._shared: dict[str | None, Any] = {}
        if config.platform == AOTI:
            io_check.refuse_sequences(config)
        set_threads(self._settings)
        load_operators(config.op_library_filenames, config.name)

    @override
    def make_instance(self, spec: InstanceSpec) -> Instance:
        config = self._config
        device = _device(spec, config)
        with torch.inference_mode(mode=False), torch.no_grad(), device.running():
            program = self._program(device)
            # Another instance, with a stream of its own, may run what was made in this one.
            device.finish()
        device.clean()
        graphs = None
        if isinstance(device, CudaDevice) and wants_graphs(config):
            label = f"instance '{spec.name}' of model '{config.name}' on GPU {spec.device_id}"
            graphs = self._captured(program, device, label)
        return PytorchInstance(
            spec.name,
            program,
            device,
            config=config,
            settings=self._settings,
            clock=self._clock,
            graphs=graphs,
        )

    @override
    def close(self) -> None:
        self._shared.clear()

    def _captured(self, program: Program, device: CudaDevice, label: str) -> Graphs | None:
        try:
            return captured(
                program, device, config=self._config, settings=self._settings, label=label
            )
        except InferenceError:
            raise
        except Exception as error:
            raise internal(
                f"{reasons.explained(error)} (capturing CUDA graphs, {label})"
            ) from error

    def _program(self, device: Device) -> Program:
        config, path, shared = self._config, self._path, self._shared
        if config.message.runtime == PYTHON_RUNTIME:
            if device.name not in shared:
                module = nn_module.load(path, config, device, self._settings)
                shared[device.name] = nn_module.ModuleProgram(module, config)
            program: Program = shared[device.name]
            return program
        if config.platform == AOTI:
            flat: FlatProgram | None = shared.get(device.name)
            if flat is None:
                runners = sum(group.count for group in config.instance_groups)
                in_graphs = wants_graphs(config) and isinstance(device, CudaDevice)
                flat = exported.load(
                    path, config, device, runners=max(1, runners), in_graphs=in_graphs
                )
                if flat.is_shared:
                    shared[device.name] = flat
            return flat
        module = torchscript.load(path, config, device, shared=shared.get(device.name))
        shared.setdefault(device.name, module)
        return torchscript.ScriptProgram(module, config, self._settings)


def _settings(config: ModelConfig) -> Settings:
    return settings_of(
        config.name, config.parameters, python_runtime=config.message.runtime == PYTHON_RUNTIME
    )


def _device(spec: InstanceSpec, config: ModelConfig) -> Device:
    if spec.kind is InstanceKind.GPU and not torch.cuda.is_available():
        raise internal(
            f"unable to load model '{config.name}': torch {torch.__version__} cannot use the GPU of instance '{spec.name}': "
            f"{_why_no_gpu()}"
        )
    try:
        return device_of(spec, device_settings_of(config.message))
    except RuntimeError as error:
        raise internal(
            f"unable to load model '{config.name}' on GPU {spec.device_id}: {error}"
        ) from error


def _why_no_gpu() -> str:
    if torch.version.cuda is None:
        return "this build of torch is for the CPU: install the one for CUDA"
    try:
        torch.cuda.init()
    except (RuntimeError, AssertionError) as error:
        return str(error)
    return "is there a device and a driver?"

"""What a config and `--backend-config` ask of TensorRT beside tensors: memory, streams, copies, graphs, DLA (rows 11.21, 11.34, 16.19). Pure."""

import collections.abc
import enum
from typing import Any

import msgspec

from naiad.backends.instance import InstanceSpec
from naiad.core.messages import model_config_pb2
from naiad.errors import invalid, unsupported

NVDLA = "KIND_NVDLA"
_STRATEGY = "execution_context_allocation_strategy"
_SEVERAL_GPUS = "enable_multi_device"
_Priority = model_config_pb2.ModelOptimizationPolicy


class Priority(enum.Enum):
    """Of an instance's streams."""

    DEFAULT = "default"
    FIRST = "first"
    LAST = "last"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a model.

    Attributes:
        allocation: how a context gets memory, by TensorRT's name: STATIC or ON_PROFILE_CHANGE.
        priority: of the streams.
        graphs: whether CUDA graphs are captured.
        busy_wait: a thread keeps its processor busy while it waits for a batch, and notices its end sooner.
        output_stream: outputs are copied in a stream of their own.
        pinned_inputs: inputs are gathered in pinned memory; otherwise in ordinary memory, which CUDA copies more slowly.
        pinned_outputs: the same of outputs.
    """

    allocation: str = "STATIC"
    priority: Priority = Priority.DEFAULT
    graphs: bool = False
    busy_wait: bool = False
    output_stream: bool = False
    pinned_inputs: bool = True
    pinned_outputs: bool = True


class BackendSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of the backend.

    Attributes:
        version_compatible: plans may bring code of another TensorRT, which runs in this process.
        plugins: the paths of libraries with layers of their own.
    """

    version_compatible: bool = False
    plugins: tuple[str, ...] = ()


def settings_of(
    model: str, message: Any, parameters: collections.abc.Mapping[str, str]
) -> Settings:
    """The settings in a config.

    Raises:
        InferenceError: INVALID_ARG: a value that is not valid; UNSUPPORTED: one engine on several GPUs.
    """
    allocation = parameters.get(_STRATEGY, "STATIC")
    if allocation not in ("STATIC", "ON_PROFILE_CHANGE"):
        raise invalid(
            f"Invalid value for '{_STRATEGY}': '{allocation}' for model instance '{model}'. Supported values are 'STATIC' and 'ON_PROFILE_CHANGE'."
        )
    if parameters.get(_SEVERAL_GPUS, "").lower() in ("true", "1"):
        raise unsupported(
            f"model '{model}' has the parameter {_SEVERAL_GPUS}: one engine on several GPUs is not supported: take it out, and let each GPU have an "
            "instance with an engine of its own (instance_group { kind: KIND_GPU })"
        )
    optimization = message.optimization
    cuda = optimization.cuda
    return Settings(
        allocation=allocation,
        priority=_priority(optimization.priority),
        graphs=cuda.graphs,
        busy_wait=cuda.busy_wait_events,
        output_stream=cuda.output_copy_stream,
        pinned_inputs=_enabled(optimization, "input_pinned_memory"),
        pinned_outputs=_enabled(optimization, "output_pinned_memory"),
    )


def backend_settings_of(options: collections.abc.Mapping[str, str]) -> BackendSettings:
    """The settings of `--backend-config=tensorrt,…`."""
    flag = options.get("version-compatible", "")
    return BackendSettings(
        version_compatible=flag.lower() in ("true", "on", "1"),
        plugins=tuple(path for path in options.get("plugins", "").split(";") if path),
    )


def dla_core_of(spec: InstanceSpec) -> int:
    """The deep learning accelerator of an instance; -1 for none."""
    cores = [each.device_id for each in spec.secondary_devices if each.kind == NVDLA]
    return cores[0] if cores else -1


def _priority(number: int) -> Priority:
    if number == _Priority.PRIORITY_MAX:
        return Priority.FIRST
    return Priority.LAST if number == _Priority.PRIORITY_MIN else Priority.DEFAULT


def _enabled(optimization: Any, field: str) -> bool:
    return not optimization.HasField(field) or bool(getattr(optimization, field).enable)

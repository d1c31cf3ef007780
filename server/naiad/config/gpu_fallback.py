"""`--gpu-fallback=cpu`: a model whose config asks for GPUs, on a machine without any, or of a backend without a form for them, becomes one for the CPU; a warning names all that it loses. Pure."""

import collections.abc
from typing import Any

from naiad.config.backend_type import BackendType
from naiad.config.findings import Findings
from naiad.core.messages import model_config_pb2

_Group = model_config_pb2.ModelInstanceGroup

OPTION = "--gpu-fallback=cpu"

_CUDA_PARAMETERS = frozenset(
    (
        "cudnn_conv_algo_search",
        "arena_extend_strategy",
        "gpu_mem_limit",
        "do_copy_in_default_stream",
    )
)
"""Parameters that only a CUDA session reads."""

_SHRINKAGE = "memory.enable_memory_arena_shrinkage"


def fall_back_to_cpu(message: Any, findings: Findings, backend: BackendType | None) -> str:
    """Change a config that asks for GPUs into one that does not, and return the warning that says so; "" for a config that asks for none.

    A backend without a form for the CPU is left as it is: its own check refuses it.

    Args:
        message: the config, changed.
        findings: gets the warning.
        backend: None for one that there is not.
    """
    if message.HasField("ensemble_scheduling"):
        return ""
    groups: list[Any] = []
    names: list[str] = []
    for index, group in enumerate(message.instance_group):
        if _wants_gpu(group):
            groups.append(group)
            names.append(group.name or f"{message.name}_{index}")
    runs_on_cpu = not needs_gpu(backend)
    lost = _take_settings_out(message) if runs_on_cpu else []
    if not runs_on_cpu or not (groups or lost):
        return ""
    for group in groups:
        group.kind = _Group.KIND_CPU
        del group.gpus[:]
        del group.profile[:]
        del group.secondary_devices[:]
    which = (
        f"what asks for one ({', '.join(names)}: KIND_GPU) runs on the CPU"
        if names
        else "the model runs on the CPU"
    )
    without = f", without {', '.join(lost)}" if lost else ""
    never = backend.no_gpu if backend is not None else ""
    warning = f"{never or 'no GPU is available'}: {which}{without} ({OPTION})"
    findings.warnings.append(warning)
    return warning


def _wants_gpu(group: Any) -> bool:
    return group.kind == _Group.KIND_GPU or (group.kind == _Group.KIND_AUTO and bool(group.gpus))


def _take_settings_out(message: Any) -> list[str]:
    """Take out what only a GPU has a use for; returns its names."""
    accelerators = message.optimization.execution_accelerators
    lost = [f"the accelerator {each.name}" for each in accelerators.gpu_execution_accelerator]
    if lost:
        del accelerators.gpu_execution_accelerator[:]
    if message.optimization.HasField("cuda"):
        message.optimization.ClearField("cuda")
        lost.append("optimization.cuda")
    for key in sorted(_parameters_of_gpus(message.parameters)):
        del message.parameters[key]
        lost.append(f"the parameter {key}")
    return lost


def _parameters_of_gpus(parameters: Any) -> collections.abc.Iterator[str]:
    for key in parameters:
        if key in _CUDA_PARAMETERS or (key == _SHRINKAGE and "gpu" in parameters[key].string_value):
            yield key


def needs_gpu(backend: BackendType | None) -> bool:
    """Whether a backend has no form for the CPU."""
    return backend is not None and "KIND_CPU" not in backend.instance_kinds


def without_cpu(backend: str) -> str:
    """What to do about a model that only a GPU can run, on a machine without any."""
    if backend == "tensorrt":
        return (
            'serve the ONNX file that the plan was built from in its place (backend: "onnxruntime", or platform: "onnxruntime_onnx"), take the model out of '
            "--load-model with --model-control-mode=explicit, or use a machine with a GPU"
        )
    return "take the model out of --load-model with --model-control-mode=explicit, or use a machine with a GPU"

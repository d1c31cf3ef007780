"""The fields of `optimization` that have no effect with a model's backend, or on the devices of its instances (row 11.21): one note for each. Pure."""

import collections.abc
import types
from typing import Any

from naiad.config.backend_type import BackendType
from naiad.config.document import dotted, present
from naiad.config.findings import Findings
from naiad.config.gpu_fallback import needs_gpu
from naiad.core.messages import model_config_pb2

_Group = model_config_pb2.ModelInstanceGroup
_Policy = model_config_pb2.ModelOptimizationPolicy

_NO_GPU = "no instance of the model is of KIND_GPU"
_NO_CPU = "every instance of the model is of KIND_GPU"
_NO_CPU_WITH_GPUS = "on a machine with a GPU every instance of the model is of KIND_GPU: write kind: KIND_CPU (naiad check --gpus 0 checks it for a machine without one)"
_NO_GRAPHS = "no CUDA graph is captured without optimization.cuda.graphs"
_IN_THREADS = (
    "the model runs in threads of the server, which have the server's priority: the parameter naiad.host = process gives it worker processes, "
    "which may have a lower one"
)
_NOT_RAISED = (
    "only streams of a GPU can have a higher priority, not the processes and threads of a model: write PRIORITY_MIN in the models that are to wait "
    "for this one"
)

NO_EFFECT = types.MappingProxyType(
    {
        "gather_kernel_buffer_threshold": (
            "the rows of a batch are gathered by the processor, or by the framework where they are on a GPU already, so that there is nothing for a "
            "kernel of the server to gather"
        ),
        "eager_batching": "a batch closes when an instance takes it, or earlier if no further request could join it",
    }
)
"""Fields without effect in every backend, by their names in `optimization`: the reason, as the end of a sentence."""

_PINNED = ("input_pinned_memory", "output_pinned_memory")
_GPU_ACCELERATORS = "execution_accelerators.gpu_execution_accelerator"
_CPU_ACCELERATORS = "execution_accelerators.cpu_execution_accelerator"
_CUDA = ("cuda.graphs", "cuda.graph_spec", "cuda.busy_wait_events", "cuda.output_copy_stream")
_OF_GPUS = frozenset((*_CUDA, *_PINNED, _GPU_ACCELERATORS))

FIELDS = (
    "graph.level", "priority", *_CUDA, _GPU_ACCELERATORS, _CPU_ACCELERATORS, *_PINNED, *NO_EFFECT,
)  # fmt: skip
"""Every field, in the order of the notes."""


def note_optimization(
    message: Any,
    findings: Findings,
    *,
    backend: BackendType | None,
    gpus: collections.abc.Collection[int],
    host: str,
) -> None:
    """Add a note for each field of `optimization` that is written and has no effect.

    Args:
        message: the config before its defaults are filled in: they would look as if they were written.
        findings: gets the notes.
        backend: None for an unknown one: its model is refused.
        gpus: the device ids of this machine.
        host: the `--backend-config` setting of that name; "" for none.
    """
    if backend is None or message.HasField("ensemble_scheduling"):
        return
    kinds = _kinds(message, backend, gpus)
    for field in FIELDS:
        for path in present(message, ("optimization", *field.split("."))):
            why = _reason(field, message, backend, kinds, host=host)
            if why:
                findings.notes.append(f"{dotted(path)} has no effect: {why}")


def _kinds(
    message: Any, backend: BackendType, gpus: collections.abc.Collection[int]
) -> frozenset[int]:
    """The kinds of the model's instances."""
    if needs_gpu(backend):
        return frozenset((_Group.KIND_GPU,))
    takes_gpus = "KIND_GPU" in backend.instance_kinds and bool(gpus)
    groups = message.instance_group or (_Group(),)
    return frozenset(_kind(group, gpus if takes_gpus else ()) for group in groups)


def _kind(group: Any, gpus: collections.abc.Collection[int]) -> int:
    """As `normalise_instance_groups` gives it to the group."""
    if group.kind != _Group.KIND_AUTO:
        return int(group.kind)
    on_gpus = bool(gpus) and all(gpu in gpus for gpu in group.gpus)
    return int(_Group.KIND_GPU if on_gpus else _Group.KIND_CPU)


def _reason(
    field: str, message: Any, backend: BackendType, kinds: frozenset[int], *, host: str
) -> str:
    """Why a field that is written has no effect; "" if it has one."""
    on_gpu = _Group.KIND_GPU in kinds
    optimization = message.optimization
    if field == "priority":
        in_process = _host(message, backend, on_gpu=on_gpu, option=host) == "process"
        return _of_priority(optimization.priority, backend, on_gpu=on_gpu, in_process=in_process)
    if field in _OF_GPUS and not on_gpu and not _may_use(field, backend, kinds):
        # Without a GPU nothing is pinned, so that a config which switches it off has what it asks for.
        switched_off = field in _PINNED and not getattr(optimization, field).enable
        return "" if switched_off else _NO_GPU
    own = NO_EFFECT.get(field) or backend.optimization_without_effect.get(field, "")
    if own:
        return own
    if field == "cuda.graph_spec" and not optimization.cuda.graphs:
        return _NO_GRAPHS
    if field != _CPU_ACCELERATORS or kinds != {_Group.KIND_GPU}:
        return ""
    chosen = [group.kind for group in message.instance_group] or [_Group.KIND_AUTO]
    return _NO_CPU_WITH_GPUS if _Group.KIND_AUTO in chosen else _NO_CPU


def _may_use(field: str, backend: BackendType, kinds: frozenset[int]) -> bool:
    """Whether instances that find their devices themselves may have a use for a field."""
    return (
        field == _GPU_ACCELERATORS
        and _Group.KIND_MODEL in kinds
        and field not in backend.optimization_without_effect
    )


def _host(message: Any, backend: BackendType, *, on_gpu: bool, option: str) -> str:
    """Where the instances run, as `host_of` decides it for a valid config."""
    chosen = (
        message.parameters["naiad.host"].string_value if "naiad.host" in message.parameters else ""
    )
    return chosen or option or ("process" if on_gpu else backend.default_host)


def _of_priority(priority: int, backend: BackendType, *, on_gpu: bool, in_process: bool) -> str:
    if priority == _Policy.PRIORITY_MIN:
        return "" if in_process else _IN_THREADS
    return backend.optimization_without_effect.get("priority", "") if on_gpu else _NOT_RAISED

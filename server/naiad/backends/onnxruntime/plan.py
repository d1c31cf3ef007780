"""How a model's session is to be made, decided from its config alone (rows 16.8-16.11); nothing of onnxruntime is imported.

`session.py` applies a plan. Provider options are onnxruntime's own names and text values. What is planned for
TensorRT follows the documentation of that provider, which has taken the options on a device, and has built no engine yet.
"""

import collections.abc
import typing
from typing import Any

import msgspec

from naiad import extras
from naiad.backends.parameter_values import boolean, integer
from naiad.config.model_config import Accelerator, InstanceKind, ModelConfig
from naiad.errors import InferenceError, invalid

GraphLevel = typing.Literal["disable", "basic", "extended", "all"]

CPU = "CPUExecutionProvider"
CUDA = "CUDAExecutionProvider"
TENSORRT = "TensorrtExecutionProvider"
OPENVINO = "OpenVINOExecutionProvider"

_PACKAGES = {
    CUDA: "onnxruntime-gpu in place of onnxruntime: pip uninstall onnxruntime, then {gpu}",
    TENSORRT: "onnxruntime-gpu in place of onnxruntime, and the TensorRT libraries: pip uninstall onnxruntime, then {gpu}",
    OPENVINO: "onnxruntime-openvino in place of onnxruntime: pip uninstall onnxruntime, then pip install onnxruntime-openvino",
}

_GRAPH_LEVELS: collections.abc.Mapping[int, GraphLevel] = {-1: "basic", 1: "extended", 2: "disable"}


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    """An execution provider and its options, as `InferenceSession(providers=…)` takes them."""

    name: str
    options: collections.abc.Mapping[str, str] = msgspec.field(default_factory=dict)


_SPINNING = {
    "session.intra_op.spin_duration_us": "200",
    "session.inter_op.spin_duration_us": "200",
}
"""How long an idle thread of a session waits for work on its processor before it sleeps: long enough for the pauses within a run. By default
onnxruntime's threads do so for a million pauses, up to 50 ms after each run and after the load. Older releases ignore the option."""


class GlobalThreads(msgspec.Struct, frozen=True, kw_only=True):
    """One thread pool for all sessions of the process; 0 threads means onnxruntime's choice (row 16.11)."""

    intra_op: int
    inter_op: int


class SessionPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A session to make.

    Attributes:
        graph_level: how far the graph is optimised (row 16.9).
        parallel: nodes of the graph run side by side (`execution_mode: 1`).
        intra_op_threads: threads within a node; 0 means onnxruntime's choice, one for each core.
        inter_op_threads: threads across nodes when `parallel`; 0 means onnxruntime's choice.
        global_threads: set when the session has no threads of its own.
        memory_arena: None means onnxruntime's default, which is on.
        memory_pattern: None means onnxruntime's default, which is on.
        config_entries: session options by onnxruntime's key.
        run_entries: run options by onnxruntime's key.
        providers: in order of preference, the CPU last.
        op_libraries: custom operator libraries (row 11.42).
    """

    graph_level: GraphLevel
    parallel: bool
    intra_op_threads: int
    inter_op_threads: int
    global_threads: GlobalThreads | None
    memory_arena: bool | None
    memory_pattern: bool | None
    config_entries: tuple[tuple[str, str], ...]
    run_entries: tuple[tuple[str, str], ...]
    providers: tuple[Provider, ...]
    op_libraries: tuple[str, ...]


def plan_session(
    config: ModelConfig,
    options: collections.abc.Mapping[str, str],
    *,
    kind: InstanceKind,
    device_id: int,
) -> SessionPlan:
    """What a model's config and `--backend-config` ask of a session.

    A thread count of the model's own parameters wins over that of `--backend-config`. Parameters whose key begins with
    `session.` are handed to onnxruntime as session options; `memory.enable_memory_arena_shrinkage` as a run option.

    Raises:
        InferenceError: an invalid value, or an execution accelerator that does not exist.
    """
    read = _Reader(config.name)
    parameters = config.parameters
    mode = read.number("execution_mode", parameters.get("execution_mode", "0"))
    if mode not in {0, 1}:
        raise invalid(
            f"Invalid configuration value provided. Expected values for execution_mode are 0 or 1 but got {mode} "
            f"(parameters of model '{config.name}')"
        )
    shrink = "memory.enable_memory_arena_shrinkage"
    return SessionPlan(
        graph_level=_GRAPH_LEVELS.get(config.optimization.graph_level, "all"),
        parallel=mode == 1,
        intra_op_threads=read.threads("intra_op_thread_count", parameters, options),
        inter_op_threads=read.threads("inter_op_thread_count", parameters, options),
        global_threads=_global_threads(read, options),
        memory_arena=read.optional_flag("enable_mem_arena", parameters),
        memory_pattern=read.optional_flag("enable_mem_pattern", parameters),
        config_entries=_config_entries(parameters),
        run_entries=((shrink, parameters[shrink]),) if shrink in parameters else (),
        providers=_providers(read, config, kind=kind, device_id=device_id),
        op_libraries=config.op_library_filenames,
    )


def plan_to_complete(message: Any, options: collections.abc.Mapping[str, str]) -> SessionPlan:
    """A session on the CPU that runs nothing, for a config that is not complete yet: it shows the shapes that onnxruntime works out.

    Raises:
        InferenceError: an invalid value.
    """
    parameters = {key: value.string_value for key, value in message.parameters.items()}
    return SessionPlan(
        graph_level=_GRAPH_LEVELS.get(message.optimization.graph.level, "all"),
        parallel=False,
        intra_op_threads=1,
        inter_op_threads=1,
        global_threads=_global_threads(_Reader(message.name), options),
        memory_arena=None,
        memory_pattern=None,
        config_entries=_config_entries(parameters),
        run_entries=(),
        providers=(Provider(name=CPU),),
        op_libraries=tuple(message.model_operations.op_library_filename),
    )


def _config_entries(
    parameters: collections.abc.Mapping[str, str],
) -> tuple[tuple[str, str], ...]:
    given = {key: value for key, value in parameters.items() if key.startswith("session.")}
    return tuple({**_SPINNING, **given}.items())


def cache_folders(plan: SessionPlan) -> dict[str, str]:
    """The folders in which a plan keeps TensorRT's engines and timings, each with the option that names it; without the folders of a cache that is off."""
    found: dict[str, str] = {}
    for provider in plan.providers:
        for enabled, path in _TENSORRT_CACHES.items():
            folder = provider.options.get(path)
            if provider.name == TENSORRT and folder and provider.options.get(enabled) == "True":
                found[folder] = path
    return found


def require_providers(
    plan: SessionPlan,
    available: collections.abc.Collection[str],
    *,
    model: str,
    version: str = "",
) -> None:
    """Refuse a plan that the installed onnxruntime, of this version, cannot carry out.

    Raises:
        InferenceError: INVALID_ARG: a provider is missing.
    """
    for provider in plan.providers:
        if provider.name not in available:
            package = _PACKAGES[provider.name].format(gpu=extras.install("server-gpu"))
            raise invalid(
                f"unable to load model '{model}': its instances need {provider.name}, and the installed onnxruntime{' ' * bool(version)}{version} has "
                f"only {', '.join(available)}. Install {package}, "
                "or use instances of KIND_CPU without that accelerator"
            )


def _providers(
    read: "_Reader", config: ModelConfig, *, kind: InstanceKind, device_id: int
) -> tuple[Provider, ...]:
    if kind is not InstanceKind.GPU:
        return (
            *map(_cpu_accelerator, config.optimization.cpu_accelerators),
            Provider(name=CPU),
        )
    device = {"device_id": str(device_id)}
    ahead: list[Provider] = []
    cuda: dict[str, str] = {}
    for accelerator in config.optimization.gpu_accelerators:
        match accelerator.name:
            case "tensorrt":
                options = read.tensorrt(accelerator)
                ahead.append(Provider(name=TENSORRT, options={**options, **device}))
            case "cuda":
                cuda.update(read.cuda(accelerator))
            case name:
                raise invalid(
                    f"unknown Execution Accelerator '{name}' is requested "
                    "(for KIND_GPU instances there are tensorrt and cuda)"
                )
    cuda.update(read.cuda_parameters(config.parameters))
    return (*ahead, Provider(name=CUDA, options={**cuda, **device}), Provider(name=CPU))


def _cpu_accelerator(accelerator: Accelerator) -> Provider:
    if accelerator.name != "openvino":
        raise invalid(
            f"unknown Execution Accelerator '{accelerator.name}' is requested "
            "(for KIND_CPU instances there is openvino)"
        )
    return Provider(name=OPENVINO, options={"device_type": "CPU", **accelerator.parameters})


def _global_threads(
    read: "_Reader", options: collections.abc.Mapping[str, str]
) -> GlobalThreads | None:
    key = "enable-global-threadpool"
    if not read.flag(key, options.get(key, "0")):
        return None
    return GlobalThreads(
        intra_op=read.threads("intra_op_thread_count", {}, options),
        inter_op=read.threads("inter_op_thread_count", {}, options),
    )


_TENSORRT_NUMBERS = {
    "max_workspace_size_bytes", "trt_max_partition_iterations", "trt_min_subgraph_size", "trt_dla_core", "trt_builder_optimization_level",
    "trt_auxiliary_streams", "trt_ep_context_embed_mode",
}  # fmt: skip
_TENSORRT_FLAGS = {
    "int8_use_native_calibration_table", "trt_dla_enable", "trt_engine_cache_enable", "trt_dump_subgraphs", "trt_force_sequential_engine_build",
    "trt_context_memory_sharing_enable", "trt_layer_norm_fp32_fallback", "trt_timing_cache_enable",
    "trt_force_timing_cache", "trt_detailed_build_log", "trt_build_heuristics_enable", "trt_sparsity_enable",
    "trt_cuda_graph_enable", "trt_dump_ep_context_model",
}  # fmt: skip
_TENSORRT_TEXTS = {
    "int8_calibration_table_name", "trt_engine_cache_path", "trt_engine_cache_prefix", "trt_timing_cache_path", "trt_tactic_sources",
    "trt_extra_plugin_lib_paths", "trt_profile_min_shapes", "trt_profile_max_shapes", "trt_profile_opt_shapes",
    "trt_ep_context_file_path",
}  # fmt: skip
_TENSORRT_CACHES = {
    "trt_engine_cache_enable": "trt_engine_cache_path",
    "trt_timing_cache_enable": "trt_timing_cache_path",
}
_TENSORRT_NAMES = {
    "max_workspace_size_bytes": "trt_max_workspace_size",
    "int8_calibration_table_name": "trt_int8_calibration_table_name",
    "int8_use_native_calibration_table": "trt_int8_use_native_calibration_table",
}
"""onnxruntime's names, where they differ."""
_PRECISIONS = {
    "FP32": {},
    "FP16": {"trt_fp16_enable": "True"},
    "BF16": {"trt_bf16_enable": "True"},
    "INT8": {"trt_int8_enable": "True"},
}
_CUDA_FLAGS = {"do_copy_in_default_stream", "use_ep_level_unified_stream"}
_CUDA_CHOICES = {
    "cudnn_conv_algo_search": ("EXHAUSTIVE", "HEURISTIC", "DEFAULT"),
    "arena_extend_strategy": ("kNextPowerOfTwo", "kSameAsRequested"),
}


class _Reader:
    """Reads the text values of one model's parameters; an error names the model and the parameter."""

    def __init__(self, model: str) -> None:
        self._model = model

    def number(self, key: str, text: str) -> int:
        value = integer(text)
        if value is None:
            raise self._wrong(key, text, "integral number", "an integer")
        return value

    def flag(self, key: str, text: str) -> bool:
        value = boolean(text)
        if value is not None:
            return value
        raise self._wrong(key, text, "boolean", "true or false")

    def optional_flag(self, key: str, parameters: collections.abc.Mapping[str, str]) -> bool | None:
        return self.flag(key, parameters[key]) if key in parameters else None

    def threads(
        self,
        key: str,
        parameters: collections.abc.Mapping[str, str],
        options: collections.abc.Mapping[str, str],
    ) -> int:
        """A thread count; a negative one means onnxruntime's choice, as 0 does."""
        return max(0, self.number(key, parameters.get(key) or options.get(key) or "0"))

    def tensorrt(self, accelerator: Accelerator) -> dict[str, str]:
        options: dict[str, str] = {}
        self._refuse_graphs("trt_cuda_graph_enable", accelerator)
        for key, value in accelerator.parameters.items():
            name = _TENSORRT_NAMES.get(key, key)
            if key == "precision_mode":
                if value not in _PRECISIONS:
                    raise invalid(
                        f"unsupported precision mode '{value}' is requested for the tensorrt accelerator of model "
                        f"'{self._model}': use {', '.join(_PRECISIONS)}"
                    )
                options.update(_PRECISIONS[value])
            elif key in _TENSORRT_NUMBERS:
                options[name] = str(self.number(key, value))
            elif key in _TENSORRT_FLAGS:
                # "1" is refused for this provider ("should be 'True' or 'False'"), where the one of CUDA takes it.
                options[name] = str(self.flag(key, value))
            elif key in _TENSORRT_TEXTS:
                if value:
                    options[name] = value
            else:
                raise invalid(
                    f"unknown parameter '{key}' is provided for TensorRT Execution Accelerator of model '{self._model}'"
                )
        return options

    def cuda(self, accelerator: Accelerator) -> dict[str, str]:
        self._refuse_graphs("enable_cuda_graph", accelerator)
        return {
            key: self._bit(key, value) if key in _CUDA_FLAGS else value
            for key, value in accelerator.parameters.items()
        }

    def cuda_parameters(self, parameters: collections.abc.Mapping[str, str]) -> dict[str, str]:
        """CUDA options written as the model's parameters, the older way (row 16.8)."""
        options: dict[str, str] = {}
        for key, choices in _CUDA_CHOICES.items():
            if key in parameters:
                value = self.number(key, parameters[key])
                if not 0 <= value < len(choices):
                    known = ", ".join(f"{i} ({name})" for i, name in enumerate(choices))
                    raise invalid(
                        f"unsupported {key} value '{value}' is requested by model '{self._model}': use {known}"
                    )
                options[key] = choices[value]
        if "gpu_mem_limit" in parameters:
            options["gpu_mem_limit"] = str(
                self.number("gpu_mem_limit", parameters["gpu_mem_limit"])
            )
        if "do_copy_in_default_stream" in parameters:
            key = "do_copy_in_default_stream"
            options[key] = self._bit(key, parameters[key])
        return options

    def _refuse_graphs(self, key: str, accelerator: Accelerator) -> None:
        """A CUDA graph reads and writes at the addresses at which it was captured, and each request has others: the server has to copy."""
        if key in accelerator.parameters and self.flag(key, accelerator.parameters[key]):
            instead = (
                "write optimization { cuda { graphs: true } } in its place"
                if accelerator.name == "cuda"
                else "remove it, or write 0; without the accelerator tensorrt, optimization { cuda { graphs: true } } captures CUDA graphs"
            )
            raise invalid(
                f"parameter '{key}' of the {accelerator.name} accelerator of model '{self._model}' is not supported: CUDA graphs need inputs and outputs at fixed "
                f"addresses, and each request has its own: {instead}"
            )

    def _bit(self, key: str, text: str) -> str:
        return "1" if self.flag(key, text) else "0"

    def _wrong(self, key: str, text: str, what: str, expected: str) -> InferenceError:
        return invalid(
            f"failed to convert '{text}' to {what}: parameter '{key}' of model '{self._model}' must be {expected}"
        )

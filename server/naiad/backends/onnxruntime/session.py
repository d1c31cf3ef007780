"""Makes onnxruntime sessions from plans. Every call into onnxruntime that can fail at load is here.

Importing this imports onnxruntime. Its own log goes to the process's stderr past ours; only errors are let through.
"""

import collections.abc
import os
import pathlib
import threading
from typing import Any

import onnxruntime

from naiad.backends import reasons
from naiad.backends.model_files.signature import GraphTensor, Signature
from naiad.backends.onnxruntime import cuda, locales, onnx_graph, plan as plans
from naiad.backends.onnxruntime.plan import GlobalThreads, SessionPlan
from naiad.core import datatypes
from naiad.core.datatypes import DataType
from naiad.errors import internal, invalid, unavailable

_SEVERITY_ERROR = 3

OPERATORS = (
    "name the library that has it in model_operations { op_library_filename }, export the model with an older opset, or install a newer onnxruntime than "
    f"{onnxruntime.__version__}"
)
"""What helps a model with an operator that onnxruntime does not know."""

_LEVELS = {
    "disable": onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
    "basic": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "extended": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "all": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
}

_ELEMENTS: collections.abc.Mapping[str, DataType] = {
    **{datatype.name.lower(): datatype for datatype in onnx_graph.ELEMENT_TYPES.values()},
    "float16": datatypes.FP16,
    "float": datatypes.FP32,
    "double": datatypes.FP64,
    "bfloat16": datatypes.BF16,
    "string": datatypes.BYTES,
}
"""onnxruntime's element names (row 16.12): ours in small letters but for these."""

_KINDS = {"seq": "sequence", "sparse_tensor": "sparse tensor"}
"""onnxruntime's names of values that are not tensors, where the file format has others."""

onnxruntime.set_default_logger_severity(_SEVERITY_ERROR)


class GlobalThreadPool:
    """The thread pool that all sessions share when `enable-global-threadpool` is set; made once per process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: GlobalThreads | None = None

    def use(self, threads: GlobalThreads) -> None:
        """Make it, unless it is there.

        Raises:
            InferenceError: onnxruntime refuses; it takes sizes only before its first session.
        """
        with self._lock:
            if self._made is not None:
                return  # backend options are the same for every model
            try:
                onnxruntime.set_global_thread_pool_sizes(threads.intra_op, threads.inter_op)
            except RuntimeError as error:
                raise invalid(f"enable-global-threadpool: {error}") from error
            self._made = threads


def make_session(
    path: pathlib.Path, plan: SessionPlan, *, model: str, pool: GlobalThreadPool
) -> Any:
    """Make a session.

    Returns:
        An onnxruntime.InferenceSession whose first provider is the plan's first.

    Raises:
        InferenceError: UNAVAILABLE when there is no such file (row 16.1), INVALID_ARG when the installed onnxruntime cannot do what
            the plan asks, else INTERNAL with onnxruntime's own reason first.
    """
    if not path.is_file():
        raise unavailable(
            f"unable to find '{path}' for model '{model}': put the ONNX file there, or name it in "
            "default_model_filename"
        )
    plans.require_providers(
        plan,
        onnxruntime.get_available_providers(),
        model=model,
        version=onnxruntime.__version__,
    )
    cuda.make_cache_folders(plans.cache_folders(plan), model=model)
    options = _session_options(plan, model=model, pool=pool)
    try:
        session = onnxruntime.InferenceSession(
            path,
            options,
            providers=[(provider.name, dict(provider.options)) for provider in plan.providers],
            # Otherwise onnxruntime prints the error of a provider and goes on with the CPU.
            enable_fallback=0,
        )
    except Exception as failure:
        if error := locales.translated(model, failure):
            raise error from failure
        raise internal(
            f"{reasons.explained(failure, operators=OPERATORS)} (loading '{path.name}' of model '{model}')"
        ) from failure
    # onnxruntime leaves out a provider whose library cannot be loaded; a slow CPU instead was not requested.
    running = session.get_providers()
    for provider in plan.providers:
        if provider.name not in running:
            raise invalid(
                f"unable to load model '{model}': {provider.name} did not start: {_why_not(provider.name)}; onnxruntime would run it on "
                f"{', '.join(running)} instead"
            )
    return session


def _why_not(provider: str) -> str:
    """Why a provider that the installed onnxruntime has did not start."""
    fault = cuda.library_fault(provider)
    if fault:
        return f"{fault}: {cuda.advice(fault)}"
    return "is there a device and a driver? onnxruntime has written the reason to stderr"


def run_options(plan: SessionPlan) -> Any:
    """What every run of a session is given: an onnxruntime.RunOptions, or None for onnxruntime's defaults."""
    if not plan.run_entries:
        return None
    options = onnxruntime.RunOptions()
    for key, value in plan.run_entries:
        options.add_run_config_entry(key, value)
    return options


def signature_of(session: Any, path: pathlib.Path) -> Signature:
    """What the model of a session takes and gives.

    onnxruntime shows a tensor of unknown rank as one without dimensions, that is, as a scalar. The file tells them
    apart, and is read again only for such tensors; where it cannot be read (an .ort file), they are taken for scalars.
    """
    inputs, overridable = session.get_inputs(), session.get_overridable_initializers()
    outputs = session.get_outputs()
    without_dims = [tensor for tensor in (*inputs, *overridable, *outputs) if not tensor.shape]
    unknown = _unknown_ranks(path) if without_dims else frozenset[str]()

    def described(tensors: list[Any]) -> tuple[GraphTensor, ...]:
        return tuple(
            graph_tensor(
                tensor.name,
                tensor.type,
                None if not tensor.shape and tensor.name in unknown else tensor.shape,
            )
            for tensor in tensors
        )

    return Signature(
        inputs=described(inputs),
        overridable=described(overridable),
        outputs=described(outputs),
    )


def graph_tensor(
    name: str, type_text: str, shape: collections.abc.Sequence[int | str | None] | None
) -> GraphTensor:
    """A tensor as onnxruntime describes it, of a type such as "tensor(float)" or "seq(tensor(int64))".

    `shape` has a name or None where any size is allowed, and is None when even the rank is unknown.
    """
    kind, _, rest = type_text.partition("(")
    kind = _KINDS.get(kind, kind)
    if kind != "tensor":
        shape = None
    element = rest.removesuffix(")")
    datatype = _ELEMENTS.get(element) if kind == "tensor" else None
    sizes = None if shape is None else [size if isinstance(size, int) else -1 for size in shape]
    return GraphTensor(
        name=name,
        kind=kind,
        datatype=datatype,
        type_name=datatype.config_name if datatype else type_text,
        shape=None if sizes is None else tuple(sizes),
        symbols=()
        if shape is None
        else tuple(size if isinstance(size, str) else "" for size in shape),
    )


def _unknown_ranks(path: pathlib.Path) -> frozenset[str]:
    try:
        graph = onnx_graph.read(path)
    except onnx_graph.OnnxFileError:
        return frozenset()
    return frozenset(
        tensor.name
        for tensor in (*graph.inputs, *graph.overridable, *graph.outputs)
        if tensor.shape is None
    )


def _threads_where_bound() -> int:
    """How many threads a session has whose thread may not run on all cores (a host policy, a container's cpuset); 0 for onnxruntime's choice.

    With its own choice onnxruntime binds its threads to the cores of the whole machine; with a number of threads that the options name, they run where this thread does.
    """
    allowed = len(os.sched_getaffinity(0))
    return allowed if allowed < (os.cpu_count() or 1) else 0


def _session_options(plan: SessionPlan, *, model: str, pool: GlobalThreadPool) -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _SEVERITY_ERROR
    options.logid = model
    options.graph_optimization_level = _LEVELS[plan.graph_level]
    if plan.parallel:
        options.execution_mode = onnxruntime.ExecutionMode.ORT_PARALLEL
    if plan.global_threads is not None:
        pool.use(plan.global_threads)
        options.use_per_session_threads = False
    else:
        options.intra_op_num_threads = plan.intra_op_threads or _threads_where_bound()
        options.inter_op_num_threads = plan.inter_op_threads
    if plan.memory_arena is not None:
        options.enable_cpu_mem_arena = plan.memory_arena
    if plan.memory_pattern is not None:
        options.enable_mem_pattern = plan.memory_pattern
    for key, value in plan.config_entries:
        options.add_session_config_entry(key, value)
    for library in plan.op_libraries:
        try:
            options.register_custom_ops_library(library)
        except Exception as error:
            raise invalid(
                f"unable to load model '{model}': custom operator library '{library}' (model_operations, "
                f"op_library_filename): {reasons.said(error)}"
            ) from error
    return options

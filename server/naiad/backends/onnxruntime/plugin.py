"""The backend `onnxruntime`, declared: what configs and options know of it. Imports neither onnxruntime nor numpy."""

import types

from naiad.backends.plugin import BackendPlugin, deferred
from naiad.config.backend_type import Form, ModelFormat
from naiad.config.option_values import OptionValues, boolean, integer

_OWN_STREAMS = "onnxruntime makes the streams of its CUDA provider itself"
_OWN_COPIES = "onnxruntime itself copies inputs and outputs, and chooses the memory for it"

_THREADS = integer(example="2", or_empty=True)

PLUGIN = BackendPlugin(
    name="onnxruntime",
    make=deferred("naiad.backends.onnxruntime.backend:make"),
    package="onnxruntime",
    extra="server",
    install="the extra server-gpu in its place where there is an NVIDIA GPU",
    formats=(
        ModelFormat(
            filename="model.onnx",
            platform="onnxruntime_onnx",
            form=Form.EITHER,
            inner="model.onnx",
        ),
    ),
    shares_processes=True,
    cpu_instances=2,
    has_files_per_gpu=True,
    options=types.MappingProxyType(
        {
            "intra_op_thread_count": _THREADS,
            "inter_op_thread_count": _THREADS,
            "enable-global-threadpool": boolean(),
            "fill_batches": OptionValues(
                fits=deferred("naiad.backends.filled_sizes:is_value"),
                expected="auto, on, off or numbers of rows",
                example="auto",
            ),
        }
    ),
    optimization_without_effect=types.MappingProxyType(
        {
            "priority": f"{_OWN_STREAMS}, with CUDA's default priority: write PRIORITY_MIN in the models that are to wait for this one",
            "cuda.busy_wait_events": "onnxruntime itself waits for the device",
            "cuda.output_copy_stream": _OWN_STREAMS,
            "input_pinned_memory": _OWN_COPIES,
            "output_pinned_memory": _OWN_COPIES,
        }
    ),
    completes_by_loading=deferred("naiad.backends.onnxruntime.completion:leaves_batching_open"),
    complete=deferred("naiad.backends.onnxruntime.completion:complete"),
    check=deferred("naiad.backends.onnxruntime.graph_check:check_file"),
    preflight=deferred("naiad.backends.onnxruntime.preflight:preflight"),
)

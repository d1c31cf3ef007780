"""The backend `tensorrt`, declared: what configs and options know of it. Imports neither TensorRT nor numpy."""

import types

from naiad.backends.plugin import BackendPlugin, deferred
from naiad.config.backend_type import ModelFormat
from naiad.config.option_values import boolean

_BUILT = "a plan is optimised when it is built"

PLUGIN = BackendPlugin(
    name="tensorrt",
    make=deferred("naiad.backends.tensorrt.backend:make"),
    package="tensorrt",
    extra="tensorrt",
    install="the release of TensorRT has to be the one that built the plans",
    default_host="process",
    shares_processes=True,
    formats=(ModelFormat(filename="model.plan", platform="tensorrt_plan"),),
    instance_kinds=frozenset(("KIND_GPU",)),
    has_profiles=True,
    has_secondary_devices=True,
    has_files_per_gpu=True,
    options=types.MappingProxyType({"version-compatible": boolean()}),
    options_without_effect=types.MappingProxyType(
        {
            "coalesce-request-input": "the rows of a batch are gathered in pinned memory, from which one copy goes to the device",
            "execution-policy": "each instance has a thread, which waits for its batch",
        }
    ),
    optimization_without_effect=types.MappingProxyType(
        {
            "graph.level": _BUILT,
            "execution_accelerators.gpu_execution_accelerator": _BUILT,
            "execution_accelerators.cpu_execution_accelerator": _BUILT,
        }
    ),
    completes_by_loading=lambda _message, _version_dir: True,
    check=deferred("naiad.backends.tensorrt.preflight:check_file"),
    preflight=deferred("naiad.backends.tensorrt.preflight:preflight"),
    takes_device_inputs=lambda _message: True,
)

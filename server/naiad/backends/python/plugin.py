"""The backend `python` and those that are based on it, declared: what configs and options know of them. Imports no numpy."""

import functools
import pathlib
import types
from typing import Any

import msgspec

from naiad.backends.plugin import BackendPlugin, deferred
from naiad.config.backend_type import Form, ModelFormat
from naiad.config.option_values import days

_NO_REGION = "tensors reach Python models through anonymous memory, which has no size to set"
_NO_STUB = (
    "there is no stub: a worker process may load for as long as it needs, or as naiad.load_timeout says, and one that hangs later is found "
    "by naiad.execute_timeout"
)

_OWN_CODE = (
    "a Python model does what its code does, which finds the field in the config that it is given"
)

_LEFT_TO_CODE = (
    "graph.level", "priority", "cuda.graphs", "cuda.graph_spec", "cuda.busy_wait_events", "cuda.output_copy_stream",
    "execution_accelerators.gpu_execution_accelerator", "execution_accelerators.cpu_execution_accelerator", "input_pinned_memory",
    "output_pinned_memory",
)  # fmt: skip

_FORCE_CPU = "FORCE_CPU_ONLY_INPUT_TENSORS"

_make = deferred("naiad.backends.python.backend:make")


def takes_device_inputs(message: Any) -> bool:
    """Whether a model takes its inputs in GPU memory: if `FORCE_CPU_ONLY_INPUT_TENSORS` is "no" (row 15.31)."""
    forced = message.parameters.get(_FORCE_CPU)
    return forced is not None and forced.string_value.lower() == "no"


_completes_itself = deferred("naiad.backends.python.completion:may_complete")
_preflight = deferred("naiad.backends.python.preflight:preflight")

PLUGIN = BackendPlugin(
    name="python",
    make=_make,
    default_host="process",
    plans_workers=True,
    formats=(ModelFormat(filename="model.py", form=Form.EITHER),),
    options=types.MappingProxyType({"environment-keep-days": days()}),
    # Triton's `--backend-config=python,…` (row 15.32).
    options_without_effect=types.MappingProxyType(
        {
            "shm-default-byte-size": _NO_REGION,
            "shm-growth-byte-size": _NO_REGION,
            "shm-region-prefix-name": _NO_REGION,
            "stub-timeout-seconds": _NO_STUB,
            "thread-pool-size": "calls of models need no threads",
        }
    ),
    optimization_without_effect=types.MappingProxyType(dict.fromkeys(_LEFT_TO_CODE, _OWN_CODE)),
    missing_file="Python model file not found in '{path}'",
    completes_itself=_completes_itself,
    preflight=_preflight,
    takes_device_inputs=takes_device_inputs,
)

PYTHON_BASED_FILE = "model.py"


def python_based(name: str, folder: pathlib.Path) -> BackendPlugin:
    """A backend whose folder holds a model.py, which serves every model that names the backend (row 11.52)."""
    return msgspec.structs.replace(
        PLUGIN,
        name=name,
        make=functools.partial(_make, name=name, file=folder / PYTHON_BASED_FILE),
        formats=(),
        runtime=PYTHON_BASED_FILE,
        optimization_without_effect=types.MappingProxyType({}),  # its own code may read them
        missing_file="",
        completes_itself=lambda _: _completes_itself(folder / PYTHON_BASED_FILE),
        preflight=functools.partial(_preflight, backend_file=folder / PYTHON_BASED_FILE),
    )

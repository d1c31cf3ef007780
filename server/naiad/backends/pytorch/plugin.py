"""The backend `pytorch`, declared: what configs and options know of it. Imports neither torch nor numpy."""

import collections.abc
import pathlib
import types
from typing import Any

from naiad.backends.plugin import BackendPlugin, deferred
from naiad.config.backend_type import ModelFormat

PYTHON_RUNTIME = "model.py"
"""The `runtime` of a config whose model is a `torch.nn.Module` in Python (row 16.17)."""

LIBTORCH = "pytorch_libtorch"
AOTI = "torch_aoti"


_NO_LEVEL = "torch decides how it optimises a graph: the parameter DISABLE_OPTIMIZED_EXECUTION switches it off"
_NO_ACCELERATOR = "the backend pytorch has no execution accelerators"


def complete_nothing(
    message: Any, version_dir: pathlib.Path, options: collections.abc.Mapping[str, str]
) -> None:
    """The completion of a config: a PyTorch model says neither datatypes nor shapes, so that its config lists them (row 16.14)."""


def takes_device_inputs(message: Any) -> bool:
    """Every PyTorch model does."""
    return True


PLUGIN = BackendPlugin(
    name="pytorch",
    make=deferred("naiad.backends.pytorch.backend:make"),
    package="torch",
    extra="torch",
    default_host="process",
    shares_processes=True,
    formats=(
        ModelFormat(filename="model.pt", platform=LIBTORCH, aliases=("libtorch",)),
        ModelFormat(filename="model.pt2", platform=AOTI),
    ),
    has_files_per_gpu=True,
    python_runtime=PYTHON_RUNTIME,
    optimization_without_effect=types.MappingProxyType(
        {
            "graph.level": _NO_LEVEL,
            "cuda.busy_wait_events": "torch decides how a thread waits for its stream",
            "cuda.output_copy_stream": "outputs are copied in the stream of the instance, which has nothing else to do until they are there",
            "execution_accelerators.gpu_execution_accelerator": _NO_ACCELERATOR,
            "execution_accelerators.cpu_execution_accelerator": _NO_ACCELERATOR,
        }
    ),
    complete=complete_nothing,
    check=deferred("naiad.backends.pytorch.preflight:check_file"),
    preflight=deferred("naiad.backends.pytorch.preflight:preflight"),
    takes_device_inputs=takes_device_inputs,
)

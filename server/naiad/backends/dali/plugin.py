"""The backend `dali`, declared: what configs and options know of it. Imports neither DALI nor numpy."""

import pathlib
import types
from typing import Any

from typing_extensions import override

from naiad.backends.plugin import BackendPlugin, deferred
from naiad.config.backend_type import ModelFormat
from naiad.config.option_values import OptionValues

CODE = ".py"
"""The suffix of a model file that is Python code; any other holds a serialised pipeline."""

SERIALIZED, IN_PYTHON = "model.dali", "dali.py"

_OWN_STREAMS = "DALI makes its streams itself, with CUDA's default priority"
_NO_GRAPHS = "the backend captures no CUDA graphs of DALI pipelines"
_OWN_COPIES = "DALI itself copies inputs and outputs, and chooses the memory for it"
_NO_ACCELERATOR = "the whole pipeline runs in DALI, which has no execution accelerators"


def describes_itself_by_code(path: pathlib.Path) -> bool:
    """Whether only running a model file shows what its pipeline is."""
    return path.suffix == CODE


def completes_by_code(message: Any, version_dir: pathlib.Path) -> bool:
    """Whether a config leaves something open that only the code of its model knows."""
    path = PLUGIN.model_file(version_dir, message.default_model_filename)
    specs = [*message.input, *message.output]
    listed = message.input and message.output and message.max_batch_size > 0
    complete = listed and all(spec.data_type and spec.dims for spec in specs)
    return describes_itself_by_code(path) and path.is_file() and not complete


class DaliPlugin(BackendPlugin, frozen=True, kw_only=True):
    """The backend's declaration, which knows that `dali.py` takes the place of a file that is not there, as in Triton's dali_backend."""

    @override
    def model_file(
        self, version_dir: pathlib.Path, filename: str, runtime: str = ""
    ) -> pathlib.Path:
        path = super().model_file(version_dir, filename, runtime)
        # A name that the config does not give is that of the highest version's file; each version has either.
        others = [IN_PYTHON, SERIALIZED] if path.name == IN_PYTHON else [IN_PYTHON]
        present = (version_dir / name for name in others if (version_dir / name).is_file())
        return path if path.exists() else next(present, path)


PLUGIN = DaliPlugin(
    name="dali",
    make=deferred("naiad.backends.dali.backend:make"),
    package="nvidia.dali",
    extra="dali",
    install="DALI has wheels for Linux alone",
    default_host="process",
    plans_workers=True,
    instance_kinds=frozenset(("KIND_CPU", "KIND_GPU")),
    formats=(ModelFormat(filename=SERIALIZED), ModelFormat(filename=IN_PYTHON)),
    options=types.MappingProxyType(
        {
            "plugin_libs": OptionValues(
                fits=lambda _: True,
                expected="paths of libraries with operators, with colons between them",
                example="/opt/operators/libresize.so",
            )
        }
    ),
    options_without_effect=types.MappingProxyType(
        {
            "release_after_unload": "a model's process ends when the model is unloaded, and gives all its memory back"
        }
    ),
    optimization_without_effect=types.MappingProxyType(
        {
            "graph.level": "DALI itself decides how it runs a pipeline",
            "priority": _OWN_STREAMS,
            "cuda.graphs": _NO_GRAPHS,
            "cuda.graph_spec": _NO_GRAPHS,
            "cuda.busy_wait_events": "DALI itself waits for the device",
            "cuda.output_copy_stream": _OWN_STREAMS,
            "execution_accelerators.gpu_execution_accelerator": _NO_ACCELERATOR,
            "execution_accelerators.cpu_execution_accelerator": _NO_ACCELERATOR,
            "input_pinned_memory": _OWN_COPIES,
            "output_pinned_memory": _OWN_COPIES,
        }
    ),
    complete=deferred("naiad.backends.dali.completion:complete"),
    completes_by_loading=completes_by_code,
    completes_itself=describes_itself_by_code,
    check=deferred("naiad.backends.dali.preflight:check_file"),
    preflight=deferred("naiad.backends.dali.preflight:preflight"),
)

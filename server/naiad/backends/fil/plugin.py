"""The backend `fil`, declared: what configs and options know of it. Imports neither treelite nor numpy."""

import types

from naiad.backends.fil.formats import FILES, named_file
from naiad.backends.fil.settings import WITHOUT_EFFECT
from naiad.backends.plugin import BackendPlugin, deferred
from naiad.config.backend_type import ModelFormat

_NO_GRAPH = "trees are not a graph"
_ITSELF = "treelite computes the whole model, and has no execution accelerators"

PLUGIN = BackendPlugin(
    name="fil",
    make=deferred("naiad.backends.fil.backend:make"),
    package="treelite",
    extra="trees",
    default_host="process",
    shares_processes=True,
    formats=tuple(ModelFormat(filename=name, telling_suffix=False) for name in FILES.values()),
    chosen_file=named_file,
    instance_kinds=frozenset(("KIND_CPU", "KIND_MODEL")),
    no_gpu="treelite computes trees on the CPU",
    parameters_without_effect=WITHOUT_EFFECT,
    optimization_without_effect=types.MappingProxyType(
        {
            "graph.level": _NO_GRAPH,
            "execution_accelerators.gpu_execution_accelerator": _ITSELF,
            "execution_accelerators.cpu_execution_accelerator": _ITSELF,
        }
    ),
    complete=deferred("naiad.backends.fil.completion:complete"),
    check=deferred("naiad.backends.fil.preflight:check_file"),
    preflight=deferred("naiad.backends.fil.preflight:preflight"),
)

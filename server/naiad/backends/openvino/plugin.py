"""The backend `openvino`, declared: what configs and options know of it. Imports neither OpenVINO nor numpy."""

import types

from naiad.backends.plugin import BackendPlugin, deferred
from naiad.config.backend_type import Form, ModelFormat

_NO_LEVEL = (
    "OpenVINO decides how it optimises a graph: the parameter PERFORMANCE_HINT says for what"
)
_ITSELF = "the whole model runs in OpenVINO, which has no execution accelerators"

PLUGIN = BackendPlugin(
    name="openvino",
    make=deferred("naiad.backends.openvino.backend:make"),
    package="openvino",
    extra="openvino",
    default_host="process",
    shares_processes=True,
    optimization_without_effect=types.MappingProxyType(
        {
            "graph.level": _NO_LEVEL,
            "execution_accelerators.gpu_execution_accelerator": _ITSELF,
            "execution_accelerators.cpu_execution_accelerator": _ITSELF,
        }
    ),
    instance_kinds=frozenset(("KIND_CPU", "KIND_MODEL")),
    formats=(ModelFormat(filename="model.xml", form=Form.EITHER),),
    complete=deferred("naiad.backends.openvino.completion:complete"),
    check=deferred("naiad.backends.openvino.preflight:check_file"),
    preflight=deferred("naiad.backends.openvino.preflight:preflight"),
)

"""The backend `openvino`, declared: what configs and options know of it. Imports neither OpenVINO nor numpy."""

from naiad.backends.plugin import BackendPlugin, deferred
from naiad.config.backend_type import Form, ModelFormat

PLUGIN = BackendPlugin(
    name="openvino",
    make=deferred("naiad.backends.openvino.backend:make"),
    package="openvino",
    extra="openvino",
    default_host="process",
    shares_processes=True,
    instance_kinds=frozenset(("KIND_CPU", "KIND_MODEL")),
    formats=(ModelFormat(filename="model.xml", form=Form.EITHER),),
    complete=deferred("naiad.backends.openvino.completion:complete"),
    check=deferred("naiad.backends.openvino.preflight:check_file"),
    preflight=deferred("naiad.backends.openvino.preflight:preflight"),
)

"""The backend `caffe2`, declared: what configs and options know of it. Imports neither onnxruntime nor numpy."""

import types

from naiad.backends.onnxruntime.plugin import PLUGIN as ONNXRUNTIME
from naiad.backends.plugin import BackendPlugin, deferred
from naiad.config.backend_type import ModelFormat

_OPTIONS = ("intra_op_thread_count", "inter_op_thread_count")

PLUGIN = BackendPlugin(
    name="caffe2",
    make=deferred("naiad.backends.caffe2.backend:make"),
    package=ONNXRUNTIME.package,
    extra=ONNXRUNTIME.extra,
    install=ONNXRUNTIME.install,
    formats=(ModelFormat(filename="model.netdef", platform="caffe2_netdef"),),
    shares_processes=True,
    has_files_per_gpu=True,
    options=types.MappingProxyType({key: ONNXRUNTIME.options[key] for key in _OPTIONS}),
    optimization_without_effect=ONNXRUNTIME.optimization_without_effect,
    complete=deferred("naiad.backends.caffe2.completion:complete"),
    check=deferred("naiad.backends.caffe2.preflight:check_file"),
    preflight=deferred("naiad.backends.caffe2.preflight:preflight"),
)

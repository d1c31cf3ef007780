"""The backend `tensorflow`, declared: what configs and options know of it. Imports neither TensorFlow nor numpy."""

import types

from naiad.backends.plugin import BackendPlugin, deferred
from naiad.config.backend_type import Form, ModelFormat
from naiad.config.option_values import boolean, integer

SAVED_MODEL = "tensorflow_savedmodel"
GRAPH_DEF = "tensorflow_graphdef"

_GROWS = (
    "memory of a GPU is taken as it is needed, and a model's process gives it back when it ends"
)

_NO_GRAPHS = "the backend captures no CUDA graphs of TensorFlow models"
_OWN_STREAMS = "TensorFlow makes its streams itself"
_OWN_COPIES = "TensorFlow itself copies inputs and outputs, and chooses the memory for it"

PLUGIN = BackendPlugin(
    name="tensorflow",
    make=deferred("naiad.backends.tensorflow.backend:make"),
    package="tensorflow",
    extra="tensorflow",
    install="the package tensorflow in place of tensorflow-cpu where there is an NVIDIA GPU",
    default_host="process",
    shares_processes=True,
    formats=(
        ModelFormat(filename="model.savedmodel", platform=SAVED_MODEL, form=Form.FOLDER),
        ModelFormat(filename="model.graphdef", platform=GRAPH_DEF),
    ),
    cpu_instances=2,
    missing_file="unable to load model '{model}': unable to find '{path}' for model instance",
    options=types.MappingProxyType(
        {"allow-soft-placement": boolean(), "default-max-batch-size": integer(example="4")}
    ),
    options_without_effect=types.MappingProxyType(
        {
            "gpu-memory-fraction": _GROWS,
            "memory-limit-mb": _GROWS,
            "version": "there is one version of TensorFlow, the one that is installed",
        }
    ),
    optimization_without_effect=types.MappingProxyType(
        {
            "priority": f"{_OWN_STREAMS}, with CUDA's default priority: write PRIORITY_MIN in the models that are to wait for this one",
            "cuda.graphs": _NO_GRAPHS,
            "cuda.graph_spec": _NO_GRAPHS,
            "cuda.busy_wait_events": "TensorFlow itself waits for the device",
            "cuda.output_copy_stream": _OWN_STREAMS,
            "input_pinned_memory": _OWN_COPIES,
            "output_pinned_memory": _OWN_COPIES,
        }
    ),
    complete=deferred("naiad.backends.tensorflow.completion:complete"),
    check=deferred("naiad.backends.tensorflow.preflight:check_file"),
    preflight=deferred("naiad.backends.tensorflow.preflight:preflight"),
)

"""The module that models import: `import triton_python_backend_utils as pb_utils`.

Only names, and the helper functions of row 15.28; a host puts it into `sys.modules` under its short name.
"""

from typing import Any

from naiad.backends.python.api import context
from naiad.backends.python.api.byte_tensors import (
    deserialize_bytes_tensor,
    serialize_byte_tensor,
)
from naiad.backends.python.api.datatypes import (
    TRITON_STRING_TO_NUMPY,
    numpy_to_triton_type,
    triton_string_to_numpy,
    triton_to_numpy_type,
)
from naiad.backends.python.api.errors import (
    TritonError,
    TritonModelException,
)
from naiad.backends.python.api.exchange import ResponseIterator
from naiad.backends.python.api.logger import Logger
from naiad.backends.python.api.metrics import Metric, MetricFamily, MetricKind
from naiad.backends.python.api.model_config import ModelConfig
from naiad.backends.python.api.model_control import is_model_ready, load_model, unload_model
from naiad.backends.python.api.request import (
    TRITONSERVER_REQUEST_FLAG_SEQUENCE_END,
    TRITONSERVER_REQUEST_FLAG_SEQUENCE_START,
    TRITONSERVER_REQUEST_RELEASE_ALL,
    TRITONSERVER_REQUEST_RELEASE_RESCHEDULE,
    InferenceRequest,
    InferenceTrace,
    MemoryType,
    PreferredMemory,
)
from naiad.backends.python.api.response import InferenceResponse
from naiad.backends.python.api.response_sender import (
    TRITONSERVER_RESPONSE_COMPLETE_FINAL,
    InferenceResponseSender,
)
from naiad.backends.python.api.tensor import Tensor

__all__ = (
    "TRITONSERVER_MEMORY_CPU",
    "TRITONSERVER_MEMORY_GPU",
    "TRITONSERVER_REQUEST_FLAG_SEQUENCE_END",
    "TRITONSERVER_REQUEST_FLAG_SEQUENCE_START",
    "TRITONSERVER_REQUEST_RELEASE_ALL",
    "TRITONSERVER_REQUEST_RELEASE_RESCHEDULE",
    "TRITONSERVER_RESPONSE_COMPLETE_FINAL",
    "TRITON_STRING_TO_NUMPY",
    "InferenceRequest",
    "InferenceResponse",
    "InferenceResponseSender",
    "InferenceTrace",
    "Logger",
    "MemoryType",
    "Metric",
    "MetricFamily",
    "MetricKind",
    "ModelConfig",
    "PreferredMemory",
    "ResponseIterator",
    "Tensor",
    "TritonError",
    "TritonModelException",
    "deserialize_bytes_tensor",
    "get_input_config_by_name",
    "get_input_tensor_by_name",
    "get_model_dir",
    "get_output_config_by_name",
    "get_output_tensor_by_name",
    "is_model_ready",
    "load_model",
    "numpy_to_triton_type",
    "serialize_byte_tensor",
    "triton_string_to_numpy",
    "triton_to_numpy_type",
    "unload_model",
    "using_decoupled_model_transaction_policy",
)

TRITONSERVER_MEMORY_GPU = MemoryType.TRITONSERVER_MEMORY_GPU
TRITONSERVER_MEMORY_CPU = MemoryType.TRITONSERVER_MEMORY_CPU


def get_input_tensor_by_name(inference_request: InferenceRequest, name: str) -> "Tensor | None":
    """A request's input; None when the request does not have it (row 15.35)."""
    for tensor in inference_request.inputs():
        if tensor.name() == name:
            return tensor
    return None


def get_output_tensor_by_name(inference_response: InferenceResponse, name: str) -> "Tensor | None":
    """A response's output; None when the response does not have it."""
    for tensor in inference_response.output_tensors():
        if tensor.name() == name:
            return tensor
    return None


def get_input_config_by_name(model_config: "dict[str, Any]", name: str) -> "dict[str, Any] | None":
    """What a config says of an input; None when it does not name it."""
    return _by_name(model_config, "input", name)


def get_output_config_by_name(model_config: "dict[str, Any]", name: str) -> "dict[str, Any] | None":
    """What a config says of an output; None when it does not name it."""
    return _by_name(model_config, "output", name)


def using_decoupled_model_transaction_policy(model_config: "dict[str, Any]") -> bool:
    """Whether a config says that the model is decoupled."""
    return bool(model_config.get("model_transaction_policy", {}).get("decoupled", False))


def get_model_dir() -> str:
    """The folder of the running model's version, where its model.py is.

    Raises:
        TritonModelException: called from a thread that the model started itself.
    """
    running = context.running()
    if running is None:
        raise TritonModelException(
            "get_model_dir() does not know in which model this thread runs: call it in initialize or execute and "
            "hand the result on"
        )
    return running.directory


def _by_name(model_config: "dict[str, Any]", side: str, name: str) -> "dict[str, Any] | None":
    for properties in model_config.get(side, ()):
        if properties["name"] == name:
            found: dict[str, Any] = properties
            return found
    return None

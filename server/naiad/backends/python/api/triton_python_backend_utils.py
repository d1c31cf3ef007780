"""The module that models import: `import triton_python_backend_utils as pb_utils`.

Its classes are in the files beside it; its functions are here (rows 15.24, 15.28). A host puts `UTILS` into `sys.modules`.

In Triton `c_python_backend_utils` is the module behind this one, from which some models take types: here it has the
same objects, and `shared_memory`, by which Triton tests its pool. There is no pool, so what is free of it never changes.
"""

import sys
import types
from typing import Any

from naiad.backends.python.api import context
from naiad.backends.python.api.datatypes import (
    TRITON_STRING_TO_NUMPY,
    deserialize_bytes_tensor,
    numpy_to_triton_type,
    serialize_byte_tensor,
    triton_string_to_numpy,
    triton_to_numpy_type,
)
from naiad.backends.python.api.errors import (
    TritonError,
    TritonModelException,
)
from naiad.backends.python.api.exchange import ResponseIterator
from naiad.backends.python.api.forked import here
from naiad.backends.python.api.logger import Logger
from naiad.backends.python.api.metrics import Metric, MetricFamily, MetricKind
from naiad.backends.python.api.model_config import ModelConfig
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
from naiad.backends.python.api.response import (
    TRITONSERVER_RESPONSE_COMPLETE_FINAL,
    InferenceResponse,
    InferenceResponseSender,
    require_text,
)
from naiad.backends.python.api.server import NO_SERVER
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
        if tensor._name == name:  # noqa: SLF001 - `name()` takes as long as all the rest
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


def load_model(model_name: str, config: str = "", files: "dict[str, bytes] | None" = None) -> None:
    """Load a model, or load it again; returns once it is ready.

    Args:
        model_name: the model.
        config: a config as JSON in place of its own.
        files: contents by `file:<path>` in place of its folder's.

    Raises:
        TritonModelException: the server does not run with --model-control-mode=explicit, or the model does not load.
        TypeError: an argument of another type.
    """
    model_name = _text("load_model", "model_name", model_name)
    config = _text("load_model", "config", config)
    if files is not None and not isinstance(files, dict):
        raise TritonModelException(
            f"failed to load model '{model_name}', files should be a dictionary of file paths and file contents"
        )
    try:
        server, caller = _server()
        server.load_model(model_name, config, files or {}, caller=caller)
    except TritonModelException as error:
        raise TritonModelException(f"Failed to load model: {error}") from None


def unload_model(model_name: str, unload_dependents: bool = False) -> None:  # noqa: FBT001, FBT002 - as models call it
    """Unload a model; its requests in flight are finished.

    Raises:
        TritonModelException: the server does not run with --model-control-mode=explicit.
        TypeError: an argument of another type.
    """
    model_name = _text("unload_model", "model_name", model_name)
    if not isinstance(unload_dependents, bool):
        raise TypeError(
            f"unload_model(unload_dependents=…) takes a bool, not {type(unload_dependents).__name__}"
        )
    try:
        server, caller = _server()
        server.unload_model(model_name, unload_dependents=unload_dependents, caller=caller)
    except TritonModelException as error:
        raise TritonModelException(f"Failed to unload model: {error}") from None


def is_model_ready(model_name: str, model_version: str = "") -> bool:
    """Whether a model is ready for requests.

    Args:
        model_name: the model; an unknown one is not ready.
        model_version: its version; "" for the newest.

    Raises:
        TritonModelException: the version is not a number.
        TypeError: an argument of another type.
    """
    model_name = _text("is_model_ready", "model_name", model_name)
    model_version = _text("is_model_ready", "model_version", model_version)
    version = -1
    if model_version:
        try:
            version = int(model_version)
        except ValueError:
            version = -1
        if version < 0:
            raise TritonModelException(
                "Failed to check model readiness: failed to get model version from specified version string "
                f"'{model_version}', version should be an integral value > 0"
            )
    try:
        return bool(_server()[0].model_ready(model_name, version))
    except TritonModelException as error:
        raise TritonModelException(f"Failed to check model readiness: {error}") from None


def _by_name(model_config: "dict[str, Any]", side: str, name: str) -> "dict[str, Any] | None":
    for properties in model_config.get(side, ()):
        if properties["name"] == name:
            named: dict[str, Any] = properties
            return named
    return None


def _text(function: str, what: str, value: Any) -> str:
    if isinstance(value, bytes):
        value = value.decode()
    if not isinstance(value, str):
        raise TypeError(f"{function}({what}=…) takes a str, not {type(value).__name__}")
    require_text(what, value)
    return value


def _server() -> "tuple[Any, context.Running | None]":
    running = context.running()
    return (NO_SERVER if running is None else here(running.server)), running


class SharedMemory:
    """A pool of no size."""

    __slots__ = ()

    def free_memory(self) -> int:
        """The number of unused bytes in it."""
        return 0


c_python_backend_utils = types.ModuleType("c_python_backend_utils")
vars(c_python_backend_utils).update(
    {name: globals()[name] for name in __all__},
    shared_memory=SharedMemory(),
)

UTILS: "dict[str, types.ModuleType]" = {
    "triton_python_backend_utils": sys.modules[__name__],
    "c_python_backend_utils": c_python_backend_utils,
}
"""What a host puts into `sys.modules`."""

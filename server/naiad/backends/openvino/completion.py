"""Completion of a config from its model file: inputs and outputs. A model does not say whether its first dimension is the batch: max_batch_size stays."""

import collections.abc
import pathlib
from typing import Any

from naiad.backends.model_files.signature import GraphTensor
from naiad.backends.model_files.wire_format import ModelFileError
from naiad.backends.openvino.described import read_signature
from naiad.backends.openvino.plugin import PLUGIN
from naiad.config.backend_type import CompletionError
from naiad.core.messages import model_config_pb2
from naiad.errors import ErrorCode


def complete(
    message: Any,
    version_dir: pathlib.Path,
    options: collections.abc.Mapping[str, str],
) -> None:
    """Fill in the inputs, if the config lists none, and so the outputs.

    Raises:
        CompletionError: the file cannot be read, or has a tensor that cannot be served.
    """
    if message.input and message.output:
        return
    path = PLUGIN.model_file(version_dir, message.default_model_filename)
    try:
        signature = read_signature(message, path)
    except ModelFileError as error:
        raise CompletionError(
            f"unable to load model '{message.name}': {error}", code=ErrorCode.UNAVAILABLE
        ) from error
    if signature is None:
        return
    missing = [
        (side, tensor)
        for side, tensors in (("input", signature.inputs), ("output", signature.outputs))
        if not getattr(message, side)
        for tensor in tensors
    ]
    for side, tensor in missing:
        _add(message, side, tensor)
    if message.max_batch_size > 1 and message.WhichOneof("scheduling_choice") is None:
        message.dynamic_batching.SetInParent()


def _add(message: Any, side: str, tensor: GraphTensor) -> None:
    if tensor.datatype is None or tensor.shape is None:
        raise CompletionError(
            f"unsupported datatype {tensor.type_name} for {side} '{tensor.name}' for model '{message.name}'",
            suggestion=f"list the {side}s in config.pbtxt, or convert the model with another datatype",
            code=ErrorCode.INTERNAL,
        )
    dims = tensor.shape[1:] if message.max_batch_size > 0 else tensor.shape
    spec = getattr(message, side).add(
        name=tensor.name,
        data_type=model_config_pb2.DataType.Value(tensor.datatype.config_name),
        dims=dims or [1],
    )
    if (
        not dims and message.max_batch_size > 0
    ):  # without batches one value is a scalar of the model
        spec.reshape.SetInParent()

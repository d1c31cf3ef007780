"""Completion of a config from its model file: inputs, outputs, and max_batch_size of a config that lists none. Triton's fil backend completes nothing."""

import collections.abc
import pathlib
from typing import Any

from naiad.backends.fil import described
from naiad.backends.fil.forest import signature
from naiad.backends.fil.plugin import PLUGIN
from naiad.backends.fil.settings import settings_of
from naiad.backends.model_files.wire_format import ModelFileError
from naiad.config.backend_type import CompletionError
from naiad.core.messages import model_config_pb2
from naiad.errors import ErrorCode

MAX_BATCH_SIZE = 32768
"""Of a config that lists neither tensors nor a size: that of the examples in FIL's documentation. Rows take little memory, and trees any number of them."""


def complete(
    message: Any,
    version_dir: pathlib.Path,
    options: collections.abc.Mapping[str, str],
) -> None:
    """Fill in the input, if the config lists none, and so the output.

    Raises:
        CompletionError: the file cannot be read.
        InferenceError: INVALID_ARG: a parameter is not valid.
    """
    if message.input and message.output:
        return
    path = PLUGIN.model_file(version_dir, message.default_model_filename)
    parameters = {key: value.string_value for key, value in message.parameters.items()}
    settings = settings_of(message.name, parameters, path.name)
    try:
        forest = described.read(path, settings.model_type)
    except ModelFileError as error:
        raise CompletionError(
            f"unable to load model '{message.name}': {error}", code=ErrorCode.UNAVAILABLE
        ) from error
    if forest is None:
        return
    if not (message.max_batch_size or message.input or message.output):
        message.max_batch_size = MAX_BATCH_SIZE
        if message.WhichOneof("scheduling_choice") is None:
            message.dynamic_batching.SetInParent()
    tensors = signature(message, forest, settings)
    for side, found in (("input", tensors.inputs), ("output", tensors.outputs)):
        if getattr(message, side):
            continue
        for tensor in found:
            shape = tensor.shape or ()
            getattr(message, side).add(
                name=tensor.name,
                data_type=model_config_pb2.TYPE_FP32,
                dims=shape[1:] if message.max_batch_size > 0 else shape,
            )

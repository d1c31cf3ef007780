"""Completion of a config from its ONNX file: inputs, outputs, batching (rows 11.49-11.51).

Reads the file's outside only (`onnx_graph`), so that `naiad check` completes a config as the server would, without a framework.
"""

import collections.abc
import pathlib
from typing import Any

from naiad.backends.model_files.batch_size import default_max_batch_size
from naiad.backends.model_files.signature import (
    GraphTensor,
    Signature,
    export_help,
    fixed_first,
    unsupported_kind,
)
from naiad.backends.onnxruntime.onnx_graph import OnnxFileError, read
from naiad.backends.onnxruntime.plugin import PLUGIN
from naiad.config.backend_type import CompletionError
from naiad.config.sequence_tensors import added_inputs, added_outputs
from naiad.core.messages import model_config_pb2
from naiad.errors import ErrorCode

_LARGE = 1 << 30


def complete(
    message: Any, version_dir: pathlib.Path, options: collections.abc.Mapping[str, str]
) -> None:
    """Fill in what the ONNX file of a version knows, unless the config already lists inputs and outputs.

    Raises:
        CompletionError: the file cannot be read, or contradicts max_batch_size.
    """
    if message.input and message.output:
        return
    try:
        graph = read(PLUGIN.model_file(version_dir, message.default_model_filename))
    except OnnxFileError as error:
        raise CompletionError(
            f"unable to load model '{message.name}': {error}", code=ErrorCode.UNAVAILABLE
        ) from error
    complete_from(message, graph, options)


def complete_from(
    message: Any, graph: Signature, options: collections.abc.Mapping[str, str]
) -> None:
    """Complete a config by what is known of its model. What the sequence batcher adds is neither an input nor an output of clients.

    Raises:
        CompletionError: it contradicts max_batch_size.
    """
    added = {tensor.spec.name for tensor in (*added_inputs(message), *added_outputs(message))}
    added.update(name for each in message.batch_input for name in each.target_name)
    missing = [
        (side, tensor)
        for side, tensors in (("input", graph.inputs), ("output", graph.outputs))
        if not getattr(message, side)
        for tensor in tensors
        if tensor.name not in added
    ]
    for side, tensor in missing:
        _require_servable(message, side, tensor)
    _complete_batching(message, graph, options)
    for side, tensor in missing:
        _add(message, side, tensor)


def leaves_batching_open(message: Any, version_dir: pathlib.Path) -> bool:
    """Whether only a session knows if the model of a config that has to be completed takes batches.

    It is so when a file names the first dimension of an output otherwise than that of its inputs: it may be another number of batch rows, or one that
    onnxruntime works out, such as the boxes that a detector gives. A session takes as long as the load, so models of a GiB and more are taken as the file
    says.
    """
    if message.input and message.output:
        return False
    path = PLUGIN.model_file(version_dir, message.default_model_filename)
    try:
        graph = read(path)
        if fixed_first(graph) or not _has_output_of_its_own(graph):
            return False
        files = (path, *(path.parent / name for name in graph.external_files))
        return sum(file.stat().st_size for file in files) < _LARGE
    except (OnnxFileError, OSError):
        return False  # which completing or loading it says better


def _has_output_of_its_own(graph: Signature) -> bool:
    """Whether the first dimension of an output has no name, or one that no input begins with."""
    batch = {tensor.symbols[0] for tensor in graph.inputs if tensor.symbols} - {""}
    return any(not tensor.symbols or tensor.symbols[0] not in batch for tensor in graph.outputs)


def _complete_batching(
    message: Any, graph: Signature, options: collections.abc.Mapping[str, str]
) -> None:
    fixed = fixed_first(graph)
    if fixed:
        if message.max_batch_size != 0:
            shapes = ", ".join(f"'{tensor.name}' {tensor.shape_text}" for tensor in fixed)
            raise CompletionError(
                f"autofill failed for model '{message.name}': model does not support batching while "
                f"non-zero max_batch_size is specified; the graph fixes the first dimension of {shapes}",
                field=("max_batch_size",),
                suggestion="write max_batch_size: 0, or export the model with a free first dimension",
            )
        return
    if message.max_batch_size == 0:
        message.max_batch_size = default_max_batch_size(options)
    if message.max_batch_size > 1 and message.WhichOneof("scheduling_choice") is None:
        message.dynamic_batching.SetInParent()


def _require_servable(message: Any, side: str, tensor: GraphTensor) -> None:
    if tensor.kind != "tensor":
        raise CompletionError(
            f"unable to load model '{message.name}': {unsupported_kind(tensor)}",
            suggestion=f"list the {side}s to serve in config.pbtxt, or export the model without '{tensor.name}'"
            + export_help(tensor),
        )
    if tensor.datatype is None:
        raise CompletionError(
            f"unable to load model '{message.name}': {side} '{tensor.name}' is {tensor.type_name}, "
            "which has no datatype in the protocol",
            suggestion="export the model with another element type",
        )
    if tensor.shape is None:
        raise CompletionError(
            f"unable to load model '{message.name}': the graph does not say how many dimensions "
            f"{side} '{tensor.name}' has",
            suggestion=f"list the {side}s with their dims in config.pbtxt",
        )


def _add(message: Any, side: str, tensor: GraphTensor) -> None:
    """Add the input or output that the graph has, without its batch dimension."""
    assert tensor.datatype is not None
    assert tensor.shape is not None
    batching = message.max_batch_size > 0
    spec = getattr(message, side).add(
        name=tensor.name,
        data_type=model_config_pb2.DataType.Value(tensor.datatype.config_name),
        dims=tensor.shape[1:] if batching else tensor.shape,
    )
    if not spec.dims:
        spec.dims.append(1)
        if batching:
            spec.reshape.SetInParent()

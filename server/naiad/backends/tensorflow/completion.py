"""Completion of a config from its SavedModel: inputs, outputs, batching, as Triton's tensorflow backend does it. Pure but for reading the file.

A GraphDef says neither datatypes nor shapes, so that its config lists everything.
"""

import collections.abc
import pathlib
from typing import Any

from naiad.backends.model_files.batch_size import default_max_batch_size
from naiad.backends.model_files.signature import GraphTensor, Signature, fixed_first
from naiad.backends.model_files.wire_format import ModelFileError
from naiad.backends.tensorflow.plugin import PLUGIN, SAVED_MODEL
from naiad.backends.tensorflow.saved_model import read_signature
from naiad.config.backend_type import CompletionError
from naiad.config.sequence_tensors import added_inputs, added_outputs
from naiad.core.messages import model_config_pb2
from naiad.errors import ErrorCode


def complete(
    message: Any, version_dir: pathlib.Path, options: collections.abc.Mapping[str, str]
) -> None:
    """Fill in what the SavedModel of a version knows.

    Raises:
        CompletionError: the file cannot be read, or contradicts the config.
    """
    if message.platform != SAVED_MODEL:
        return
    path = PLUGIN.model_file(version_dir, message.default_model_filename)
    parameters = message.parameters
    try:
        signature = read_signature(
            path,
            tag=parameters["TF_GRAPH_TAG"].string_value if "TF_GRAPH_TAG" in parameters else "",
            signature=parameters["TF_SIGNATURE_DEF"].string_value
            if "TF_SIGNATURE_DEF" in parameters
            else "",
        )
    except ModelFileError as error:
        raise CompletionError(
            f"unable to load model '{message.name}', {error}", code=ErrorCode.INTERNAL
        ) from error
    complete_from(message, signature, options)


def complete_from(
    message: Any, signature: Signature, options: collections.abc.Mapping[str, str]
) -> None:
    """Complete a config by a signature.

    Raises:
        CompletionError: it contradicts max_batch_size, or a tensor that has to be added cannot be served.
    """
    batches = _complete_batching(message, signature, options)
    added = {tensor.spec.name for tensor in (*added_inputs(message), *added_outputs(message))}
    added.update(name for batch in message.batch_input for name in batch.target_name)
    for side, tensors in (("input", signature.inputs), ("output", signature.outputs)):
        listed = {spec.name: spec for spec in getattr(message, side)}
        every = side == "input" or not listed
        for tensor in tensors:
            spec = listed.get(tensor.name)
            if spec is not None:
                _fill(message, spec, tensor, batches=batches)
            elif every and tensor.name not in added:
                _require_servable(message, side, tensor)
                spec = getattr(message, side).add(name=tensor.name)
                _fill(message, spec, tensor, batches=batches)


def _complete_batching(
    message: Any, signature: Signature, options: collections.abc.Mapping[str, str]
) -> bool:
    """Complete max_batch_size; whether the first dimension of the model's tensors is the batch."""
    fixed = fixed_first(signature)
    unclear = [each for each in (*signature.inputs, *signature.outputs) if each.shape is None]
    if fixed or unclear:
        if fixed and message.max_batch_size > 0:
            raise CompletionError(
                f"unable to autofill for '{message.name}', configuration specified max-batch {message.max_batch_size} but model signature "
                f"does not support batching: the first dimension of '{fixed[0].name}' {fixed[0].shape_text} is fixed",
                field=("max_batch_size",),
                suggestion="write max_batch_size: 0",
                code=ErrorCode.INTERNAL,
            )
        return bool(message.max_batch_size > 0)
    if message.max_batch_size == 0 and _listed_without_batch(message, signature):
        message.max_batch_size = default_max_batch_size(options)
    if message.max_batch_size > 1 and message.WhichOneof("scheduling_choice") is None:
        message.dynamic_batching.SetInParent()
    return bool(message.max_batch_size > 0)


def _listed_without_batch(message: Any, signature: Signature) -> bool:
    """Whether the dims that a config lists leave out the first dimension of the model; also if it lists none.

    Raises:
        CompletionError: some do and some do not.
    """
    ranks = {
        (side, tensor.name): len(tensor.shape or ())
        for side, tensors in (("input", signature.inputs), ("output", signature.outputs))
        for tensor in tensors
    }
    hints: set[bool] = set()
    for side in ("input", "output"):
        for spec in getattr(message, side):
            if spec.HasField("reshape") if hasattr(spec, "reshape") else False:
                dims = list(spec.reshape.shape)
            else:
                dims = list(spec.dims)
                if not dims:
                    continue
            rank = ranks.get((side, spec.name))
            if rank is not None:
                hints.add(len(dims) == rank - 1)
    if len(hints) > 1:
        raise CompletionError(
            f"unable to autofill for '{message.name}', model tensor configurations are contradicting each other in terms of whether batching "
            "is supported",
            suggestion="leave the first dimension out of the dims of all tensors, or of none",
            code=ErrorCode.INTERNAL,
        )
    return hints != {False}


def _require_servable(message: Any, side: str, tensor: GraphTensor) -> None:
    if tensor.kind != "tensor" or tensor.datatype is None:
        raise CompletionError(
            f"unable to process {side} '{tensor.name}' for '{message.name}', unsupported datatype '{tensor.type_name}'",
            suggestion="export a signature without it, and name it in the parameter TF_SIGNATURE_DEF",
            code=ErrorCode.INTERNAL,
        )
    if tensor.shape is None:
        raise CompletionError(
            f"Unable to autofill for '{message.name}': the rank of model tensor '{tensor.name}' is 0 and dimensions are not defined",
            suggestion=f"list {side} '{tensor.name}' with its dims in config.pbtxt",
        )


def _fill(message: Any, spec: Any, tensor: GraphTensor, *, batches: bool) -> None:
    """Fill in the datatype and the dims of a tensor that the config leaves out."""
    if spec.data_type == model_config_pb2.TYPE_INVALID and tensor.datatype is not None:
        spec.data_type = model_config_pb2.DataType.Value(tensor.datatype.config_name)
    if spec.dims or tensor.shape is None:
        return
    dims = tensor.shape[1:] if batches else tensor.shape
    if dims:
        spec.dims.extend(dims)
    else:
        spec.dims.append(1)
        spec.reshape.SetInParent()

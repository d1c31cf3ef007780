"""The inputs and outputs of every model of the backend `vllm`: those of Triton's backend of that name, filled in where a config lacks them.

Names, datatypes and dims are those of triton-inference-server/vllm_backend, src/model.py (`_auto_complete_inputs_and_outputs`); its input
`embedding_request`, which is reserved for a front end, is left out.
"""

import collections.abc
import pathlib
import typing
from typing import Any

from naiad.core.messages import model_config_pb2


class _Tensor(typing.NamedTuple):
    name: str
    datatype: str
    dim: int
    optional: bool = True


INPUTS = (
    _Tensor("text_input", "TYPE_STRING", 1, optional=False),
    _Tensor("image", "TYPE_STRING", -1),
    _Tensor("stream", "TYPE_BOOL", 1),
    _Tensor("sampling_parameters", "TYPE_STRING", 1),
    _Tensor("exclude_input_in_output", "TYPE_BOOL", 1),
    _Tensor("return_finish_reason", "TYPE_BOOL", 1),
    _Tensor("return_cumulative_logprob", "TYPE_BOOL", 1),
    _Tensor("return_logprobs", "TYPE_BOOL", 1),
    _Tensor("return_num_input_tokens", "TYPE_BOOL", 1),
    _Tensor("return_num_output_tokens", "TYPE_BOOL", 1),
)

OUTPUTS = (
    _Tensor("text_output", "TYPE_STRING", -1),
    _Tensor("finish_reason", "TYPE_STRING", -1),
    _Tensor("cumulative_logprob", "TYPE_FP32", -1),
    _Tensor("logprobs", "TYPE_STRING", -1),
    _Tensor("num_input_tokens", "TYPE_UINT32", 1),
    _Tensor("num_output_tokens", "TYPE_UINT32", -1),
)


def complete(
    message: Any,
    version_dir: pathlib.Path,
    options: collections.abc.Mapping[str, str],
) -> None:
    """Add the inputs and outputs that the config does not list, and make the model decoupled. What it lists stays as it is."""
    for side, tensors in (("input", INPUTS), ("output", OUTPUTS)):
        listed = {each.name for each in getattr(message, side)}
        for tensor in tensors:
            if tensor.name not in listed:
                added = getattr(message, side).add(
                    name=tensor.name,
                    data_type=model_config_pb2.DataType.Value(tensor.datatype),
                    dims=[tensor.dim],
                )
                if side == "input" and tensor.optional:
                    added.optional = True
    message.model_transaction_policy.decoupled = True

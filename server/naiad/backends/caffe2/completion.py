"""Completion of a config from its nets: the outputs, once the config lists the inputs. A NetDef says neither datatypes nor dims, and nothing of batches."""

import collections.abc
import pathlib
from typing import Any

from naiad.backends.caffe2.described import input_types, signature
from naiad.backends.caffe2.net import NetDefError
from naiad.backends.caffe2.plugin import PLUGIN
from naiad.backends.caffe2.translation import Nets, read_nets, translate
from naiad.config.backend_type import CompletionError
from naiad.core.messages import model_config_pb2
from naiad.errors import ErrorCode


def complete(
    message: Any,
    version_dir: pathlib.Path,
    options: collections.abc.Mapping[str, str],
) -> None:
    """Fill in the outputs, if the config lists none.

    Raises:
        CompletionError: the files cannot be read or translated, or the config has no inputs.
    """
    if message.input and message.output:
        return
    path = PLUGIN.model_file(version_dir, message.default_model_filename)
    try:
        nets = read_nets(path)
        if missing := missing_inputs(message, nets):
            raise CompletionError(
                f"unable to load model '{message.name}': the config has to list the inputs",
                field=("input",),
                suggestion=missing,
            )
        types, refused = input_types(message)
        if refused:
            return  # which comparing the config with the model says
        found = signature(nets, types, translate(nets, types))
    except NetDefError as error:
        raise CompletionError(
            f"unable to load model '{message.name}': {error}", code=ErrorCode.UNAVAILABLE
        ) from error
    for tensor in () if message.output else found.outputs:
        if tensor.shape is None or tensor.datatype is None:
            raise CompletionError(
                f"unable to load model '{message.name}': the net does not say how many dimensions output '{tensor.name}' has",
                suggestion="list the outputs with their dims in config.pbtxt",
            )
        dims = tensor.shape[1:] if message.max_batch_size > 0 else tensor.shape
        spec = message.output.add(
            name=tensor.name,
            data_type=model_config_pb2.DataType.Value(tensor.datatype.config_name),
            dims=dims or [1],
        )
        if not dims and message.max_batch_size > 0:
            spec.reshape.SetInParent()


def missing_inputs(message: Any, nets: Nets) -> str:
    """How to list the inputs that the model needs and the config has not; "" where none is missing."""
    types, refused = input_types(message)
    listed = {*types, *(spec.name for spec in message.input)}
    missing = [name for name in nets.inputs if name not in listed]
    if not message.input and not missing:
        missing = [name for name in nets.placeholders if name not in listed]
    if not missing or refused:
        return ""
    blocks = ", ".join(f'input {{ name: "{name}" data_type: … dims: [ … ] }}' for name in missing)
    return f"add {blocks} with the datatype and the dims that the net was made for, which its files do not say"

"""What a config says of a net's inputs, which its files do not, and what follows from it for the outputs. Pure."""

import collections.abc
from typing import Any

import msgspec

from naiad.backends.caffe2.graph import Value
from naiad.backends.caffe2.onnx_file import ELEMENTS
from naiad.backends.caffe2.translation import InputType, Nets, Translation
from naiad.backends.model_files.signature import GraphTensor, Signature
from naiad.config.document import FieldPath
from naiad.config.sequence_tensors import added_inputs
from naiad.core import datatypes
from naiad.core.datatypes import DataType
from naiad.core.messages import model_config_pb2

_RANKS = {"BATCH_ITEM_SHAPE": 2}
"""The dimensions of a batch input, where it is not one."""


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """An input of a config that no net can have, at its field."""

    field: FieldPath
    text: str


def input_types(message: Any) -> tuple[dict[str, InputType], list[Refused]]:
    """The inputs of a completed config as the model has them, those of the sequence batcher and the batch inputs included, and those that it cannot have."""
    types: dict[str, InputType] = {}
    refused: list[Refused] = []
    batch = (-1,) if message.max_batch_size > 0 else ()

    def add(field: FieldPath, spec: Any, dims: collections.abc.Iterable[int]) -> None:
        if not spec.name or spec.data_type == model_config_pb2.TYPE_INVALID:
            return  # a problem already
        datatype = _datatype(spec.data_type)
        if datatype.dtype.name not in ELEMENTS:
            text = f"unsupported datatype {datatype.config_name} for input '{spec.name}' for model '{message.name}'"
            refused.append(Refused(field=(*field, "data_type"), text=text))
            return
        types[spec.name] = InputType(dtype=datatype.dtype, dims=tuple(dims))

    for index, spec in enumerate(message.input):
        dims = spec.reshape.shape if spec.HasField("reshape") else spec.dims
        add(("input", index), spec, [-1] if spec.allow_ragged_batch else [*batch, *dims])
    for tensor in added_inputs(message):
        add(tensor.path[:-1], tensor.spec, [*batch, *tensor.spec.dims])
    for index, each in enumerate(message.batch_input):
        rank = _RANKS.get(each.Kind.Name(each.kind), 1)
        for name in each.target_name:
            spec = model_config_pb2.ModelInput(name=name, data_type=each.data_type)
            add(("batch_input", index), spec, [-1] * rank)
    return types, refused


def signature(
    nets: Nets,
    types: collections.abc.Mapping[str, InputType],
    translation: Translation,
) -> Signature:
    """The tensors of a model, for the comparison with its config: names by the nets, inputs by the config, outputs by the translation."""

    def given(name: str) -> GraphTensor:
        known = types.get(name)
        value = None if known is None else Value(name=name, dtype=known.dtype, dims=known.dims)
        return _tensor(name, value)

    # An input that the config lists takes the place of what the init net makes, and so has to be given.
    replaced = [name for name in nets.read if name in nets.initialised and name in types]
    unused = [name for name in nets.placeholders if name not in types]
    return Signature(
        inputs=tuple(map(given, dict.fromkeys((*nets.inputs, *replaced)))),
        overridable=tuple(map(given, unused)),
        outputs=tuple(_tensor(name, value) for name, value in translation.outputs.items()),
    )


def _tensor(name: str, value: Value | None) -> GraphTensor:
    datatype = datatypes.FP32
    if value is not None:
        datatype = next(each for each in _NUMBERS if each.dtype == value.dtype)
    dims = None if value is None else value.dims
    return GraphTensor(
        name=name,
        kind="tensor",
        datatype=datatype,
        type_name=datatype.config_name,
        shape=dims,
        symbols=("",) * len(dims or ()),
    )


_NUMBERS = tuple(each for each in datatypes.BY_CONFIG_NAME.values() if each.dtype.name in ELEMENTS)


def _datatype(number: int) -> DataType:
    return datatypes.BY_CONFIG_NAME[model_config_pb2.DataType.Name(number)]

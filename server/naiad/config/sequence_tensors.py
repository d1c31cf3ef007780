"""The tensors of a model as its backend has them: those of the config, and those that the sequence batcher adds (rows 11.27, 11.28, 13.9, 13.19).

A client neither sends nor sees what the batcher adds: control inputs, and the inputs and outputs that hold the implicit state of a sequence. A state's
output may also be an output of the config; then clients get it as well. Pure.
"""

import collections.abc
from typing import Any

import msgspec

from naiad.config.document import FieldPath
from naiad.config.model_config import ModelConfig, TensorSpec
from naiad.core.messages import model_config_pb2

CONTROL = "sequence control"
STATE = "state"

_INVALID = model_config_pb2.TYPE_INVALID
_Control = model_config_pb2.ModelSequenceBatching.Control


class AddedTensor(msgspec.Struct, frozen=True, kw_only=True):
    """A tensor that the sequence batcher adds.

    Attributes:
        path: the field of the config that names it.
        what: `CONTROL` or `STATE`.
        spec: its name, data_type and dims as an inference.ModelInput has them, which an output's are as well.
    """

    path: FieldPath
    what: str
    spec: Any


def added_inputs(message: Any) -> list[AddedTensor]:
    """The control inputs of a config, one per tensor, and the inputs of its states. A name or a datatype that the config leaves out is left out here too."""
    batching = message.sequence_batching
    added: list[AddedTensor] = []
    for index, control_input in enumerate(batching.control_input):
        path: FieldPath = ("sequence_batching", "control_input", index, "name")
        first = next(iter(control_input.control), None)
        datatype = _INVALID if first is None else control_datatype(first)
        spec = model_config_pb2.ModelInput(name=control_input.name, data_type=datatype, dims=[1])
        added.append(AddedTensor(path=path, what=CONTROL, spec=spec))
    for index, state in enumerate(batching.state):
        path = ("sequence_batching", "state", index, "input_name")
        spec = model_config_pb2.ModelInput(
            name=state.input_name, data_type=state.data_type, dims=state.dims
        )
        added.append(AddedTensor(path=path, what=STATE, spec=spec))
    return added


def added_outputs(message: Any) -> list[AddedTensor]:
    """The outputs of the states of a config, those that are outputs of the config as well included."""
    return [
        AddedTensor(
            path=("sequence_batching", "state", index, "output_name"),
            what=STATE,
            spec=model_config_pb2.ModelInput(
                name=state.output_name, data_type=state.data_type, dims=state.dims
            ),
        )
        for index, state in enumerate(message.sequence_batching.state)
    ]


def control_datatype(control: Any) -> int:
    """The datatype of a control: that of its values for true and false, or, for a correlation ID, as written."""
    datatype = _INVALID
    if control.kind == _Control.CONTROL_SEQUENCE_CORRID:
        datatype = control.data_type
    elif control.int32_false_true:
        datatype = model_config_pb2.TYPE_INT32
    elif control.fp32_false_true:
        datatype = model_config_pb2.TYPE_FP32
    elif control.bool_false_true:
        datatype = model_config_pb2.TYPE_BOOL
    return int(datatype)


def model_inputs(config: ModelConfig) -> tuple[TensorSpec, ...]:
    """The inputs that a model is given: those of the config, then controls and states."""
    if config.sequence_batching is None:
        return config.inputs
    controls = (
        TensorSpec(name=control.name, datatype=control.datatype, dims=(1,))
        for control in config.sequence_batching.controls
    )
    states = (
        TensorSpec(name=state.input_name, datatype=state.datatype, dims=state.dims)
        for state in config.states
    )
    return _joined(config.inputs, (*controls, *states))


def model_outputs(config: ModelConfig) -> tuple[TensorSpec, ...]:
    """The outputs that a model has to give: those of the config, then the states that are not among them."""
    states = (
        TensorSpec(name=state.output_name, datatype=state.datatype, dims=state.dims)
        for state in config.states
    )
    return _joined(config.outputs, states)


def _joined(
    listed: tuple[TensorSpec, ...], added: collections.abc.Iterable[TensorSpec]
) -> tuple[TensorSpec, ...]:
    """The tensors of the config, and those that are not among them; each name once."""
    by_name: dict[str, TensorSpec] = {}
    names = {spec.name for spec in listed}
    for spec in added:
        if spec.name not in names:
            by_name.setdefault(spec.name, spec)
    return (*listed, *by_name.values())

"""The implicit states of a model's sequences as the scheduler reads them (row 11.28), and their conversion from a normalised message. Pure."""

import collections.abc
from typing import Any

import msgspec

from naiad.core import datatypes
from naiad.core.datatypes import DataType
from naiad.core.messages import model_config_pb2


class SequenceState(msgspec.Struct, frozen=True, kw_only=True):
    """A state that the server keeps for each sequence: the model's output after one request is its input with the next.

    Attributes:
        input_name: the input that the model is given.
        output_name: the output that the model gives.
        dims: without the batch dimension; -1 is any size.
        is_output: clients get it as well, because the config lists it among the outputs.
        initial_dims: those of the state of a new sequence: free ones are 1 unless `initial_state` says otherwise (row 13.20).
        initial: its bytes, as the file has them; None for zeros, or empty strings.
    """

    input_name: str
    output_name: str
    datatype: DataType
    dims: tuple[int, ...]
    is_output: bool
    initial_dims: tuple[int, ...]
    initial: bytes | None = None


def sequence_states(
    message: Any, files: collections.abc.Mapping[str, bytes]
) -> tuple[SequenceState, ...]:
    """The states of a message, in its order.

    Args:
        message: normalised and without problems.
        files: the content of the initial states that are in files, by the name of the input.
    """
    outputs = {spec.name for spec in message.output}
    return tuple(
        SequenceState(
            input_name=state.input_name,
            output_name=state.output_name,
            datatype=datatypes.BY_CONFIG_NAME[model_config_pb2.DataType.Name(state.data_type)],
            dims=tuple(state.dims),
            is_output=state.output_name in outputs,
            initial_dims=_initial_dims(state),
            initial=files.get(state.input_name),
        )
        for state in message.sequence_batching.state
    )


def _initial_dims(state: Any) -> tuple[int, ...]:
    for initial in state.initial_state:
        return tuple(initial.dims)
    return tuple(max(1, size) for size in state.dims)

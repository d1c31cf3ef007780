"""The implicit state of sequences: what a model is given with a request, and what it gives for the next one (rows 13.19 to 13.22).

The states of a sequence are a tuple of tensors, which is never changed: `advance` returns the next one. So a request that fails leaves them as
they were, and a sequence that begins again has the initial ones. Responses are often views of a whole batch, which would stay in
memory as long as a sequence waits for its next request: states are copied out of them. Pure.
"""

import msgspec
import numpy as np

from naiad.config.model_config import ModelConfig
from naiad.config.sequence_states import SequenceState
from naiad.core import datatypes
from naiad.core.request import InferRequest, RequestedOutput
from naiad.core.response import InferResponse
from naiad.core.tensor import PackedStrings, Tensor, object_array, packed_strings, unpack
from naiad.errors import FailureReason, InferenceError, internal

States = tuple[Tensor, ...]
"""The states of one sequence as inputs of its next request, in the order of the config."""


class ImplicitState:
    """The states of one model, by its config.

    Attributes:
        initial: those of a new sequence.
    """

    def __init__(self, config: ModelConfig) -> None:
        self._model = config.name
        self._states = config.states
        self._batch = (1,) if config.max_batch_size > 0 else ()
        self._by_output = {state.output_name: i for i, state in enumerate(config.states)}
        self._requested = [RequestedOutput(name) for name in self._by_output]
        self.initial: States = tuple(map(self._initial, config.states))

    def with_states(self, request: InferRequest, states: States) -> InferRequest:
        """The request that the model is given: with the states of its sequence, and asking for the next ones."""
        outputs = request.requested_outputs
        if outputs:
            names = set(request.output_names)
            outputs = [*outputs, *(each for each in self._requested if each.name not in names)]
        return msgspec.structs.replace(
            request, inputs=[*request.inputs, *states], requested_outputs=outputs
        )

    def advance(
        self, request: InferRequest, states: States, response: InferResponse
    ) -> tuple[States, InferResponse]:
        """The states after a response of the model, and what the client gets of it.

        Args:
            request: the client's.
            states: those with which the model was called, or that its last response left.
            response: whatever it does not give stays as it is; a failed one changes nothing.

        Returns:
            The next states; and the response without those that the client did not ask for. If a state is not what the config says, the response is an error
            and the states stay.
        """
        outputs = response.outputs
        if response.error is not None or not outputs:
            return states, response
        wanted = request.requested_outputs and set(request.output_names)
        following = list(states)
        shown: list[Tensor] = []
        for tensor in outputs:
            index = self._by_output.get(tensor.name)
            if index is None:
                shown.append(tensor)
                continue
            state = self._states[index]
            try:
                following[index] = self._next(state, tensor)
            except InferenceError as error:
                return states, msgspec.structs.replace(response, outputs=[], error=error)
            if state.is_output and (not wanted or tensor.name in wanted):
                shown.append(tensor)
        if len(shown) != len(outputs):
            response = msgspec.structs.replace(response, outputs=shown)
        return tuple(following), response

    def _next(self, state: SequenceState, tensor: Tensor) -> Tensor:
        """An output of the model as its next input, in memory of its own.

        Raises:
            InferenceError: INTERNAL: it cannot be that.
        """
        shape = tensor.shape
        expected = self._batch + state.dims
        if tensor.datatype is not state.datatype or not _fits(shape, expected):
            batch = " after a batch dimension of 1" if self._batch else ""
            error = internal(
                f"unexpected state '{state.output_name}' of model '{self._model}': it gave {tensor.datatype.name} {list(shape)}, its config "
                f"says {state.datatype.name} {list(state.dims)}{batch}"
            )
            error.reason = FailureReason.BACKEND
            raise error
        if isinstance(tensor, PackedStrings):
            return packed_strings(state.input_name, shape, _own(tensor.packed))
        return Tensor(state.input_name, state.datatype, shape, _own(tensor.array))

    def _initial(self, state: SequenceState) -> Tensor:
        shape = self._batch + state.initial_dims
        if state.initial is None:
            return _zeros(state.input_name, state.datatype, shape)
        if state.datatype is datatypes.BYTES:
            array = unpack(np.frombuffer(state.initial, np.uint8)).reshape(shape)
        else:
            array = np.frombuffer(state.initial, state.datatype.dtype).reshape(shape)
        return Tensor(state.input_name, state.datatype, shape, _own(array))


def _fits(shape: tuple[int, ...], expected: tuple[int, ...]) -> bool:
    return len(shape) == len(expected) and all(
        dim in (-1, size) for size, dim in zip(shape, expected, strict=True)
    )


def _zeros(name: str, datatype: datatypes.DataType, shape: tuple[int, ...]) -> Tensor:
    if datatype is datatypes.BYTES:
        size = int(np.prod(shape))
        return Tensor(name, datatype, shape, _own(object_array([b""] * size).reshape(shape)))
    return Tensor(name, datatype, shape, _own(np.zeros(shape, datatype.dtype)))


def _own(
    array: "np.ndarray[tuple[int, ...], np.dtype[np.generic]]",
) -> "np.ndarray[tuple[int, ...], np.dtype[np.generic]]":
    """The array itself if it is all of its memory, else a copy; read-only, since a model that wrote to its input would change the state."""
    own = array if array.base is None else array.copy()
    own.flags.writeable = False
    return own

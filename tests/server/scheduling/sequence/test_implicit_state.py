"""Implicit state as numbers: what a model is given, what it leaves, what a client sees (rows 13.19-13.22)."""

import struct
from typing import Any

import numpy as np
import pytest
from google.protobuf import text_format

from naiad.config.model_config import ModelConfig
from naiad.config.typed import typed
from naiad.core import datatypes
from naiad.core.datatypes import DataType
from naiad.core.messages import model_config_pb2
from naiad.core.request import InferRequest, RequestedOutput
from naiad.core.response import InferResponse, failure
from naiad.core.tensor import PackedStrings, Tensor, object_array, pack, packed_strings
from naiad.errors import ErrorCode, internal
from naiad.scheduling.sequence.implicit_state import ImplicitState, States
from tests.support.inferences import make_request, make_tensor

SUM = 'state { input_name: "S_IN" output_name: "S_OUT" data_type: TYPE_FP32 dims: 2 }'
WORDS = 'state { input_name: "W_IN" output_name: "W_OUT" data_type: TYPE_STRING dims: 1 }'
SHOWN = 'state { input_name: "T_IN" output_name: "OUT" data_type: TYPE_FP32 dims: 1 }'


def config(*states: str, batch: int = 8, files: dict[str, bytes] | None = None) -> ModelConfig:
    text = (
        f'name: "m" max_batch_size: {batch} '
        'input { name: "IN" data_type: TYPE_FP32 dims: 1 } '
        'output { name: "OUT" data_type: TYPE_FP32 dims: 1 } '
        f"sequence_batching {{ {' '.join(states)} }}"
    )
    return typed(
        text_format.Parse(text, model_config_pb2.ModelConfig()), initial_states=files or {}
    )


def tensor(name: str, values: Any, datatype: DataType = datatypes.FP32) -> Tensor:
    array = np.array(values, datatype.dtype)
    return Tensor(name, datatype, array.shape, array)


def request(*names: str) -> InferRequest:
    made = make_request(make_tensor("IN", 1, 1))
    made.requested_outputs.extend(map(RequestedOutput, names))
    return made


def response(*outputs: Tensor) -> InferResponse:
    return InferResponse("m", 1, "", list(outputs), {})


def shown(tensors: Any) -> list[tuple[str, Any]]:
    return [(each.name, each.array.tolist()) for each in tensors]


def inputs(state: ImplicitState, states: States, *names: str) -> list[tuple[str, Any]]:
    return shown(state.with_states(request(*names), states).inputs)


def test_a_new_sequence_has_zeros_and_each_request_what_the_last_one_left() -> None:
    state = ImplicitState(config(SUM))
    assert inputs(state, state.initial) == [("IN", [[0]]), ("S_IN", [[0, 0]])]
    states, given = state.advance(
        request(), state.initial, response(tensor("OUT", [[5]]), tensor("S_OUT", [[1, 2]]))
    )
    assert shown(given.outputs) == [("OUT", [[5]])]
    assert inputs(state, states) == [("IN", [[0]]), ("S_IN", [[1, 2]])]
    states, _ = state.advance(request(), states, response(tensor("S_OUT", [[3, 4]])))
    assert shown(states) == [("S_IN", [[3, 4]])]
    assert shown(state.initial) == [("S_IN", [[0, 0]])]


def test_without_a_batch_dimension_states_have_none() -> None:
    state = ImplicitState(config(SUM, batch=0))
    assert shown(state.initial) == [("S_IN", [0, 0])]
    states, _ = state.advance(request(), state.initial, response(tensor("S_OUT", [1, 2])))
    assert shown(states) == [("S_IN", [1, 2])]


def test_states_are_matched_by_the_config_whatever_their_names() -> None:
    """The reference pairs inputs and outputs in the order of their names, and mixes up these."""
    first = 'state { input_name: "A" output_name: "Z" data_type: TYPE_FP32 dims: 1 }'
    second = 'state { input_name: "B" output_name: "Y" data_type: TYPE_FP32 dims: 1 }'
    state = ImplicitState(config(first, second))
    states, _ = state.advance(
        request(), state.initial, response(tensor("Y", [[2]]), tensor("Z", [[1]]))
    )
    assert shown(states) == [("A", [[1]]), ("B", [[2]])]


@pytest.mark.parametrize(
    ("names", "asked", "seen"),
    [
        ((), [], ["OUT"]),
        (("OUT",), ["OUT", "S_OUT"], ["OUT"]),
        (("OTHER",), ["OTHER", "S_OUT", "OUT"], []),
    ],
)
def test_a_client_gets_a_state_only_if_it_is_an_output_and_asked_for(
    names: tuple[str, ...], asked: list[str], seen: list[str]
) -> None:
    state = ImplicitState(config(SUM, SHOWN))
    assert state.with_states(request(*names), state.initial).output_names == asked
    states, given = state.advance(
        request(*names), state.initial, response(tensor("OUT", [[7]]), tensor("S_OUT", [[1, 2]]))
    )
    assert [output.name for output in given.outputs] == seen
    assert shown(states) == [("S_IN", [[1, 2]]), ("T_IN", [[7]])]


def test_a_failed_request_and_an_empty_response_leave_the_states() -> None:
    state = ImplicitState(config(SUM))
    before, _ = state.advance(request(), state.initial, response(tensor("S_OUT", [[1, 2]])))
    failed = failure(request(), internal("broken"), version=1)
    for each in (failed, response(), response(tensor("OUT", [[1]]))):
        states, given = state.advance(request(), before, each)
        assert shown(states) == [("S_IN", [[1, 2]])]
        assert given is each


def test_of_a_batch_only_the_sequences_own_row_is_kept() -> None:
    """A view would keep the whole batch in memory until the next request."""
    state = ImplicitState(config(SUM))
    batch = np.array([[1, 2], [3, 4]], np.float32)
    states, _ = state.advance(
        request(), state.initial, response(Tensor("S_OUT", datatypes.FP32, (1, 2), batch[1:]))
    )
    batch[:] = 9
    assert shown(states) == [("S_IN", [[3, 4]])]
    assert states[0].array.base is None


def test_a_model_that_writes_to_its_input_does_not_change_a_state() -> None:
    """In a thread of the server it would have the arrays themselves, and those of new sequences belong to all of them."""
    state = ImplicitState(config(SUM, WORDS))
    states, _ = state.advance(
        request(),
        state.initial,
        response(tensor("S_OUT", [[1, 2]]), tensor("W_OUT", [[b"a"]], datatypes.BYTES)),
    )
    for each in (*state.initial, *states):
        with pytest.raises(ValueError, match="read-only"):
            each.array[...] = 0


def test_a_state_may_grow() -> None:
    state = ImplicitState(config(SUM.replace("dims: 2", "dims: [ 2, -1 ]")))
    assert states_shape(state.initial) == (1, 2, 1)
    grown = tensor("S_OUT", [[[1, 2, 3], [4, 5, 6]]])
    states, _ = state.advance(request(), state.initial, response(grown))
    assert states_shape(states) == (1, 2, 3)


def states_shape(states: States) -> tuple[int, ...]:
    return states[0].shape


def test_a_state_of_strings_begins_empty_and_stays_packed() -> None:
    words = SUM.replace("FP32", "STRING")
    state = ImplicitState(config(words))
    assert shown(state.initial) == [("S_IN", [[b"", b""]])]
    packed = packed_strings("S_OUT", (1, 2), pack(object_array([b"a", b"bc"]))[:])
    states, _ = state.advance(request(), state.initial, response(packed))
    assert isinstance(states[0], PackedStrings)
    assert shown(states) == [("S_IN", [[b"a", b"bc"]])]


def test_an_initial_state_of_a_file() -> None:
    initial = 'initial_state { name: "i" data_type: TYPE_FP32 dims: 2 data_file: "i" }'
    numbers = config(
        SUM.replace("dims: 2 }", f"dims: 2 {initial} }}"),
        files={"S_IN": np.array([4, 5], np.float32).tobytes()},
    )
    assert shown(ImplicitState(numbers).initial) == [("S_IN", [[4, 5]])]
    words = config(
        SUM.replace("dims: 2 }", f"dims: 2 {initial} }}").replace("FP32", "STRING"),
        files={"S_IN": b"".join(struct.pack("<I", 1) + each for each in (b"a", b"b"))},
    )
    assert shown(ImplicitState(words).initial) == [("S_IN", [[b"a", b"b"]])]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (tensor("S_OUT", [[1, 2]], datatypes.INT64), "it gave INT64 [1, 2]"),
        (tensor("S_OUT", [1, 2]), "it gave FP32 [2]"),
        (tensor("S_OUT", [[1, 2, 3]]), "it gave FP32 [1, 3]"),
        (tensor("S_OUT", [[1, 2], [3, 4]]), "it gave FP32 [2, 2]"),
    ],
)
def test_a_state_that_cannot_be_an_input_fails_the_request(given: Tensor, said: str) -> None:
    state = ImplicitState(config(SUM))
    states, failed = state.advance(request(), state.initial, response(given))
    assert states is state.initial
    assert failed.outputs == []
    assert failed.error is not None
    assert failed.error.code is ErrorCode.INTERNAL
    assert failed.error.message == (
        f"unexpected state 'S_OUT' of model 'm': {said}, its config says FP32 [2] after a batch dimension of 1"
    )

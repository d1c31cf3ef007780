"""What a worker writes is what the server reads, also where both remember how the last such batch looked."""

import collections.abc
import struct
import unittest.mock
from typing import Any

import numpy as np
import pytest
from typing_extensions import override

from naiad.backends.instance import Execution, Instance, Response
from naiad.core import datatypes
from naiad.core.inference import Inference, RecordsInference
from naiad.core.response import InferResponse
from naiad.core.tensor import PackedStrings, Tensor
from naiad.errors import ErrorCode, InferenceError, internal, invalid
from naiad.hosts.link import codec
from naiad.hosts.local_instance import LocalInstance
from naiad.hosts.packing import pack
from naiad.hosts.unpacking import ResponseReader
from naiad.hosts.worker.requests import RequestReader
from tests.server.backends.configs import inference, spec, tensor, with_sequences
from tests.server.backends.python.models import python_config

F = np.float32
CONFIG = python_config(
    outputs=[spec("OUT", datatypes.FP32, (-1,)), spec("WORDS", datatypes.BYTES, (-1,))],
)


def numbers(*values: float) -> "tuple[str, str, np.ndarray[Any, Any]]":
    return "OUT", "FP32", np.array([values], F)


def words(*values: bytes) -> "tuple[str, str, np.ndarray[Any, Any]]":
    return "WORDS", "BYTES", np.array([values], np.object_)


def ok(*outputs: "tuple[str, str, Any]") -> Response:
    return Response(list(outputs), {})


def asked(count: int) -> list[Inference]:
    return [inference(tensor("IN", np.full((1, 2), each, F))) for each in range(count)]


def journey(
    answers: ResponseReader, *given: Response | None
) -> "collections.abc.Sequence[InferResponse | None]":
    """Through a worker's frames and back."""
    header, payload = codec.write_outcome(Execution(list(given), 11, 22))
    execution = answers.outcome(bytearray(payload.joined()), header, asked(len(given)))
    assert (execution.input_end_ns, execution.output_start_ns) == (11, 22)
    return execution.responses


@pytest.mark.parametrize("number", range(2))
def test_a_model_gets_the_context_of_the_trace_of_its_request(number: int) -> None:
    batch = asked(3)
    batch[1].traced = unittest.mock.create_autospec(RecordsInference, context="")
    batch[2].traced = unittest.mock.create_autospec(RecordsInference, context=f"here {number}")
    header, payload = pack(batch)
    received = RequestReader().read(bytearray(payload.joined()), header, 8)
    assert [each.trace_context for each in received] == ["", "", f"here {number}"]
    assert [each.places for each in received] == [(), (), ()]
    assert [each.traced for each in received] == [8, 9, 10]


def test_a_state_that_is_not_an_output_of_the_config_comes_back() -> None:
    config = with_sequences(
        python_config(outputs=[spec("OUT", datatypes.FP32, (-1,))]),
        'sequence_batching { state { input_name: "S_IN" output_name: "WORDS" data_type: TYPE_STRING dims: -1 } }',
    )
    arrived = journey(ResponseReader(config, 1), ok(numbers(1), words(b"state")))
    assert shown(arrived) == [[("OUT", [[1]]), ("WORDS", [[b"state"]])]]


def test_rows_that_were_added_to_a_batch_are_reported() -> None:
    header, payload = codec.write_outcome(Execution([ok(numbers(1, 2))], 11, 22, 5))
    execution = ResponseReader(CONFIG, 1).outcome(bytearray(payload.joined()), header, asked(1))
    assert execution.padding_rows == 5


def shown(responses: "collections.abc.Sequence[InferResponse | None]") -> list[Any]:
    return [
        None if response is None else [(one.name, one.array.tolist()) for one in response.outputs]
        for response in responses
    ]


def test_batches_of_one_layout_carry_each_their_own_numbers() -> None:
    answers = ResponseReader(CONFIG, 1)
    for start in (1.0, 5.0, 9.0):
        arrived = journey(answers, ok(numbers(start, 2)), ok(numbers(start + 1, 3)))
        assert shown(arrived) == [[("OUT", [[start, 2]])], [("OUT", [[start + 1, 3]])]]


def test_layouts_that_differ_only_in_who_has_an_output_are_distinguished() -> None:
    answers = ResponseReader(CONFIG, 1)
    one, two = numbers(1, 2), numbers(3, 4)
    for _ in range(2):
        assert shown(journey(answers, ok(one, two), ok())) == [
            [("OUT", [[1, 2]]), ("OUT", [[3, 4]])],
            [],
        ]
        assert shown(journey(answers, ok(one), ok(two))) == [
            [("OUT", [[1, 2]])],
            [("OUT", [[3, 4]])],
        ]


def test_words_empty_tensors_other_shapes_and_no_answer_yet_come_as_they_are() -> None:
    answers = ResponseReader(CONFIG, 1)
    for word in (b"a", b"longer", b""):
        arrived = journey(answers, ok(words(word), numbers(7)), None, ok(numbers()))
        assert shown(arrived) == [
            [("WORDS", [[word]]), ("OUT", [[7]])],
            None,
            [("OUT", [[]])],
        ]


def test_an_error_and_parameters_belong_to_one_answer_of_one_batch() -> None:
    answers = ResponseReader(CONFIG, 1)
    odd = Response([numbers(1)], {"of": "mine"})
    failed = Response([], {}, invalid("too short"))
    for value in (1, 2):
        plain, marked, wrong = journey(answers, ok(numbers(value)), odd, failed)
        assert plain is not None
        assert marked is not None
        assert wrong is not None
        assert shown([plain]) == [[("OUT", [[value]])]]
        assert (plain.error, plain.parameters) == (None, {})
        assert marked.parameters == {"of": "mine"}
        assert wrong.error is not None
        assert wrong.error.code is ErrorCode.INVALID_ARG
    assert shown(journey(answers, ok(numbers(3)))) == [[("OUT", [[3]])]]


def test_a_batch_that_failed_as_a_whole_says_why() -> None:
    header = codec.write_failed_outcome(internal("no such thing"))
    with pytest.raises(InferenceError, match="no such thing"):
        ResponseReader(CONFIG, 1).outcome(bytearray(), header, asked(1))


def test_an_outcome_of_another_number_of_answers_is_refused_each_time() -> None:
    answers = ResponseReader(CONFIG, 1)
    header, payload = codec.write_outcome(Execution([ok(numbers(1))], 0, 0))
    for _ in range(2):
        with pytest.raises(ValueError, match="1 responses to 2 requests"):
            answers.outcome(bytearray(payload.joined()), header, asked(2))


def test_more_layouts_than_are_remembered_change_nothing() -> None:
    answers = ResponseReader(CONFIG, 1)
    for _ in range(2):
        for length in range(1, 600):
            arrived = journey(answers, ok(numbers(*[length] * length)))
            assert shown(arrived) == [[("OUT", [[length] * length])]]


def test_requests_of_one_layout_carry_each_their_own_numbers() -> None:
    for start in (1.0, 5.0):
        batch = [inference(tensor("IN", np.array([[start, each]], F))) for each in range(3)]
        header, payload = pack(batch)
        request = RequestReader().read(bytearray(payload.joined()), header, 40)
        assert [each.number for each in request] == [40, 41, 42]
        assert [each.inputs[0].array.tolist() for each in request] == [
            [[start, each]] for each in range(3)
        ]


def test_requests_differ_in_ids_and_parameters_and_share_their_layout() -> None:
    reader = RequestReader()
    for number in range(600):
        batch = [
            inference(
                tensor("IN", np.array([[number, 0]], F)),
                request_id=f"id {number} é",
                parameters={"n": number, "x": 0.5, "s": "\U0001f600", "b": True},
                correlation_id=number,
            ),
            inference(tensor("IN", np.array([[0, number]], F)), outputs=["OUT"]),
        ]
        batch[1].cancelled = number % 2 == 1
        header, payload = pack(batch)
        first, second = reader.read(bytearray(payload.joined()), header, number)
        assert (first.id, first.correlation_id, first.output_names, first.batch_size) == (
            f"id {number} é", number, [], 1,
        )  # fmt: skip
        assert first.parameters == {"n": number, "x": 0.5, "s": "\U0001f600", "b": True}
        assert (second.id, second.parameters, second.output_names) == ("", {}, ["OUT"])
        assert (first.cancelled, second.cancelled) == (False, number % 2 == 1)
        assert second.inputs[0].array.tolist() == [[0, number]]
    assert len(reader) == 1


def test_strings_of_any_length_share_their_layout_and_stay_the_bytes_of_the_wire() -> None:
    config = python_config(outputs=[spec("WORDS", datatypes.BYTES, (-1,))])
    responses = ResponseReader(config, 1)
    for length in range(300):
        given = [b"x" * length, b"", "é".encode()]
        (found,) = journey(responses, ok(words(*given)))
        assert found is not None
        (output,) = found.outputs
        assert isinstance(output, PackedStrings)
        assert output.array.tolist() == [given]


@pytest.mark.parametrize("memory", [("rocm", 0), ("cuda_pinned", 1)])
def test_a_tensor_that_is_not_in_the_hosts_memory_is_refused_with_its_name(
    memory: tuple[str, int],
) -> None:
    header, payload = codec.write_outcome(Execution([ok(numbers(1))], 0, 0))
    length, strings = struct.unpack_from("<II", header)
    text, rest = header[8 : 8 + length], header[8 + length :]
    elsewhere = text.replace(b'"cpu",0', f'"{memory[0]}",{memory[1]}'.encode())
    moved = struct.pack("<II", len(elsewhere), strings) + elsewhere + rest
    with pytest.raises(InferenceError, match=f"'OUT' is in memory of kind '{memory[0]}'") as caught:
        ResponseReader(CONFIG, 1).outcome(bytearray(payload.joined()), moved, asked(1))
    assert caught.value.code is ErrorCode.UNSUPPORTED


class Foreign:
    """A tensor of another library, which DLPack hands over."""

    def __init__(self, array: "np.ndarray[Any, Any]", device: tuple[int, int] = (1, 0)) -> None:
        self._array = array
        self._device = device
        self.shape = array.shape

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device


def test_an_instance_may_return_tensors_of_other_libraries_in_both_hosts() -> None:
    given = np.array([[1, 2]], F)
    made = ok(("OUT", "FP32", Foreign(given)))
    assert shown(journey(ResponseReader(CONFIG, 1), made)) == [[("OUT", [[1, 2]])]]
    local = LocalInstance(Returning(made), CONFIG, 1)
    (found,) = local.execute(asked(1)).responses
    assert found is not None
    assert np.shares_memory(found.outputs[0].array, given)


@pytest.mark.parametrize(
    ("values", "why"),
    [
        (Foreign(np.ones((1, 2), F), device=(10, 1)), r"kind 'other' \(device 1\), which this process cannot read"),
        ([[1, 2]], "is of type list: it must be a numpy array"),
    ],
)  # fmt: skip
def test_values_that_are_not_in_the_hosts_memory_or_no_tensor_fail_with_the_outputs_name(
    values: Any, why: str
) -> None:
    made = ok(("OUT", "FP32", values))
    with pytest.raises(InferenceError, match="'OUT'.*" + why):
        codec.write_outcome(Execution([made], 0, 0))
    with pytest.raises(InferenceError, match="'OUT'.*" + why):
        LocalInstance(Returning(made), CONFIG, 1).execute(asked(1))


def test_inputs_of_a_worker_can_be_handed_to_other_libraries() -> None:
    header, payload = pack([inference(tensor("IN", np.array([[1, 2]], F)))])
    (request,) = RequestReader().read(bytearray(payload.joined()), header, 0)
    assert np.from_dlpack(request.inputs[0].array).tolist() == [[1, 2]]


class Returning(Instance):
    """Returns one response to every batch."""

    def __init__(self, response: Response) -> None:
        self._response = response

    @override
    def execute(self, batch: "collections.abc.Sequence[Any]") -> Execution[Response]:
        return Execution([self._response] * len(batch), 0, 0)


def test_requests_that_are_to_come_back_differ_from_those_with_later_responses() -> None:
    responses = [None, None, ok(numbers(1.0)), Response([], {}, invalid("no"))]
    header, payload = codec.write_outcome(Execution(responses, 11, 22, rescheduled=[1]))
    execution = ResponseReader(CONFIG, 1).outcome(bytearray(payload.joined()), header, asked(4))
    assert list(execution.rescheduled) == [1]
    assert [response is None for response in execution.responses] == [True, True, False, False]


@pytest.mark.parametrize(
    "other",
    [
        tensor("IN", np.array([[7]], F)),  # another shape
        tensor("IN", np.array([[7, 8]], np.int32)),
        tensor("MORE", np.array([[7, 8]], F)),
        tensor("IN", np.array([["a", "b"]], object)),
    ],
)
def test_one_request_that_is_unlike_the_others_of_its_batch_keeps_what_it_has(
    other: Tensor,
) -> None:
    alike = [tensor("IN", np.array([[each, 0]], F)) for each in range(2)]
    for inputs in ([*alike, other], [other, *alike], alike):
        header, payload = pack([inference(each) for each in inputs])
        read = RequestReader().read(bytearray(payload.joined()), header, 0)
        assert [
            (each.inputs[0].name, each.inputs[0].array.tolist()) for each in read
        ] == [
            (
                each.name,
                [[value.encode() if isinstance(value, str) else value for value in each.array[0].tolist()]],
            )
            for each in inputs
        ]  # fmt: skip


def test_requests_that_ask_for_different_outputs_keep_their_own() -> None:
    batch = [
        inference(tensor("IN", np.array([[each, 0]], F)), outputs=["OUT"] if each == 1 else ())
        for each in range(3)
    ]
    header, payload = pack(batch)
    read = RequestReader().read(bytearray(payload.joined()), header, 0)
    assert [each.output_names for each in read] == [[], ["OUT"], []]

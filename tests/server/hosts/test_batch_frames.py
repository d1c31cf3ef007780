"""What a worker writes is what the server reads, also where both remember how the last such batch looked."""

import collections.abc
from typing import Any

import numpy as np
import pytest

from naiad.backends.instance import Execution, Response
from naiad.core import datatypes
from naiad.core.inference import Inference
from naiad.core.response import InferResponse
from naiad.errors import ErrorCode, InferenceError, internal, invalid
from naiad.hosts.batch_frames import Answers, pack
from naiad.hosts.worker import content
from tests.server.backends.configs import inference, spec, tensor
from tests.server.backends.python.models import python_config

F = np.float32
CONFIG = python_config(
    outputs=[spec("OUT", datatypes.FP32, (-1,)), spec("WORDS", datatypes.BYTES, (-1,))],
)


def numbers(*values: float) -> "tuple[str, str, np.ndarray[Any, Any]]":
    return "OUT", "FP32", np.array([values], F)


def words(*values: bytes) -> "tuple[str, str, np.ndarray[Any, Any]]":
    return "WORDS", "BYTES", np.array([values], np.object_)


def ok(*outputs: "tuple[str, str, np.ndarray[Any, Any]]") -> Response:
    return Response(list(outputs), {})


def asked(count: int) -> list[Inference]:
    return [inference(tensor("IN", np.full((1, 2), each, F))) for each in range(count)]


def journey(
    answers: Answers, *given: Response | None
) -> "collections.abc.Sequence[InferResponse | None]":
    """Through a worker's frames and back."""
    header, payload = content.pack_outcome(Execution(list(given), 11, 22))
    execution = answers.unpack(bytearray(payload.joined()), header, asked(len(given)))
    assert (execution.input_end_ns, execution.output_start_ns) == (11, 22)
    return execution.responses


def shown(responses: "collections.abc.Sequence[InferResponse | None]") -> list[Any]:
    return [
        None if each is None else [(one.name, one.array.tolist()) for one in each.outputs]
        for each in responses
    ]


def test_batches_of_one_layout_carry_each_their_own_numbers() -> None:
    answers = Answers(CONFIG, 1)
    for start in (1.0, 5.0, 9.0):
        found = journey(answers, ok(numbers(start, 2)), ok(numbers(start + 1, 3)))
        assert shown(found) == [[("OUT", [[start, 2]])], [("OUT", [[start + 1, 3]])]]


def test_layouts_that_differ_only_in_who_has_an_output_are_distinguished() -> None:
    answers = Answers(CONFIG, 1)
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
    answers = Answers(CONFIG, 1)
    for word in (b"a", b"longer", b""):
        found = journey(answers, ok(words(word), numbers(7)), None, ok(numbers()))
        assert shown(found) == [
            [("WORDS", [[word]]), ("OUT", [[7]])],
            None,
            [("OUT", [[]])],
        ]


def test_an_error_and_parameters_belong_to_one_answer_of_one_batch() -> None:
    answers = Answers(CONFIG, 1)
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
    header = content.pack_failure(internal("no such thing"))
    with pytest.raises(InferenceError, match="no such thing"):
        Answers(CONFIG, 1).unpack(bytearray(), header, asked(1))


def test_an_outcome_of_another_number_of_answers_is_refused_each_time() -> None:
    answers = Answers(CONFIG, 1)
    header, payload = content.pack_outcome(Execution([ok(numbers(1))], 0, 0))
    for _ in range(2):
        with pytest.raises(ValueError, match="1 answers to 2 requests"):
            answers.unpack(bytearray(payload.joined()), header, asked(2))


def test_more_layouts_than_are_remembered_change_nothing() -> None:
    answers = Answers(CONFIG, 1)
    for _ in range(2):
        for length in range(1, 600):
            found = journey(answers, ok(numbers(*[length] * length)))
            assert shown(found) == [[("OUT", [[length] * length])]]


def test_requests_of_one_layout_carry_each_their_own_numbers() -> None:
    for start in (1.0, 5.0):
        batch = [inference(tensor("IN", np.array([[start, each]], F))) for each in range(3)]
        header, payload = pack(batch)
        found = content.requests_of(bytearray(payload.joined()), header, 40)
        assert [each.number for each in found] == [40, 41, 42]
        assert [each.inputs[0].array.tolist() for each in found] == [
            [[start, each]] for each in range(3)
        ]

"""Batches whose requests look alike are written and read in a shorter way, with the same result as any others."""

from typing import Any

import numpy as np
import pytest

from naiad.backends.instance import Execution, Response
from naiad.core import datatypes
from naiad.core.inference import Inference
from naiad.core.tensor import Tensor
from naiad.hosts.link import codec, layouts
from naiad.hosts.packing import pack
from naiad.hosts.unpacking import ResponseReader
from naiad.hosts.worker.requests import ReceivedRequest, RequestReader
from tests.server.backends.configs import inference, spec, tensor
from tests.server.backends.python.models import python_config

F = np.float32
CONFIG = python_config(
    outputs=[spec("OUT", datatypes.FP32, (-1,)), spec("MORE", datatypes.FP32, (2, 3))]
)
MANY = 20


def alike(count: int, **given: Any) -> list[Inference]:
    return [inference(tensor("IN", np.full((1, 3), each, F)), **given) for each in range(count)]


def in_general(batch: list[Inference]) -> tuple[bytes, bytes]:
    """What the way for all batches writes of one without ids and parameters."""
    groups = [
        (
            (each.batch_size, tuple(each.request.output_names)),
            [(one.name, one.datatype.name, one.array) for one in each.request.inputs],
        )
        for each in batch
    ]
    header, payload = codec.write(groups)
    return header, payload.joined()


def arrived(batch: list[Inference]) -> list[ReceivedRequest]:
    header, payload = pack(batch)
    return RequestReader().read(bytearray(payload.joined()), header, 7)


def values(requests: list[ReceivedRequest]) -> list[Any]:
    return [[each.array.tolist() for each in request.inputs] for request in requests]


@pytest.mark.parametrize("count", [1, 2, 7, 8, 64])
def test_what_looks_alike_is_written_as_in_general(count: int) -> None:
    batch = alike(count)
    header, payload = pack(batch)
    assert (header, payload.joined()) == in_general(batch)


@pytest.mark.parametrize(
    "last",
    [
        tensor("IN", np.ones((1, 4), F)),
        tensor("OTHER", np.ones((1, 3), F)),
        tensor("IN", np.ones((1, 3), np.int32)),
        tensor("IN", np.array([[b"a", b"", b"ccc"]], object)),
    ],
    ids=["shape", "name", "datatype", "BYTES"],
)
def test_one_request_that_looks_different_is_read_as_it_is(last: Tensor) -> None:
    batch = [*alike(MANY), inference(last), *alike(3)]
    requests = arrived(batch)
    assert values(requests) == [[each.request.inputs[0].array.tolist()] for each in batch]
    assert [each.number for each in requests] == list(range(7, 7 + len(batch)))
    assert requests[MANY].inputs[0].name == last.name


def test_rows_and_outputs_that_differ_keep_their_requests_apart() -> None:
    first, second = alike(MANY), alike(MANY, outputs=["OUT"])
    rows = inference(tensor("IN", np.ones((1, 3), F)), rows=3)
    requests = arrived([*first, *second, rows])
    assert [each.output_names for each in requests] == [*([[]] * MANY), *([["OUT"]] * MANY), []]
    assert [each.batch_size for each in requests] == [*([1] * 2 * MANY), 3]


@pytest.mark.parametrize("count", [3, MANY])
def test_ids_parameters_and_cancellations_belong_to_their_requests(count: int) -> None:
    batch = [
        inference(tensor("IN", np.ones((1, 3), F)), request_id=f"r{each}", parameters={"n": each})
        for each in range(count)
    ]
    batch[2].cancelled = True
    requests = arrived(batch)
    assert [each.id for each in requests] == [f"r{each}" for each in range(count)]
    assert [each.parameters for each in requests] == [{"n": each} for each in range(count)]
    assert [each.cancelled for each in requests] == [each == 2 for each in range(count)]


def test_numbers_that_are_not_next_to_each_other_arrive_all_the_same() -> None:
    wide = np.arange(6 * MANY, dtype=F).reshape(MANY, 1, 6)
    batch = [inference(tensor("IN", each[:, ::2])) for each in wide]
    assert values(arrived(batch)) == [[each[:, ::2].tolist()] for each in wide]


def test_empty_tensors_and_those_that_fill_their_place_arrive() -> None:
    for length in (0, 16, 32):
        batch = [inference(tensor("IN", np.full((1, length), each, F))) for each in range(MANY)]
        assert values(arrived(batch)) == [[[[each] * length]] for each in range(MANY)]


def test_more_than_fits_a_packet_arrives() -> None:
    batch = [inference(tensor("IN", np.full((1, 1000), each, F))) for each in range(MANY)]
    assert values(arrived(batch)) == [[[[each] * 1000]] for each in range(MANY)]


def test_what_a_model_writes_into_an_input_shows_in_no_other() -> None:
    requests = arrived(alike(MANY))
    requests[4].inputs[0].array[:] = -1
    requests[5].inputs.clear()
    assert values(requests)[3:7] == [[[[3, 3, 3]]], [[[-1, -1, -1]]], [], [[[6, 6, 6]]]]


def test_several_inputs_arrive_by_name() -> None:
    batch = [
        inference(
            tensor("A", np.full((1, 2), each, F)), tensor("B", np.full((1, 1), -each, np.int64))
        )
        for each in range(MANY)
    ]
    requests = arrived(batch)
    assert [[one.name for one in each.inputs] for each in requests] == [["A", "B"]] * MANY
    assert values(requests) == [[[[each, each]], [[-each]]] for each in range(MANY)]


def test_a_batch_of_any_size_has_a_layout_that_is_remembered() -> None:
    name = "a name of many letters, as graphs of some frameworks have them" * 3
    batch = [inference(tensor(name, np.ones((1, 3), F))) for _ in range(500)]
    header, payload = pack(batch)
    reader = RequestReader()
    reader.read(bytearray(payload.joined()), header, 0)
    assert len(reader) == 1


def outcome(*responses: Response | None) -> list[Any]:
    header, payload = codec.write_outcome(Execution(list(responses), 11, 22, 3))
    batch = [inference(tensor("IN", np.ones((1, 3), F)), request_id=f"r{at}") for at in range(len(responses))]  # fmt: skip
    execution = ResponseReader(CONFIG, 1).outcome(bytearray(payload.joined()), header, batch)
    assert (execution.input_end_ns, execution.output_start_ns, execution.padding_rows) == (11, 22, 3)  # fmt: skip
    found = []
    for one in execution.responses:
        assert one is not None
        found.append((one.id, one.parameters, [(out.name, out.shape, out.array.tolist()) for out in one.outputs]))  # fmt: skip
    return found


@pytest.mark.parametrize("count", [1, 7, 8, 64])
def test_outputs_that_look_alike_come_back_to_their_requests(count: int) -> None:
    found = outcome(*(Response([("OUT", "FP32", np.full((1, 2), at, F))], {}) for at in range(count)))  # fmt: skip
    assert found == [(f"r{at}", {}, [("OUT", (1, 2), [[at, at]])]) for at in range(count)]


def test_several_outputs_that_look_alike_come_back_to_their_requests() -> None:
    found = outcome(
        *(
            Response(
                [("OUT", "FP32", np.full((1, 2), at, F)), ("MORE", "FP32", np.full((1, 2, 3), -at, F))], {}
            )
            for at in range(MANY)
        )
    )  # fmt: skip
    assert [each[2] for each in found] == [
        [("OUT", (1, 2), [[at, at]]), ("MORE", (1, 2, 3), [[[-at] * 3] * 2])] for at in range(MANY)
    ]


def test_one_response_with_parameters_among_many_that_look_alike_has_them() -> None:
    responses = [Response([("OUT", "FP32", np.full((1, 2), at, F))], {}) for at in range(MANY)]
    responses[5].parameters = {"of": "mine"}
    found = outcome(*responses)
    assert [each[1] for each in found] == [{"of": "mine"} if at == 5 else {} for at in range(MANY)]


@pytest.mark.parametrize("further", ["1000000000", "20", "0", "-1"])
def test_a_number_that_stands_for_more_responses_than_were_asked_for_is_refused(further: str) -> None:  # fmt: skip
    text = f'[[[],[["OUT","FP32",[1,1],"cpu",0]]],{further}]'.encode()
    header = codec.HEAD.pack(len(text), 0) + text + codec.EXECUTED.pack(0, 0, 0)
    with pytest.raises(ValueError, match=r"groups like the one before"):
        ResponseReader(CONFIG, 1).outcome(bytearray(1 << 16), header, alike(MANY))


@pytest.mark.parametrize("text", ["[3]", "[null,3]", '[[[],[["OUT","FP32",[1,1],"cpu",0]]],3]'])
def test_a_number_without_a_group_and_one_where_a_single_group_belongs_are_refused(text: str) -> None:  # fmt: skip
    header = codec.HEAD.pack(len(text), 0) + text.encode()
    with pytest.raises(ValueError, match="groups like the one before"):
        layouts.Reader(lambda *told: told).read(header, 2)


def test_outputs_that_are_not_there_are_refused() -> None:
    header, payload = codec.write_outcome(
        Execution([Response([("OUT", "FP32", np.ones((1, 2), F))], {})] * MANY, 0, 0)
    )
    with pytest.raises((TypeError, ValueError)):
        ResponseReader(CONFIG, 1).outcome(bytearray(payload.joined()[:-64]), header, alike(MANY))


@pytest.mark.parametrize("count", [7, 8, MANY])
def test_requests_without_inputs_arrive_all(count: int) -> None:
    header, payload = codec.write([((1, ("OUT",)), [])] * count)
    requests = RequestReader().read(bytearray(payload.joined()), header, 7)
    assert [each.number for each in requests] == list(range(7, 7 + count))
    assert values(requests) == [[]] * count

import numpy as np
import pytest

from naiad.core.datatypes import ALL, BOOL, BYTES, FP16, FP32, FP64, INT64, UINT8, DataType
from naiad.core.response import InferResponse
from naiad.core.tensor import KeptTensor, Tensor, Texts, packed_strings, placed_tensor
from naiad.protocol.http.codec import one_output, reply_json
from naiad.protocol.http.codec.reply_json import ALL_BINARY, ALL_JSON, ReplyForm
from naiad.protocol.http.message import HttpReply
from tests.server.protocol.http.scripted_engine import response, tensor

FORMS = (ALL_JSON, ALL_BINARY, ReplyForm(False, {"OUT": True}), ReplyForm(True, {"OUT": False}))


def sent(*outputs: Tensor, request_id: str = "", version: int = 1) -> InferResponse:
    return InferResponse("m", version, request_id, list(outputs), {})


def parts(reply: HttpReply) -> tuple[object, ...]:
    return reply.status, reply.headers, b"".join(reply.body), reply.request_id


def numbers(datatype: DataType, *shape: int) -> Tensor:
    values = np.arange(np.prod(shape)).reshape(shape) % 7
    return Tensor("OUT", datatype, shape, values.astype(datatype.dtype))


def assert_as_usual(answer: InferResponse, form: ReplyForm) -> None:
    # Twice: the second one finds what the first one remembered.
    for _ in range(2):
        reply = one_output.encode(answer, form)
        assert reply is not None
        assert parts(reply) == parts(reply_json.encode(answer, form))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("request_id", ["", "r", 'a "quoted" \\ é id'])
@pytest.mark.parametrize("datatype", [BOOL, UINT8, INT64, FP32, FP64])
@pytest.mark.parametrize("shape", [(1,), (1, 4), (2, 3), (48,), ()])
def test_it_writes_what_the_usual_writer_writes(
    shape: tuple[int, ...], datatype: DataType, request_id: str, form: ReplyForm
) -> None:
    assert_as_usual(sent(numbers(datatype, *shape), request_id=request_id), form)


def test_what_is_remembered_of_a_response_is_not_written_into_another_one() -> None:
    first = numbers(FP32, 1, 4)
    others = [
        sent(Tensor("Y", FP32, (1, 4), first.array)),
        sent(numbers(FP32, 2, 2)),
        sent(numbers(FP64, 1, 4)),
        sent(first, version=2),
        InferResponse("n", 1, "", [first], {}),
    ]
    for form in FORMS[:2]:
        for answer in (sent(first), *others, sent(first)):
            assert_as_usual(answer, form)


@pytest.mark.parametrize("size", [1024, 1025, 100_000])
def test_many_bytes_are_written_as_the_usual_writer_writes_them(size: int) -> None:
    for request_id in ("", "r"):
        assert_as_usual(sent(numbers(FP32, size), request_id=request_id), ALL_BINARY)


def test_an_output_in_a_region_is_written_as_the_usual_writer_writes_it() -> None:
    there = placed_tensor(numbers(FP32, 3, 2))
    for request_id in ("", "r"):
        assert_as_usual(sent(there, request_id=request_id), ALL_JSON)


def test_an_array_in_another_order_is_written_row_by_row() -> None:
    turned = np.arange(6, dtype=np.float32).reshape(2, 3).T
    for form in FORMS[:2]:
        assert_as_usual(sent(Tensor("OUT", FP32, (3, 2), turned)), form)


@pytest.mark.parametrize(
    ("answer", "form"),
    [
        (response(), ALL_JSON),
        (response(tensor("A", FP32, [1]), tensor("B", FP32, [1])), ALL_BINARY),
        (InferResponse("m", 1, "", [tensor("A", FP32, [1])], {"a": 1}), ALL_JSON),
        (response(tensor("A", FP32, [])), ALL_BINARY),
        (response(tensor("A", FP32, [])), ALL_JSON),
        (response(tensor("A", BYTES, [b"x"])), ALL_JSON),
        (response(tensor("A", BYTES, [b"x"])), ALL_BINARY),
        (response(packed_strings("A", (1,), np.frombuffer(b"\0\0\0\0", np.uint8))), ALL_BINARY),
        (response(placed_tensor(tensor("A", FP32, [1]))), ALL_BINARY),
        (sent(KeptTensor("A", FP32, (1,), np.ones(1, np.float32), None, Texts())), ALL_JSON),
        (response(tensor("A", FP16, [1.0])), ALL_JSON),
        (response(tensor("A", FP32, [1.0, float("nan")])), ALL_JSON),
        (response(tensor("A", FP32, [float("inf"), float("-inf")])), ALL_JSON),
        (sent(numbers(FP32, 49)), ALL_JSON),
    ],
)
def test_another_form_is_left_to_the_usual_writer(answer: InferResponse, form: ReplyForm) -> None:
    assert one_output.encode(answer, form) is None


def test_half_floats_are_written_as_binary_data() -> None:
    for datatype in ALL:
        if datatype is not BYTES:
            assert_as_usual(sent(numbers(datatype, 1, 4)), ALL_BINARY)

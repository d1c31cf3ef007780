"""Requests on the wire become InferRequests, and whatever else comes becomes an InferenceError."""

import typing

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from naiad.core.datatypes import ALL, BYTES
from naiad.core.messages import service_pb2
from naiad.core.regions import Place
from naiad.core.request import LATEST, SEQUENCE_END, SEQUENCE_START, InferRequest, RequestedOutput
from naiad.core.tensor import RegionTensor
from naiad.errors import ErrorCode, InferenceError
from naiad.protocol.grpc.codec.request_proto import RequestReader, version_number
from tests.server.protocol.grpc.scripted_engine import add_input, message, small_request


def decode(request: typing.Any, reader: RequestReader | None = None) -> InferRequest:
    body = request if isinstance(request, bytes) else request.SerializeToString()
    reader = reader or RequestReader()
    return reader.read(body).request()


def refused(request: typing.Any) -> InferenceError:
    with pytest.raises(InferenceError) as caught:
        decode(request)
    return caught.value


def test_names_id_version_and_outputs_arrive_in_order() -> None:
    request = message(model_version="3", id="ab")
    add_input(request, "A", "INT32", [2], np.array([1, 2], np.int32).tobytes())
    add_input(request, "B", "INT32", [1], np.array([3], np.int32).tobytes())
    request.outputs.add(name="Y")
    request.outputs.add(name="X")
    decoded = decode(request)
    assert (decoded.model_name, decoded.model_version, decoded.id) == ("m", 3, "ab")
    assert [(tensor.name, tensor.array.tolist()) for tensor in decoded.inputs] == [
        ("A", [1, 2]),
        ("B", [3]),
    ]
    assert decoded.output_names == ["Y", "X"]
    assert decoded.parameters == {}


def test_a_raw_tensor_is_a_view_of_the_message() -> None:
    request = message()
    add_input(request, "A", "FP32", [1000], bytes(4000))
    body: bytes = request.SerializeToString()
    reader = RequestReader()
    for _ in range(2):  # the first request with a head and the next take different ways
        array = decode(body, reader).inputs[0].array
        assert id(array.base) == id(body)


@pytest.mark.parametrize("datatype", [datatype for datatype in ALL if datatype is not BYTES])
def test_every_datatype_comes_raw(datatype: typing.Any) -> None:
    values = np.array([[0, 1], [1, 0]]).astype(datatype.dtype)
    request = message()
    add_input(request, "A", datatype.name, [2, 2], values.tobytes())
    (found,) = decode(request).inputs
    assert found.datatype is datatype
    assert found.fault is None
    assert found.array.dtype == datatype.dtype
    assert (found.array == values).all()


def test_strings_come_raw_with_their_lengths() -> None:
    request = message()
    raw = b"\x02\0\0\0hi\0\0\0\0\x03\0\0\0x\0\0"
    add_input(request, "A", "BYTES", [3, 1], raw)
    (found,) = decode(request).inputs
    assert found.array.tolist() == [[b"hi"], [b""], [b"x\0\0"]]


def test_the_second_request_with_a_head_equals_the_first() -> None:
    reader = RequestReader()
    first = decode(small_request(request_id="1", value=1), reader)
    second = decode(small_request(request_id="2", value=2), reader)
    assert (first.id, second.id) == ("1", "2")
    assert second.inputs[0].array.tolist() == [[2, 2, 2, 2]]
    assert second.inputs[1].array.tolist() == [[0, 1, 2, 3]]
    assert [tensor.shape for tensor in second.inputs] == [(1, 4), (1, 4)]


def test_what_one_request_does_to_its_lists_does_not_reach_the_next() -> None:
    reader = RequestReader()
    request = message()
    request.outputs.add(name="Y")
    request.parameters["k"].int64_param = 1
    first = decode(request, reader)
    first.requested_outputs.clear()
    first.parameters["k"] = 9
    second = decode(request, reader)
    assert second.output_names == ["Y"]
    assert second.parameters == {"k": 1}


def test_the_memory_for_heads_is_bounded() -> None:
    reader = RequestReader()
    for number in range(2000):
        request = message()
        request.outputs.add(name=f"Y{number}")
        decode(request, reader)
    large = message()
    large.outputs.add(name="Y" * 5000)
    decode(large, reader)
    assert len(reader._heads) <= 512
    assert max(map(len, reader._heads)) <= 2048
    for number in range(2000):
        request = message()
        body = b"\x1a\x04%04d" % number + request.SerializeToString()  # the id comes first
        assert reader.read(body).id == f"{number:04}"
    assert len(reader._last) <= 512


def test_equal_heads_in_a_row_and_heads_that_take_turns_are_distinguished() -> None:
    reader = RequestReader()
    for turn, name in enumerate(("Y", "Y", "Y", "Z", "Y", "Z", "Z", "Z", "Y")):
        request = message()
        request.id = f"{turn}" if turn % 3 else ""
        request.outputs.add(name=name)
        decoded = decode(request, reader)
        assert decoded.output_names == [name]
        assert decoded.id == request.id


@pytest.mark.parametrize(
    ("text", "number"), [("", LATEST), ("1", 1), ("0", 0), ("007", 7), (str(2**63 - 1), 2**63 - 1)]
)
def test_a_version_is_a_number_or_nothing(text: str, number: int) -> None:
    assert version_number(text) == number


@pytest.mark.parametrize("text", ["x", "-1", "1.0", " 1", "1_0", "٣", "9" * 19, "9" * 5000])
def test_any_other_version_is_refused(text: str) -> None:
    error = refused(message(model_version=text))
    assert error.code is ErrorCode.INVALID_ARG
    assert "failed to get model version from specified version string" in error.message


def test_bytes_that_are_not_a_message_are_an_internal_error() -> None:
    error = refused(b"\x0a\xff")
    assert error.code is ErrorCode.INTERNAL
    assert "Unable to parse request" in error.message


def test_mixing_contents_and_raw_is_refused() -> None:
    request = message()
    add_input(request, "A", "FP32", [1], fp32_contents=[1])
    add_input(request, "B", "FP32", [1], bytes(4))
    error = refused(request)
    assert error.code is ErrorCode.INVALID_ARG
    assert (
        "contents field must not be specified when using raw_input_contents for 'A' for model 'm'"
        in error.message
    )


@pytest.mark.parametrize("times", [1, 2])
def test_too_few_raw_entries_are_refused(times: int) -> None:
    reader = RequestReader()
    complete = message()
    add_input(complete, "A", "FP32", [1], bytes(4))
    add_input(complete, "B", "FP32", [1], bytes(4))
    if times > 1:  # the head is known by now
        decode(complete, reader)
    del complete.raw_input_contents[1]
    with pytest.raises(InferenceError, match="unable to find data for input tensor 'B' for model"):
        decode(complete, reader)


def test_surplus_raw_entries_are_ignored() -> None:
    request = message()
    add_input(request, "A", "FP32", [1], bytes(4))
    request.raw_input_contents.append(b"more")
    reader = RequestReader()
    for _ in range(2):
        (found,) = decode(request, reader).inputs
        assert found.fault is None


@pytest.mark.parametrize(
    ("datatype", "shape", "raw", "said"),
    [
        ("FP32", [2, 2], bytes(12), "input byte size mismatch for input 'A' for model 'm'. Expected 16, got 12"),
        ("FP32", [1], b"", "input byte size mismatch for input 'A' for model 'm'. Expected 4, got 0"),
        ("FP32", [-1], bytes(4), "negative dimension"),
        ("BYTES", [-1], bytes(4), "negative dimension"),
        ("FP32", [2**62, 2**62], bytes(4), "exceeds the maximum allowed size"),
        ("FP32", [0, 2**62, 2**62], b"", "exceeds the maximum allowed size"),
        ("FP32", [2**40], bytes(4), "Expected 4398046511104, got 4"),
        ("BYTES", [2], b"\0\0\0\0", "expected 2 string elements for inference input 'A' for model 'm', got 1"),
        ("BYTES", [1], bytes(8), "unexpected number of string elements 2"),
        ("BYTES", [1], b"\0\0", "incomplete string length indicator for inference input 'A'"),
        ("BYTES", [1], b"\x05\0\0\0ab", "incomplete string data for inference input 'A'"),
        ("BYTES", [1], b"\xff\xff\xff\xff", "incomplete string data for inference input 'A'"),
    ],
)  # fmt: skip
def test_values_that_do_not_fill_the_shape_are_a_fault_and_no_error(
    datatype: str, shape: list[int], raw: bytes, said: str
) -> None:
    request = message()
    add_input(request, "A", datatype, shape, raw)
    reader = RequestReader()
    for _ in range(2):
        (found,) = decode(request, reader).inputs
        assert found.fault is not None
        assert said in found.fault
        assert found.shape == tuple(shape)


def test_empty_tensors_are_tensors() -> None:
    request = message()
    add_input(request, "A", "FP32", [0, 4], b"")
    add_input(request, "B", "BYTES", [0], b"")
    add_input(request, "C", "INT8", [], b"\x07")
    found = decode(request).inputs
    assert [tensor.fault for tensor in found] == [None, None, None]
    assert [tensor.array.shape for tensor in found] == [(0, 4), (0,), ()]


def test_an_unknown_datatype_is_refused() -> None:
    request = message()
    add_input(request, "A", "FP99", [1], bytes(4))
    error = refused(request)
    assert error.code is ErrorCode.INVALID_ARG
    assert "inference input 'A' data-type is 'FP99'" in error.message
    assert "BF16" in error.message


def test_more_dimensions_than_an_array_has_are_refused() -> None:
    request = message()
    add_input(request, "A", "FP32", [1] * 33, bytes(4))
    assert "33 dimensions" in refused(request).message


@pytest.mark.parametrize("field", ["inputs", "outputs"])
def test_absurd_numbers_of_parts_are_refused_before_they_are_looked_at(field: str) -> None:
    request = message()
    for _ in range(5000):
        getattr(request, field).add(name="A")
    assert f"the request has 5000 {field}; at most 4096" in refused(request).message


def test_parameters_reach_their_places() -> None:
    request = message()
    given: dict[str, typing.Any] = {
        "sequence_id": {"int64_param": 5},
        "sequence_start": {"bool_param": True},
        "sequence_end": {"bool_param": True},
        "priority": {"uint64_param": 2},
        "timeout": {"int64_param": 1000},
        "text": {"string_param": "t"},
        "flag": {"bool_param": False},
        "half": {"double_param": 0.5},
        "triton_enable_empty_final_response": {"bool_param": True},
    }
    for name, value in given.items():
        request.parameters[name].CopyFrom(service_pb2.InferParameter(**value))
    decoded = decode(request)
    assert decoded.correlation_id == 5
    assert decoded.flags == SEQUENCE_START | SEQUENCE_END
    assert (decoded.priority, decoded.timeout_us) == (2, 1000)
    assert decoded.parameters == {"text": "t", "flag": False, "half": 0.5}


def place_in(io: typing.Any, **parameters: str | int) -> None:
    for name, value in parameters.items():
        kind = "string_param" if isinstance(value, str) else "int64_param"
        setattr(io.parameters[f"shared_memory_{name}"], kind, value)


def test_inputs_in_shared_memory_stand_between_the_raw_ones_in_every_request() -> None:
    request = message()
    add_input(request, "A", "FP32", [1], raw=b"1234")
    place_in(add_input(request, "B", "FP32", [2]), region="r", offset=4, byte_size=8)
    add_input(request, "C", "FP32", [1], raw=b"5678")
    reader = RequestReader()
    for _ in range(2):  # the second one knows the head
        decoded = reader.read(request.SerializeToString()).request()
        assert decoded.in_regions
        assert [each.name for each in decoded.inputs] == ["A", "B", "C"]
        there = decoded.inputs[1]
        assert isinstance(there, RegionTensor)
        assert there.place == Place("r", 4, 8)
        assert [decoded.inputs[at].array.tobytes() for at in (0, 2)] == [b"1234", b"5678"]


@pytest.mark.parametrize(
    ("parameters", "message_part"),
    [
        ({"region": 1, "byte_size": 4}, "invalid value type for 'shared_memory_region' parameter for tensor 'A', expected string_param."),
        ({"region": "r", "byte_size": "4"}, "invalid value type for 'shared_memory_byte_size' parameter for tensor 'A', expected int64_param."),
        ({"region": "r", "byte_size": 4, "offset": "0"}, "invalid value type for 'shared_memory_offset' parameter for tensor 'A', expected int64_param."),
        ({"region": "r"}, "'shared_memory_byte_size' must be specified along with 'shared_memory_region' parameter for tensor 'A'"),
        ({"offset": 4}, "'shared_memory_offset' can not be specified without 'shared_memory_region' parameter for tensor 'A'"),
        ({"byte_size": 4}, "'shared_memory_byte_size' can not be specified without 'shared_memory_region' parameter for tensor 'A'"),
    ],
)  # fmt: skip
def test_parameters_of_shared_memory_are_validated(
    parameters: dict[str, typing.Any], message_part: str
) -> None:
    request = message()
    place_in(add_input(request, "A", "FP32", [1]), **parameters)
    error = refused(request)
    assert error.code is ErrorCode.INVALID_ARG
    assert message_part in error.message
    request = message()
    place_in(request.outputs.add(name="A"), **parameters)
    assert message_part in refused(request).message


def test_an_input_in_shared_memory_has_no_contents() -> None:
    request = message()
    added = add_input(request, "A", "FP32", [1])
    place_in(added, region="r", byte_size=4)
    added.contents.fp32_contents.append(1)
    error = refused(request)
    assert error.code is ErrorCode.INVALID_ARG
    assert "unexpected 'content' provided when using shared memory" in error.message


def test_a_requested_output_has_its_classes_or_its_region() -> None:
    request = message()
    request.outputs.add(name="X").parameters["classification"].int64_param = 3
    place_in(request.outputs.add(name="Y"), region="r", byte_size=8)
    request.outputs.add(name="Z")
    assert decode(request).requested_outputs == [
        RequestedOutput("X", classes=3),
        RequestedOutput("Y", place=Place("r", 0, 8)),
        RequestedOutput("Z"),
    ]


@pytest.mark.parametrize(
    "value", [{"int64_param": 0}, {"int64_param": -1}, {"string_param": "3"}, {"bool_param": True}]
)
def test_a_number_of_classes_is_positive(value: dict[str, typing.Any]) -> None:
    request = message()
    parameters = request.outputs.add(name="Y").parameters
    parameters["classification"].CopyFrom(service_pb2.InferParameter(**value))
    error = refused(request)
    assert error.code is ErrorCode.INVALID_ARG
    assert "'classification'" in error.message
    assert "'Y'" in error.message


def test_classes_do_not_go_to_a_region() -> None:
    request = message()
    parameters = request.outputs.add(name="Y").parameters
    parameters["classification"].int64_param = 1
    parameters["shared_memory_region"].string_param = "r"
    parameters["shared_memory_byte_size"].int64_param = 4
    error = refused(request)
    assert error.code is ErrorCode.INVALID_ARG
    assert "output can't set both 'shared_memory_region' and 'classification'" in error.message


def test_a_message_with_fields_of_a_newer_client_is_read_by_protobuf() -> None:
    body = small_request(request_id="7") + b"\xfa\x06\x03new"  # field 111
    decoded = decode(body)
    assert decoded.id == "7"
    assert [tensor.array.tolist() for tensor in decoded.inputs] == [[[1, 1, 1, 1]], [[0, 1, 2, 3]]]


SMALL = [
    small_request(request_id="id"),
    b"",
]


def _typed() -> bytes:
    request = message(id="typed")
    add_input(request, "A", "INT8", [2], int_contents=[1, -1])
    add_input(request, "B", "BYTES", [1], bytes_contents=[b"x"])
    request.parameters["k"].double_param = 2
    request.outputs.add(name="Y").parameters["classification"].int64_param = 1
    return typing.cast("bytes", request.SerializeToString())


def _various() -> bytes:
    request = message(id="é", model_version="1")
    add_input(request, "A", "BYTES", [2], b"\x01\0\0\0a\0\0\0\0")
    add_input(request, "B", "FP16", [300], bytes(600))
    add_input(request, "C", "BF16", [2], bytes(4))
    request.parameters["priority"].int64_param = 1
    return typing.cast("bytes", request.SerializeToString())


@hypothesis.given(data=st.data())
def test_mutated_requests_are_refused_or_well_formed(data: st.DataObject) -> None:
    body = bytearray(data.draw(st.sampled_from([*SMALL, _typed(), _various()])))
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(0, len(body)))
        end = data.draw(st.integers(at, min(len(body), at + 6)))
        body[at:end] = data.draw(st.binary(max_size=6))
    reader = RequestReader()
    try:
        first = decode(bytes(body), reader)
    except InferenceError as error:
        first_error = str(error)
        with pytest.raises(InferenceError) as again:
            decode(bytes(body), reader)
        assert str(again.value) == first_error
        return
    second = decode(bytes(body), reader)  # now with a known head
    for found in (first, second):
        assert isinstance(found, InferRequest)
        for tensor in found.inputs:
            assert tensor.fault is not None or tensor.array.shape == tensor.shape
            assert tensor.fault is not None or tensor.array.dtype == tensor.datatype.dtype
    official = service_pb2.ModelInferRequest.FromString(bytes(body))
    assert first.id == second.id == official.id
    assert first.model_name == official.model_name
    assert [t.name for t in first.inputs] == [t.name for t in second.inputs]
    assert [t.name for t in first.inputs] == [io.name for io in official.inputs]
    raws = list(official.raw_input_contents)
    if raws:
        for tensor, raw in zip(second.inputs, raws, strict=False):
            if tensor.fault is None and tensor.datatype is not BYTES:
                assert tensor.array.tobytes() == raw


@hypothesis.given(body=st.binary(max_size=60))
def test_random_bytes_are_refused_or_well_formed(body: bytes) -> None:
    try:
        decoded = decode(body)
    except InferenceError:
        return
    assert isinstance(decoded, InferRequest)

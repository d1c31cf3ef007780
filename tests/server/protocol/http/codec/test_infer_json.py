import typing

import numpy as np
import orjson
import pytest

from naiad.core.datatypes import BYTES, FP16, FP32, INT32
from naiad.core.regions import Place
from naiad.core.request import LATEST, SEQUENCE_END, SEQUENCE_START, RequestedOutput
from naiad.core.response import InferResponse
from naiad.core.tensor import KeptTensor, RegionTensor, Tensor, Texts, placed_tensor
from naiad.errors import ErrorCode, InferenceError
from naiad.protocol.http.codec import reply_json, typed_json
from naiad.protocol.http.codec.infer_json import Decoded, Target
from naiad.protocol.http.codec.reply_json import ALL_BINARY, ALL_JSON, ReplyForm
from tests.server.protocol.http.scripted_engine import body_of, header_of, json_of, response, tensor

Members = dict[str, typing.Any]

ONE: Members = {"name": "IN", "shape": [1, 2], "datatype": "FP32", "data": [1.0, 2.0]}
LIMIT = 1000


def decode(document: typing.Any, *, tail: bytes = b"", limit: int = LIMIT) -> Decoded:
    text = document if isinstance(document, bytes) else orjson.dumps(document)
    return typed_json.decode(text + tail, len(text), Target("m", 3, limit))


def refused(document: typing.Any, *, tail: bytes = b"", limit: int = LIMIT) -> InferenceError:
    with pytest.raises(InferenceError) as caught:
        decode(document, tail=tail, limit=limit)
    return caught.value


def binary(size: typing.Any, **more: typing.Any) -> Members:
    entry = {**ONE, "parameters": {"binary_data_size": size}, **more}
    del entry["data"]
    return entry


def test_a_request_in_json_is_read() -> None:
    request = decode({"id": "r", "inputs": [ONE]}).request
    assert (request.model_name, request.model_version, request.id) == ("m", 3, "r")
    assert request.output_names == []
    assert request.parameters == {}
    (only,) = request.inputs
    assert (only.name, only.datatype, only.shape) == ("IN", FP32, (1, 2))
    assert only.array.tolist() == [[1.0, 2.0]]
    assert only.array.flags.writeable


def test_requests_share_nothing_that_can_be_changed() -> None:
    first, second = (decode({"inputs": [ONE]}).request for _ in range(2))
    first.parameters["a"] = 1
    first.requested_outputs.append(RequestedOutput("OUT"))
    assert second.parameters == {}
    assert second.output_names == []


def test_binary_tensors_come_in_the_order_of_the_inputs_that_have_a_size() -> None:
    second = {**ONE, "name": "B"}
    third = binary(4, name="C", shape=[1], datatype="INT32")
    body = np.array([1.5, 2.5], np.float32).tobytes() + np.array([7], np.int32).tobytes()
    inputs = decode({"inputs": [binary(8), second, third]}, tail=body).request.inputs
    assert [each.array.tolist() for each in inputs] == [[[1.5, 2.5]], [[1.0, 2.0]], [7]]


def test_what_parameters_say_becomes_fields_and_the_rest_goes_to_the_backend() -> None:
    parameters = {
        "sequence_id": "s", "sequence_start": True, "sequence_end": True, "priority": 2, "timeout": 5,
        "mine": 1.5, "headers": "x",
    }  # fmt: skip
    request = decode({"inputs": [ONE], "parameters": parameters}).request
    assert request.correlation_id == "s"
    assert request.flags == SEQUENCE_START | SEQUENCE_END
    assert (request.priority, request.timeout_us) == (2, 5)
    assert request.parameters == {"mine": 1.5, "headers": "x"}


def test_outputs_that_are_listed_say_themselves_whether_they_are_binary() -> None:
    outputs = [{"name": "A", "parameters": {"binary_data": True}}, {"name": "B"}]
    decoded = decode(
        {"inputs": [ONE], "outputs": outputs, "parameters": {"binary_data_output": True}}
    )
    assert decoded.request.output_names == ["A", "B"]
    assert decoded.form.listed == {"A": True, "B": False}
    assert decoded.form.binary


def test_an_output_that_is_named_twice_is_left_to_the_engine_to_refuse() -> None:
    outputs = [{"name": "A"}, {"name": "A"}]
    assert decode({"inputs": [ONE], "outputs": outputs}).request.output_names == ["A", "A"]


def without(member: str) -> Members:
    return {key: value for key, value in ONE.items() if key != member}


@pytest.mark.parametrize(
    ("document", "fragment"),
    [
        (b"{", "failed to parse the request JSON buffer"),
        (b"", "failed to parse the request JSON buffer: The document is empty"),
        (b"[]", "Unable to parse 'inputs': attempt to access non-existing object member 'inputs'"),
        (b"null", "Unable to parse 'inputs'"),
        ({}, "Unable to parse 'inputs': attempt to access non-existing object member 'inputs'"),
        ({"inputs": 1}, "Unable to parse 'inputs': attempt to access JSON non-array as array"),
        ({"inputs": [ONE], "id": 1}, "Unable to parse 'id': attempt to access JSON non-string as string"),
        ({"inputs": [ONE], "id": None}, "Unable to parse 'id'"),
        ({"inputs": [ONE], "parameters": []}, "failed to get request params.: attempt to get members for non-object"),
        ({"inputs": [ONE], "outputs": {}}, "Unable to parse 'outputs': attempt to access JSON non-array as array"),
        ({"inputs": [ONE], "outputs": [1]}, "Unable to parse 'name': attempt to access non-existing object member"),
        ({"inputs": [ONE], "outputs": [{"name": 1}]}, "Unable to parse 'name': attempt to access JSON non-string"),
        ({"inputs": [ONE], "outputs": [{"name": "A", "parameters": {"binary_data": 1}}]},
         "Unable to parse 'binary_data': attempt to access JSON non-boolean as boolean"),
        ({"inputs": [ONE], "outputs": [{"name": "A", "parameters": {"classification": -1}}]},
         "Unable to set 'classification'"),
        ({"inputs": [ONE], "outputs": [{"name": "A", "parameters": {"classification": 1.5}}]},
         "Unable to set 'classification'"),
        ({"inputs": [without("name")]}, "Unable to parse 'name': attempt to access non-existing object member 'name'"),
        ({"inputs": [{**ONE, "name": 1}]}, "Unable to parse 'name': attempt to access JSON non-string as string"),
        ({"inputs": [without("datatype")]}, "Unable to parse 'datatype'"),
        ({"inputs": [{**ONE, "datatype": 1}]}, "Unable to parse 'datatype'"),
        ({"inputs": [without("shape")]}, "Unable to parse 'shape'"),
        ({"inputs": [{**ONE, "shape": 2}]}, "Unable to parse 'shape': attempt to access JSON non-array as array"),
        ({"inputs": [{**ONE, "shape": [-1, 2]}]},
         "Unable to parse 'shape': attempt to access JSON non-unsigned-integer as unsigned-integer"),
        ({"inputs": [{**ONE, "shape": [1.0, 2]}]}, "Unable to parse 'shape'"),
        ({"inputs": [{**ONE, "shape": [True, 2]}]}, "Unable to parse 'shape'"),
        ({"inputs": [{**ONE, "data": 1}]}, "Unable to parse 'data': attempt to access JSON non-array as array"),
        ({"inputs": [{**ONE, "data": [1]}]}, "shape does not match true shape"),
        ({"inputs": [binary(-1)]}, "Unable to parse 'binary_data_size'"),
        ({"inputs": [binary(2**63)]}, "Unable to parse 'binary_data_size'"),
        ({"inputs": [binary("8")]}, "Unable to parse 'binary_data_size'"),
        ({"inputs": [binary(True)]}, "Unable to parse 'binary_data_size'"),
        ({"inputs": [{**without("data"), "parameters": {"shared_memory_region": 1}}]},
         "Unable to parse 'shared_memory_region'"),
    ],
)  # fmt: skip
def test_json_of_a_wrong_form_is_an_internal_error(document: typing.Any, fragment: str) -> None:
    error = refused(document)
    assert error.code is ErrorCode.INTERNAL
    assert fragment in error.message


@pytest.mark.parametrize(
    ("document", "fragment"),
    [
        ({"inputs": [1]}, "Input must set only one of the following fields"),
        ({"inputs": [{}]}, "But no field is set"),
        ({"inputs": [{**ONE, "parameters": {"binary_data_size": 8}}]}, "But set 'data' 'binary_data_size'"),
        ({"inputs": [{**ONE, "datatype": "FLOAT"}]}, "invalid datatype for input IN: 'FLOAT'; expected one of BOOL, UINT8"),
        ({"inputs": [{**ONE, "datatype": "FP16"}]}, "receiving FP16 data via JSON is not supported"),
        ({"inputs": [{**ONE, "shape": [2**40, 2**40]}]}, "exceed maximum size of 9223372036854775807"),
        ({"inputs": [{**ONE, "shape": [0, 2**63]}]}, "exceed maximum size"),
        ({"inputs": [{**ONE, "shape": [2**62]}]}, "byte size overflow for input 'IN'"),
        ({"inputs": [{**ONE, "shape": [251]}]}, "exceeds the maximum allowed value of 1000 bytes. Use --http-max-input-size"),
        ({"inputs": [ONE], "parameters": {"triton_x": 1}}, "parameter keys starting with 'triton_' are reserved"),
        ({"inputs": [ONE], "parameters": {"a": []}}, "parameter 'a' has invalid type"),
        ({"inputs": [binary(8)]}, "unexpected size for input 'IN', expecting 8 additional bytes for model 'm'"),
        (b"[" * 2000, "JSON nesting depth exceeds maximum allowed limit (100)"),
    ],
)  # fmt: skip
def test_what_a_client_can_correct_is_an_invalid_argument(
    document: typing.Any, fragment: str
) -> None:
    error = refused(document, limit=2000 if isinstance(document, bytes) else LIMIT)
    assert error.code is ErrorCode.INVALID_ARG
    assert fragment in error.message


def test_bytes_left_over_are_refused() -> None:
    error = refused({"inputs": [binary(8)]}, tail=bytes(9))
    assert error.code is ErrorCode.INVALID_ARG
    assert "unexpected additional input data for model 'm'" in error.message


def test_too_few_bytes_are_refused_with_how_many_are_missing() -> None:
    error = refused({"inputs": [binary(8)]}, tail=bytes(5))
    assert "expecting 3 additional bytes for model 'm'" in error.message


def test_bytes_that_do_not_fill_the_shape_are_a_fault_that_the_engine_reports() -> None:
    (only,) = decode({"inputs": [binary(4)]}, tail=bytes(4)).request.inputs
    assert "Expected 8, got 4" in str(only.fault)


@pytest.mark.parametrize("dims", [33, 100_000])
@pytest.mark.parametrize("source", [{"data": [1]}, {"parameters": {"binary_data_size": 4}}])
def test_a_shape_of_too_many_dimensions_is_refused_without_repeating_it(
    dims: int, source: Members
) -> None:
    entry = {**without("data"), **source, "shape": [1] * dims}
    error = refused({"inputs": [entry]}, tail=bytes(4), limit=1_000_000)
    assert error.code is ErrorCode.INVALID_ARG
    assert f"{dims} dimensions; at most 32 are possible" in error.message
    assert len(error.message) < 200


@pytest.mark.parametrize("datatype", ["FP32", "BYTES", "FP16"])
def test_a_shape_without_elements_is_an_empty_tensor_whatever_data_holds(datatype: str) -> None:
    entry = {"name": "IN", "shape": [0, 2**40], "datatype": datatype, "data": [1, "x"]}
    (only,) = decode({"inputs": [entry]}).request.inputs
    assert only.fault is None
    assert only.array.shape == (0, 2**40)


def test_strings_count_with_four_bytes_each_against_the_limit() -> None:
    entry = {"name": "IN", "shape": [3], "datatype": "BYTES", "data": ["ab", "", "c"]}
    assert decode({"inputs": [entry]}, limit=200).request.inputs[0].datatype is BYTES
    entry = {"name": "IN", "shape": [100], "datatype": "BYTES", "data": [""] * 100}
    text = orjson.dumps({"inputs": [entry]})
    assert len(text) < 395
    assert "exceeds the maximum allowed value of 395 bytes" in refused(text, limit=395).message


def test_json_longer_than_the_limit_is_refused() -> None:
    error = refused({"inputs": [ONE]}, limit=20)
    assert error.code is ErrorCode.INVALID_ARG
    assert "exceeds the maximum allowed input size of 20 bytes" in error.message
    assert "Use --http-max-input-size to increase the limit." in error.message


def test_binary_data_may_be_longer_than_the_limit() -> None:
    entry = binary(8000, shape=[2000])
    assert decode({"inputs": [entry]}, tail=bytes(8000)).request.inputs[0].array.shape == (2000,)


def region(name: str = "r", **bytes_of: typing.Any) -> dict[str, typing.Any]:
    members = {f"shared_memory_{key}": value for key, value in bytes_of.items()}
    return {"parameters": {"shared_memory_region": name, **members}}


def test_an_input_in_shared_memory_is_looked_up_later() -> None:
    entry = {**without("data"), **region(offset=4, byte_size=8)}
    request = decode({"inputs": [ONE, entry]}).request
    assert request.in_regions
    there = request.inputs[1]
    assert isinstance(there, RegionTensor)
    assert there.place == Place("r", 4, 8)
    assert not decode({"inputs": [ONE]}).request.in_regions


@pytest.mark.parametrize("member", ["offset", "byte_size"])
@pytest.mark.parametrize("value", [-1, "8", 1.5, 2**63])
def test_a_place_in_shared_memory_is_numbers_of_bytes(member: str, value: typing.Any) -> None:
    error = refused({"inputs": [{**without("data"), **region("r", **{member: value})}]})
    assert error.code is ErrorCode.INTERNAL
    assert f"Unable to parse 'shared_memory_{member}'" in error.message


def test_an_output_is_in_a_region_or_in_the_response() -> None:
    entry = {"name": "A", "parameters": {**region()["parameters"], "binary_data": True}}
    error = refused({"inputs": [ONE], "outputs": [entry]})
    assert error.code is ErrorCode.INVALID_ARG
    assert "Output can't set both 'shared_memory_region' and 'binary_data'" in error.message


def test_a_placed_output_is_named_only() -> None:
    sent = InferResponse(
        "m", 1, "", [placed_tensor(Tensor("Y", FP32, (2,), np.ones(2, np.float32)))], {}
    )
    for form in (ALL_JSON, ReplyForm(True, {"Y": False})):
        body = orjson.loads(b"".join(reply_json.encode(sent, form).body))
        assert body["outputs"] == [{"name": "Y", "datatype": "FP32", "shape": [2]}]


def test_a_requested_output_has_its_classes_or_its_region() -> None:
    outputs = [
        {"name": "A", "parameters": {"classification": 3, "binary_data": True}},
        {"name": "B", "parameters": {"shared_memory_region": "r"}},
        {"name": "C"},
    ]
    decoded = decode({"inputs": [ONE], "outputs": outputs})
    assert decoded.request.requested_outputs == [
        RequestedOutput("A", classes=3),
        RequestedOutput("B", place=Place("r", 0, 0)),
        RequestedOutput("C"),
    ]
    assert decoded.form.listed == {"A": True, "B": False, "C": False}


def test_zero_classes_are_an_ordinary_output() -> None:
    entry = {"name": "A", "parameters": {"classification": 0}}
    decoded = decode({"inputs": [ONE], "outputs": [entry]})
    assert decoded.request.requested_outputs == [RequestedOutput("A")]
    assert decoded.form.listed == {"A": False}


def test_classes_do_not_go_to_a_region() -> None:
    parameters = {"classification": 1, "shared_memory_region": "r"}
    error = refused({"inputs": [ONE], "outputs": [{"name": "A", "parameters": parameters}]})
    assert error.code is ErrorCode.INVALID_ARG
    assert "Output can't set both 'shared_memory_region' and 'classification'" in error.message


def test_a_response_has_tritons_members_in_tritons_order() -> None:
    answer = InferResponse(
        "m",
        2,
        "r",
        [Tensor("OUT", FP32, (1, 2), np.array([[0.1, 2]], np.float32))],
        {"a": 1, "b": float("inf"), "c": "x", "d": True},
    )
    reply = reply_json.encode(answer, ALL_JSON)
    assert body_of(reply) == (
        b'{"id":"r","model_name":"m","model_version":"2","parameters":{"a":1,"b":Infinity,"c":"x","d":true},'
        b'"outputs":[{"name":"OUT","datatype":"FP32","shape":[1,2],"data":[0.10000000149011612,2.0]}]}'
    )
    assert reply.status == 200
    assert reply.headers == ((b"Content-Type", b"application/json"),)
    assert reply.request_id == "r"


def test_no_id_and_no_parameters_are_left_out() -> None:
    assert list(json_of(reply_json.encode(response(), ALL_JSON))) == [
        "model_name",
        "model_version",
        "outputs",
    ]


def test_binary_outputs_follow_the_json_in_their_order() -> None:
    first, second = tensor("A", INT32, [1, 2]), tensor("B", BYTES, [b"x", b""])
    reply = reply_json.encode(response(first, second), ALL_BINARY)
    length = int(header_of(reply, b"Inference-Header-Content-Length") or b"")
    assert header_of(reply, b"Content-Type") == b"application/octet-stream"
    body = body_of(reply)
    members = orjson.loads(body[:length])
    assert members["outputs"] == [
        {"name": "A", "datatype": "INT32", "shape": [2], "parameters": {"binary_data_size": 8}},
        {"name": "B", "datatype": "BYTES", "shape": [2], "parameters": {"binary_data_size": 9}},
    ]
    assert body[length:] == b"\1\0\0\0\2\0\0\0" + b"\1\0\0\0x\0\0\0\0"


def test_each_listed_output_goes_its_own_way() -> None:
    form = ReplyForm(binary=False, listed={"A": True, "B": False})
    outputs = [tensor(name, INT32, [1]) for name in "ABC"]
    reply = reply_json.encode(response(*outputs), form)
    length = int(header_of(reply, b"Inference-Header-Content-Length") or b"")
    members = orjson.loads(body_of(reply)[:length])["outputs"]
    assert [sorted(set(member) & {"data", "parameters"}) for member in members] == [
        ["parameters"], ["data"], ["data"]
    ]  # fmt: skip


def test_a_reply_whose_binary_outputs_are_all_empty_is_json() -> None:
    reply = reply_json.encode(response(tensor("A", FP32, [])), ALL_BINARY)
    assert reply.headers == ((b"Content-Type", b"application/json"),)
    (only,) = json_of(reply)["outputs"]
    assert only["parameters"] == {"binary_data_size": 0}
    assert "data" not in only


def test_half_floats_go_out_as_binary_data_only() -> None:
    answer = response(tensor("OUT", FP16, [1.0]))
    with pytest.raises(InferenceError, match="sending FP16 data via JSON is not supported"):
        reply_json.encode(answer, ALL_JSON)
    assert reply_json.encode(answer, ALL_BINARY).body[1] == b"\x00\x3c"


@pytest.mark.parametrize(
    "members",
    [b'"id":"\xec"', b'"id":"\\ud800","parameters":{"x":NaN}', b'"parameters":{"k":"\xec"}', b'"parameters":{"\xec":1}',
     b'"parameters":{"sequence_id":"\xec"}'],
)  # fmt: skip
def test_what_goes_into_a_response_or_to_a_worker_must_be_text(members: bytes) -> None:
    """Only elements of BYTES may be any bytes; else one client's id fails the whole batch that it is part of."""
    body = (
        b"{" + members + b',"inputs":[{"name":"A","shape":[1],"datatype":"BYTES","data":["\xec"]}]}'
    )
    with pytest.raises(InferenceError, match="is not valid UTF-8"):
        typed_json.decode(body, len(body), Target("m", LATEST, 1000))
    fine = body.replace(members, b'"id":"caf\xc3\xa9"')
    decoded = typed_json.decode(fine, len(fine), Target("m", LATEST, 1000))
    assert decoded.request.id == "caf\N{LATIN SMALL LETTER E WITH ACUTE}"
    assert decoded.request.inputs[0].array.tolist() == [b"\xec"]


def test_what_is_sent_again_and_again_is_written_once() -> None:
    values = np.array([[1.5, float("nan")]], np.float32)
    texts = Texts()
    plain = Tensor("Y", FP32, (1, 2), values)
    kept = KeptTensor("Y", FP32, (1, 2), values, None, texts)
    expected = reply_json.encode(InferResponse("m", 1, "", [plain], {}), ALL_JSON).body
    assert reply_json.encode(InferResponse("m", 1, "", [kept], {}), ALL_JSON).body == expected
    size = texts.size
    assert 0 < size < len(b"".join(expected))
    values[:] = 0
    assert reply_json.encode(InferResponse("m", 1, "", [kept], {}), ALL_JSON).body == expected
    assert texts.size == size

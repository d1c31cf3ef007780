import math
import typing

import numpy as np
import orjson
import pytest

from naiad.core.datatypes import BYTES, FP16, FP32, INT32
from naiad.core.request import LATEST, InferRequest, Parameters
from naiad.core.response import InferResponse
from naiad.engine.api import ModelTraits, TensorMetadata
from naiad.errors import ErrorCode, InferenceError
from naiad.protocol.http.codec.generate_json import GenerateReader, encode
from naiad.protocol.http.codec.infer_json import Target
from tests.server.protocol.http.scripted_engine import response, tensor

INPUTS = (
    TensorMetadata(name="TEXT", datatype=BYTES, shape=(1,)),
    TensorMetadata(name="PAIRS", datatype=INT32, shape=(-1, 2)),
    TensorMetadata(name="WILD", datatype=FP32, shape=(-1, -1)),
    TensorMetadata(name="HALF", datatype=FP16, shape=(-1,)),
)


def read(
    body: typing.Any, *, batched: bool = False, limit: int = 10_000, **more: typing.Any
) -> InferRequest:
    shape = ModelTraits(decoupled=True, max_batch_size=4 if batched else 0, inputs=INPUTS)
    text = body if isinstance(body, bytes) else orjson.dumps(body | more)
    reader = GenerateReader(shape, Target("m", LATEST, limit))
    return reader.read(text)


def shapes(body: typing.Any, **more: typing.Any) -> dict[str, tuple[int, ...]]:
    return {each.name: each.shape for each in read(body, **more).inputs}


def refused(body: typing.Any, **more: typing.Any) -> InferenceError:
    with pytest.raises(InferenceError) as caught:
        read(body, **more)
    return caught.value


def test_keys_of_inputs_are_tensors_and_all_others_parameters() -> None:
    request = read({"TEXT": "hi", "n": 1, "f": 2.5, "b": True, "s": "x", "triton_x": 1, "id": "r"})
    assert request.id == "r"
    assert [each.name for each in request.inputs] == ["TEXT"]
    assert request.inputs[0].array.tolist() == [b"hi"]
    # The id too, as in Triton, and names that are reserved elsewhere.
    assert request.parameters == {"n": 1, "f": 2.5, "b": True, "s": "x", "triton_x": 1, "id": "r"}
    assert request.output_names == []


def test_the_nested_object_is_read_by_the_same_rule() -> None:
    request = read({"parameters": {"PAIRS": [1, 2], "n": 1}, "m": 2})
    assert [each.name for each in request.inputs] == ["PAIRS"]
    assert request.parameters == {"n": 1, "m": 2}


def test_integers_beyond_64_bits_become_floats() -> None:
    assert read(b'{"n": 9223372036854775808}').parameters == {"n": 2.0**63}


@pytest.mark.parametrize(
    ("value", "shape"),
    [([1, 2], (1, 2)), ([1, 2, 3, 4], (2, 2)), ([], (0, 2))],
)
def test_fixed_dimensions_divide_and_the_innermost_of_any_size_takes_the_rest(
    value: list[int], shape: tuple[int, ...]
) -> None:
    assert shapes({"PAIRS": value}) == {"PAIRS": shape}


def test_the_batch_dimension_is_just_one_more_of_any_size() -> None:
    assert shapes({"TEXT": "a", "PAIRS": [1, 2, 3, 4]}, batched=True) == {
        "TEXT": (1, 1),
        "PAIRS": (1, 2, 2),
    }
    assert shapes({"TEXT": ["a", "b"]}, batched=True) == {"TEXT": (2, 1)}


def test_of_several_dimensions_of_any_size_the_outer_ones_are_1() -> None:
    assert shapes({"WILD": [1, 2, 3]}) == {"WILD": (1, 3)}
    assert shapes({"WILD": 7}) == {"WILD": (1, 1)}


@pytest.mark.parametrize(
    "body", [{"PAIRS": [1, 2, 3]}, {"PAIRS": 5}, {"TEXT": ["a", "b"]}, {"TEXT": []}]
)
def test_values_that_fill_no_shape_are_refused(body: typing.Any) -> None:
    error = refused(body)
    assert error.code is ErrorCode.INVALID_ARG
    assert "The schema can not convert input" in error.message


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        ({"a": [1]}, ErrorCode.INVALID_ARG, "parameter 'a' has invalid type"),
        ({"a": {}}, ErrorCode.INVALID_ARG, "parameter 'a' has invalid type"),
        ({"a": None}, ErrorCode.INVALID_ARG, "parameter 'a' has invalid type"),
        ({"TEXT": {}}, ErrorCode.INTERNAL, "non-string as string"),
        ({"TEXT": 5}, ErrorCode.INTERNAL, "non-string as string"),
        ({"PAIRS": [1, 2.5]}, ErrorCode.INTERNAL, "non-signed-integer"),
        ({"PAIRS": [[1, 2], [3, 4]]}, ErrorCode.INTERNAL, "Shape does not match true shape"),
        ({"HALF": [1]}, ErrorCode.INVALID_ARG, "receiving FP16 data via JSON is not supported"),
        ({"id": 7}, ErrorCode.INTERNAL, "Unable to parse 'id'"),
        ({"parameters": 3}, ErrorCode.INTERNAL, "Expected JSON object for keyword: 'parameters'"),
        (
            {"parameters": {"a": []}},
            ErrorCode.INVALID_ARG,
            "Converting keyword: 'parameters': parameter 'a'",
        ),
        ({"parameters": {"parameters": {}}}, ErrorCode.INVALID_ARG, "Converting keyword"),
        (b"", ErrorCode.INTERNAL, "The document is empty"),
        (b"nojson", ErrorCode.INTERNAL, "failed to parse the request JSON buffer"),
        (b"[]", ErrorCode.INTERNAL, "attempt to get members for non-object"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_with_tritons_words(
    body: typing.Any, code: ErrorCode, message: str
) -> None:
    error = refused(body)
    assert error.code is code
    assert message in error.message


def test_an_input_called_parameters_cannot_be_sent() -> None:
    inputs = (TensorMetadata(name="parameters", datatype=INT32, shape=(1,)),)
    shape = ModelTraits(decoupled=False, max_batch_size=0, inputs=inputs)
    reader = GenerateReader(shape, Target("m", LATEST, 100))
    with pytest.raises(InferenceError, match="for nested schema also given as input tensor name"):
        reader.read(b'{"parameters": {}}')


@pytest.mark.parametrize(
    "body",
    [
        b'{"TEXT": "a", "TEXT": "b"}',
        b'{"TEXT": "a", "parameters": {"TEXT": "b"}}',
        b'{"parameters": {"TEXT": "b"}, "TEXT": "a"}',
        b'{"parameters": {"TEXT": "b", "TEXT": "a"}}',
    ],
)
def test_an_input_twice_is_refused(body: bytes) -> None:
    error = refused(body)
    assert error.code is ErrorCode.INVALID_ARG
    assert "input 'TEXT' already exists in request" in error.message


@pytest.mark.parametrize("depth", [990, 1000, 1020])
def test_deep_lists_beside_a_name_that_occurs_twice_are_refused_with_words(depth: int) -> None:
    nested = b"[" * depth + b"]" * depth
    error = refused(b'{"TEXT": "a", "n": %b, "m": "TEXT"}' % nested)
    assert error.code is ErrorCode.INVALID_ARG
    assert "nesting depth" in error.message or "invalid type" in error.message
    assert refused(b'{"TEXT": %b, "TEXT": "a"}' % nested).code is ErrorCode.INVALID_ARG


@pytest.mark.parametrize(
    "document",
    [
        b'\xef\xbb\xbf{"TEXT": "TEXT"}',
        b'{"TEXT": "TEXT", "n": [%b]}' % (b"1" * 300),
        b'{"TEXT": "TEXT", "n": %b}' % (b"0." + b"1" * 5_000),
    ],
)
def test_a_search_for_repeated_inputs_reads_what_the_parser_read(document: bytes) -> None:
    try:
        request = read(document)
    except InferenceError as error:
        assert "invalid type" in error.message  # noqa: PT017 - a list is not a parameter
    else:
        assert request.inputs[0].array.tolist() == [b"TEXT"]


def test_a_name_that_is_also_a_value_is_not_a_second_input() -> None:
    request = read(b'{"TEXT": "TEXT", "n": 1, "n": 2}')
    assert request.inputs[0].array.tolist() == [b"TEXT"]
    assert request.parameters == {"n": 2}


def test_tensors_together_may_have_as_many_bytes_as_the_limit_says() -> None:
    assert read({"PAIRS": [1, 2], "WILD": [1, 2]}, limit=16)
    error = refused({"PAIRS": [1, 2], "WILD": [1, 2]}, limit=15)
    assert "exceeds the maximum allowed input size of 15" in error.message
    assert "exceeds the maximum" in refused({"TEXT": "x" * 100}, limit=100).message


def written(answer: InferResponse) -> typing.Any:
    return orjson.loads(encode(answer))


def test_an_output_of_one_element_is_not_a_list() -> None:
    answer = response(
        tensor("B", BYTES, [b"x"]), tensor("A", FP32, [0.5]), tensor("C", INT32, []), tensor("D", INT32, [1, 2]),
        request_id="r",
    )  # fmt: skip
    assert encode(answer) == (
        b'{"A":0.5,"B":"x","C":[],"D":[1,2],"id":"r","model_name":"m","model_version":"1"}'
    )


def test_nested_shapes_come_flat_and_one_element_of_any_rank_is_a_scalar() -> None:
    one = np.full((1, 1, 1), 3, np.int32)
    two = np.array([[1, 2], [3, 4]], np.int32)
    answer = InferResponse("m", 1, "", [tensor_of("ONE", one), tensor_of("TWO", two)], {})
    text = written(answer)
    assert (text["ONE"], text["TWO"]) == (3, [1, 2, 3, 4])


def tensor_of(name: str, array: "np.ndarray[typing.Any, typing.Any]") -> typing.Any:
    output = tensor(name, INT32, [0])
    return type(output)(name, INT32, array.shape, array)


def test_what_json_has_no_word_for_is_a_bare_literal() -> None:
    assert b'"A":NaN' in encode(response(tensor("A", FP32, [math.nan])))
    assert b'"A":[Infinity,1.0]' in encode(response(tensor("A", FP32, [math.inf, 1])))


def test_a_lone_string_that_is_not_text_keeps_its_bytes() -> None:
    assert b'"A":"\xff"' in encode(response(tensor("A", BYTES, [b"\xff"])))


def test_parameters_of_the_model_stand_beside_its_outputs_and_names_are_decided() -> None:
    given: Parameters = {"A": True, "model_name": "no", "x": math.inf}
    answer = InferResponse("m", 1, "", [tensor("A", INT32, [1]), tensor("B", INT32, [2])], given)
    text = encode(answer)
    assert text == b'{"A":true,"B":2,"model_name":"m","model_version":"1","x":Infinity}'


def test_half_floats_cannot_be_sent() -> None:
    with pytest.raises(InferenceError, match="sending FP16 data via JSON is not supported"):
        encode(response(tensor("A", FP16, [1])))

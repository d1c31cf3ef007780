"""KServe's v1 on the wire: rows and columns in, rows and columns out, and every wrong body refused in words."""

import base64
import math
import typing

import numpy as np
import orjson
import pytest

from naiad.core.datatypes import (
    BF16,
    BOOL,
    BYTES,
    FP16,
    FP32,
    FP64,
    INT8,
    INT64,
    UINT8,
    UINT64,
    DataType,
)
from naiad.core.response import NO_PARAMETERS, InferResponse
from naiad.core.tensor import Tensor, object_array
from naiad.engine.api import ModelTraits, TensorMetadata
from naiad.errors import ErrorCode, InferenceError
from naiad.protocol.http.codec import predict_json
from naiad.protocol.http.codec.infer_json import Target
from naiad.protocol.http.codec.predict_json import Model, Predict, PredictForm, Rows

Inputs = dict[str, tuple[DataType, tuple[int, ...]]]

TWO: Inputs = {"x": (FP32, (3,)), "s": (BYTES, (1,))}
IMAGE: Inputs = {"image": (FP32, (2, 3))}
TEXT: Inputs = {"text": (BYTES, (-1,))}


def model(inputs: Inputs, *, batch: int = 8, limit: int = 1 << 20) -> Model:
    specs = tuple(
        TensorMetadata(name=name, datatype=datatype, shape=shape)
        for name, (datatype, shape) in inputs.items()
    )
    traits = ModelTraits(decoupled=False, max_batch_size=batch, inputs=specs)
    return Model(traits, Target("m", -1, limit))


def decode(body: typing.Any, inputs: Inputs, *, batch: int = 8, limit: int = 1 << 20) -> Predict:
    text = body if isinstance(body, bytes) else orjson.dumps(body)
    return predict_json.decode(text, model(inputs, batch=batch, limit=limit), "r")


def refused(body: typing.Any, inputs: Inputs = TWO, *, batch: int = 8, limit: int = 1 << 20) -> str:
    with pytest.raises(InferenceError) as failure:
        decode(body, inputs, batch=batch, limit=limit)
    assert failure.value.code is ErrorCode.INVALID_ARG
    return failure.value.message


def tensors(predict: Predict) -> dict[str, typing.Any]:
    return {each.name: each.array.tolist() for each in predict.request.inputs}


def test_rows_of_named_tensors_become_a_batch() -> None:
    predict = decode(
        {
            "signature_name": "serving_default",
            "instances": [{"x": [1, 2, 3], "s": ["a"]}, {"s": ["b"], "x": [4.5, 5, 6]}],
        },
        TWO,
    )
    assert tensors(predict) == {"x": [[1, 2, 3], [4.5, 5, 6]], "s": [[b"a"], [b"b"]]}
    assert [each.shape for each in predict.request.inputs] == [(2, 3), (2, 1)]
    assert [each.datatype for each in predict.request.inputs] == [FP32, BYTES]
    assert (predict.request.model_name, predict.request.id) == ("m", "r")
    assert (predict.form.rows, predict.form.member) == (Rows.STACKED, "predictions")


def test_rows_without_a_name_are_for_the_only_input() -> None:
    predict = decode({"instances": [[[1, 2, 3], [4, 5, 6]]]}, IMAGE)
    assert tensors(predict) == {"image": [[[1, 2, 3], [4, 5, 6]]]}


def test_columns_are_whole_tensors() -> None:
    predict = decode({"inputs": {"x": [[1, 2, 3]], "s": [["a"]]}}, TWO)
    assert tensors(predict) == {"x": [[1, 2, 3]], "s": [[b"a"]]}
    assert predict.form.rows is Rows.NONE
    assert tensors(decode({"inputs": [[[1, 2, 3], [4, 5, 6]]]}, IMAGE)) == {
        "image": [[[1, 2, 3], [4, 5, 6]]]
    }


def test_an_element_may_stand_without_its_brackets() -> None:
    rows = decode({"instances": [{"x": [1, 2, 3], "s": "a"}]}, TWO)
    assert tensors(rows)["s"] == [[b"a"]]
    columns = decode({"inputs": {"x": [[1, 2, 3]], "s": ["a"]}}, TWO)
    assert tensors(columns)["s"] == [[b"a"]]


def test_bytes_are_text_or_base64() -> None:
    raw = bytes(range(256))
    b64 = {"b64": base64.b64encode(raw).decode()}
    assert tensors(decode({"instances": ["grün", b64]}, TEXT)) == {
        "text": [["grün".encode()], [raw]]
    }
    assert tensors(decode({"inputs": b64}, TEXT, batch=0)) == {"text": [raw]}
    named: Inputs = {"b64": (BYTES, (1,))}
    assert tensors(decode({"instances": [{"b64": "no base64"}]}, named)) == {
        "b64": [[b"no base64"]]
    }


@pytest.mark.parametrize(
    ("datatype", "values"),
    [
        (BOOL, [True, False]),
        (UINT8, [0, 255]),
        (INT8, [-128, 127]),
        (INT64, [-(2**63), 2**63 - 1]),
        (UINT64, [0, 2**64 - 1]),
        (FP16, [0.5, -65504.0]),
        (BF16, [0.5, -(2.0**100)]),
        (FP32, [0.25, 1]),
        (FP64, [0.1, 1e300]),
        (BYTES, [b"a", b""]),
    ],
    ids=lambda value: value.name if isinstance(value, DataType) else "",
)
def test_every_datatype_comes_and_goes(datatype: DataType, values: list[typing.Any]) -> None:
    sent = [value.decode() if isinstance(value, bytes) else value for value in values]
    predict = decode({"instances": sent}, {"x": (datatype, (1,))})
    (tensor,) = predict.request.inputs
    assert (tensor.array.dtype, tensor.shape) == (datatype.dtype, (2, 1))
    assert tensor.array.ravel().tolist() == values
    assert written(tensor, form=Rows.NONE) == {"outputs": [[value] for value in sent]}


def test_nan_and_infinities_are_read() -> None:
    (tensor,) = decode(
        b'{"instances": [[NaN, Infinity, -Infinity]]}', {"x": (FP32, (3,))}
    ).request.inputs
    first, *rest = tensor.array.ravel().tolist()
    assert math.isnan(first)
    assert rest == [math.inf, -math.inf]


def test_a_model_that_does_not_batch_takes_rows_that_are_its_first_dimension() -> None:
    predict = decode({"instances": ["a", "b"]}, TEXT, batch=0)
    assert (tensors(predict), predict.form.rows) == ({"text": [b"a", b"b"]}, Rows.STACKED)
    inputs: Inputs = {"x": (FP32, (-1, 2))}
    predict = decode({"instances": [[1, 2], [3, 4], [5, 6]]}, inputs, batch=0)
    assert tensors(predict) == {"x": [[1, 2], [3, 4], [5, 6]]}


def test_a_model_that_does_not_batch_takes_one_row_that_is_everything() -> None:
    predict = decode({"instances": [["a", "b"]]}, TEXT, batch=0)
    assert (tensors(predict), predict.form.rows) == ({"text": [b"a", b"b"]}, Rows.WHOLE)
    predict = decode({"instances": [{"x": [1, 2, 3], "s": "a"}]}, TWO, batch=0)
    assert (tensors(predict), predict.form.rows) == ({"x": [1, 2, 3], "s": [b"a"]}, Rows.WHOLE)
    scalar: Inputs = {"x": (FP32, ())}
    assert tensors(decode({"instances": [5]}, scalar, batch=0)) == {"x": 5}


def test_dimensions_of_any_size_may_be_empty() -> None:
    (tensor,) = decode({"instances": [[], []]}, TEXT).request.inputs
    assert tensor.shape == (2, 0)


def test_other_members_have_no_effect() -> None:
    body = {"instances": [["a"]], "parameters": {"deep": [{}]}, "id": 7}
    assert tensors(decode(body, TEXT)) == {"text": [[b"a"]]}


B64 = {"b64": "/w=="}
ROW = {"x": [1, 2, 3], "s": "a"}
WRONG: dict[str, tuple[typing.Any, str]] = {
    "nothing": (b"", "The document is empty"),
    "no JSON": (b"hello", "failed to parse the request JSON buffer"),
    "cut JSON": (b'{"instances": [1, 2', "failed to parse the request JSON buffer"),
    "two documents": (b"{} {}", "failed to parse the request JSON buffer"),
    "not UTF-8 around it": (b"\xff{}", "failed to parse the request JSON buffer"),
    "a list": ([ROW], "the request is not a JSON object"),
    "a number": (5, "the request is not a JSON object"),
    "null": (None, "the request is not a JSON object"),
    "no members": ({}, "neither 'instances' nor 'inputs': it has no members"),
    "a misspelled member": ({"instance": [ROW]}, "neither 'instances' nor 'inputs': it has 'instance'"),
    "a CloudEvent without data": ({"specversion": "1.0", "id": "1", "type": "a", "source": "b"}, "is a CloudEvent without 'data'; send what is a request"),
    "a CloudEvent with bytes": ({"specversion": "1.0", "id": "1", "type": "a", "source": "b", "data_base64": "e30="}, "without 'data', which is not read: 'data_base64'"),
    "half a CloudEvent": ({"specversion": "1.0", "type": "a", "data": {"instances": [ROW]}}, "a CloudEvent without 'id', 'source'"),
    "a CloudEvent of tomorrow": ({"specversion": "9", "id": "1", "type": "a", "source": "b", "data": {"instances": [ROW]}}, "'specversion' is '9'"),
    "a CloudEvent of a list": ({"specversion": ["1.0"], "id": "1", "type": "a", "source": "b", "data": {}}, "'specversion' is a list: events"),
    "a CloudEvent of a deep list": (b'{"specversion": ' + b"[" * 1000 + b"]" * 1000 + b', "id": "1", "type": "a", "source": "b"}', "'specversion' is a list"),
    "a CloudEvent of an object": ({"specversion": {}, "id": "1", "type": "a", "source": "b", "data": {}}, "'specversion' is an object: events"),
    "a CloudEvent of a number": ({"specversion": 1.0, "id": "1", "type": "a", "source": "b", "data": {}}, "'specversion' is '1.0'"),
    "a CloudEvent with text": ({"specversion": "1.0", "id": "1", "type": "a", "source": "b", "data": "{}"}, "the request is not a JSON object"),
    "a CloudEvent in another": ({"specversion": "1.0", "id": "1", "type": "a", "source": "b", "data": {"specversion": "1.0"}}, "neither 'instances' nor 'inputs'"),
    "both forms": ({"instances": [ROW], "inputs": {}}, "both 'instances' and 'inputs'"),
    "a signature that is a number": ({"signature_name": 1, "instances": [ROW]}, "'signature_name' is not a string"),
    "instances null": ({"instances": None}, "'instances' is not a list"),
    "instances an object": ({"instances": ROW}, "'instances' is not a list"),
    "instances a string": ({"instances": "a"}, "'instances' is not a list"),
    "no rows": ({"instances": []}, "'instances' is empty"),
    "an empty row": ({"instances": [{}]}, "row 0 (instances[0]) names no tensors: this model has 2 inputs: 'x', 's'"),
    "rows without names": ({"instances": [[1, 2, 3]]}, "has 2 inputs: 'x', 's': send a row as {…} with the names"),
    "null as the first row": ({"instances": [None, ROW]}, "has 2 inputs: 'x', 's'"),
    "a row that is null": ({"instances": [ROW, None]}, "row 1 (instances[1]) is not an object, but row 0 is one"),
    "a row that is a list": ({"instances": [ROW, [1, 2, 3]]}, "row 1 (instances[1]) is not an object"),
    "a row of bytes": ({"instances": [ROW, B64]}, "row 1 (instances[1]) is not an object"),
    "a row without a tensor": ({"instances": [ROW, {"x": [1, 2, 3]}]}, "row 1 (instances[1]) lacks 's': row 0 has 'x', 's'"),
    "an unknown tensor": (
        {"instances": [{**ROW, "z": 1}]},
        "row 0 (instances[0]) has a tensor 'z', which is not an input of model 'm': it has 2 inputs: 'x', 's'",
    ),
    "an unknown tensor later": ({"instances": [ROW, {**ROW, "z": 1}]}, "row 1 (instances[1]) has a tensor 'z', which is not an input"),
    "a tensor more than in row 0": ({"instances": [{"x": [1, 2, 3]}, ROW]}, "row 1 (instances[1]) also has 's': row 0 has 'x'"),
    "a short row": (
        {"instances": [ROW, {**ROW, "x": [1, 2]}]},
        "row 1 of input 'x' (instances[1][\"x\"]) has 2 values, expected 3: the shape of a row is [3]",
    ),
    "a long row": ({"instances": [{**ROW, "x": [1, 2, 3, 4]}]}, "row 0 of input 'x' (instances[0][\"x\"]) has 4 values, expected 3"),
    "a row too flat": ({"instances": [{**ROW, "x": 1}]}, "row 0 of input 'x' (instances[0][\"x\"]) is 1, not a list"),
    "a row too deep": (
        {"instances": [{**ROW, "x": [[1], [2], [3]]}]},
        "row 0 of input 'x' (instances[0][\"x\"][0]) is a list, nested deeper than the shape: send a number for FP32",
    ),
    "a row half deep": ({"instances": [{**ROW, "x": [1, [2], 3]}]}, '(instances[0]["x"][1]) is a list, nested deeper'),
    "a word as a number": ({"instances": [ROW, {**ROW, "x": [1, "2", 3]}]}, 'row 1 of input \'x\' (instances[1]["x"][1]) is "2": send a number for FP32'),
    "a boolean as a number": ({"instances": [{**ROW, "x": [1, True, 3]}]}, '(instances[0]["x"][1]) is true: send a number'),
    "null as a number": ({"instances": [{**ROW, "x": [1, None, 3]}]}, '(instances[0]["x"][1]) is null: send a number'),
    "an object as a number": ({"instances": [{**ROW, "x": [1, {"y": 1}, 3]}]}, '(instances[0]["x"][1]) is an object: send a number'),
    "bytes as a number": ({"instances": [{**ROW, "x": [1, B64, 3]}]}, "which only BYTES inputs take: send a number for FP32"),
    "too big a number": ({"instances": [{**ROW, "x": [1, 1e39, 3]}]}, '(instances[0]["x"][1]) is 1e+39, a number too big for FP32'),
    "a huge number": (b'{"instances": [{"x": [1, 1' + b"0" * 400 + b', 3], "s": "a"}]}', "number is infinity"),
    "a number as text": ({"instances": [{**ROW, "s": 5}]}, 'row 0 of input \'s\' (instances[0]["s"][0]) is 5: send a string, or bytes as {"b64": "<base64>"}'),
    "an object as text": ({"instances": [{**ROW, "s": {"a": 1}}]}, "is an object: send a string"),
    "base64 and more": ({"instances": [{**ROW, "s": {**B64, "a": 1}}]}, "is an object: send a string"),
    "base64 of a number": ({"instances": [{**ROW, "s": {"b64": 5}}]}, "is an object: send a string"),
    "base64 without its padding": ({"instances": [{**ROW, "s": {"b64": "/w"}}]}, "row 0 of input 's' (instances[0][\"s\"][0]) is not valid base64"),
    "base64 of another alphabet": ({"instances": [{**ROW, "s": {"b64": "_w=="}}]}, "is not valid base64"),
    "base64 that is not ASCII": ({"instances": [{**ROW, "s": {"b64": "ü"}}]}, "is not valid base64"),
    "half of a surrogate pair": (b'{"instances": [{"x": [1, 2, NaN], "s": "\\ud800"}]}', "half of a surrogate pair"),
    "columns null": ({"inputs": None}, "has 2 inputs: 'x', 's': send {\"inputs\": {…}}"),
    "columns without names": ({"inputs": [[1, 2, 3]]}, "has 2 inputs: 'x', 's': send {\"inputs\": {…}}"),
    "no columns": ({"inputs": {}}, "'inputs' names no tensors: this model has 2 inputs"),
    "an unknown column": ({"inputs": {"z": [1]}}, "'inputs' has a tensor 'z', which is not an input of model 'm'"),
    "a column without its batch": ({"inputs": {"x": [1, 2, 3]}}, "input 'x' (inputs[\"x\"][0]) is 1, not a list: the shape of the input is [-1, 3]"),
    "a column that is a number": ({"inputs": {"x": 5}}, "input 'x' (inputs[\"x\"]) is 5, not a list"),
    "a column with a short row": ({"inputs": {"x": [[1, 2, 3], [1, 2]]}}, "input 'x' (inputs[\"x\"][1]) has 2 values, expected 3"),
    "a word in a column": ({"inputs": {"x": [[1, 2, 3], [1, 2, "a"]]}}, 'input \'x\' (inputs["x"][1][2]) is "a": send a number'),
    "the tensors of v2": (
        {"inputs": [{"name": "x", "shape": [1, 3], "datatype": "FP32", "data": [1, 2, 3]}]},
        "the form of v2: send them to /v2/models/m/infer",
    ),
    "a long name": ({"inputs": {"z" * 5000: [1]}}, f"a tensor '{'z' * 80}', which"),
    "nesting without an end": (b'{"instances": ' + b"[" * 200_000, "JSON nesting depth exceeds"),
    "deep nesting": (b'{"instances": [{"s": "a", "x": ' + b"[" * 900 + b"]" * 900 + b"}]}", '(instances[0]["x"]) has 1 values, expected 3'),
}  # fmt: skip


@pytest.mark.parametrize(("body", "says"), WRONG.values(), ids=WRONG)
def test_a_wrong_body_is_refused_in_words(body: typing.Any, says: str) -> None:
    message = refused(body)
    assert says in message
    assert len(message) < 500


@pytest.mark.parametrize(
    ("body", "inputs", "says"),
    [
        ({"instances": [1.5]}, {"x": (INT8, (1,))}, "send an integer without a decimal point for INT8"),
        ({"instances": [1, 128]}, {"x": (INT8, (1,))}, "row 1 of input 'x' (instances[1][0]) is 128, which is not in the range of INT8"),
        ({"instances": [-1]}, {"x": (UINT64, (1,))}, "send an integer from 0 to 18446744073709551615"),
        (b'{"instances": [99999999999999999999]}', {"x": (INT64, (1,))}, "send an integer without a decimal point"),
        ({"instances": [0]}, {"x": (BOOL, (1,))}, "is 0: send true or false for BOOL"),
        ({"instances": [70000]}, {"x": (FP16, (1,))}, "a number too big for FP16"),
        ({"instances": [[1], {"x": [1]}]}, {"x": (FP32, (1,))}, "row 1 (instances[1]) is an object, but row 0 is a value"),
        ({"instances": [["a"], ["b", "c"]]}, TEXT, "all lists of a dimension must be of one length, that of the first"),
        ({"instances": [{"text": "a"}]}, {}, "it has no inputs"),
    ],
)  # fmt: skip
def test_a_value_that_does_not_fit_is_refused(body: typing.Any, inputs: Inputs, says: str) -> None:
    assert says in refused(body, inputs)


def test_a_model_that_does_not_batch_refuses_rows() -> None:
    rows = {"instances": [["a", "b"], ["c", "d"]]}
    assert "'instances' has 2 rows, but model 'm' does not batch" in refused(rows, TEXT, batch=0)
    fixed: Inputs = {"x": (FP32, (3,))}
    assert "does not batch: send 3 rows" in refused({"instances": [1, 2]}, fixed, batch=0)


def test_a_tensor_larger_than_the_limit_is_refused() -> None:
    says = "Use --http-max-input-size to increase the limit"
    wide: Inputs = {"x": (FP64, (-1,))}
    assert says in refused({"instances": [[0] * 13]}, wide, limit=100)
    assert says in refused({"instances": ["a" * 97]}, TEXT, limit=100)
    assert tensors(decode({"instances": [[0] * 12]}, wide, limit=100)) == {"x": [[0] * 12]}


def output(name: str, datatype: DataType, values: typing.Any) -> Tensor:
    array = np.asarray(values, dtype=datatype.dtype)
    return Tensor(name, datatype, array.shape, array)


def written(*outputs: Tensor, form: Rows = Rows.STACKED, member: str = "predictions") -> typing.Any:
    response = InferResponse("m", 1, "", list(outputs), NO_PARAMETERS)
    return orjson.loads(predict_json.encode(response, PredictForm(form, member)))


A, B = output("a", FP32, [[1, 2], [3, 4]]), output("b", INT8, [[5], [6]])


def test_the_rows_of_one_output_have_no_name() -> None:
    assert written(A) == {"predictions": [[1, 2], [3, 4]]}
    assert written(A, member="explanations") == {"explanations": [[1, 2], [3, 4]]}


def test_the_rows_of_several_outputs_are_objects() -> None:
    expected = [{"a": [1, 2], "b": [5]}, {"a": [3, 4], "b": [6]}]
    assert written(A, B) == {"predictions": expected}
    assert written(output("a", FP32, [1, 2]), output("b", BOOL, [True, False])) == {
        "predictions": [{"a": 1, "b": True}, {"a": 2, "b": False}]
    }


def test_long_outputs_are_written_as_short_ones() -> None:
    for datatype in (FP16, BF16, FP32, FP64, INT8, UINT64, BOOL):
        values = np.arange(240).reshape(2, 120) % 2
        long, vector = output("a", datatype, values), output("b", datatype, np.arange(200) % 2)
        assert written(long, form=Rows.NONE) == {"outputs": values.tolist()}
        rows = written(long, output("c", datatype, [1, 0]))["predictions"]
        assert rows == [{"a": values[0].tolist(), "c": 1}, {"a": values[1].tolist(), "c": 0}]
        rows = written(vector, vector)["predictions"]
        assert [row["b"] for row in rows] == (np.arange(200) % 2).tolist()


def test_columns_are_named_unless_there_is_one() -> None:
    assert written(A, form=Rows.NONE) == {"outputs": [[1, 2], [3, 4]]}
    assert written(A, B, form=Rows.NONE) == {"outputs": {"a": [[1, 2], [3, 4]], "b": [[5], [6]]}}


def test_the_one_row_of_a_model_that_does_not_batch_is_everything() -> None:
    assert written(A, form=Rows.WHOLE) == {"predictions": [[[1, 2], [3, 4]]]}
    different = output("c", FP32, [1, 2, 3])
    assert written(A, different, form=Rows.WHOLE) == {
        "predictions": [{"a": [[1, 2], [3, 4]], "c": [1, 2, 3]}]
    }


def test_outputs_without_common_rows_are_an_error() -> None:
    with pytest.raises(
        InferenceError, match=r"have no common rows.*'a' \[2, 2\], 'c' \[3\].*'inputs'"
    ):
        written(A, output("c", FP32, [1, 2, 3]))
    with pytest.raises(InferenceError, match="have no common rows"):
        written(output("c", FP32, 5))


def test_bytes_that_are_not_text_are_base64() -> None:
    values = object_array([b"a", b"\xff", "grün".encode(), b""])
    assert written(Tensor("t", BYTES, (4,), values)) == {
        "predictions": ["a", {"b64": "/w=="}, "grün", ""]
    }
    nested = Tensor("t", BYTES, (2, 2), values.reshape(2, 2))
    assert written(nested, A)["predictions"][0] == {"t": ["a", {"b64": "/w=="}], "a": [1, 2]}


def test_nan_and_infinities_are_null() -> None:
    values = [[1.5, math.nan], [math.inf, -math.inf]]
    for datatype in (FP16, BF16, FP32, FP64):
        assert written(output("a", datatype, values)) == {
            "predictions": [[1.5, None], [None, None]]
        }


def test_outputs_without_elements_are_empty_lists() -> None:
    assert written(output("a", FP32, np.zeros((2, 0))), form=Rows.NONE) == {"outputs": [[], []]}
    assert written() == {"predictions": []}

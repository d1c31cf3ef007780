import json
import math
import typing

import numpy as np
import orjson
import pytest

from naiad.core import datatypes
from naiad.core.datatypes import (
    BF16,
    BOOL,
    BYTES,
    FP16,
    FP32,
    FP64,
    INT8,
    INT32,
    INT64,
    UINT8,
    UINT64,
    DataType,
    Kind,
)
from naiad.errors import ErrorCode, InferenceError
from naiad.protocol.http.codec import json_values


def read(
    data: list[typing.Any], datatype: DataType, shape: tuple[int, ...] | None = None
) -> typing.Any:
    dims = (len(data),) if shape is None else shape
    return json_values.read(
        data,
        datatype,
        name="IN",
        shape=dims,
        count=math.prod(dims),
        document=json.dumps(data).encode(),
    )


def refused(
    data: list[typing.Any], datatype: DataType, shape: tuple[int, ...] | None = None
) -> InferenceError:
    with pytest.raises(InferenceError) as caught:
        read(data, datatype, shape)
    return caught.value


def written(array: typing.Any, datatype: DataType) -> str:
    value = json_values.write(array, datatype, name="OUT")
    return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY).decode()


@pytest.mark.parametrize(
    "datatype", [d for d in datatypes.ALL if d not in {BOOL, BYTES, FP16, BF16}]
)
def test_numbers_become_an_array_of_the_datatype(datatype: DataType) -> None:
    array = read([1, 2, 3, 4], datatype, (2, 2))
    assert array.dtype == datatype.dtype
    assert array.tolist() == [[1, 2], [3, 4]]


def test_booleans_become_an_array_of_bool() -> None:
    assert read([True, False], BOOL).tolist() == [True, False]


def test_strings_become_bytes() -> None:
    array = read(["a", "ü", "", "x\0y"], BYTES, (2, 2))
    assert array.tolist() == [[b"a", "ü".encode()], [b"", b"x\0y"]]


def test_a_string_that_was_not_utf_8_keeps_its_bytes() -> None:
    assert read(["a\udcff"], BYTES).tolist() == [b"a\xff"]


def test_half_a_surrogate_pair_is_not_a_string() -> None:
    assert refused(["\ud800"], BYTES).code is ErrorCode.INTERNAL


@pytest.mark.parametrize(
    "data", [[1, 2, 3, 4], [[1, 2], [3, 4]], [[[1], [2]], [[3], [4]]], [1, [2, [3]], 4], [[], 1, 2, [3, 4]], [[1], 2, [3], 4]]
)  # fmt: skip
@pytest.mark.parametrize("datatype", [FP32, INT32, UINT64])
def test_nesting_does_not_matter(data: list[typing.Any], datatype: DataType) -> None:
    assert read(data, datatype, (2, 2)).tolist() == [[1, 2], [3, 4]]


def test_nested_strings_are_not_taken_apart() -> None:
    assert read([["ab"], "cd"], BYTES, (2,)).tolist() == [b"ab", b"cd"]
    assert read([["ab", "cd"]], BYTES, (2,)).tolist() == [b"ab", b"cd"]


def nested(depth: int, leaf: typing.Any) -> list[typing.Any]:
    data = [leaf]
    for _ in range(depth - 1):
        data = [data]
    return data


@pytest.mark.parametrize("around", [list[int](), [7]])
def test_99_brackets_are_read_and_100_are_refused(around: list[int]) -> None:
    count = 1 + len(around)
    assert read([nested(98, 1), *around], FP32, (count,)).tolist() == [1, *around]
    error = refused([nested(99, 1), *around], FP32, (count,))
    assert error.code is ErrorCode.INVALID_ARG
    assert "JSON nesting depth exceeds maximum allowed limit (100)" in error.message


@pytest.mark.parametrize(
    ("data", "fragment"),
    [
        ([1, 2], "shape does not match true shape"),
        ([], "shape does not match true shape"),
        ([1, 2, 3, 4], "Shape does not match true shape of 'data' field"),
        ([[1, 2], [3, 4]], "Shape does not match true shape of 'data' field"),
        ([[1], 2, 3, 4], "Shape does not match true shape of 'data' field"),
    ],
)
@pytest.mark.parametrize("datatype", [FP32, INT8, BYTES, BOOL])
def test_a_wrong_number_of_elements_is_an_internal_error(
    data: list[typing.Any], fragment: str, datatype: DataType
) -> None:
    error = refused(data, datatype, (3,))
    assert error.code is ErrorCode.INTERNAL
    assert fragment in error.message
    assert "'IN'" in error.message


@pytest.mark.parametrize(
    ("datatype", "data", "fragment"),
    [
        (BOOL, [True, 1], "attempt to access JSON non-boolean as boolean"),
        (BOOL, [0], "attempt to access JSON non-boolean as boolean"),
        (INT32, [1, 1.0], "attempt to access JSON non-signed-integer as signed-integer"),
        (INT32, [1, True], "attempt to access JSON non-signed-integer as signed-integer"),
        (INT64, [2**63], "attempt to access JSON non-signed-integer as signed-integer"),
        (UINT8, [-1], "attempt to access JSON non-unsigned-integer as unsigned-integer"),
        (UINT64, [1, -1], "attempt to access JSON non-unsigned-integer as unsigned-integer"),
        (UINT64, [1.0], "attempt to access JSON non-unsigned-integer as unsigned-integer"),
        (FP32, [1, "2"], "attempt to access JSON non-number as double"),
        (FP32, [1, None], "attempt to access JSON non-number as double"),
        (FP64, [True], "attempt to access JSON non-number as double"),
        (FP64, [{"a": 1}], "attempt to access JSON non-number as double"),
        (BYTES, ["a", 1], "attempt to access JSON non-string as string"),
        (BYTES, [None], "attempt to access JSON non-string as string"),
        (FP32, [[1.0, True]], "attempt to access JSON non-number as double"),
    ],
)  # fmt: skip
def test_a_wrong_type_is_an_internal_error_that_says_which_element(
    datatype: DataType, data: list[typing.Any], fragment: str
) -> None:
    count = len(data[0]) if isinstance(data[0], list) else len(data)
    error = refused(data, datatype, (count,))
    assert error.code is ErrorCode.INTERNAL
    assert fragment in error.message
    assert f"element {count - 1} of {datatype.name} input 'IN'" in error.message


@pytest.mark.parametrize("odd", [True, False])
@pytest.mark.parametrize("nesting", [False, True])
def test_one_boolean_among_thousands_of_numbers_is_found(*, odd: bool, nesting: bool) -> None:
    data: list[typing.Any] = [1.5] * 5000 + [odd]
    assert "element 5000 of" in refused([data] if nesting else data, FP32, (5001,)).message


def test_a_boolean_is_found_among_so_much_text_that_searching_for_it_is_given_up() -> None:
    data = [1.0] * 300
    document = b"u" * 1000 + b"true"
    assert json_values.mentions(document, b"u", b"true", 2)
    array = json_values.read(data, FP32, name="IN", shape=(300,), count=300, document=document)
    assert array.tolist() == data


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (b"[1,2,true]", True), (b"true", True), (b'{"outputs":"unusual trues"}', True), (b'{"outputs":[1]}', False),
        (b'"uuuu"', False), (b"u", False), (b"", False),
    ],
)  # fmt: skip
def test_a_word_is_found_by_its_rare_letter(document: bytes, *, said: bool) -> None:
    assert json_values.mentions(document, b"u", b"true", 2) is said
    assert (b"true" in document) is said


@pytest.mark.parametrize(
    ("datatype", "value", "cut"),
    [(UINT8, 300, 44), (INT8, -129, 127), (INT8, 128, -128), (INT32, 2**40, 0), (UINT8, 2**64 - 1, 255)],
)  # fmt: skip
def test_integers_are_cut_to_the_width_of_the_datatype(
    datatype: DataType, value: int, cut: int
) -> None:
    assert read([value, 1], datatype).tolist() == [cut, 1]


def test_floats_take_integers_and_overflow_to_infinity() -> None:
    assert read([1, 2.5, 1e39, -1e39], FP32).tolist() == [1.0, 2.5, math.inf, -math.inf]


def test_a_number_too_big_for_a_double_is_refused() -> None:
    assert refused([10**400], FP64).code is ErrorCode.INTERNAL


@pytest.mark.parametrize("datatype", [FP16, BF16])
def test_half_floats_are_refused_both_ways(datatype: DataType) -> None:
    error = refused([1.0], datatype)
    assert error.code is ErrorCode.INVALID_ARG
    assert f"receiving {datatype.name} data via JSON is not supported" in error.message
    with pytest.raises(InferenceError) as caught:
        written(np.zeros(2, datatype.dtype), datatype)
    assert caught.value.code is ErrorCode.INVALID_ARG
    assert f"sending {datatype.name} data via JSON is not supported" in caught.value.message


@pytest.mark.parametrize("repeat", [1, 100])
def test_fp32_is_printed_as_the_double_that_it_is(repeat: int) -> None:
    array = np.array([0.1, 1.0, -0.0, 16777216.0] * repeat, np.float32)
    one = "0.10000000149011612,1.0,-0.0,16777216.0"
    assert written(array, FP32) == "[" + ",".join([one] * repeat) + "]"


@pytest.mark.parametrize("datatype", [FP32, FP64])
@pytest.mark.parametrize("repeat", [1, 100])
def test_nan_and_infinities_are_printed_as_bare_literals(datatype: DataType, repeat: int) -> None:
    array = np.array([math.nan, math.inf, -math.inf, 0.5] * repeat, datatype.dtype)
    assert written(array, datatype) == "[" + ",".join(["NaN,Infinity,-Infinity,0.5"] * repeat) + "]"


@pytest.mark.parametrize("repeat", [1, 100])
def test_finite_numbers_whose_sum_is_not_are_still_numbers(repeat: int) -> None:
    array = np.array([1.7e308, 1.7e308] * repeat)
    assert json.loads(written(array, FP64)) == [1.7e308, 1.7e308] * repeat


@pytest.mark.parametrize("repeat", [1, 100])
@pytest.mark.parametrize("datatype", [d for d in datatypes.ALL if d.kind.value in {"int", "uint"}])
def test_integers_are_printed_whole_up_to_their_limits(datatype: DataType, repeat: int) -> None:
    size = 8 * datatype.size
    low, high = (
        (0, 2**size - 1)
        if datatype.kind is Kind.UINT
        else (-(2 ** (size - 1)), 2 ** (size - 1) - 1)
    )
    values = [low, high] * repeat
    assert json.loads(written(np.array(values, datatype.dtype), datatype)) == values


@pytest.mark.parametrize("repeat", [1, 100])
def test_booleans_are_printed_as_true_and_false(repeat: int) -> None:
    array = np.array([True, False] * repeat)
    assert written(array, BOOL) == "[" + ",".join(["true,false"] * repeat) + "]"


def test_bytes_are_printed_as_strings_with_nul_and_quotes_kept() -> None:
    array = np.array([b"a\0b", 'ü"'.encode(), b""], dtype=object)
    assert written(array, BYTES) == '["a\\u0000b","ü\\"",""]'


def test_bytes_that_are_not_utf_8_go_out_as_they_are() -> None:
    array = np.array([b"\xff\n", "ü".encode()], dtype=object)
    value = json_values.write(array, BYTES, name="OUT")
    assert orjson.dumps({"data": value}) == b'{"data":["\xff\\n","\xc3\xbc"]}'


def test_no_elements_are_an_empty_list() -> None:
    for datatype in (FP32, BYTES, INT8, BOOL):
        assert written(np.zeros((0,), datatype.dtype), datatype) == "[]"


def test_empty_lists_count() -> None:
    error = refused([*([[]] * 100_000), 1], INT32, (1,))
    assert error.code is ErrorCode.INVALID_ARG
    assert "lists for 1 elements" in error.message


def test_few_empty_lists_between_elements_do_not_matter() -> None:
    assert read([[], 1, [[], [2]], []], INT32, (2,)).tolist() == [1, 2]

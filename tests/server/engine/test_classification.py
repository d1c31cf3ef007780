"""The highest values of an output, as the reference prints them."""

import asyncio
import math
import typing

import msgspec
import numpy as np
import pytest

from naiad.config.labels import NO_LABELS, Labels
from naiad.core.datatypes import BF16, BOOL, BY_DTYPE, BYTES, FP16, FP32, DataType
from naiad.core.request import RequestedOutput
from naiad.core.response import InferResponse
from naiad.core.tensor import Tensor, object_array
from naiad.engine.forms.classification import MOST_ELEMENTS, classify, requested
from naiad.engine.forms.classified import ClassifiedResponses
from naiad.engine.forms.sort_order import sort_order
from naiad.errors import ErrorCode, invalid
from tests.support.inferences import make_request

Array = np.ndarray[typing.Any, typing.Any]


def response(
    values: typing.Any, dtype: str = "f4", *, name: str = "y", final: bool = True
) -> InferResponse:
    array = np.array(values, dtype)
    tensor = Tensor(name, BY_DTYPE[array.dtype], array.shape, array)
    return InferResponse("m", 1, "7", [tensor], {}, final=final)


def top(
    values: typing.Any,
    count: int,
    dtype: str = "f4",
    *,
    labels: Labels = NO_LABELS,
    batched: bool = False,
) -> typing.Any:
    found = classify(response(values, dtype), {"y": count}, labels, batched=batched)
    assert found.error is None
    (tensor,) = found.outputs
    assert tensor.datatype is BYTES
    assert tensor.shape == tensor.array.shape
    return tensor.array.tolist()


def test_the_highest_values_come_first_with_their_indexes() -> None:
    assert top([0.5, 2, -1, 1], 3) == [b"2.000000:1", b"1.000000:3", b"0.500000:0"]


def test_no_more_classes_than_elements() -> None:
    assert top([1, 2], 5) == [b"2.000000:1", b"1.000000:0"]


def test_each_item_of_a_batch_has_its_own() -> None:
    assert top([[1, 2], [4, 3]], 1, batched=True) == [[b"2.000000:1"], [b"4.000000:0"]]


def test_without_a_batch_dimension_all_elements_are_one_item() -> None:
    assert top([[1, 2], [4, 3]], 1) == [b"4.000000:2"]


def test_a_batched_item_of_several_dimensions_is_flat() -> None:
    assert top([[[1, 2], [4, 3]]], 2, batched=True) == [[b"4.000000:2", b"3.000000:3"]]


def test_a_scalar() -> None:
    assert top(3, 2) == [b"3.000000:0"]


def test_no_elements() -> None:
    assert top(np.zeros((0,)), 2) == []


@pytest.mark.parametrize("dtype", ["u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8"])
def test_integers_are_printed_without_decimals(dtype: str) -> None:
    least = np.iinfo(dtype).min
    most = np.iinfo(dtype).max
    assert top([0, most, least, 1], 4, dtype) == [
        b"%d:1" % most,
        b"1:3",
        *((b"0:0", b"%d:2" % least) if least else (b"0:0", b"0:2")),
    ]


def test_doubles_are_printed_in_full() -> None:
    assert top([1e22, 0.1234567, -1e300], 2, "f8") == [
        b"10000000000000000000000.000000:0",
        b"0.123457:1",
    ]


def test_infinities() -> None:
    assert top([0, np.inf, -np.inf], 3) == [b"inf:1", b"0.000000:0", b"-inf:2"]


@pytest.mark.parametrize("size", [4, 5000])
def test_the_lower_index_comes_first_among_equal_values(size: int) -> None:
    values = np.zeros(size)
    values[[1, 3]] = 1
    assert top(values, 4) == [b"1.000000:1", b"1.000000:3", b"0.000000:0", b"0.000000:2"]


@pytest.mark.parametrize(
    ("values", "order"),
    [
        ([1, np.nan, 2], [2, 0, 1]),
        ([np.nan, 1, 2], [0, 2, 1]),
        ([3, np.nan, 2, 1], [0, 1, 2, 3]),
        ([np.nan, np.nan, 5], [0, 1, 2]),
        ([1, np.nan, 0, 2], [3, 0, 1, 2]),
    ],
)
def test_not_a_number_stays_where_insertion_leaves_it(
    values: list[float], order: list[int]
) -> None:
    assert [int(text.split(b":")[1]) for text in top(values, 9)] == order


def test_not_a_number_is_the_lowest_of_many() -> None:
    values = np.full(5000, np.nan)
    values[7] = 1
    assert top(values, 2) == [b"1.000000:7", b"nan:0"]


def test_the_sign_of_not_a_number_is_printed_as_in_c() -> None:
    assert top([-np.nan, np.nan], 2) == [b"-nan:0", b"nan:1"]


def test_equal_values_have_the_order_of_the_reference() -> None:
    """As seen of it: see tests/conformance/test_classification.py for more."""
    values = np.zeros(20)
    order = [int(text.split(b":")[1]) for text in top(values, 20)]
    assert sorted(order) == list(range(20))
    assert order != list(range(20))
    distinct = np.random.default_rng(3).permutation(1000)
    distinct[distinct < 500] = -1
    assert top(distinct, 3) == [
        b"%d.000000:%d" % (999 - i, int(np.flatnonzero(distinct == 999 - i)[0])) for i in range(3)
    ], "only the highest ones matter"


@pytest.mark.parametrize("size", [1, 2, 16, 17, 40, 300, 4096])
@pytest.mark.parametrize("values", [1, 2, 5, 1000])
def test_the_order_of_the_reference_is_sorted(size: int, values: int) -> None:
    given = np.random.default_rng(size).integers(0, values, size).tolist()
    order = sort_order(given)
    assert order is not None
    assert sorted(order) == list(range(size))
    assert [given[index] for index in order] == sorted(given, reverse=True)


def test_where_the_reference_leaves_its_memory_it_is_not_followed() -> None:
    given = [math.nan] * 17 + [1.0]
    order = sort_order(given)
    assert order is None or sorted(order) == list(range(18))


@pytest.mark.parametrize("count", [1, 5, 300, 5000])
def test_selecting_gives_what_sorting_gives(count: int) -> None:
    values = np.random.default_rng(5).integers(0, 50, 5000)
    order = np.argsort(-values, kind="stable")[:count]
    assert top(values, count, "i4") == [b"%d:%d" % (values[i], i) for i in order]


def test_labels() -> None:
    labels = {"y": (b"cat", b"", b"d\xf6g")}
    assert top([4, 3, 2, 1], 4, labels=labels) == [
        b"4.000000:0:cat",
        b"3.000000:1",
        b"2.000000:2:d\xf6g",
        b"1.000000:3",
    ]


@pytest.mark.parametrize("datatype", [BOOL, FP16, BF16, BYTES])
def test_some_types_have_no_classes(datatype: DataType) -> None:
    array: Array = object_array([b"a"]) if datatype is BYTES else np.zeros(1, datatype.dtype)
    given = InferResponse("m", 1, "7", [Tensor("y", datatype, (1,), array)], {}, final=False)
    found = classify(given, {"y": 1}, {}, batched=False)
    assert found.error is not None
    assert found.error.code is ErrorCode.INVALID_ARG
    assert (
        f"class result not available for output due to unsupported type '{datatype.name}'"
        in found.error.message
    )
    assert (found.outputs, found.id, found.final) == ([], "7", False)


def test_a_million_elements_of_an_item_are_possible_and_no_more() -> None:
    values = np.arange(2 * MOST_ELEMENTS, dtype="f4").reshape(2, -1)
    assert top(values, 1, batched=True) == [[b"999999.000000:999999"], [b"1999999.000000:999999"]]
    found = classify(response(values), {"y": 1}, {}, batched=False)
    assert found.error is not None
    assert "classification output tensor too large" in found.error.message


def test_other_outputs_stay_as_they_are() -> None:
    given = response([1, 2])
    other = Tensor("z", FP32, (1,), np.zeros(1, "f4"))
    given = msgspec.structs.replace(given, outputs=[other, *given.outputs])
    found = classify(given, {"y": 1}, {}, batched=False)
    assert found.outputs[0] is other
    assert found.outputs[1].array.tolist() == [b"2.000000:1"]


def test_what_a_request_wants_as_classes() -> None:
    request = msgspec.structs.replace(
        make_request(), requested_outputs=[RequestedOutput("a"), RequestedOutput("b", classes=2)]
    )
    assert requested(request) == {"b": 2}


def test_a_small_response_is_classified_at_once() -> None:
    found: list[InferResponse] = []
    ClassifiedResponses(found.append, {"y": 1}, {}, batched=False)(response([1, 2]))
    assert found[0].outputs[0].array.tolist() == [b"2.000000:1"]


def test_an_error_passes() -> None:
    found: list[InferResponse] = []
    failed = msgspec.structs.replace(response([1]), outputs=[], error=invalid("no"))
    ClassifiedResponses(found.append, {"y": 1}, {}, batched=False)(failed)
    assert found == [failed]


async def test_a_large_response_leaves_the_loop_and_those_behind_it_keep_their_order() -> None:
    found: list[InferResponse] = []
    done = asyncio.Event()

    def take(response: InferResponse) -> None:
        found.append(response)
        if response.final:
            done.set()

    responses = ClassifiedResponses(take, {"y": 1}, {}, batched=False)
    large = np.arange(500_000)
    responses(response(large, final=False))
    assert not found
    responses(response([5], final=False))
    responses(response(large, final=False))
    last = msgspec.structs.replace(response([1]), outputs=[], empty=True)
    responses(last)
    await asyncio.wait_for(done.wait(), 30)
    texts = [each.outputs[0].array.tolist() for each in found[:-1]]
    assert texts == [[b"499999.000000:499999"], [b"5.000000:0"], [b"499999.000000:499999"]]
    assert found[-1] is last


async def test_work_that_fails_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    found: asyncio.Future[InferResponse] = asyncio.get_running_loop().create_future()

    def refuse(*_: object, **__: object) -> typing.NoReturn:
        raise MemoryError

    monkeypatch.setattr("naiad.engine.forms.classified.classify", refuse)
    responses = ClassifiedResponses(found.set_result, {"y": 1}, {}, batched=False)
    responses(response(np.arange(500_000)))
    error = (await asyncio.wait_for(found, 30)).error
    assert error is not None
    assert error.code is ErrorCode.INTERNAL
    assert "MemoryError" in error.message


async def test_a_stop_while_it_waits_for_a_thread_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop = asyncio.get_running_loop()
    found: asyncio.Future[InferResponse] = loop.create_future()
    waiting: asyncio.Future[InferResponse] = loop.create_future()
    responses = ClassifiedResponses(found.set_result, {"y": 1}, {}, batched=False)
    monkeypatch.setattr(loop, "run_in_executor", lambda *_: waiting)
    responses(response(np.arange(500_000)))
    waiting.cancel()
    error = (await asyncio.wait_for(found, 30)).error
    assert error is not None
    assert error.code is ErrorCode.UNAVAILABLE

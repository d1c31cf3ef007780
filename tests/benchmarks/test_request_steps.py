"""Calls and allocations are counted as they are, in the files asked for alone."""

import typing

import msgspec

from benchmarks.micro.request_steps import Allocations, Calls


def _doubled(value: int) -> int:
    return value + value


def _makes_a_slice_and_a_list(body: bytes) -> list[typing.Any]:
    rest = body[1:]
    _doubled(2)
    return [rest, None]


class _Record(msgspec.Struct, gc=False):
    of: int


class _Instance:
    def __init__(self, of: object) -> None:
        self.of = of


def _makes_objects(values: list[int]) -> typing.Any:
    total = 1_000_000
    for value in values:
        total += value
    return _Record(total), _Instance([total]), list(values)


def _makes_nothing(body: bytes) -> bytes:
    kept = body
    _doubled(3)
    return kept


def test_every_call_of_a_python_function_is_counted() -> None:
    with Calls(__file__) as calls:
        _makes_a_slice_and_a_list(b"abc")
        _makes_nothing(b"abc")
    assert calls.by_function.total() == 4
    assert calls.by_function["", "_doubled"] == 2
    assert calls.modules == 1


def test_a_block_is_counted_at_the_line_that_allocates_it() -> None:
    with Allocations(__file__) as allocations:
        _makes_a_slice_and_a_list(b"abc")
        _makes_nothing(b"abc")
    found = {function: 0 for function, _ in allocations.by_line()}
    for (function, _), blocks in allocations.by_line().items():
        found[function] += blocks
    assert found == {"_makes_a_slice_and_a_list": 3}, "the bytes, the list and its items"
    assert allocations.instructions() == 2
    assert allocations.objects() == 1, "the list: bytes do not count"


def test_an_object_is_counted_for_each_instance_and_container() -> None:
    _makes_objects([1, 2])
    with Allocations(__file__) as allocations:
        _makes_objects([1, 2])
    assert allocations.objects() == 5, "a record, an instance, two lists and a tuple"


def test_other_files_are_not_counted() -> None:
    with Calls() as calls, Allocations() as allocations:
        _makes_a_slice_and_a_list(b"abc")
    assert not calls.by_function
    assert not allocations.by_line()

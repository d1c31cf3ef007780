"""Large arrays whose memory is given back beside the thread that drops them."""

import threading
import typing

import numpy as np
import pytest

from naiad.core.datatypes import FP32
from naiad.core.tensor import Tensor
from naiad.protocol import raw_tensors
from naiad.tensors import freed_aside
from naiad.tensors.freed_aside import FROM
from naiad.tensors.mapping import give_back_pages
from tests.support.waiting import wait_until


@pytest.fixture
def freed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The bytes of arrays whose pages were given back, and the threads that did it."""
    found: list[tuple[int, int]] = []

    def noting(address: int, size: int) -> None:
        give_back_pages(address, size)
        found.append((size, threading.get_ident()))

    monkeypatch.setattr(freed_aside, "give_back_pages", noting)
    return found


def written(array: np.ndarray) -> typing.Any:
    """The part of a response."""
    return raw_tensors.write(Tensor("y", FP32, array.shape, array))


def test_the_pages_of_an_output_are_given_back_in_a_thread(freed: list[tuple[int, int]]) -> None:
    array = np.full((2, FROM // 8), 7, np.float32)
    part = written(array)
    del array
    assert bytes(part[-4:]) == np.float32(7).tobytes()
    del part
    wait_until(lambda: len(freed) == 1)
    ((size, thread),) = freed
    assert FROM - 8192 <= size <= FROM
    assert thread != threading.get_ident()


def test_what_something_else_refers_to_stays(freed: list[tuple[int, int]]) -> None:
    array = np.full(FROM // 4, 7, np.float32)
    part = written(array)
    del part
    assert array[-1] == array[0] == 7
    rows = array.reshape(2, -1)
    del array
    part = written(rows)
    del part
    assert (rows == 7).all()
    assert freed == []


def test_memory_that_is_not_the_array_s_own_stays(freed: list[tuple[int, int]]) -> None:
    memory = bytearray(FROM)
    part = written(np.frombuffer(memory, np.float32))
    del part
    assert freed == []


def test_a_smaller_one_is_freed_as_usual(freed: list[tuple[int, int]]) -> None:
    part = written(np.zeros(FROM // 4 - 1, np.float32))
    del part
    assert freed == []

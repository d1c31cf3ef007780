"""The memory for outputs of a library in C."""

import pytest

from naiad.backends.c.memory import OutputMemory

HUGE = 1 << 56
"""Bytes that no machine has."""


def test_an_output_for_which_there_is_no_memory_harms_no_later_batch() -> None:
    memory = OutputMemory()
    memory.begin()
    with pytest.raises(MemoryError):
        memory.take(HUGE)
    for size in (100, 1 << 20, 100):
        memory.begin()
        array, at, address = memory.take(size)
        assert len(array) >= at + size
        assert address % 64 == 0


def test_memory_that_is_used_again_holds_nothing_of_an_earlier_batch() -> None:
    memory = OutputMemory()
    for sizes in ((100, 300), (50, 200, 4_000), (5_000,), (60_000, 60_000), (60_000, 60_000)):
        memory.begin()
        places = [(memory.take(size), size) for size in sizes]
        for (array, start, _), size in places:
            piece = array[start : start + size]
            assert not piece.any(), sizes
            piece[:] = 0xFF

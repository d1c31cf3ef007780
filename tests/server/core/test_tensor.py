"""BYTES elements as objects and packed."""

import tracemalloc

import numpy as np
import pytest

from naiad.core.tensor import pack, unpack


@pytest.mark.parametrize("count", [0, 1, 3, 1 << 14, (1 << 14) + 1, 100_000])
def test_packed_elements_unpack_to_the_same(count: int) -> None:
    elements = np.empty(count, dtype=object)
    elements[:] = [b"x" * (number % 7) for number in range(count)]
    packed = pack(elements)
    assert not packed.flags.writeable
    assert packed.nbytes == 4 * count + sum(map(len, elements))
    assert unpack(packed).tolist() == elements.tolist()


@pytest.mark.slow
def test_packing_many_short_elements_takes_little_memory_beside_the_result() -> None:
    """At 64 MB, objects of all lengths at the same time took 3.5 GB, more than a codec process may use."""
    elements = np.empty(500_000, dtype=object)
    elements[:] = [b"ab"] * elements.size
    tracemalloc.start()
    try:
        packed = pack(elements)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3 * packed.nbytes

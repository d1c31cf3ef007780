"""Tensors of any layout and size get into a segment as they are, each at its offset."""

import os
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from naiad.hosts.link import segments
from naiad.hosts.link.payload import ALIGNED, Payload
from naiad.hosts.link.segments import Segment

NUMBERS = np.random.default_rng(1)


def floats(*shape: int) -> np.ndarray[Any, Any]:
    return NUMBERS.random(shape, np.float32)


@pytest.mark.parametrize(
    "array",
    [
        floats(3),
        floats(1, 1024),
        floats(1, 1025),
        floats(37, 1000),
        floats(3, 300_000),
        floats(1 << 18),
        floats((1 << 18) + 1),
        floats(100, 200).T,
        floats(100, 200)[:, ::2],
        np.broadcast_to(floats(1, 5_000), (4, 5_000)),
        floats(64, 64).astype(ml_dtypes.bfloat16),
        floats(64, 128) > 0.5,
        np.asfortranarray(floats(50, 60)),
    ],
    ids=lambda array: f"{array.dtype} {array.shape} {array.strides}",
)
def test_an_array_is_read_as_it_was_written(array: np.ndarray[Any, Any]) -> None:
    array.flags.writeable = False
    payload = Payload()
    before, _ = payload.add(b"before")
    at, size = payload.add(array)
    after, _ = payload.add(b"after")
    descriptor, memory = segments.create(payload.size)
    segment = Segment(memory, payload.size)
    payload.write(memory, segment.written)
    assert size == array.nbytes
    assert at % ALIGNED == after % ALIGNED == 0
    assert memory[before : before + 6] == b"before"
    assert memory[at : at + size] == array.tobytes()
    assert memory[after : after + 5] == b"after"
    os.close(descriptor)

"""Which memory of a device is used again, and when it is freed."""

import pytest

from naiad.tensors import blocks as module, cudart
from naiad.tensors.blocks import Blocks


class Device:
    """Counts what is allocated; has room for so many bytes."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.live: dict[int, int] = {}
        self._next = 4096

    def allocate(self, size: int, device: int) -> int:
        if sum(self.live.values()) + size > self.room:
            raise cudart.CudaError(cudart.OUT_OF_MEMORY, "memory", "none is left", "cudaMalloc")
        self._next += size
        self.live[self._next] = size
        return self._next

    def free(self, address: int, device: int) -> None:
        del self.live[address]


def test_a_block_is_used_again_for_what_fits() -> None:
    device = Device(1 << 20)
    blocks = Blocks(lambda: device)
    first = blocks.take(4000, 0)
    assert (first.size, blocks.take(4000, 0).address != first.address) == (4096, True)
    blocks.give_back(first)
    assert blocks.take(4000, 1) != first, "it is on another device"
    assert blocks.take(100, 0) != first, "it is more than four times as large"
    assert blocks.take(4097, 0) != first
    assert blocks.take(1025, 0) == first


def test_idle_blocks_are_freed_beyond_a_limit_and_for_want_of_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "IDLE_BYTES", 2048)
    device = Device(8192)
    blocks = Blocks(lambda: device)
    held = [blocks.take(1024, 0) for _ in range(3)]
    for each in held:
        blocks.give_back(each)
    assert sorted(device.live) == [each.address for each in held[1:]]
    large = blocks.take(8192, 0)
    assert list(device.live) == [large.address]
    with pytest.raises(cudart.CudaError, match="none is left"):
        blocks.take(1, 0)

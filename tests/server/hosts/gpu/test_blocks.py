"""Which memory of a device is used again, and when it is freed; what stays open of clients."""

import pytest

from naiad.hosts.worker.gpu import blocks as module
from naiad.hosts.worker.gpu.blocks import Blocks
from naiad.hosts.worker.gpu.handles import CLIENTS, IDLE_S, Key, OpenHandles
from naiad.tensors import cudart


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


def test_a_clients_allocation_stays_open_until_it_has_ended() -> None:
    handles, key = OpenHandles(), Key(CLIENTS + 1, b"h", 0)
    handles.opened(key, 7)
    handles.release(key, 0.0)
    assert (handles.wait_s(IDLE_S * 9), handles.take_due(IDLE_S * 9)) == (None, [])
    handles.end(CLIENTS + 1)
    assert handles.wait_s(IDLE_S * 9) == 0
    assert handles.take_due(IDLE_S * 9) == [(key, 7)]
    # Registered again: what has ended before does not count.
    handles.opened(key, 8)
    handles.release(key, 0.0)
    assert handles.take_due(IDLE_S) == []

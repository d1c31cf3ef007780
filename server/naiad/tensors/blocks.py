"""Memory of this process on devices, for copies of tensors: blocks are used again, because allocating and freeing them waits for the device.

Limits: standard library, Python 3.8.
"""

import threading
from typing import Any, NamedTuple

from naiad.tensors import cudart

IDLE_BYTES = 1 << 28
"""Bytes of blocks that are kept on a device while nothing uses them."""

_LEAST = 1 << 9
_MOST_WASTE = 4
"""A block is used for tensors of at least so small a part of it."""


class Block(NamedTuple):
    """A block.

    Attributes:
        address: on the device.
        size: bytes, a power of two.
        device: this process's number of the device.
    """

    address: int
    size: int
    device: int


class Blocks:
    """The blocks that are not in use; may be used by several threads.

    Args:
        load: gives the runtime library; of it `allocate` and `free` are used.
        least: bytes of the smallest block, a power of two.
    """

    def __init__(self, load: Any = cudart.load, least: int = _LEAST) -> None:
        self._load = load
        self._least = least
        self._idle: list[Block] = []
        self._lock = threading.Lock()

    def take(self, size: int, device: int) -> Block:
        """A block of at least `size` bytes.

        Raises:
            cudart.CudaError: the device has no memory left.
        """
        wanted = max(self._least, 1 << (size - 1).bit_length())
        with self._lock:
            fitting = [
                each
                for each in self._idle
                if each.device == device and wanted <= each.size <= _MOST_WASTE * wanted
            ]
            if fitting:
                found = min(fitting, key=lambda each: each.size)
                self._idle.remove(found)
                return found
        runtime = self._load()
        try:
            address = runtime.allocate(wanted, device)
        except cudart.CudaError as error:
            if error.status != cudart.OUT_OF_MEMORY:
                raise
            self._trim(device, 0)
            address = runtime.allocate(wanted, device)
        return Block(address, wanted, device)

    def give_back(self, block: Block) -> None:
        """Nothing uses a block any more, the device included.

        Raises:
            cudart.CudaError: the device is lost.
        """
        with self._lock:
            self._idle.append(block)
        self._trim(block.device, IDLE_BYTES)

    def free_idle(self, device: int) -> None:
        """Free the blocks of a device that are not in use.

        Raises:
            cudart.CudaError: the device is lost.
        """
        self._trim(device, 0)

    def _trim(self, device: int, most: int) -> None:
        """Free the blocks that were used longest ago, as far as they are more than so many bytes."""
        with self._lock:
            there = [each for each in self._idle if each.device == device]
            total, surplus = sum(each.size for each in there), []
            for each in there:
                if total <= most:
                    break
                total -= each.size
                surplus.append(each)
                self._idle.remove(each)
        for each in surplus:
            self._load().free(each.address, device)

"""The tensors of other processes that this one uses: their allocations are opened once, and the server hears when a tensor is not in use any more.

What reads a tensor may still run on the device when the last reference to it is gone. So a thread of its own waits for the device before it says so: it starts
with the first tensor, and closes allocations that have not been used for a while. A tensor in a client's allocation is copied: a model that writes to its inputs
does not change it, and it may lie at any address. Limits: standard library, Python 3.8.
"""

import collections
import logging
import struct
import threading
import time
from collections.abc import Callable
from typing import Any

from naiad.errors import InferenceError, internal
from naiad.hosts.link.link import LinkBrokenError
from naiad.hosts.worker.gpu.handles import CLIENTS, Key, OpenHandles
from naiad.tensors import cudart
from naiad.tensors.blocks import Block, Blocks
from naiad.tensors.descriptor import Descriptor
from naiad.tensors.device_array import DeviceArray
from naiad.tensors.dlpack import dtype_of
from naiad.tensors.memory import Memory

NUMBERS = struct.Struct("<Q")

_UNNUMBERED = 0
"""In place of the number of a tensor of which the server knows that it is not in use; numbers begin with 1."""

_AT_ONCE = 1024
"""Numbers in a message."""

_AGAIN_S = 0.02
"""When the device is waited for again while a graph is being captured on it, during which CUDA lets nothing wait."""

_log = logging.getLogger("naiad.worker")


class _Use:
    """A tensor in use."""

    __slots__ = ("_end",)

    def __init__(self, end: "Callable[[], None]") -> None:
        self._end = end

    def __del__(self) -> None:
        self._end()


class Imports:
    """The tensors that this process uses of others.

    Args:
        load: gives the runtime library.
        now: seconds.
    """

    def __init__(
        self, load: Any = cudart.load, now: "Callable[[], float]" = time.monotonic
    ) -> None:
        self._load = load
        self._now = now
        self._handles = OpenHandles()
        self._blocks = Blocks(load)
        # Reentrant: the garbage collector may end a use in the middle of whatever its thread does.
        self._changed = threading.Condition(threading.RLock())
        self._over: collections.deque[tuple[int, Key | Block | None]] = collections.deque()
        self._returned: Callable[[bytes], None] = _ignore
        self._thread: threading.Thread | None = None

    def __len__(self) -> int:
        """The number of allocations that are open."""
        return len(self._handles)

    def returns_to(self, returned: "Callable[[bytes], None]") -> None:
        """Set what sends the numbers of tensors that are not in use any more, packed, to the server."""
        self._returned = returned

    def open(self, given: Descriptor, shape: "tuple[int, ...]", datatype: str) -> DeviceArray:
        """A tensor of another process.

        Raises:
            InferenceError: INTERNAL: it cannot be opened; `refuse` comes next, or another attempt.
        """
        try:
            device = _device(self._load(), given.uuid)
            key = Key(given.owner, given.handle, device)
            base = self._used(key)
            used: Key | Block = key
            address, number = base + given.offset, given.number
            if given.owner >= CLIENTS:
                address, number, used = self._copied(given, key, base)
        except (cudart.CudaError, cudart.NoCudaError, LookupError) as error:
            raise _not_opened(error) from error
        use = _Use(lambda: self._end(number, used))
        return DeviceArray(
            address,
            shape,
            datatype,
            itemsize=dtype_of(datatype).itemsize,
            memory=Memory("cuda", device),
            owner=use,
        )

    def fill(self, given: Descriptor, values: DeviceArray) -> bool:
        """Copy values into a client's allocation, at the place of a tensor; False if they are on another device, are more than it has, or it cannot be opened: `refuse` comes next.

        Raises:
            cudart.CudaError: the device reports an error.
        """
        try:
            runtime = self._load()
            device = _device(runtime, given.uuid)
            if values.memory.device != device or values.nbytes > given.size:
                return False
            key = Key(given.owner, given.handle, device)
            base = self._used(key)
        except (cudart.CudaError, cudart.NoCudaError, LookupError):
            return False  # the client may be gone, and another process has it open
        try:
            runtime.copy(base + given.offset, values.address, values.nbytes, device)
        finally:
            self._end(given.number, key)
        return True

    def _used(self, key: Key) -> int:
        """The base here of an allocation that one more tensor uses; it is opened if it is not open.

        Raises:
            cudart.CudaError: it cannot be opened.
        """
        with self._changed:
            base = self._handles.use(key)
            if base is None:
                base = self._load().ipc_open(key.handle, key.device)
                self._handles.opened(key, base)
            return base

    def _copied(self, given: Descriptor, key: Key, base: int) -> "tuple[int, int, Block]":
        """The address of a copy of a tensor, and what `_end` gets at its end. That of the allocation is over before this returns.

        Raises:
            cudart.CudaError: there is no memory left, or the device is lost.
        """
        try:
            block = self._blocks.take(given.size, key.device)
            try:
                self._load().copy(block.address, base + given.offset, given.size, key.device)
            except cudart.CudaError:
                self._blocks.give_back(block)
                raise
        except cudart.CudaError:
            with self._changed:
                self._handles.release(key, self._now())
            raise
        self._end(given.number, key)
        return block.address, _UNNUMBERED, block

    def refuse(self, number: int) -> None:
        """A tensor is not used at all."""
        self._end(number, None)

    def owner_ended(self, owner: int) -> None:
        """A process has ended: its allocations are closed as soon as they are not in use."""
        with self._changed:
            self._handles.end(owner)
            self._changed.notify()

    def _end(self, number: int, used: "Key | Block | None") -> None:
        with self._changed:
            self._over.append((number, used))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="naiad-tensors", daemon=True)
                self._thread.start()
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._over:
                    wait_s = self._handles.wait_s(self._now())
                    if wait_s == 0:
                        break
                    self._changed.wait(wait_s)
                over = list(self._over)
                self._over.clear()
            try:
                self._finish(over)
            except LinkBrokenError:
                return  # the server is gone, and this process ends

    def _finish(self, over: "list[tuple[int, Key | Block | None]]") -> None:
        """Wait for the devices of tensors that are not in use any more, close allocations, and tell the server."""
        for device in {used.device for _, used in over if used is not None}:
            self._wait_for(device)
        now = self._now()
        with self._changed:
            for _, used in over:
                if isinstance(used, Key):
                    self._handles.release(used, now)
            # Closed under the lock: no other thread can open the same allocation meanwhile.
            for key, base in self._handles.take_due(now):
                try:
                    self._load().ipc_close(base, key.device)
                except cudart.CudaError as error:
                    _log.warning("an allocation of another process could not be closed: %s", error)
        for _, used in over:
            if isinstance(used, Block):
                try:
                    self._blocks.give_back(used)
                except cudart.CudaError as error:
                    _log.warning("memory of a device could not be freed: %s", error)
        numbers = [number for number, _ in over if number != _UNNUMBERED]
        for start in range(0, len(numbers), _AT_ONCE):
            some = numbers[start : start + _AT_ONCE]
            self._returned(b"".join(map(NUMBERS.pack, some)))

    def _wait_for(self, device: int) -> None:
        while True:
            try:
                self._load().synchronize(device)
            except cudart.CudaError as error:
                if error.status != cudart.CAPTURING:
                    return  # the device is lost, and nothing reads any more
                time.sleep(_AGAIN_S)
            else:
                return


def _device(runtime: cudart.Runtime, uuid: bytes) -> int:
    """This process's number of a device.

    Raises:
        LookupError: it does not see it.
    """
    for device in range(runtime.device_count()):
        if runtime.uuid(device) == uuid:
            return device
    raise LookupError(f"this process does not see the device with the UUID {uuid.hex()}")


def _not_opened(error: Exception) -> InferenceError:
    return internal(f"a tensor in the GPU memory of another process cannot be opened: {error}")


def _ignore(numbers: bytes) -> None:
    """Before the worker has a link."""


IMPORTS = Imports()
"""Those of this process."""

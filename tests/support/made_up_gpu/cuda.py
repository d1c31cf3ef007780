"""A made-up CUDA whose device is the host's memory. A stream runs nothing before the host waits for it, so that code that reads too early reads old bytes.

In a process that has the fake of `tests.support.cuda` beside it, memory of the device comes from there, so that other processes can open it.
"""

import collections
import collections.abc
import ctypes
import os
import threading
import typing

from typing_extensions import override

from naiad.backends.cuda_runtime import CudaRuntime
from naiad.tensors import cudart
from naiad.tensors.cudart import CudaError

CAPABILITY = (9, 0)
_ALIGNMENT = 256

Work = collections.abc.Callable[[], None]


class _Event:
    def __init__(self) -> None:
        self.stream = 0
        self.reached = True


class MadeUpCuda(CudaRuntime):
    """Implements `CudaRuntime`.

    Attributes:
        log: what was called that tests look at.
        limit: the device's bytes.
        lost: the status that every call fails with, once it is set.
    """

    def __init__(self, limit: int = 1 << 30) -> None:
        self.log: list[tuple[str, int]] = []
        self.limit = limit
        self.lost = 0
        self._lock = threading.RLock()
        self._numbers = iter(range(1, 1 << 60))
        self._library = cudart.load() if "FAKE_CUDA_STATE" in os.environ else None
        self._memory: dict[int, tuple[ctypes.Array[ctypes.c_char] | None, int, bool]] = {}
        self._streams: dict[int, collections.deque[Work]] = {}
        self._events: dict[int, _Event] = {}
        self._graphs: dict[int, list[Work]] = {}
        self._captured: dict[int, list[Work]] = {}

    @property
    def allocated(self) -> int:
        """Blocks that were not given back, of the device and the host."""
        return len(self._memory)

    @property
    def open(self) -> int:
        """Streams, events and graphs that were not given back."""
        return len(self._streams) + len(self._events) + len(self._graphs)

    @override
    def devices(self) -> int:
        return 1

    @override
    def use_device(self, device: int) -> None:
        self._check()
        if device:
            raise CudaError(
                101, "cudaErrorInvalidDevice", "invalid device ordinal", "cudaSetDevice"
            )

    @override
    def capability(self, device: int) -> tuple[int, int]:
        return CAPABILITY

    @override
    def allocate(self, size: int) -> int:
        if size > self.limit:
            raise CudaError(2, "cudaErrorMemoryAllocation", "out of memory", "cudaMalloc")
        return self._allocate(size, on_device=True)

    @override
    def free(self, address: int) -> None:
        for stream in tuple(self._streams):  # as cudaFree does
            self.synchronize(stream)
        raw, _, _ = self._memory.pop(address)
        if raw is None and self._library is not None:
            self._library.free(address, 0)

    @override
    def allocate_pinned(self, size: int) -> int:
        return self._allocate(size, on_device=False)

    @override
    def free_pinned(self, address: int) -> None:
        self.free(address)

    @override
    def priorities(self) -> tuple[int, int]:
        return 0, -5

    @override
    def create_stream(self, priority: int) -> int:
        stream = next(self._numbers)
        self._streams[stream] = collections.deque()
        self.log.append(("create_stream", priority))
        return stream

    @override
    def destroy_stream(self, stream: int) -> None:
        self.synchronize(stream)
        del self._streams[stream]

    @override
    def synchronize(self, stream: int) -> None:
        self._check()
        with self._lock:
            if stream in self._captured:
                raise CudaError(
                    900,
                    "cudaErrorStreamCaptureUnsupported",
                    "operation not permitted when stream is capturing",
                    "cudaStreamSynchronize",
                )
            waiting = self._streams[stream]
            while waiting:
                waiting.popleft()()

    @override
    def copy(self, to: int, source: int, size: int, stream: int) -> None:
        if self._known(source) and self._known(to):
            self.run(stream, lambda: self._move(to, source, size))
        elif self._known(to):  # from ordinary memory: it may change at once
            taken = ctypes.string_at(source, size)
            self.run(stream, lambda: self._write(to, taken))
        else:  # to ordinary memory: the call returns when it is there
            self.run(stream, lambda: self._move(to, source, size))
            self.synchronize(stream)
        self.log.append(("copy", size))

    @override
    def zero(self, address: int, size: int, stream: int) -> None:
        self._within(address, size)
        self.run(stream, lambda: self._write(address, bytes(size)))

    @override
    def create_event(self, *, sleeps: bool) -> int:
        event = next(self._numbers)
        self._events[event] = _Event()
        self.log.append(("create_event", int(sleeps)))
        return event

    @override
    def destroy_event(self, event: int) -> None:
        del self._events[event]

    @override
    def record(self, event: int, stream: int) -> None:
        of = self._events[event]
        of.stream, of.reached = stream, False

        def reach() -> None:
            of.reached = True

        self.run(stream, reach)

    @override
    def wait_for(self, event: int, stream: int) -> None:
        self.run(stream, lambda: self.synchronize_event(event))
        self.log.append(("wait_for", stream))

    @override
    def synchronize_event(self, event: int) -> None:
        self._check()
        with self._lock:
            of = self._events[event]
            while not of.reached:
                self._streams[of.stream].popleft()()

    @override
    def begin_capture(self, stream: int) -> None:
        self._captured[stream] = []

    @override
    def end_capture(self, stream: int) -> int:
        graph = next(self._numbers)
        self._graphs[graph] = self._captured.pop(stream)
        return graph

    @override
    def launch(self, graph: int, stream: int) -> None:
        for work in self._graphs[graph]:
            self.run(stream, work)
        self.log.append(("launch", graph))

    @override
    def destroy_graph(self, graph: int) -> None:
        del self._graphs[graph]

    def read(self, address: int, size: int) -> bytes:
        """What is somewhere now, on the device or on the host."""
        if self._library is None or not self._is_elsewhere(address):
            return ctypes.string_at(address, size)
        found = ctypes.create_string_buffer(size)
        self._library.to_host(ctypes.addressof(found), address, size, 0)
        return found.raw

    def write(self, address: int, values: bytes) -> None:
        """The reverse."""
        if self._library is None or not self._is_elsewhere(address):
            ctypes.memmove(address, values, len(values))
            return
        given = ctypes.create_string_buffer(values, len(values))
        self._library.to_device(address, ctypes.addressof(given), len(values), 0)

    def run(self, stream: int, work: Work) -> None:
        """Put something into a stream, or into the graph that is captured from it."""
        self._check()
        with self._lock:
            captured = self._captured.get(stream)
            if captured is None:
                self._streams[stream].append(work)
            else:
                captured.append(work)

    def _allocate(self, size: int, *, on_device: bool) -> int:
        self._check()
        if on_device and self._library is not None:
            address = self._library.allocate(size, 0)
            self._memory[address] = None, size, True
            return address
        raw = ctypes.create_string_buffer(size + _ALIGNMENT)
        start = ctypes.addressof(raw)
        address = start + -start % _ALIGNMENT
        self._memory[address] = raw, size, on_device
        return address

    def _known(self, address: int) -> bool:
        return any(
            start <= address < start + max(1, size) for start, (_, size, _) in self._memory.items()
        ) or self._is_elsewhere(address)

    def _is_elsewhere(self, address: int) -> bool:
        """Whether it is memory of the fake's devices: of another process, or of this one."""
        try:
            return self._library is not None and self._library.allocation_of(address, 0)[1] > 0
        except CudaError:
            return False

    def _within(self, address: int, size: int) -> None:
        for start, (_, there, _) in self._memory.items():
            if start <= address and address + size <= start + there:
                return
        if self._is_elsewhere(address):
            return
        raise CudaError(
            700,
            "cudaErrorIllegalAddress",
            "an illegal memory access was encountered",
            "cudaMemcpyAsync",
        )

    def _move(self, to: int, source: int, size: int) -> None:
        for address in (to, source):
            if self._known(address):
                self._within(address, size)
        self.write(to, self.read(source, size))

    def _write(self, to: int, taken: bytes) -> None:
        self._within(to, len(taken))
        self.write(to, taken)

    def _check(self) -> None:
        if self.lost:
            raise CudaError(
                self.lost,
                "cudaErrorIllegalAddress",
                "an illegal memory access was encountered",
                "cudaLaunchKernel",
            )


CUDA: typing.Final = MadeUpCuda()
"""The one of this process."""

"""CUDA for a backend that has no framework to do it: device memory, streams, events and graphs. An interface, `CudaRuntime`, and what implements it by ctypes.

Addresses, streams, events and graphs are integers. The calling thread's device counts, as in CUDA; `use_device` sets it.
"""

import ctypes
import typing
from typing import Any

from typing_extensions import override

from naiad.errors import unavailable
from naiad.tensors import cudart

_MAJOR, _MINOR = 75, 76  # cudaDevAttrComputeCapabilityMajor, …Minor
_ANY_DIRECTION = 4  # cudaMemcpyDefault: the addresses say where they lie
_NON_BLOCKING = 1  # a stream that does not wait for the default stream
_NO_TIMING, _SLEEPS = 2, 1
_OWN_THREAD = 1  # calls of other threads do not end a capture


class CudaRuntime(typing.Protocol):
    """The CUDA runtime. Every method raises `cudart.CudaError` when its call fails."""

    def devices(self) -> int:
        """How many devices this process sees."""

    def use_device(self, device: int) -> None:
        """Make it the device of the calling thread."""

    def capability(self, device: int) -> tuple[int, int]:
        """Its compute capability."""

    def allocate(self, size: int) -> int:
        """The address of so many bytes on the thread's device."""

    def free(self, address: int) -> None:
        """Give memory of the device back."""

    def allocate_pinned(self, size: int) -> int:
        """The address of so many bytes of the host that the device copies from and to without the processor."""

    def free_pinned(self, address: int) -> None:
        """Give such memory back."""

    def priorities(self) -> tuple[int, int]:
        """The priorities of streams: of the last to run, and of the first, which is the smaller number."""

    def create_stream(self, priority: int) -> int:
        """A stream that does not wait for the default stream."""

    def destroy_stream(self, stream: int) -> None:
        """Give a stream back."""

    def synchronize(self, stream: int) -> None:
        """Wait for everything in a stream."""

    def copy(self, to: int, source: int, size: int, stream: int) -> None:
        """Copy, in the order of the stream, between the host and the device in either direction, or within one."""

    def zero(self, address: int, size: int, stream: int) -> None:
        """Set memory of the device to 0, in the order of the stream."""

    def create_event(self, *, sleeps: bool) -> int:
        """An event; a thread that waits for it `sleeps`, or else keeps its processor busy."""

    def destroy_event(self, event: int) -> None:
        """Give an event back."""

    def record(self, event: int, stream: int) -> None:
        """The event is reached when everything that is in the stream now has run."""

    def wait_for(self, event: int, stream: int) -> None:
        """What comes into the stream from now on waits for the event."""

    def synchronize_event(self, event: int) -> None:
        """Wait for an event."""

    def begin_capture(self, stream: int) -> None:
        """What comes into the stream from now on goes into a graph and does not run."""

    def end_capture(self, stream: int) -> int:
        """The graph, ready to be launched."""

    def launch(self, graph: int, stream: int) -> None:
        """Run a graph."""

    def destroy_graph(self, graph: int) -> None:
        """Give a graph back."""


class LibCudart(CudaRuntime):
    """Implements `CudaRuntime` by the library of this process."""

    def __init__(self, library: cudart.Cudart) -> None:
        self._cudart = library

    @override
    def devices(self) -> int:
        return self._int("cudaGetDeviceCount")

    @override
    def use_device(self, device: int) -> None:
        self._call("cudaSetDevice", ctypes.c_int(device))

    @override
    def capability(self, device: int) -> tuple[int, int]:
        return self._attribute(_MAJOR, device), self._attribute(_MINOR, device)

    @override
    def allocate(self, size: int) -> int:
        return self._made("cudaMalloc", ctypes.c_size_t(size))

    @override
    def free(self, address: int) -> None:
        self._call("cudaFree", ctypes.c_void_p(address))

    @override
    def allocate_pinned(self, size: int) -> int:
        return self._made("cudaHostAlloc", ctypes.c_size_t(size), ctypes.c_uint(0))

    @override
    def free_pinned(self, address: int) -> None:
        self._call("cudaFreeHost", ctypes.c_void_p(address))

    @override
    def priorities(self) -> tuple[int, int]:
        last, first = ctypes.c_int(), ctypes.c_int()
        self._call("cudaDeviceGetStreamPriorityRange", ctypes.byref(last), ctypes.byref(first))
        return last.value, first.value

    @override
    def create_stream(self, priority: int) -> int:
        flags = ctypes.c_uint(_NON_BLOCKING)
        return self._made("cudaStreamCreateWithPriority", flags, ctypes.c_int(priority))

    @override
    def destroy_stream(self, stream: int) -> None:
        self._call("cudaStreamDestroy", ctypes.c_void_p(stream))

    @override
    def synchronize(self, stream: int) -> None:
        self._call("cudaStreamSynchronize", ctypes.c_void_p(stream))

    @override
    def copy(self, to: int, source: int, size: int, stream: int) -> None:
        self._call(
            "cudaMemcpyAsync",
            ctypes.c_void_p(to),
            ctypes.c_void_p(source),
            ctypes.c_size_t(size),
            ctypes.c_int(_ANY_DIRECTION),
            ctypes.c_void_p(stream),
        )

    @override
    def zero(self, address: int, size: int, stream: int) -> None:
        arguments = ctypes.c_void_p(address), ctypes.c_int(0), ctypes.c_size_t(size)
        self._call("cudaMemsetAsync", *arguments, ctypes.c_void_p(stream))

    @override
    def create_event(self, *, sleeps: bool) -> int:
        flags = ctypes.c_uint(_NO_TIMING | (_SLEEPS if sleeps else 0))
        return self._made("cudaEventCreateWithFlags", flags)

    @override
    def destroy_event(self, event: int) -> None:
        self._call("cudaEventDestroy", ctypes.c_void_p(event))

    @override
    def record(self, event: int, stream: int) -> None:
        self._call("cudaEventRecord", ctypes.c_void_p(event), ctypes.c_void_p(stream))

    @override
    def wait_for(self, event: int, stream: int) -> None:
        arguments = ctypes.c_void_p(stream), ctypes.c_void_p(event), ctypes.c_uint(0)
        self._call("cudaStreamWaitEvent", *arguments)

    @override
    def synchronize_event(self, event: int) -> None:
        self._call("cudaEventSynchronize", ctypes.c_void_p(event))

    @override
    def begin_capture(self, stream: int) -> None:
        self._call("cudaStreamBeginCapture", ctypes.c_void_p(stream), ctypes.c_int(_OWN_THREAD))

    @override
    def end_capture(self, stream: int) -> int:
        graph = ctypes.c_void_p()
        try:
            self._call("cudaStreamEndCapture", ctypes.c_void_p(stream), ctypes.byref(graph))
            return self._made("cudaGraphInstantiateWithFlags", graph, ctypes.c_ulonglong(0))
        finally:
            if graph.value:
                self._call("cudaGraphDestroy", graph)

    @override
    def launch(self, graph: int, stream: int) -> None:
        self._call("cudaGraphLaunch", ctypes.c_void_p(graph), ctypes.c_void_p(stream))

    @override
    def destroy_graph(self, graph: int) -> None:
        self._call("cudaGraphExecDestroy", ctypes.c_void_p(graph))

    def _attribute(self, attribute: int, device: int) -> int:
        value = ctypes.c_int()
        arguments = ctypes.byref(value), ctypes.c_int(attribute), ctypes.c_int(device)
        self._call("cudaDeviceGetAttribute", *arguments)
        return value.value

    def _int(self, name: str) -> int:
        value = ctypes.c_int()
        self._call(name, ctypes.byref(value))
        return value.value

    def _made(self, name: str, *arguments: Any) -> int:
        """What a function makes, which it writes to its first argument."""
        made = ctypes.c_void_p()
        self._call(name, ctypes.byref(made), *arguments)
        return made.value or 0

    def _call(self, name: str, *arguments: Any) -> None:
        self._cudart.call(name, *arguments)


def open_runtime() -> CudaRuntime:
    """The CUDA runtime of this process.

    Raises:
        InferenceError: UNAVAILABLE: there is none, or no driver.
    """
    try:
        return LibCudart(cudart.load())
    except cudart.NoCudaError as error:
        raise unavailable(str(error)) from error

"""NVIDIA's CUDA runtime as the backends here need it: an interface, `CudaRuntime`, and the library behind it, opened by ctypes.

Addresses, streams, events and graphs are integers. The calling thread's device counts, as in CUDA; `use_device` sets it.
"""

import collections.abc
import ctypes
import importlib.util
import pathlib
import typing
from typing import Any

from typing_extensions import override

from naiad.errors import unavailable

_MAJORS = (13, 12)
"""Releases of CUDA whose runtime is looked for, the newest first: their functions used here have the same arguments."""

_WHEELS = {13: "nvidia/cu13/lib", 12: "nvidia/cuda_runtime/lib"}
_MAJOR, _MINOR = 75, 76  # cudaDevAttrComputeCapabilityMajor, …Minor
_ANY_DIRECTION = 4  # cudaMemcpyDefault: the addresses say where they lie
_NON_BLOCKING = 1  # a stream that does not wait for the default stream
_NO_TIMING, _SLEEPS = 2, 1
_OWN_THREAD = 1  # calls of other threads do not end a capture


class CUDARuntimeError(RuntimeError):
    """A call that failed; `status` is the number of the error. Known by its name (`device_errors`)."""

    def __init__(self, status: int, call: str, name: str, text: str) -> None:
        super().__init__(f"{text} (CUDA error {status}, {name}, in {call})")
        self.status = status


class CudaRuntime(typing.Protocol):
    """The CUDA runtime. Every method raises `CUDARuntimeError` when its call fails."""

    def versions(self) -> tuple[int, int]:
        """Of the runtime and of the newest one that the driver supports, as CUDA numbers them: 12040 is 12.4."""

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
    """Implements `CudaRuntime` by an opened library."""

    def __init__(self, library: Any) -> None:
        self._library = library
        library.cudaGetErrorName.restype = ctypes.c_char_p
        library.cudaGetErrorString.restype = ctypes.c_char_p

    @override
    def versions(self) -> tuple[int, int]:
        return self._int("cudaRuntimeGetVersion"), self._int("cudaDriverGetVersion")

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
            self._library.cudaGetLastError()  # an error of a capture is reported once more otherwise
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
        status = getattr(self._library, name)(*arguments)
        if status:
            library = self._library
            library.cudaGetLastError()  # an error that is not sticky is over with this exception
            error_name = library.cudaGetErrorName(status).decode()
            text = library.cudaGetErrorString(status).decode()
            raise CUDARuntimeError(status, name, error_name, text)


def open_runtime() -> CudaRuntime:
    """The CUDA runtime: the one that the system's loader finds, or the one of NVIDIA's wheels.

    Raises:
        InferenceError: UNAVAILABLE: there is none.
    """
    tried: list[str] = []
    newer: CudaRuntime | None = None
    for major, path in _candidates():
        try:
            runtime = LibCudart(ctypes.CDLL(path))
        except OSError as error:
            tried.append(str(error))
            continue
        if runtime.versions()[1] >= major * 1000:
            return runtime
        newer = newer or runtime  # than the driver supports: its calls say so
    if newer is not None:
        return newer
    raise unavailable(
        f"the CUDA runtime is missing ({'; '.join(tried)}): pip install nvidia-cuda-runtime (CUDA {_MAJORS[0]}) or "
        f"nvidia-cuda-runtime-cu12, whichever the driver of this machine supports"
    )


def _candidates() -> collections.abc.Iterator[tuple[int, str]]:
    package = importlib.util.find_spec("nvidia")
    folders = list(package.submodule_search_locations or ()) if package is not None else []
    for major in _MAJORS:
        name = f"libcudart.so.{major}"
        for folder in folders:
            path = pathlib.Path(folder).parent / _WHEELS[major] / name
            if path.is_file():
                yield major, str(path)
        yield major, name

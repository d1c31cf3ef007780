"""CUDA's runtime library by ctypes: the calls that tensors between processes, pinned memory and clients' regions need, and no other.

`Cudart` is the library of this process, found by `load`; `Runtime` is its interface. No call is made, and no context, before the first use. Every error
is a `CudaError` with CUDA's own number and name. All methods may be called in any thread and release the interpreter lock; each call that needs a device says which, and
leaves the thread's current device as it was. Limits: standard library, Python 3.8.
"""

import ctypes
import functools
import os
import sys
from collections.abc import Iterator
from typing import Any, Protocol

LIBRARY = "NAIAD_CUDART"
"""The environment variable that names the library's file, where it is not found by itself."""

HANDLE_BYTES = 64
"""The size of an inter-process handle of memory."""

INVALID_VALUE, OUT_OF_MEMORY = 1, 2
ALREADY_REGISTERED, INVALID_HANDLE, CAPTURING = 712, 400, 900

_TO_HOST, _TO_DEVICE, _ON_DEVICE = 2, 1, 3
_NON_BLOCKING = 1
_LAZY_PEERS = 1
_RELAXED = 2
_NAMES = ("libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0", "libcudart.so")


class CudaError(RuntimeError):
    """A call of CUDA's failed.

    Attributes:
        status: the error's number.
        call: the function.
    """

    def __init__(self, status: int, name: str, text: str, call: str) -> None:
        super().__init__(f"{call}: CUDA error {status} ({name}): {text}")
        self.status = status
        self.call = call


class NoCudaError(RuntimeError):
    """This process has no CUDA runtime library; says where it was looked for."""


class Runtime(Protocol):
    """What `Cudart` offers. Sizes are bytes, addresses plain numbers, devices the numbers of this process; every method may raise `CudaError`."""

    def device_count(self) -> int:
        """The number of devices."""

    def uuid(self, device: int) -> bytes:
        """The 16 bytes that name a device, or a slice of one, in every process."""

    def allocate(self, size: int, device: int) -> int:
        """Memory of a device."""

    def free(self, address: int, device: int) -> None:
        """Free it."""

    def allocation_of(self, address: int, device: int) -> "tuple[int, int]":
        """The base and the size of the allocation that an address lies in."""

    def ipc_handle(self, base: int, device: int) -> bytes:
        """The handle by which another process opens an allocation."""

    def ipc_open(self, handle: bytes, device: int) -> int:
        """The base here of another process's allocation."""

    def ipc_close(self, base: int, device: int) -> None:
        """Close it."""

    def to_host(self, target: int, source: int, size: int, device: int) -> None:
        """Copy to the host, and wait for it."""

    def to_device(self, target: int, source: int, size: int, device: int) -> None:
        """Copy from the host, and wait for it."""

    def copy(self, target: int, source: int, size: int, device: int) -> None:
        """Copy within a device, and wait for it."""

    def stream(self, device: int) -> int:
        """A stream of this process's own, which does not wait for the default stream: one per device."""

    def synchronize_stream(self, stream: int, device: int) -> None:
        """Wait for a stream; 0 is the default stream."""

    def synchronize(self, device: int) -> None:
        """Wait for all that was begun on a device by this process."""

    def register(self, address: int, size: int) -> None:
        """Pin memory of the host, so that copies are fast."""

    def unregister(self, address: int) -> None:
        """Undo it."""


class Cudart:
    """Implements `Runtime`.

    Args:
        library: libcudart.
        driver: gives the functions of the driver, libcuda.
    """

    def __init__(self, library: Any, driver: Any) -> None:
        self._library = library
        self._driver = driver
        self._streams: dict[int, int] = {}
        self._uuids: dict[int, bytes] = {}
        for name in ("cudaGetErrorName", "cudaGetErrorString"):
            getattr(library, name).restype = ctypes.c_char_p

    def device_count(self) -> int:
        """See `Runtime`."""
        count = ctypes.c_int()
        self._call("cudaGetDeviceCount", ctypes.byref(count))
        return count.value

    def uuid(self, device: int) -> bytes:
        """See `Runtime`."""
        known = self._uuids.get(device)
        if known is None:
            # The runtime has made the driver ready by then.
            number, found = ctypes.c_int(), (ctypes.c_ubyte * 16)()
            self._call("cudaGetDeviceCount", ctypes.byref(number))
            self._driven("cuDeviceGet", ctypes.byref(number), ctypes.c_int(device))
            self._driven("cuDeviceGetUuid_v2", found, number)
            known = self._uuids[device] = bytes(found)
        return known

    def allocate(self, size: int, device: int) -> int:
        """See `Runtime`."""
        address = ctypes.c_void_p()
        self._on(device, "cudaMalloc", ctypes.byref(address), ctypes.c_size_t(size))
        return address.value or 0

    def free(self, address: int, device: int) -> None:
        """See `Runtime`."""
        self._on(device, "cudaFree", ctypes.c_void_p(address))

    def allocation_of(self, address: int, device: int) -> "tuple[int, int]":
        """See `Runtime`."""
        base, size = ctypes.c_uint64(), ctypes.c_size_t()
        with _Current(self, device):
            self._driven(
                "cuMemGetAddressRange_v2", ctypes.byref(base), ctypes.byref(size), ctypes.c_uint64(address)
            )  # fmt: skip
        return base.value, size.value

    def ipc_handle(self, base: int, device: int) -> bytes:
        """See `Runtime`."""
        handle = _Handle()
        self._on(device, "cudaIpcGetMemHandle", ctypes.byref(handle), ctypes.c_void_p(base))
        return bytes(handle)

    def ipc_open(self, handle: bytes, device: int) -> int:
        """See `Runtime`."""
        base = ctypes.c_void_p()
        # The structure goes by value.
        given = _Handle.from_buffer_copy(handle)
        self._on(
            device, "cudaIpcOpenMemHandle", ctypes.byref(base), given, ctypes.c_uint(_LAZY_PEERS)
        )
        return base.value or 0

    def ipc_close(self, base: int, device: int) -> None:
        """See `Runtime`."""
        self._on(device, "cudaIpcCloseMemHandle", ctypes.c_void_p(base))

    def to_host(self, target: int, source: int, size: int, device: int) -> None:
        """See `Runtime`."""
        self._copy(target, source, size, device, _TO_HOST)

    def to_device(self, target: int, source: int, size: int, device: int) -> None:
        """See `Runtime`."""
        self._copy(target, source, size, device, _TO_DEVICE)

    def copy(self, target: int, source: int, size: int, device: int) -> None:
        """See `Runtime`."""
        self._copy(target, source, size, device, _ON_DEVICE)

    def stream(self, device: int) -> int:
        """See `Runtime`."""
        known = self._streams.get(device)
        if known is None:
            stream = ctypes.c_void_p()
            self._on(
                device, "cudaStreamCreateWithFlags", ctypes.byref(stream), ctypes.c_uint(_NON_BLOCKING)
            )  # fmt: skip
            known = self._streams.setdefault(device, stream.value or 0)
        return known

    def synchronize_stream(self, stream: int, device: int) -> None:
        """See `Runtime`."""
        self._on(device, "cudaStreamSynchronize", ctypes.c_void_p(stream))

    def synchronize(self, device: int) -> None:
        """See `Runtime`."""
        # A thread of its own mode: a capture of a graph in another thread is not spoiled by this call.
        mode = ctypes.c_int(_RELAXED)
        self._call("cudaThreadExchangeStreamCaptureMode", ctypes.byref(mode))
        try:
            self._on(device, "cudaDeviceSynchronize")
        finally:
            self._call("cudaThreadExchangeStreamCaptureMode", ctypes.byref(mode))

    def register(self, address: int, size: int) -> None:
        """See `Runtime`."""
        self._call(
            "cudaHostRegister", ctypes.c_void_p(address), ctypes.c_size_t(size), ctypes.c_uint(0)
        )

    def unregister(self, address: int) -> None:
        """See `Runtime`."""
        self._call("cudaHostUnregister", ctypes.c_void_p(address))

    def current(self, device: "int | None" = None) -> int:
        """The thread's device, or a change of it; gives back the one before."""
        before = ctypes.c_int()
        self._call("cudaGetDevice", ctypes.byref(before))
        if device is not None and device != before.value:
            self._call("cudaSetDevice", ctypes.c_int(device))
        return before.value

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function that no method has, in the calling thread and on its device.

        Raises:
            CudaError: it failed.
        """
        self._call(name, *arguments)

    def _copy(self, target: int, source: int, size: int, device: int, kind: int) -> None:
        """On the process's own stream: the default one would wait for a model's work, and have that wait for the copy."""
        if size:
            stream = ctypes.c_void_p(self.stream(device))
            self._on(
                device, "cudaMemcpyAsync", ctypes.c_void_p(target), ctypes.c_void_p(source), ctypes.c_size_t(size),
                ctypes.c_int(kind), stream,
            )  # fmt: skip
            self._on(device, "cudaStreamSynchronize", stream)

    def _on(self, device: int, name: str, *arguments: Any) -> None:
        with _Current(self, device):
            self._call(name, *arguments)

    def _call(self, name: str, *arguments: Any) -> None:
        library = self._library
        status = getattr(library, name)(*arguments)
        if status:
            library.cudaGetLastError()  # or a later call of a framework's would report it
            given = ctypes.c_int(status)
            raise CudaError(
                status,
                (library.cudaGetErrorName(given) or b"").decode(errors="replace"),
                (library.cudaGetErrorString(given) or b"").decode(errors="replace"),
                name,
            )

    def _driven(self, name: str, *arguments: Any) -> None:
        status = getattr(self._driver, name)(*arguments)
        if status:
            raise CudaError(status, "of the driver", "the driver refused the call", name)


class _Handle(ctypes.Structure):
    _fields_ = [("reserved", ctypes.c_char * HANDLE_BYTES)]


class _Current:
    """A device is the thread's current one meanwhile."""

    def __init__(self, cudart: Cudart, device: int) -> None:
        self._cudart = cudart
        self._device = device
        self._before = device

    def __enter__(self) -> None:
        self._before = self._cudart.current(self._device)

    def __exit__(self, *_raised: object) -> None:
        if self._before != self._device:
            self._cudart.current(self._before)


@functools.lru_cache(maxsize=None)  # noqa: UP033 - 3.8 has no other
def load() -> Cudart:
    """CUDA's runtime library: the one that a framework has loaded into this process, else that of `NAIAD_CUDART`, of a package, of the system.

    Raises:
        NoCudaError: there is none.
    """
    why = "it was not found"
    for name in _candidates():
        try:
            library = ctypes.CDLL(name)
        except OSError as error:
            why = str(error)
            continue
        if hasattr(library, "cuMemGetAddressRange_v2"):
            return Cudart(library, library)
        try:
            return Cudart(library, ctypes.CDLL("libcuda.so.1"))
        except OSError as error:
            raise NoCudaError(f"the driver of CUDA cannot be loaded: {error}") from None
    raise NoCudaError(
        f"the runtime library of CUDA, libcudart.so, cannot be loaded ({why}): install it, e.g. by pip install nvidia-cuda-runtime, or set {LIBRARY} to its file"
    )


def _candidates() -> "Iterator[str]":
    named = os.environ.get(LIBRARY)
    if named:
        yield named
        return
    with open("/proc/self/maps") as maps:  # noqa: PTH123 - a worker starts without pathlib
        loaded = {line.split()[-1] for line in maps if "/libcudart" in line}
    yield from sorted(loaded)
    yield from _NAMES
    import pathlib  # noqa: PLC0415 - a worker starts without it

    for folder in (*map(pathlib.Path, sys.path), pathlib.Path("/usr/local/cuda/lib64")):
        for inside in ("nvidia/cu13/lib", "nvidia/cuda_runtime/lib", "."):
            yield from map(str, sorted((folder / inside).glob("libcudart.so*")))

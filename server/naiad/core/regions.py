"""Shared memory that clients have registered: named parts of POSIX shared memory objects, and of allocations on GPUs (rows 5.7 to 5.19).

The server reads and writes tensors in objects with `preadv` and `pwrite`, never through a mapping: an object that its owner has made smaller gives a short read,
which is an error of one request, where a mapping would end the process. Worker processes survive that (`tensors.region_mappings`). Those on GPUs: `core.cuda_regions`.
"""

import asyncio
import os
import re
import resource
import stat
import typing

import numpy as np

from naiad.core.cuda_regions import CudaRegion, GpuMemory
from naiad.core.record import Record
from naiad.errors import ErrorCode, InferenceError, internal, invalid, not_found, unsupported
from naiad.tensors.cudart import HANDLE_BYTES
from naiad.tensors.region_files import too_small, unreadable
from naiad.tensors.shared_pool import MOST_LENT, SharedPool

FOLDER = "/dev/shm"  # noqa: S108 - where POSIX shared memory objects are on Linux
RESERVED = "triton_python_backend_shm_region_"
"""Keys that begin so belong to the reference's Python processes (row 5.10)."""

MOST_BYTES = 2**63 - 1
_MOST_REGIONS = 4096
_KNOWN_PLACES = 256
_TICK_S = 1.0
_KEY = re.compile(r"/?([^/\0]+)").fullmatch


class Place(Record, frozen=True, eq=True):
    """Where a tensor is in a region, as a request names it.

    Attributes:
        name: of the region.
        offset: bytes from its beginning.
        size: bytes.
        region: the region itself, once it was looked up: it stays usable until the request is over, also if it is unregistered meanwhile.
    """

    name: str
    offset: int
    size: int
    region: "Region | CudaRegion | None" = None


class Region:
    """A registered part of a shared memory object. It is closed when nothing refers to it any more.

    Attributes:
        key: the object's name, as the client wrote it.
        offset: where the region begins in the object, in bytes.
        size: its bytes.
    """

    __slots__ = ("__weakref__", "_file", "key", "name", "offset", "size")

    def __init__(self, name: str, key: str, offset: int, size: int, file: int) -> None:
        self._file = file
        self.name = name
        self.key = key
        self.offset = offset
        self.size = size

    def __del__(self) -> None:
        os.close(self._file)

    on_gpu = False

    @property
    def descriptor(self) -> int:
        """Of the object; the region's own."""
        return self._file

    def values(
        self, offset: int, size: int, into: "np.ndarray[typing.Any, typing.Any] | None" = None
    ) -> "np.ndarray[typing.Any, typing.Any]":
        """A copy of a part of the region, as uint8; `into`: at least so many bytes to use for it. Thread-safe.

        Raises:
            InferenceError: as `read`.
        """
        # A plain array over it: a slice of a lease would be one of its type.
        found: np.ndarray[typing.Any, typing.Any] = np.ndarray((size,), np.uint8, into)
        self.read(found, offset)
        return found

    def read(self, buffer: typing.Any, offset: int) -> None:
        """Fill a writable buffer of bytes from the region. Thread-safe.

        Raises:
            InferenceError: INVALID_ARG if the object has become too small, INTERNAL if it cannot be read.
        """
        view, at = memoryview(buffer), self.offset + offset
        while view:
            try:
                count = os.preadv(self._file, [view], at)
            except OSError as error:
                raise internal(unreadable(self.label, str(error.strerror))) from None
            if not count:
                raise self._too_small(at + len(view))
            view, at = view[count:], at + count

    def write(self, data: "bytes | memoryview", offset: int) -> None:
        """Copy bytes to the region, which does not grow. Thread-safe.

        Raises:
            InferenceError: as `read`.
        """
        view, at = memoryview(data), self.offset + offset
        try:
            if os.fstat(self._file).st_size < at + len(view):
                raise self._too_small(at + len(view))
            while view:
                count = os.pwrite(self._file, view, at)
                view, at = view[count:], at + count
        except OSError as error:
            raise internal(f"{self.label} cannot be written: {error.strerror}") from None

    def require(self, offset: int, size: int) -> None:
        """See that a part of the region is there now.

        Raises:
            InferenceError: as `read`.
        """
        end = self.offset + offset + size
        if os.fstat(self._file).st_size < end:
            raise self._too_small(end)

    @property
    def label(self) -> str:
        """How messages name it."""
        return f"shared memory region '{self.name}' (key '{self.key}')"

    def _too_small(self, end: int) -> InferenceError:
        return invalid(too_small(self.label, end))


class Regions:
    """The registered regions, by name. All of it belongs to the event loop.

    Args:
        allowed: whether clients may register any (`--allow-client-shm`).
        same_owner: whether the owner of the object must be the user that the server runs as (`--client-shm-owner=same`).
        gpu_memory: opens clients' memory on GPUs; None: there are none.
    """

    def __init__(
        self,
        *,
        allowed: bool = False,
        same_owner: bool = False,
        gpu_memory: GpuMemory | None = None,
    ) -> None:
        self.allowed = allowed
        self._same_owner = same_owner
        self._gpu_memory = gpu_memory
        self._regions: dict[str, Region | CudaRegion] = {}
        self._bound: dict[tuple[str, int, int], Place] = {}
        self._memory: dict[str, SharedPool] = {}
        self._timer: asyncio.TimerHandle | None = None

    def require_allowed(self) -> None:
        """Raise UNSUPPORTED where regions can neither be registered nor unregistered (row 5.7)."""
        if not self.allowed:
            raise unsupported(
                "Client shared memory is disabled. Start the server with '--allow-client-shm=true', or send tensors in the requests "
                "(over HTTP as binary data) and read outputs from the responses"
            )

    def register(self, name: str, key: str, offset: int, size: int) -> None:
        """Register a part of an object (rows 5.8 to 5.10).

        Raises:
            InferenceError: UNSUPPORTED; INVALID_ARG for a key, an offset or a size that cannot be; ALREADY_EXISTS; UNAVAILABLE if there are too
                many; INTERNAL if the object cannot be opened.
        """
        self.require_allowed()
        matched = _KEY(key)
        if matched is None or matched[1] in {".", ".."}:
            raise invalid(
                f"cannot register shared memory region '{name}' - invalid shm key '{key}': send the name of an object in {FOLDER}, which "
                "may begin with one '/' and has no other"
            )
        if matched[1].startswith(RESERVED):
            raise invalid(
                f"cannot register shared memory region '{name}' with key '{key}' as the key contains the reserved prefix '{RESERVED}'"
            )
        self._check_new(name)
        file = self._open(key, matched[1])
        total = os.fstat(file).st_size
        if not size or offset + size > total:
            os.close(file)
            raise invalid(
                f"failed to register shared memory region '{name}': invalid args: offset {offset} and byte_size {size} must lie within the "
                f"{total} bytes of '{key}', and byte_size must be at least 1"
            )
        self._regions[name] = Region(name, key, offset, size, file)

    def _check_new(self, name: str) -> None:
        if name in self._regions:
            raise InferenceError(
                ErrorCode.ALREADY_EXISTS,
                f"shared memory region '{name}' already in manager: unregister it first, or choose another name",
            )
        limit = most_regions(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        if len(self._regions) >= limit:
            raise InferenceError(
                ErrorCode.UNAVAILABLE,
                f"failed to register shared memory region '{name}': {limit} regions are registered, which is the most that this server's "
                "limit of open files allows; unregister some",
            )

    def _open(self, key: str, file_name: str) -> int:
        failed = f"Unable to open shared memory region: '{key}'"
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
        try:
            file = os.open(f"{FOLDER}/{file_name}", flags)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise internal(
                f"{failed}: {reason}; the object must be in {FOLDER} where the server runs, and the server's user must be allowed to "
                "read and write it"
            ) from None
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            os.close(file)
            raise internal(f"{failed}: it is not a shared memory object")
        if self._same_owner and status.st_uid != os.geteuid():
            os.close(file)
            raise internal(
                f"{failed}: it belongs to user {status.st_uid}, and with '--client-shm-owner=same' only those of the server's user, "
                f"{os.geteuid()}, are accepted"
            )
        return file

    @property
    def has_gpus(self) -> bool:
        """Whether there may be regions on GPUs."""
        return self._gpu_memory is not None

    def require_gpus(self, name: str) -> GpuMemory:
        """What opens memory on GPUs; raises UNSUPPORTED as `require_allowed`, and INVALID_ARG where there are none (row 5.14)."""
        self.require_allowed()
        if self._gpu_memory is None:
            raise invalid(
                f"failed to register CUDA shared memory region: '{name}', GPUs not supported: register a system shared memory region"
            )
        return self._gpu_memory

    async def register_cuda(self, name: str, handle: bytes, device: int, size: int) -> None:
        """Register memory on a GPU (row 5.14).

        Args:
            name: of the region.
            handle: a `cudaIpcMemHandle_t`.
            device: the GPU, numbered as the server does; it is looked for on all of them.
            size: bytes.

        Raises:
            InferenceError: UNSUPPORTED; INVALID_ARG where there are no GPUs, and for a handle or a size that cannot be; ALREADY_EXISTS; UNAVAILABLE.
        """
        memory = self.require_gpus(name)
        if len(handle) != HANDLE_BYTES:
            raise invalid(
                f"'raw_handle' must be a valid base64 encoded cudaIpcMemHandle_t, which has {HANDLE_BYTES} bytes (region '{name}')"
            )
        self._check_new(name)
        opened = await asyncio.to_thread(memory.open, name, handle, device, size)
        self._check_new(name)  # another registration may have been quicker
        self._regions[name] = CudaRegion(name, device, size, memory, opened)

    def unregister(self, name: str = "", *, on_gpu: bool = False) -> None:
        """Forget a region of this kind, or all of them; one that is not there is no error (row 5.16). Requests that use one keep it until they are over.

        Raises:
            InferenceError: UNSUPPORTED.
        """
        self.require_allowed()
        for each in [name] if name else list(self._regions):
            region = self._regions.get(each)
            if region is not None and region.on_gpu == on_gpu:
                self._bound.clear()
                del self._regions[each]

    def system(self, name: str = "") -> list[Region]:
        """All regions in the host's memory, sorted by name, or the one of this name (row 5.13).

        Raises:
            InferenceError: NOT_FOUND.
        """
        found = [
            each for each in self._found(name, "CUDA", "system") if not isinstance(each, CudaRegion)
        ]
        if name and not found:
            raise not_found(f"Unable to find system shared memory region: '{name}'{self._hint()}")
        return found

    def cuda(self, name: str = "") -> list[CudaRegion]:
        """All regions on GPUs, sorted by name, or the one of this name (row 5.14).

        Raises:
            InferenceError: NOT_FOUND.
        """
        found = [
            each for each in self._found(name, "system", "CUDA") if isinstance(each, CudaRegion)
        ]
        if name and not found:
            raise not_found(f"Unable to find cuda shared memory region: '{name}'{self._hint()}")
        return found

    def _found(self, name: str, other: str, wanted: str) -> "list[Region | CudaRegion]":
        if not name:
            return [self._regions[each] for each in sorted(self._regions)]
        region = self._regions.get(name)
        if region is not None and region.on_gpu != (wanted == "CUDA"):
            raise not_found(
                f"The region named '{name}' is registered as {other} shared memory, not {wanted} shared memory"
            )
        return [] if region is None else [region]

    def memory(self, size: int, model: str) -> "np.ndarray[typing.Any, typing.Any] | None":
        """Memory for a tensor of so many bytes of a request for a model, which was used before if there is some: its pages are there. None if there is none.

        It is shared memory, which a worker process reads without a copy, and is used again once nothing refers to it.
        """
        if sum(pool.lent for pool in self._memory.values()) >= MOST_LENT:
            return None
        # One pool per model: a worker of one model could look into files that it has mapped.
        pool = self._memory.get(model)
        if pool is None:
            pool = self._memory[model] = SharedPool()
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_TICK_S, self._tick)
        return pool.take(size)

    def _tick(self) -> None:
        self._memory = {model: pool for model, pool in self._memory.items() if pool.tick()}
        self._timer = None
        if self._memory:
            self._timer = asyncio.get_running_loop().call_later(_TICK_S, self._tick)

    def bound(self, place: Place) -> Place:
        """A place with its region (rows 5.17, 5.18). The same places come again and again: those that were found are remembered (bounded).

        Raises:
            InferenceError: NOT_FOUND for a region that is not registered, INVALID_ARG for a place outside of it.
        """
        key = name, offset, size = place.name, place.offset, place.size
        found = self._bound.get(key)
        if found is not None:
            return found
        region = self._regions.get(name)
        if region is None:
            raise not_found(f"Unable to find shared memory region: '{name}'{self._hint()}")
        within = (
            f"the region has {region.size} bytes, the tensor begins at byte {offset} and has {size}"
        )
        if not 0 <= offset < region.size:
            raise invalid(f"Invalid offset for shared memory region: '{name}': {within}")
        if size < 0 or offset + size > region.size:
            raise invalid(
                f"Invalid offset + byte size for shared memory region: '{name}': {within}"
            )
        if len(self._bound) >= _KNOWN_PLACES:
            self._bound.clear()
        found = self._bound[key] = Place(name, offset, size, region)
        return found

    def _hint(self) -> str:
        if self.allowed:
            return ""
        return (
            ". Client shared memory is disabled, so there are no regions: start the server with '--allow-client-shm=true', or send "
            "tensors in the requests and read outputs from the responses"
        )


def most_regions(open_files: int) -> int:
    """How many regions there may be, each of which is an open file, under a limit of open files (negative: none)."""
    return _MOST_REGIONS if open_files < 0 else min(_MOST_REGIONS, max(open_files // 4, 1))

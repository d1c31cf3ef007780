"""The allocations of clients that are open in this process, and the copies from and to them. One message at a time, in the main thread.

An allocation stays open from OPEN to CLOSE, so that it can be used although its client has ended. Another one that a message is about, because the process
is a new one, is opened first.
"""

import collections.abc
import typing

import numpy as np

from naiad.backends import device_errors
from naiad.errors import InferenceError, internal, invalid
from naiad.hosts.cuda_regions.messages import (
    CLOSE,
    COPY,
    DONE,
    ENDS,
    FAILED,
    NUMBER,
    OPEN,
    OWNER_ENDED,
    READ,
    WRITE,
    Part,
    part,
)
from naiad.hosts.link import codec
from naiad.hosts.link.link import Link, SegmentLostError
from naiad.hosts.link.payload import Payload
from naiad.hosts.worker.gpu.imports import Imports
from naiad.tensors import copies, cudart, descriptor
from naiad.tensors.device_array import DeviceArray
from naiad.tensors.host_copy import HostCopy
from naiad.tensors.memory import Memory

_UINT8 = "UINT8"

Answer = tuple[bytes, Payload | None]


class _Open(typing.NamedTuple):
    base: int
    device: int
    size: int


class Allocations:
    """Those that are open.

    Args:
        link: to the server.
        load: gives the runtime library.
    """

    def __init__(
        self, link: Link, load: collections.abc.Callable[[], cudart.Runtime] = cudart.load
    ) -> None:
        self._link = link
        self._load = load
        self._open: dict[bytes, _Open] = {}
        self._imports = Imports(load)

    def serve(self) -> None:
        """Answer messages until the server is gone, or a device cannot be used any more.

        Raises:
            LinkBrokenError: the server is gone.
        """
        works = True
        while works:
            try:
                kind, _, header = self._link.receive()
            except SegmentLostError as lost:
                self._fail(internal(f"the bytes could not be received: {lost}"))
                continue
            try:
                answer, payload = self._answer(kind, header)
                # A device is read here, while the payload is written.
                self._link.notify(DONE, answer, payload)
            except InferenceError as error:
                self._fail(error)
            except (cudart.CudaError, cudart.NoCudaError, OSError, MemoryError) as error:
                works = device_errors.unrecoverable(error) is None
                self._fail(internal(str(error)), FAILED if works else ENDS)

    def _fail(self, error: InferenceError, kind: int = FAILED) -> None:
        self._link.notify(kind, codec.write_failure(error))

    def _answer(self, kind: int, header: bytes | bytearray) -> Answer:
        content = self._link.take_notification()
        if kind == OWNER_ENDED:
            self._imports.owner_ended(*NUMBER.unpack(header))
            return b"", None
        wanted, more = part(header)
        if kind == CLOSE:
            self._close(wanted.handle)
            return b"", None
        found = self._find(wanted)
        address, runtime = found.base + wanted.offset, self._load()
        if kind == OPEN:
            return NUMBER.pack(found.device) + runtime.uuid(found.device), None
        if wanted.offset + wanted.size > found.size:
            raise invalid("the tensor does not lie within the allocation")
        if kind == READ:
            values = DeviceArray(
                address, (wanted.size,), _UINT8, itemsize=1, memory=Memory("cuda", found.device), owner=None
            )  # fmt: skip
            payload = Payload()
            payload.add(HostCopy(values))
            return b"", payload
        if kind == WRITE:
            whole = self._link.notified
            if isinstance(content, np.ndarray) and whole is not None:
                copies.PINS.copies(whole, wanted.size, runtime)
            source = np.frombuffer(content, np.uint8).ctypes.data
            runtime.to_device(address, source, wanted.size, found.device)
        elif kind == COPY:
            given = descriptor.unpacked(more)
            tensor = self._imports.open(given, (given.size,), _UINT8)
            runtime.copy(address, tensor.address, given.size, found.device)
        return b"", None

    def _find(self, wanted: Part) -> _Open:
        found = self._open.get(wanted.handle)
        if found is None:
            found = self._open[wanted.handle] = self._opened(wanted)
        if wanted.size > found.size:
            raise invalid(
                f"the allocation has {found.size} bytes behind the address of its handle, and {wanted.size} were asked for"
            )
        return found

    def _opened(self, wanted: Part) -> _Open:
        """Open an allocation on the device that the client named, or on another one: Triton does not look at the number either.

        Raises:
            InferenceError: INVALID_ARG.
        """
        runtime = self._load()
        count = runtime.device_count()
        error: cudart.CudaError | None = None
        for device in sorted(range(count), key=lambda each: each != wanted.device):
            try:
                address = runtime.ipc_open(wanted.handle, device)
            except cudart.CudaError as failure:
                error = error or failure
                continue
            base, size = runtime.allocation_of(address, device)
            return _Open(address, device, base + size - address)
        raise invalid(
            f"the handle cannot be opened on any of {count} GPUs, e.g. {error}: the process that made it must run, on this machine, and must have "
            "its memory from cudaMalloc"
        )

    def _close(self, handle: bytes) -> None:
        found = self._open.pop(handle, None)
        if found is not None:
            self._load().ipc_close(found.base, found.device)

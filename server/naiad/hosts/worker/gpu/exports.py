"""The tensors of this process that other processes use: each is kept until the server says that none uses it any more.

A tensor is complete before it is lent (`copies.taken` waits for its stream): no event goes with it, so that errors of the kernels that make it fail the
request here, and a receiver may read it on any stream. docs/gpu-tensors.md says what that costs.

Limits: standard library, Python 3.8.
"""

import itertools
import logging
import threading
from typing import Any

from naiad.hosts.link.exported import Exported
from naiad.tensors import copies, cudart
from naiad.tensors.descriptor import Descriptor
from naiad.tensors.device_array import DeviceArray
from naiad.tensors.host_copy import HostCopy
from naiad.tensors.memory import CUDA, Memory
from naiad.tensors.numbering import server_number

_log = logging.getLogger("naiad.worker")


class Exports:
    """The tensors that are lent; may be used by several threads.

    Args:
        load: gives the runtime library.
    """

    def __init__(self, load: Any = cudart.load) -> None:
        self._load = load
        self._lent: dict[int, DeviceArray] = {}
        self._numbers = itertools.count(1)
        self._cannot = False
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """The number of tensors that are lent."""
        return len(self._lent)

    def release(self, number: int) -> None:
        """No other process uses the tensor of this number any more."""
        self._lent.pop(number, None)

    def part(self, values: Any, *, wanted: "int | None") -> Any:
        """What goes into a message in place of an output or input: an `Exported`, a `HostCopy`, or, of what is in the host's memory, itself.

        Args:
            values: anything.
            wanted: the server's number of the device on which the receiver takes it; -1: on any.

        Raises:
            BufferError, cudart.CudaError, cudart.NoCudaError: as `copies.taken`.
        """
        array = device_array(values)
        if array is None:
            return values
        number = server_number(array.memory.device)
        if array.nbytes and wanted is not None and wanted in (-1, number) and not self._cannot:
            descriptor = self._export(array)
            if descriptor is not None:
                return Exported(array.shape, Memory("cuda", number), descriptor)
        return HostCopy(array)

    def _export(self, array: DeviceArray) -> "bytes | None":
        """Lend a tensor; None if its allocation cannot be opened elsewhere."""
        runtime, device = self._load(), array.memory.device
        try:
            base, _ = runtime.allocation_of(array.address, device)
            handle = runtime.ipc_handle(base, device)
        except cudart.CudaError as error:
            if error.status != cudart.INVALID_VALUE:
                raise
            # Memory of a pool without handles, such as torch's expandable segments.
            self._cannot = True
            _log.warning(
                "tensors of this model go through the host's memory: their allocations have no handle for other processes (%s); with torch, "
                "leave expandable_segments out of PYTORCH_CUDA_ALLOC_CONF",
                error,
            )
            return None
        with self._lock:
            number = next(self._numbers)
        self._lent[number] = array
        return Descriptor(
            handle, runtime.uuid(device), array.address - base, array.nbytes, 0, number
        ).packed()


def device_array(values: Any) -> "DeviceArray | None":
    """The array of a DLPack tensor on a CUDA device, complete; None of anything else.

    Raises:
        BufferError, cudart.CudaError, cudart.NoCudaError: as `copies.taken`.
    """
    if isinstance(values, DeviceArray):
        return values
    where = getattr(values, "__dlpack_device__", None)
    if where is None or int(where()[0]) != CUDA:
        return None
    found = copies.taken(values)
    return found if isinstance(found, DeviceArray) else None


EXPORTS = Exports()
"""Those of this process."""

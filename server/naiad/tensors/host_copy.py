"""A tensor on a device on its way into the host's memory. Limits: standard library, Python 3.8."""

from typing import TYPE_CHECKING, Any

from naiad.tensors.device_array import DeviceArray

if TYPE_CHECKING:
    import numpy as np


class HostCopy:
    """A part of a payload whose values are still on a device: they are copied once, to where the payload is written.

    Attributes:
        array: the array.
        shape: of the array.
        nbytes: of the array.
    """

    __slots__ = ("array", "nbytes", "shape")

    def __init__(self, array: DeviceArray) -> None:
        self.array = array
        self.shape = array.shape
        self.nbytes = array.nbytes

    def tobytes(self) -> bytes:
        """The values."""
        from naiad.tensors import copies  # noqa: PLC0415 - ctypes takes milliseconds, and most processes have no device

        return copies.to_host(self.array).tobytes()

    def write_to(self, base: "np.ndarray[Any, Any]", at: int, *, pins: bool) -> None:
        """Copy the values into memory of the host, at an offset; `pins`: it may be pinned.

        Raises:
            cudart.CudaError: the device reports an error.
        """
        from naiad.tensors import copies  # noqa: PLC0415 - as above

        copies.copy_to(base, at, self.array, pins=pins)

"""Where the values of a tensor lie. Limits: standard library, Python 3.8."""

from typing import Any, NamedTuple

CPU = 1
CUDA = 2
CUDA_HOST = 3
"""DLPack's numbers of the kinds of memory: the host's, a CUDA device's, and the host's that is pinned for CUDA."""


class Memory(NamedTuple):
    """A kind of memory on a device.

    Attributes:
        kind: "cpu", "cuda", or "other" for what no part of the server can read.
        device: the number of the device; 0 for the host.
    """

    kind: str
    device: int


HOST = Memory("cpu", 0)
"""The host's memory, pinned or not."""

_KINDS = {CPU: "cpu", CUDA_HOST: "cpu", CUDA: "cuda"}


def memory_of(values: Any) -> Memory:
    """Where a DLPack tensor lies.

    Args:
        values: what has `__dlpack_device__`.

    Raises:
        AttributeError: it has not.
    """
    number, device = values.__dlpack_device__()
    kind = _KINDS.get(int(number), "other")
    return HOST if kind == HOST.kind else Memory(kind, int(device))

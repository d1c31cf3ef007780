"""Which processes of a server have a CUDA context, and what they take of the GPU's memory, as the driver lists it."""

import functools
import time
from typing import Any

from tests.reference.process import ServerProcess, descendants

MIB = 1 << 20


@functools.cache
def driver() -> tuple[Any, Any]:
    """The module pynvml and the first GPU's handle."""
    import pynvml  # noqa: PLC0415 - it may be missing

    pynvml.nvmlInit()
    return pynvml, pynvml.nvmlDeviceGetHandleByIndex(0)


def uuid() -> str:
    """The first GPU's."""
    nvml, handle = driver()
    return str(nvml.nvmlDeviceGetUUID(handle))


def of(server: ServerProcess) -> dict[int, float]:
    """MiB on the GPU by process id, of the server and its workers; only those with a context."""
    assert server.process is not None
    nvml, handle = driver()
    own = {server.process.pid, *descendants(server.process.pid)}
    listed = {
        each.pid: (each.usedGpuMemory or 0) / MIB
        for each in nvml.nvmlDeviceGetComputeRunningProcesses(handle)
    }
    return {pid: used for pid, used in listed.items() if pid in own}


def settled(server: ServerProcess, seconds: float = 3) -> float:
    """MiB of all of them once it has not changed for half a second, or after so many seconds."""
    until = time.monotonic() + seconds
    since, before = time.monotonic(), sum(of(server).values())
    while time.monotonic() < until and time.monotonic() - since < 0.5:
        time.sleep(0.05)
        now = sum(of(server).values())
        if now != before:
            since, before = time.monotonic(), now
    return before


def workers(server: ServerProcess) -> dict[int, float]:
    """The same without the server itself, which must have no context.

    Raises:
        AssertionError: no process is listed, or the server is.
    """
    assert server.process is not None
    found = of(server)
    if server.process.pid in found:
        raise AssertionError("the server process itself has a CUDA context")
    if not found:
        raise AssertionError("the driver lists no process of the server with a CUDA context")
    return found

"""A codec process: calls one function after the other for the server, until the server closes its end or is gone.

    python -m naiad.protocol.codec DESCRIPTOR PARENT

The descriptor is a socket (`core/processes/child_process.py`). A message is the descriptor of a memory file (`frames.py`) with a function's module and name and its
arguments; the answer is one with its result.
"""

import gc
import importlib
import os
import pathlib
import resource
import socket
import traceback
import typing

from naiad.core.processes import child_process
from naiad.core.processes.malloc import MALLOC
from naiad.errors import InferenceError, invalid
from naiad.protocol.codec import frames
from naiad.protocol.codec.process import BROKEN, REFUSED, RESULT
from naiad.protocol.codec.request_limits import short

_BYTES_PER_BYTE = 64
"""Memory that a call may take for each byte of its arguments. The worst JSON, empty lists and objects, takes 30."""

_LEAST_BYTES = 1 << 30
_TRIMMED_FROM = 1 << 24


def main() -> None:
    """Serve the socket."""
    gc.disable()  # what is decoded has no cycles, and millions of objects
    with child_process.connect() as server:
        while True:
            _, descriptors, _, _ = socket.recv_fds(server, 1, 1)
            if not descriptors:
                return
            size = os.fstat(descriptors[0]).st_size
            answer = _answered(descriptors[0], size)
            socket.send_fds(server, [b"a"], [answer])
            os.close(answer)
            if size > _TRIMMED_FROM:
                MALLOC.trim()


def _answered(descriptor: int, size: int) -> int:
    """The memory file of the answer."""
    _limit_memory(max(_LEAST_BYTES, _BYTES_PER_BYTE * size))
    try:
        try:
            return frames.write((RESULT, _result(descriptor)))
        except InferenceError as error:
            return frames.write((REFUSED, (error.code, short(error))))
        except MemoryError:
            refused = invalid(
                f"{size} bytes would take more than {_BYTES_PER_BYTE} times their size in memory; send tensors as binary data"
            )
            return frames.write((REFUSED, (refused.code, refused.message)))
        except Exception:  # noqa: BLE001 - a bug of ours; the server logs it
            return frames.write((BROKEN, traceback.format_exc()))
    finally:
        _limit_memory(None)


def _result(descriptor: int) -> typing.Any:
    module, name, arguments = frames.read(descriptor)
    return getattr(importlib.import_module(module), name)(*arguments)


def _limit_memory(more: int | None) -> None:
    """How much more address space than now there may be; None for any."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = hard
    if more is not None:
        pages = int(pathlib.Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        limit = pages * resource.getpagesize() + more
        if hard != resource.RLIM_INFINITY:
            limit = min(limit, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))


if __name__ == "__main__":
    main()

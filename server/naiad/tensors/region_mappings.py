"""Copies between clients' shared memory objects and the memory of this process by mappings: half the time of `preadv` and `pwrite`, which go page by page.

A page that an object has lost, because its client has made it smaller, raises SIGBUS when a mapping of it is used, which would end the process. So copies have a handler for it, for as
long as they take: the handler puts memory of this process in the place of the rest of what is copied. They then come to their end and fail, and their caller uses the system calls, which say what is
wrong. The handler is a Python function: the signal comes in the middle of a copy and nowhere else, so that it is as if the copy called it. Any other fault goes to the handler that was there before.
Limits: standard library and numpy, Python 3.8.
"""

import ctypes
import functools
import os
import platform
import signal
import threading
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from naiad.tensors import parallel_copies

_MACHINES = ("x86_64", "aarch64")
"""Where `struct sigaction` and `siginfo_t` are as they are written here."""

_PAGE = os.sysconf("SC_PAGESIZE")
_PROT_READ_WRITE, _MAP_SHARED, _MAP_PRIVATE, _MAP_FIXED, _MAP_ANONYMOUS = 3, 1, 2, 16, 32
_MAP_NORESERVE = 1 << 14
_MAP_FAILED = ctypes.c_void_p(-1).value
_SA_SIGINFO = 4
_ADDRESS_IN_SIGINFO = 16

_Handler = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


class _Action(ctypes.Structure):
    """`struct sigaction` of C libraries for Linux."""

    _fields_ = (
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_uint64 * 16),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    )


class _Guard:
    """The process's handler for SIGBUS while copies run. Thread-safe. With it as a context manager, `of` is the mapping that is copied from or to."""

    def __init__(self) -> None:
        library = ctypes.CDLL(None, use_errno=True)
        self.mmap, self.munmap = library.mmap, library.munmap
        self.mmap.restype = ctypes.c_void_p
        self.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)  # fmt: skip
        self.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
        self._sigaction = library.sigaction
        self._lock = threading.Lock()
        self._copied: list[RegionMapping] = []
        self._handler = _Handler(self._on_fault)
        self._ours, self._before, self._found = _Action(), _Action(), _Action()
        self._ours.handler = ctypes.cast(self._handler, ctypes.c_void_p).value
        self._ours.flags = _SA_SIGINFO
        self._set = ctypes.byref(self._ours), ctypes.byref(self._before), ctypes.byref(self._found)

    def begin(self, mappings: "Collection[RegionMapping]") -> None:
        """Copies begin."""
        ours, before, _ = self._set
        with self._lock:
            if not self._copied:
                self._sigaction(signal.SIGBUS, ours, before)
            self._copied.extend(mappings)

    def end(self, mappings: "Collection[RegionMapping]") -> None:
        """They have ended."""
        _, before, found = self._set
        with self._lock:
            for mapping in mappings:
                self._copied.remove(mapping)
            if not self._copied:
                self._sigaction(signal.SIGBUS, before, found)
                if self._found.handler != self._ours.handler:  # another one was set meanwhile
                    self._sigaction(signal.SIGBUS, found, None)

    def _on_fault(self, _number: int, info: int, _context: int) -> None:
        address = ctypes.c_uint64.from_address(info + _ADDRESS_IN_SIGINFO).value
        for mapping in tuple(self._copied):  # the copies of other threads end meanwhile
            if mapping.replace_from(address & -_PAGE):
                return
        # Not one of ours: it comes again when this returns, and the handler that was there before gets it.
        self._sigaction(signal.SIGBUS, self._set[1], None)


@functools.lru_cache(maxsize=None)  # noqa: UP033 - 3.8 knows no `cache`
def _guard() -> _Guard:
    return _Guard()


class RegionMapping:
    """A mapping of an object. A thread has it copied at a time.

    Attributes:
        size: its bytes.
        until: where the last of the parts ends that are copied now.
        intact: whether all that was copied was the object's.
    """

    __slots__ = ("_address", "_array", "intact", "size", "until")

    def __init__(self, descriptor: int, size: int) -> None:
        """Map so many bytes from the beginning of an object.

        Raises:
            OSError: the system cannot.
        """
        self.size = size
        self.intact = True
        self._address = self.until = 0
        flags = _PROT_READ_WRITE, _MAP_SHARED
        address = _guard().mmap(None, size, *flags, descriptor, 0)
        if address == _MAP_FAILED:
            raise OSError(ctypes.get_errno(), "an object cannot be mapped")
        self._address = address
        self._array = np.asarray(_Bytes(address, size))

    def __del__(self) -> None:
        if self._address:
            _guard().munmap(self._address, self.size)

    def part(self, at: int, size: int) -> Any:
        """So many bytes at a place, as uint8: for `copy_all`."""
        end = at + size
        self.until = max(self.until, end)
        return self._array[at:end]

    def replace_from(self, address: int) -> bool:
        """Put memory of this process in the place of what is still copied, from a page of this mapping on; False for another address, or without memory.

        Not in the place of the whole rest: an object may be larger than all memory, since it has no pages where nothing was written, and the system gives no process as much.
        """
        until = self._address + self.until
        if not self._address <= address < until:
            return False
        self.intact = False
        flags = _PROT_READ_WRITE, _MAP_PRIVATE | _MAP_FIXED | _MAP_ANONYMOUS | _MAP_NORESERVE
        placed: int | None = _guard().mmap(address, until - address, *flags, -1, 0)
        return placed == address


def copy_all(pairs: "Sequence[tuple[Any, Any]]", mappings: "Collection[RegionMapping]") -> None:
    """Copy the second array of each pair to the first; `intact` of each mapping says afterwards whether all parts of it were the object's.

    Args:
        pairs: of each one side is a part of a mapping.
        mappings: these, each once.
    """
    guard = _guard()
    guard.begin(mappings)
    try:
        parallel_copies.copy(pairs)
    finally:
        guard.end(mappings)
    for mapping in mappings:
        mapping.until = 0


class _Bytes:
    """Memory at an address, as numpy takes it."""

    def __init__(self, address: int, size: int) -> None:
        self.__array_interface__ = {
            "data": (address, False),
            "shape": (size,),
            "typestr": "|u1",
            "version": 3,
        }


def is_possible() -> bool:
    """Whether this machine has such mappings."""
    return platform.machine() in _MACHINES and ctypes.sizeof(ctypes.c_void_p) == 8  # noqa: PLR2004 - 64 bits

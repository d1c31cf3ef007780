"""Keeps the memory of large messages while such messages come, since fresh memory costs more than the copies that grpcio makes.

grpcio joins the pieces of a message in two copies, and holds the interpreter lock meanwhile. For 64 MB the kernel has to give 33,000 pages
then, which takes 65 of 90 ms; into pages that the process still has, it takes 28 ms.
"""

import collections.abc
import contextlib
import ctypes
import threading

from naiad.protocol.idle_timer import IdleTimer

LARGE = 1 << 23
"""Bytes of a large message: from 8 MB on glibc's own thresholds no longer keep the memory of its copies."""

_IDLE_S = 30.0
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_MIB = 1 << 20

Allocator = collections.abc.Callable[[bool], None]


class MessageMemory:
    """Switches the allocator between keeping and giving back the memory of large messages. Loop only.

    Args:
        allocator: called on the loop with True when large messages begin to come, and in a thread with False when none came for a while.
        idle_seconds: that while.
    """

    def __init__(
        self, allocator: Allocator | None = None, *, idle_seconds: float = _IDLE_S
    ) -> None:
        self._allocator = allocator or _tune
        self._timer = IdleTimer(idle_seconds, self._give_back)

    def used(self) -> None:
        """A large message came or goes."""
        if self._timer.used():
            self._allocator(True)

    def close(self) -> None:
        """Stop the timer. Idempotent."""
        self._timer.close()

    def _give_back(self) -> bool:
        # Giving back 200 MB takes the kernel 30 ms: it happens rarely, so that no thread is kept for it.
        threading.Thread(
            target=self._allocator, args=(False,), name="naiad-trim", daemon=True
        ).start()
        return True


def _tune(keep: bool) -> None:  # noqa: FBT001 - the allocator's state
    """Set glibc's thresholds, and trim its memory unless `keep`, which blocks. No effect with another C library."""
    with contextlib.suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        # 32 and 64 MiB are what glibc itself takes them to once a large block was freed.
        library.mallopt(_M_MMAP_THRESHOLD, (128 if keep else 32) * _MIB)
        library.mallopt(_M_TRIM_THRESHOLD, (256 if keep else 64) * _MIB)
        if not keep:
            library.malloc_trim(0)

"""Keeps the memory of large messages while such messages come, since fresh memory costs more than the copies that grpcio makes.

grpcio joins the pieces of a message in two copies, and holds the interpreter lock meanwhile. For 64 MB the kernel has to give 33,000 pages
then, which takes 65 of 90 ms; into pages that the process still has, it takes 28 ms.
"""

import threading

from naiad.core.processes.malloc import MALLOC, Malloc
from naiad.core.processes.threads import start_aside
from naiad.protocol.idle_timer import IdleTimer

LARGE_MESSAGE_BYTES = 1 << 23
"""Bytes of a large message: from 8 MB on glibc's own thresholds no longer keep the memory of its copies."""

_IDLE_S = 5.0


class MessageMemory:
    """Has the allocator keep the memory of large messages, and give it back once none came for a while. Loop only.

    Args:
        idle_seconds: that while.
    """

    def __init__(self, malloc: Malloc = MALLOC, *, idle_seconds: float = _IDLE_S) -> None:
        self._malloc = malloc
        self._timer = IdleTimer(idle_seconds, self._give_back)

    def used(self) -> None:
        """A large message came or goes."""
        if self._timer.used():
            self._malloc.keep_messages()

    def close(self) -> None:
        """Stop the timer. Idempotent."""
        self._timer.close()

    def _give_back(self) -> bool:
        # Giving back 200 MB takes the kernel 30 ms: it happens rarely, so that no thread is kept for it.
        work = self._malloc.give_back_messages
        start_aside(threading.Thread(target=work, name="naiad-trim", daemon=True))
        return True

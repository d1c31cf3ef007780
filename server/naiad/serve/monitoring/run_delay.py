"""How long a thread waited for a processor, as the kernel counts it."""

import contextlib
import os


class RunDelay:
    """How long a thread of this process was ready to run and waited for a processor, since its start; 0 where the kernel does not count it.

    Args:
        native_id: the kernel's number of the thread.
    """

    def __init__(self, native_id: int) -> None:
        self._file = -1
        with contextlib.suppress(OSError):
            self._file = os.open(
                f"/proc/self/task/{native_id}/schedstat", os.O_RDONLY | os.O_CLOEXEC
            )

    def read_ns(self) -> int:
        """Nanoseconds."""
        if self._file < 0:
            return 0
        try:
            return int(os.pread(self._file, 64, 0).split()[1])
        except (OSError, IndexError, ValueError):
            return 0

    def close(self) -> None:
        """Close its file. Idempotent."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

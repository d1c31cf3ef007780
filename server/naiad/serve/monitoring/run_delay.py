"""Reads how long a thread has waited for a processor, as the kernel counts it."""

import contextlib
import os


class RunDelay:
    """The time for which a thread of this process was ready to run but had no processor, since its start; 0 if the kernel does not count it.

    Args:
        native_id: the thread id of the kernel.
    """

    def __init__(self, native_id: int) -> None:
        self._file = -1
        with contextlib.suppress(OSError):
            self._file = os.open(
                f"/proc/self/task/{native_id}/schedstat", os.O_RDONLY | os.O_CLOEXEC
            )

    def read_ns(self) -> int:
        """The time in nanoseconds."""
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

"""The memory of tensors that traces hold until they are written: bounded in bytes, whatever rate, count and frequency a client chooses."""

import logging
import threading

_log = logging.getLogger("naiad.trace")

MOST_BYTES = 1 << 26


class HeldTensors:
    """How many bytes of tensors the traces of a server hold. Any thread.

    Args:
        most: bytes; of a tensor beyond it a trace has name, type and shape, and no values.
    """

    def __init__(self, most: int = MOST_BYTES) -> None:
        self._most = most
        self._bytes = 0
        self._is_full = False
        self._changing = threading.Lock()

    @property
    def bytes(self) -> int:
        """What is held now."""
        return self._bytes

    def take(self, size: int) -> bool:
        """Whether a tensor of so many bytes may be held; one line of the log says when the first one may not."""
        with self._changing:
            fits = self._bytes + size <= self._most
            if fits:
                self._bytes += size
            first = not fits and not self._is_full
            self._is_full = self._is_full or first
        if first:
            _log.warning(
                "traces leave out the values of tensors: %d bytes of them wait in memory to be written, of at most %d; requests go on. Choose a higher trace_rate, or "
                "a lower log_frequency or trace_count: traces of one file wait for each other",
                self._bytes,
                self._most,
            )
        return fits

    def free(self, size: int) -> None:
        """So many bytes are no longer held."""
        with self._changing:
            self._bytes -= size
            if not self._bytes:
                self._is_full = False

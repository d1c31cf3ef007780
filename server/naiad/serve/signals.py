"""The signals that stop the server, from its first line on. It imports nothing that takes time.

During the import of the server its event loop does not run yet. A signal that arrives then is recorded, and the server ends with 0 before it
starts anything.
"""

import os
import signal
import types

STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""SIGHUP too, which a terminal sends when it is closed."""


class EarlySignals:
    """Records the signal that arrived before the event loop handles signals."""

    def __init__(self) -> None:
        self.received: signal.Signals | None = None

    def watch(self) -> None:
        """Record signals from now on; a second one ends the process."""
        for number in to_watch():
            signal.signal(number, self._record)

    def _record(self, number: int, _: types.FrameType | None) -> None:
        if self.received is not None:
            os._exit(1)
        self.received = signal.Signals(number)


def to_watch() -> list[signal.Signals]:
    """The signals that stop the server; without SIGHUP if it is ignored, as with `nohup`."""
    return [
        number
        for number in STOPPING
        if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN
    ]


EARLY = EarlySignals()

"""The signals that stop the server, from its first line on. It imports nothing that takes time.

During the import of the server its event loop does not run yet. A signal that arrives then is recorded, and the server ends with 0 before it
starts anything.
"""

import os
import signal
import time
import types

STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""SIGHUP too, which a terminal sends when it is closed."""


_FORCES_AFTER_SECONDS = 1.0


class StopSignals:
    """Decides what a signal that stops the server means. Pure: times are arguments, in seconds.

    The first one stops the server in order. Programs that signal a process and then its group (`timeout`, `tini -g`, process managers) send
    the same signal twice within milliseconds: only a second SIGINT, which a person sends by a second Ctrl-C, or a signal that comes a second
    after the first one ends the process at once.

    Attributes:
        first: the first one; None before that.
    """

    def __init__(self) -> None:
        self.first: signal.Signals | None = None
        self._first_at = 0.0

    def forces_exit(self, number: signal.Signals, now: float) -> bool:
        """Take a signal; returns whether the process ends at once."""
        if self.first is None:
            self.first, self._first_at = number, now
            return False
        again = number is signal.SIGINT and self.first is signal.SIGINT
        return again or now - self._first_at >= _FORCES_AFTER_SECONDS


class EarlySignals:
    """Takes the signals that arrive before the event loop handles signals.

    Attributes:
        signals: those that have arrived; the event loop's handler goes on with it.
    """

    def __init__(self) -> None:
        self.signals = StopSignals()

    def watch(self) -> None:
        """Take signals from now on."""
        for number in to_watch():
            signal.signal(number, self._take)

    def _take(self, number: int, _: types.FrameType | None) -> None:
        if self.signals.forces_exit(signal.Signals(number), time.monotonic()):
            os._exit(1)


def to_watch() -> list[signal.Signals]:
    """The signals that stop the server; without SIGHUP if it is ignored, as with `nohup`."""
    return [
        number
        for number in STOPPING
        if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN
    ]


EARLY = EarlySignals()

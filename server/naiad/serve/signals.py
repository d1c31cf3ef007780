"""The signals that stop the server, from its first line on. Imports nothing that takes time.

Importing the server takes a moment, in which its event loop does not run yet. A signal that comes meanwhile is noted, and the server
ends with 0 as soon as it looks, before it starts anything.
"""

import os
import signal
import types

STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""SIGHUP too: a terminal that is closed sends it."""


class EarlySignals:
    """What came before the event loop took over."""

    def __init__(self) -> None:
        self.received: signal.Signals | None = None

    def watch(self) -> None:
        """Note signals from now on; a second one ends the process."""
        for number in to_watch():
            signal.signal(number, self._note)

    def _note(self, number: int, _: types.FrameType | None) -> None:
        if self.received is not None:
            os._exit(1)
        self.received = signal.Signals(number)


def to_watch() -> list[signal.Signals]:
    """Those that stop the server; SIGHUP not where it is ignored, as `nohup` asks."""
    return [
        number
        for number in STOPPING
        if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN
    ]


EARLY = EarlySignals()

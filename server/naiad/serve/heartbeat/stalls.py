"""When a stall of the event loop is sampled and when it is reported. Pure: times are arguments, in nanoseconds."""

import collections.abc
import enum

from naiad.serve.heartbeat.interval import INTERVAL_NS
from naiad.serve.heartbeat.loop_lag import STALL_NS, Stall

REPORT_INTERVAL_NS = 1_000_000_000
"""Between two reports, and between the detection and the report of a stall that goes on."""

STARVED_INTERVAL_NS = 60_000_000_000
"""Between two reports of stalls in which the loop only waited for a processor: on a busy machine there is one all the time."""

POLL_NS = 10_000_000
"""Between two checks of a stall."""


class Step(enum.Enum):
    """What the watchdog does after a check."""

    WAIT = "wait"
    SAMPLE = "sample the stack"
    REPORT_ENDED = "report stalls that are over"
    REPORT_ONGOING = "report a stall that goes on"


class StallRule:
    """Decides what to do about the heartbeat; call `check` no later than `wait_ns` after the previous call.

    A stall is sampled when it is detected and reported when it is over, so that the report has its length; one that goes on is
    reported every second. Every late heartbeat is reported: those of the second after a report, together, in the next one; those in which the
    loop waited for a processor for the most part, together, once per minute.

    Attributes:
        worst: the longest of the stalls that are over and not reported yet.
        count: how many of these there are.
        own_ns: the longest delay of one of these, without its wait for a processor.
    """

    def __init__(self) -> None:
        self._sampled_beat_ns = -1
        self._sampled_ns = 0
        self._quiet_until_ns = 0
        self._starved_until_ns = 0
        self._all_starved = True
        self.worst: Stall | None = None
        self.count = 0
        self.own_ns = 0

    def check(self, *, ended: collections.abc.Iterable[Stall], beat_ns: int, now_ns: int) -> Step:
        """Record the stalls that ended since the last call, and decide by the last heartbeat."""
        self.record(ended)
        quiet = now_ns < self._quiet_until_ns
        postponed = self._all_starved and now_ns < self._starved_until_ns
        if self.worst is not None and not quiet and not postponed:
            self._quiet_until_ns = now_ns + REPORT_INTERVAL_NS
            self._starved_until_ns = now_ns + STARVED_INTERVAL_NS
            return Step.REPORT_ENDED
        if now_ns - beat_ns - INTERVAL_NS <= STALL_NS:
            return Step.WAIT
        if beat_ns != self._sampled_beat_ns:
            self._sampled_beat_ns = beat_ns
            self._sampled_ns = now_ns
            return Step.SAMPLE
        if quiet or now_ns - self._sampled_ns < REPORT_INTERVAL_NS:
            return Step.WAIT
        self._sampled_beat_ns = -1
        self._quiet_until_ns = now_ns + REPORT_INTERVAL_NS
        return Step.REPORT_ONGOING

    def record(self, ended: collections.abc.Iterable[Stall]) -> None:
        """Record stalls that are over."""
        for stall in ended:
            self.count += 1
            self._all_starved = self._all_starved and stall.is_starved
            self.own_ns = max(self.own_ns, stall.late_ns - stall.run_delay_ns)
            if self.worst is None or stall.late_ns > self.worst.late_ns:
                self.worst = stall

    def reported(self) -> None:
        """Clear the recorded stalls; call after each report of them."""
        self.worst = None
        self.count = 0
        self.own_ns = 0
        self._all_starved = True

    def wait_ns(self, *, beat_ns: int, now_ns: int) -> int:
        """How long to wait before the next check: until the next heartbeat would be a stall."""
        return max(POLL_NS, beat_ns + INTERVAL_NS + STALL_NS - now_ns)
